//! `is-xml`: the output is well-formed XML with certain elements.

mod fault;

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, CHECK_GIVEN_UP};
use crate::core::config;
use crate::core::grade::Grade;
use crate::format::xml::{self, RequiredElements, TOO_INVOLVED, grade, parse};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "is-xml";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output is well-formed XML, and has certain elements.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[Code {
            code: ASSERTION_FAILED,
            summary: "The output is not XML, or lacks an element.",
        }],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The expected form of the output.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The paths of required elements, such as `order.items`; none by default.
    value: Option<RequiredElements>,
}

#[derive(Debug)]
struct IsXml {
    paths: Vec<String>,
    label: String,
    negate: bool,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let config: Config = config::parse_config(value)?;
    let paths = config.value.map(RequiredElements::paths).transpose()?.unwrap_or_default();
    Ok(Arc::new(IsXml { paths, label: own.label("Is XML"), negate: own.negate }))
}

impl Assertion for IsXml {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_OUTPUT }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let text = &evidence.execution.output;
        let Some(parsed) = parse(text) else {
            let (label, message) = (self.label.as_str(), TOO_INVOLVED);
            return vec![AssertionResult::errored(ID, label, CHECK_GIVEN_UP, message)];
        };
        let grade = match &parsed {
            Ok(document) => grade(&self.paths, &[document.root_element()], self.negate),
            Err(err) => Grade::from_pass(self.negate, || {
                format!("XML parsing failed: {}", fault::describe(text, err))
            }),
        };
        let root = parsed.as_ref().ok().map(|it| it.root_element());
        let result = grade.result(ID, &self.label);
        vec![result.with_failure_evidence(|| [xml::evidence(&self.paths, root.as_slice(), text)])]
    }
}
