//! `contains-html`: the output contains HTML.

use std::sync::Arc;

use kindlm_types::{AssertionResult, CheckedText, Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config;
use crate::core::grade::Grade;
use crate::core::result_evidence::{absent, whole};
use crate::shared::html::parse_html;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "contains-html";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output contains HTML.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[Code { code: ASSERTION_FAILED, summary: "The output has too few signs of HTML." }],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The options of `contains-html`; there are none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {}

#[derive(Debug)]
struct ContainsHtml {
    label: String,
    negate: bool,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config {} = config::parse_config(value)?;
    Ok(Arc::new(ContainsHtml { label: own.label("Contains HTML"), negate: own.negate }))
}

/// The required number of different signs of HTML. A single sign may occur in a text without HTML.
const ENOUGH: usize = 2;

/// Returns the number of different signs of HTML in a text.
fn signs(text: &str) -> usize {
    let seen = parse_html(text);
    let signs = [
        seen.start_tag,
        seen.end_tag,
        seen.self_closing,
        seen.known_element,
        seen.attribute,
        seen.comment,
        seen.doctype,
        has_reference(text),
    ];
    signs.into_iter().filter(|it| *it).count()
}

/// Returns true if there is a character reference such as `&amp;` or `&#39;`.
fn has_reference(text: &str) -> bool {
    text.split('&').skip(1).any(|rest| {
        let name: &str =
            rest.split(';').next().filter(|it| it.len() < rest.len()).unwrap_or_default();
        let digits = name.strip_prefix('#').map(|it| it.strip_prefix(['x', 'X']).unwrap_or(it));
        let name = digits.unwrap_or(name);
        !name.is_empty() && name.len() <= 32 && name.bytes().all(|it| it.is_ascii_alphanumeric())
    })
}

impl Assertion for ContainsHtml {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_OUTPUT }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let found = signs(&evidence.execution.output) >= ENOUGH;
        let grade = Grade::from_pass(found != self.negate, || {
            let not = if self.negate { "not " } else { "" };
            format!("Expected output to {not}contain HTML content")
        });
        let output = &evidence.execution.output;
        vec![grade.result(ID, &self.label).with_failure_evidence(|| {
            [if found { whole(CheckedText::Output, output, "HTML") } else { absent(["HTML"]) }]
        })]
    }
}
