//! `is-html`: the output is HTML and nothing else.

use std::sync::Arc;

use kindlm_types::{AssertionResult, CheckedText, Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config;
use crate::core::grade::Grade;
use crate::core::result_evidence::{absent, whole};
use crate::shared::html::{HtmlParts, parse_html};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "is-html";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output is HTML, without text around it.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[Code {
            code: ASSERTION_FAILED,
            summary: "The output has text outside of elements, or no HTML element.",
        }],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The options of `is-html`; there are none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {}

#[derive(Debug)]
struct IsHtml {
    label: String,
    negate: bool,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config {} = config::parse_config(value)?;
    Ok(Arc::new(IsHtml { label: own.label("Is HTML"), negate: own.negate }))
}

/// Returns the reason why a text is not HTML; `None` if the text is HTML.
fn fault(text: &str) -> Option<&'static str> {
    let text = text.trim();
    if text.is_empty() {
        return Some("Output is empty");
    }
    if text.get(..5).is_some_and(|it| it.eq_ignore_ascii_case("<?xml")) {
        return Some("Output appears to be XML, not HTML");
    }
    match parse_html(text) {
        HtmlParts { bare_text: true, .. } => Some("Output must be wrapped in HTML tags"),
        HtmlParts { known_element: false, .. } => {
            Some("Output does not contain recognized HTML elements")
        }
        _ => None,
    }
}

impl Assertion for IsHtml {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_OUTPUT }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let fault = fault(&evidence.execution.output);
        let grade = Grade::from_pass(fault.is_none() != self.negate, || {
            fault.unwrap_or("Expected output to not be valid HTML").to_owned()
        });
        let output = &evidence.execution.output;
        vec![grade.result(ID, &self.label).with_failure_evidence(|| {
            [if self.negate {
                whole(CheckedText::Output, output, "HTML")
            } else {
                absent(["HTML"])
            }]
        })]
    }
}
