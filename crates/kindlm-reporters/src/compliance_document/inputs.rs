//! The inputs of the tests, as they were sent.

use std::collections::HashMap;

use data_encoding::HEXLOWER;
use kindlm_types::{AnyReport, CaseResult, Execution};
use sha2::{Digest as _, Sha256};

use super::blocks::{Block, Cell, Document};
use crate::RenderError;
use crate::amount::count;

/// The number of characters of an input that are shown.
const SHOWN: usize = 300;

/// The start of a test's input, and the digest of the whole input.
struct Input {
    start: String,
    sha256: String,
}

impl Input {
    fn from_text(text: &str) -> Self {
        let mut start: String = text.chars().take(SHOWN).collect();
        if start.len() < text.len() {
            let all = count(text.chars().count() as u64);
            start = format!("{start}… ({all} characters)");
        }
        Self { start, sha256: HEXLOWER.encode(&Sha256::digest(text)) }
    }
}

/// Writes the input of each test.
pub(super) fn write(doc: &mut Document<'_>, report: &AnyReport<'_>) -> Result<(), RenderError> {
    let tests = &report.suite.tests;
    if tests.is_empty() {
        return Ok(());
    }
    doc.put(Block::Heading(3, "Inputs of the tests"))?;
    doc.put(Block::Paragraph(&format!(
        "The messages that the first repeat of each test sent to the first model with a recorded input, or the variables of a test without \
         messages. The first {SHOWN} characters are shown. The SHA-256 is of the whole text, which the JSON report has \
         in its parts."
    )))?;
    let inputs = inputs(report)?;
    let rows = tests.iter().map(|test| {
        let (start, sha256) = match inputs.get(&test.name) {
            Some(it) => (it.start.as_str(), Cell::Code(it.sha256.as_str().into())),
            None => ("not recorded", "–".into()),
        };
        Ok([Cell::from(test.name.as_str()), start.into(), sha256])
    });
    doc.table(&["Test", "Input", "SHA-256"], rows)
}

/// Returns the inputs by test. Tests without a recorded input are left out.
fn inputs(report: &AnyReport<'_>) -> Result<HashMap<String, Input>, RenderError> {
    let mut inputs = HashMap::new();
    for position in 0..report.cases.len() {
        if inputs.len() == report.suite.tests.len() {
            break;
        }
        let case = report.cases.read_case(position)?;
        if inputs.contains_key(&case.case) {
            continue;
        }
        if let Some(text) = text(&case) {
            inputs.insert(case.case.clone(), Input::from_text(&text));
        }
    }
    Ok(inputs)
}

/// Returns the input of the first execution of a case as text; `None` if this execution has no messages or variables.
fn text(case: &CaseResult) -> Option<String> {
    let execution = &case.executions.first()?.execution;
    let messages = messages(execution);
    if !messages.is_empty() {
        return Some(messages);
    }
    let vars = &execution.vars;
    (!vars.is_empty()).then(|| serde_json::Value::Object(vars.clone()).to_string())
}

/// Returns the messages at the start of the conversation, and the user messages of later turns.
fn messages(execution: &Execution) -> String {
    let start = execution.input.iter().map(|it| format!("{}: {}", it.role.as_str(), it.content));
    // `input` already has the user message of the first turn.
    let later = execution.turns.iter().skip(1).filter_map(|it| it.user.as_ref());
    start.chain(later.map(|it| format!("user: {it}"))).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_input_is_shown_by_its_start_and_digest() {
        let long = "é".repeat(SHOWN + 1);
        let input = Input::from_text(&long);
        assert_eq!(input.start, "é".repeat(SHOWN) + "… (301 characters)");
        assert_ne!(input.sha256, Input::from_text(&input.start).sha256);
        assert_eq!(Input::from_text("short").start, "short");
    }
}
