//! The data of a case that the page shows beside the JSON: differences, marks in texts, and facts as text.
//!
//! All of it is computed here, so that the page uses the same words and numbers as the other reports.

use kindlm_types::{
    AnyReport, AssertionResult, CaseResult, CheckedText, Execution, ResultEvidence, Role,
};
use serde_json::{Map, Value, json};

use super::case::notes;
use super::check::{facts, score};
use crate::diff::{self, DiffLine};
use crate::{panel, rerun};

/// The maximum depth of parts of checks that are shown.
const DEEPEST: usize = 8;
/// The maximum number of marks in a text.
const MARKS: usize = 200;

/// Returns the view of a case as JSON.
///
/// `rows` and `diffs` have the key `repeat/result`; `result` is the path of a result, such as `2`, or `2.0` for its
/// first part. Keys of `diffs` continue with the index of the evidence, or with `metadata`. `marks` has the keys
/// `repeat/output`, `repeat/input/n` and `repeat/turn/n`; each mark has a start, an end, a kind and a title.
pub(super) fn of(report: &AnyReport<'_>, case: &CaseResult) -> Value {
    let mut view = View::default();
    for execution in &case.executions {
        let repeat = execution.execution.repeat;
        view.notes.push(notes(&execution.execution).into());
        let results = execution.results.iter().enumerate();
        let mut open: Vec<(String, usize, &AssertionResult)> =
            results.map(|(at, it)| (format!("{repeat}/{at}"), 0, it)).collect();
        while let Some((key, depth, result)) = open.pop() {
            if depth < DEEPEST {
                let parts = result.components.iter().enumerate();
                open.extend(parts.map(|(at, it)| (format!("{key}.{at}"), depth + 1, it)));
            }
            view.add(&key, result);
        }
        view.mark(repeat, &execution.execution, &execution.results);
    }
    let mut all = Map::new();
    all.insert("command".to_owned(), rerun::of_case(report, case).into());
    all.insert("notes".to_owned(), view.notes.into());
    for (name, map) in [("rows", view.rows), ("diffs", view.diffs), ("marks", view.marks)] {
        if !map.is_empty() {
            all.insert(name.to_owned(), map.into());
        }
    }
    Value::Object(all)
}

#[derive(Default)]
struct View {
    notes: Vec<Value>,
    rows: Map<String, Value>,
    diffs: Map<String, Value>,
    marks: Map<String, Value>,
}

impl View {
    fn add(&mut self, key: &str, result: &AssertionResult) {
        let judges = panel::lines(result);
        let judges: Vec<String> = judges
            .into_iter()
            .filter(|(label, _)| *label != "vote")
            .map(|(label, it)| format!("{label}: {it}"))
            .collect();
        let mut row = Map::new();
        for (name, text) in [
            ("score", score(result)),
            ("facts", facts(result, 0, "")),
            ("judges", judges.join(" · ")),
        ] {
            if !text.is_empty() {
                row.insert(name.to_owned(), text.into());
            }
        }
        if let Some(wanted) = crate::score::wanted(result) {
            row.insert("wanted".to_owned(), wanted.into());
        }
        if !row.is_empty() {
            self.rows.insert(key.to_owned(), row.into());
        }
        if result.verdict.held() {
            return;
        }
        let mut found = false;
        for (at, evidence) in result.evidence.iter().enumerate() {
            if let Some(lines) = diff::of_evidence(evidence) {
                self.diffs.insert(format!("{key}/{at}"), compact(lines));
                found = true;
            }
        }
        if let Some(lines) = diff::of_metadata(result).filter(|_| !found) {
            self.diffs.insert(format!("{key}/metadata"), compact(lines));
        }
    }

    /// Marks what checks found in the output, what judges quote of it, and the variables in the prompts.
    fn mark(&mut self, repeat: u32, execution: &Execution, results: &[AssertionResult]) {
        let mut output = Vec::new();
        for result in results.iter().flat_map(AssertionResult::findings) {
            output.extend(found_in_output(result));
        }
        for result in results {
            output.extend(quoted(result, &execution.output));
        }
        self.put(format!("{repeat}/output"), output);
        let variables = |text: &str| {
            let named = execution.vars.iter().filter_map(|(name, it)| match it {
                Value::String(value) if value.chars().count() > 1 => Some((name, value.clone())),
                Value::Number(value) => {
                    Some((name, value.to_string())).filter(|(_, it)| it.len() > 1)
                }
                _ => None,
            });
            let marks = named
                .flat_map(|(name, value)| places(text, &value, "var", &format!("variable {name}")));
            marks.collect::<Vec<_>>()
        };
        for (at, it) in
            execution.input.iter().enumerate().filter(|(_, it)| it.role != Role::Assistant)
        {
            self.put(format!("{repeat}/input/{at}"), variables(&it.content));
        }
        for (at, it) in execution.turns.iter().enumerate() {
            self.put(
                format!("{repeat}/turn/{at}"),
                variables(it.user.as_deref().unwrap_or_default()),
            );
        }
    }

    /// Stores marks in the order of the text. A mark that overlaps an earlier mark is left out.
    fn put(&mut self, key: String, mut marks: Vec<Mark>) {
        marks.sort_by_key(|it| it.start);
        let mut end = 0;
        marks.retain(|it| {
            let is_free = it.start >= end && it.end > it.start;
            end = if is_free { it.end } else { end };
            is_free
        });
        marks.truncate(MARKS);
        if !marks.is_empty() {
            let marks = marks.into_iter().map(|it| json!([it.start, it.end, it.kind, it.title]));
            self.marks.insert(key, marks.collect());
        }
    }
}

/// A marked range of a text, in characters.
struct Mark {
    start: u64,
    end: u64,
    kind: &'static str,
    title: String,
}

fn found_in_output(result: &AssertionResult) -> Vec<Mark> {
    let spans = result.evidence.iter().filter_map(|it| match it {
        ResultEvidence::Matches { of: CheckedText::Output, spans } => Some(spans),
        _ => None,
    });
    let marks = spans.flatten().map(|it| Mark {
        start: it.start,
        end: it.end,
        kind: "bad",
        title: it.what.clone(),
    });
    marks.collect()
}

/// Returns the passages of the output that a judge quotes word by word.
fn quoted(result: &AssertionResult, output: &str) -> Vec<Mark> {
    let panel = result.judging.as_ref().and_then(|it| it.panel.as_ref());
    let votes = panel.into_iter().flat_map(|it| &it.votes).filter_map(|it| it.reasoning.as_deref());
    let mut marks = Vec::new();
    for reason in result.reasoning.as_deref().into_iter().chain(votes) {
        for quote in reason.split(['"', '“', '”', '‘', '’', '\'', '`']) {
            if (6..=300).contains(&quote.chars().count()) && quote.len() < reason.len() {
                marks.extend(places(
                    output,
                    quote,
                    "quote",
                    &format!("quoted by the judge: {}", result.label),
                ));
            }
        }
    }
    marks
}

/// Returns all places of `part` in a text, at most [`MARKS`].
fn places(text: &str, part: &str, kind: &'static str, title: &str) -> Vec<Mark> {
    let length = part.chars().count() as u64;
    let (mut before, mut chars) = (0, 0);
    let found = text.match_indices(part).take(MARKS).map(|(at, _)| {
        chars += text[before..at].chars().count() as u64;
        before = at;
        Mark { start: chars, end: chars + length, kind, title: title.to_owned() }
    });
    found.collect()
}

/// Returns a difference as JSON: for each line a sign, and parts that are plain and emphasised in turn.
pub(super) fn compact(lines: Vec<DiffLine>) -> Value {
    let lines = lines.into_iter().map(|line| {
        let mut parts = vec![Value::from(line.kind.sign())];
        for (emphasised, text) in line.segments {
            // The first part is plain, so the parts at even places are emphasised.
            if emphasised != parts.len().is_multiple_of(2) {
                parts.push("".into());
            }
            parts.push(text.into());
        }
        Value::Array(parts)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_lines_alternate() {
        let lines = diff::between("a 1 b", "2 1 b");
        assert_eq!(compact(lines), json!([["-", "", "a", " 1 b"], ["+", "", "2", " 1 b"]]));
    }

    #[test]
    fn quotes_are_found_in_characters() {
        let result = AssertionResult::pass("judge", "Is right")
            .with_reasoning("It says \"für 249 €\" and 'nothing else'.");
        let marks = quoted(&result, "Grüße: für 249 €, für 249 €");
        let places: Vec<(u64, u64)> = marks.iter().map(|it| (it.start, it.end)).collect();
        assert_eq!(places, [(7, 16), (18, 27)]);
    }
}
