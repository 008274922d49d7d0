//! The differences between the prompts of different models for the same test.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use kindlm_types::{AnyReport, CaseResult, Execution};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::view;
use crate::{RenderError, diff};

/// The maximum size of all differences in bytes. The page has the full prompts of each case as well.
const MOST: usize = 400_000;

/// The note in place of a difference that would make the page too large.
const LEFT_OUT: &str =
    "The prompts differ. The difference is left out, because the page would be too large.";

/// Returns the messages of a prompt as text.
pub(super) fn text(execution: &Execution) -> String {
    let messages = execution.input.iter();
    let texts = messages.map(|it| format!("{}: {}", it.role.as_str(), it.content));
    texts.collect::<Vec<_>>().join("\n")
}

fn of_case(case: &CaseResult) -> Option<String> {
    case.executions.first().map(|it| text(&it.execution)).filter(|it| !it.is_empty())
}

/// Returns a JSON array with the cases whose prompt differs from the prompt of the test's first model.
///
/// Each entry has `case`, `model`, `against` (the first model) and `lines` (the difference, see [`view::compact`]).
/// Cases after the first [`MOST`] bytes have a note in place of the difference.
pub(super) fn between_models(report: &AnyReport<'_>) -> Result<Value, RenderError> {
    // Hold digests in memory, not prompts: all prompts together are as large as the report.
    let mut first: HashMap<String, (usize, [u8; 32])> = HashMap::new();
    let mut found = Vec::new();
    let mut size = 0;
    for position in 0..report.cases.len() {
        let case = report.cases.read_case(position)?;
        let Some(prompt) = of_case(&case) else { continue };
        let digest: [u8; 32] = Sha256::digest(&prompt).into();
        let (at, known) = match first.entry(case.case.clone()) {
            Entry::Vacant(entry) => {
                entry.insert((position, digest));
                continue;
            }
            Entry::Occupied(entry) => *entry.get(),
        };
        if known == digest {
            continue;
        }
        let other = report.cases.read_case(at)?;
        let lines = if size < MOST {
            view::shortened(diff::between(&of_case(&other).unwrap_or_default(), &prompt))
        } else {
            diff::between(LEFT_OUT, LEFT_OUT)
        };
        let entry = json!({
            "case": case.case, "model": case.model, "against": other.model, "lines": view::compact(lines),
        });
        size += entry.to_string().len();
        found.push(entry);
    }
    Ok(found.into())
}
