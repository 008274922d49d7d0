//! Lists the selected test cases of a suite.

use std::fmt::Write as _;

use kindlm_engine::{Plan, Suite};
use kindlm_reporters::one_line;
use serde::Serialize;

use crate::Failure;

/// A selected test case.
#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    models: Vec<&'a str>,
    tags: &'a [String],
}

/// Returns the selected test cases, one line each, in the order of the suite, followed by the skipped cases.
pub(crate) fn text(suite: &Suite, plan: &Plan) -> String {
    let cases = listed(suite, plan);
    let places: Vec<String> = cases.iter().map(place).collect();
    let longest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or_default();
    let name_width = longest(&mut cases.iter().map(|it| one_line(it.name).chars().count()));
    let place_width = longest(&mut places.iter().map(|it| it.chars().count()));
    let mut text = String::new();
    for (case, place) in cases.iter().zip(&places) {
        let (name, models) = (one_line(case.name), one_line(&case.models.join(", ")));
        let _ = write!(text, "{name:<name_width$}  {place:<place_width$}  {models}");
        if !case.tags.is_empty() {
            let _ = write!(text, "  [{}]", one_line(&case.tags.join(", ")));
        }
        text.push('\n');
    }
    for skipped in &plan.skipped {
        let _ = writeln!(
            text,
            "{}",
            one_line(&format!("skipped: {} ({})", skipped.case, skipped.reason))
        );
    }
    text
}

/// Returns the selected test cases as a JSON array.
pub(crate) fn json(suite: &Suite, plan: &Plan) -> Result<String, Failure> {
    let json = serde_json::to_string_pretty(&listed(suite, plan));
    json.map(|it| it + "\n").map_err(|err| Failure::internal(err.to_string()))
}

fn listed<'a>(suite: &'a Suite, plan: &Plan) -> Vec<Listed<'a>> {
    let mut all: Vec<Listed<'a>> = Vec::new();
    // All units of a case are adjacent.
    for same in plan.units.chunk_by(|a, b| a.case == b.case) {
        let Some(case) = same.first().and_then(|it| suite.cases.get(it.case)) else { continue };
        let mut models: Vec<&str> = same.iter().map(|it| it.target(suite)).collect();
        models.dedup();
        let source = case.source.as_ref();
        all.push(Listed {
            name: &case.name,
            file: source.map(|it| &*it.file),
            line: source.map(|it| it.line),
            models,
            tags: &case.tags,
        });
    }
    all
}

fn place(case: &Listed<'_>) -> String {
    match (case.file, case.line) {
        (Some(file), Some(line)) => one_line(&format!("{file}:{line}")),
        _ => String::new(),
    }
}
