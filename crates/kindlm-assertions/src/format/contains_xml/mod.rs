//! `contains-xml`: the output contains well-formed XML with certain elements.

mod elements;

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Severity, schema_of};
use roxmltree::Document;
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

const ID: &str = "contains-xml";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output contains well-formed XML with certain elements.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[Code {
            code: ASSERTION_FAILED,
            summary: "The output has no XML, or the XML lacks an element.",
        }],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The XML that the output must contain.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The paths of required elements, such as `order.items`; none by default.
    value: Option<RequiredElements>,
}

#[derive(Debug)]
struct ContainsXml {
    paths: Vec<String>,
    label: String,
    negate: bool,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let config: Config = config::parse_config(value)?;
    let paths = config.value.map(RequiredElements::paths).transpose()?.unwrap_or_default();
    Ok(Arc::new(ContainsXml { paths, label: own.label("Contains XML"), negate: own.negate }))
}

impl Assertion for ContainsXml {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_OUTPUT }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let found = elements::find(&evidence.execution.output);
        let parsed: Option<Vec<_>> = found.into_iter().map(parse).collect();
        let Some(parsed) = parsed else {
            let (label, message) = (self.label.as_str(), TOO_INVOLVED);
            return vec![AssertionResult::errored(ID, label, CHECK_GIVEN_UP, message)];
        };
        let documents: Vec<Document<'_>> = parsed.into_iter().filter_map(Result::ok).collect();
        let roots: Vec<_> = documents.iter().map(Document::root_element).collect();
        let grade = if roots.is_empty() {
            Grade::from_pass(self.negate, || "No XML content found in the output".to_owned())
        } else {
            grade(&self.paths, &roots, self.negate)
        };
        let output = &evidence.execution.output;
        let result = grade.result(ID, &self.label);
        vec![result.with_failure_evidence(|| [xml::evidence(&self.paths, &roots, output)])]
    }
}
