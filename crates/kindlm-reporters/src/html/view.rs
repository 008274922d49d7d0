//! The data of a case that the page shows beside the JSON: differences, marks in texts, and facts as text.
//!
//! The data is computed here, so that the page uses the same words and numbers as the other reports.

use kindlm_types::{
    AnyReport, AssertionResult, CaseResult, CheckedText, Class, Coverage, Execution, Mismatch,
    ResultEvidence, Role, ToolCall, ecma,
};
use serde_json::{Map, Value, json};

use super::case::{notes, spent, title_of};
use super::check::{LINE, describe_result, facts, place_of, reason, score, shown};
use crate::diff::{self, DiffLine};
use crate::evidence::{Excerpt, PERSONAL, masked};
use crate::score::THRESHOLDS;
use crate::{panel, rerun};

/// The maximum depth of parts of checks that are shown.
const DEEPEST: usize = 8;
/// The minimum number of characters of a quote that is marked.
const SHORTEST: usize = 6;
/// The maximum number of characters of a quote.
const LONGEST: usize = 300;
/// The maximum number of marks in a text.
const MARKS: usize = 200;
/// The maximum number of matches in a piece of evidence.
const MATCHES: usize = 20;

/// Returns the view of a case as JSON.
///
/// `result` is the path of a result, such as `2`, or `2.0` for its first part. The object has these keys:
///
/// - `command`: the command that runs the case again.
/// - `notes`: a note about each execution, in order.
/// - `answer`: the title of the responses of tools.
/// - `rows`: the texts of each result (such as its score and message) by `repeat/result`.
/// - `diffs`: differences by `repeat/result/evidence`, with the index of the evidence or `metadata`.
/// - `found`: the first matches by `repeat/result/evidence`. Each has a description, and the text before, in and after
///   the match.
/// - `place` and `spent`: the place of the test in the suite, and the time and cost of the case.
/// - `calls`: the index of the tool call that the evidence is about, by `repeat/result/evidence`.
/// - `errors`: a title, a code and a message by repeat.
/// - `marks`: lists by `repeat/output`, `repeat/input/n` and `repeat/turn/n`. Each mark has a start, an end, a kind and
///   a title.
pub(super) fn describe_case(report: &AnyReport<'_>, case: &CaseResult) -> Value {
    let mut view = View::default();
    for execution in &case.executions {
        let repeat = execution.execution.repeat;
        view.notes.push(notes(&execution.execution).into());
        if let Some(error) = &execution.error {
            let code = error.code().map(|it| it.to_string()).unwrap_or_default();
            let error = json!([title_of(error), code, shown(&error.message())]);
            view.errors.insert(repeat.to_string(), error);
        }
        let output = masked(&execution.execution.output, &execution.results);
        let results = execution.results.iter().enumerate();
        let mut open: Vec<(String, usize, &AssertionResult)> =
            results.map(|(at, it)| (format!("{repeat}/{at}"), 0, it)).collect();
        while let Some((key, depth, result)) = open.pop() {
            if depth < DEEPEST {
                let parts = result.components.iter().enumerate();
                open.extend(parts.map(|(at, it)| (format!("{key}.{at}"), depth + 1, it)));
            }
            view.add(&key, result);
            view.add_places(&key, result, &output);
            view.add_calls(&key, result, &execution.execution.tool_calls);
        }
        view.mark(repeat, &execution.execution, &execution.results);
    }
    let mut all = Map::new();
    all.insert("command".to_owned(), rerun::of_case(report, case).into());
    all.insert("answer".to_owned(), answer_title(case).into());
    all.insert("notes".to_owned(), view.notes.into());
    all.insert("place".to_owned(), case.source.as_ref().map(place_of).into());
    all.insert("spent".to_owned(), spent(case).into());
    let maps = [
        ("rows", view.rows),
        ("diffs", view.diffs),
        ("found", view.found),
        ("errors", view.errors),
        ("calls", view.calls),
        ("marks", view.marks),
    ];
    for (name, map) in maps {
        if !map.is_empty() {
            all.insert(name.to_owned(), map.into());
        }
    }
    Value::Object(all)
}

/// Returns the title of the responses of tools.
///
/// A model gets simulated responses from the suite. The responses that a program reports come from its own tools.
fn answer_title(case: &CaseResult) -> &'static str {
    let is_of_model = |it: &Execution| {
        !rerun::RUNNERS.contains(&it.model.as_str())
            && it.command.is_none()
            && it.workspace.is_none()
            && it.trace.is_none()
            && it.completeness.coverage == Coverage::Complete
    };
    if case.executions.iter().all(|it| is_of_model(&it.execution)) {
        "simulated response"
    } else {
        "response"
    }
}

#[derive(Default)]
struct View {
    notes: Vec<Value>,
    rows: Map<String, Value>,
    diffs: Map<String, Value>,
    found: Map<String, Value>,
    calls: Map<String, Value>,
    errors: Map<String, Value>,
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
            ("facts", beside_label(result)),
            ("says", if is_in_table(result) { String::new() } else { describe_result(result) }),
            ("reason", reason(result)),
            ("judges", judges.join(" · ")),
        ] {
            if !text.is_empty() {
                row.insert(name.to_owned(), text.into());
            }
        }
        if let Some(wanted) = crate::score::wanted(result) {
            row.insert("wanted".to_owned(), wanted.into());
        }
        let data = shown_metadata(result);
        if !data.is_empty() {
            row.insert("data".to_owned(), data.into());
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
                self.diffs.insert(format!("{key}/{at}"), compact(shortened(lines)));
                found = true;
            }
        }
        if let Some(lines) = diff::of_metadata(result).filter(|_| !found) {
            self.diffs.insert(format!("{key}/metadata"), compact(shortened(lines)));
        }
    }

    /// Adds the first matches of each piece of evidence.
    fn add_places(&mut self, key: &str, result: &AssertionResult, output: &str) {
        for (at, evidence) in result.evidence.iter().enumerate() {
            let ResultEvidence::Matches { of, spans } = evidence else { continue };
            let places = spans.iter().take(MATCHES).map(|it| match of {
                CheckedText::Output => {
                    let Excerpt { before, found, after } = Excerpt::new(it, output);
                    json!([it.what, before, found, after])
                }
                CheckedText::Other { name } => {
                    json!([format!("{} in {name}, at character {}", it.what, it.start + 1)])
                }
                _ => json!([it.what]),
            });
            self.found.insert(format!("{key}/{at}"), places.collect());
        }
    }

    /// Adds the index of the tool call that each piece of evidence is about.
    fn add_calls(&mut self, key: &str, result: &AssertionResult, calls: &[ToolCall]) {
        for (at, evidence) in result.evidence.iter().enumerate() {
            if let ResultEvidence::ToolCall { tool, call_id, mismatches } = evidence
                && let Some(index) = call_index(calls, tool, call_id.as_deref(), mismatches)
            {
                self.calls.insert(format!("{key}/{at}"), index.into());
            }
        }
    }

    /// Marks the matches of checks in the output, the quotes of judges, and the variables in the prompts.
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

/// Returns the facts that are shown beside the label of a check, and its place in the suite.
fn beside_label(result: &AssertionResult) -> String {
    let place = result.source.as_ref().map(place_of).unwrap_or_default();
    let has_excerpts = result.assertion == PERSONAL && !result.evidence.is_empty();
    let note = if has_excerpts { "matches are masked here, not in the output" } else { "" };
    let facts = [facts(result, 0, ""), note.to_owned(), place];
    let facts = facts.into_iter().filter(|it| !it.is_empty());
    facts.collect::<Vec<_>>().join(" · ")
}

/// The maximum number of lines of a difference in the data.
const LINES: usize = 1_000;

/// Keeps the first [`LINES`] lines of a difference, and cuts long lines.
pub(super) fn shortened(lines: Vec<DiffLine>) -> Vec<DiffLine> {
    lines.into_iter().take(LINES).map(|it| diff::elided(it, LINE)).collect()
}

/// Returns true if the table of schema errors shows the whole message.
fn is_in_table(result: &AssertionResult) -> bool {
    let message = result.verdict.message().unwrap_or_default();
    result.evidence.iter().any(|it| match it {
        ResultEvidence::Schema { errors } => {
            let lines = errors.iter().map(|it| {
                let place = if it.pointer.is_empty() { "/" } else { it.pointer.as_str() };
                format!("{place}: {}", it.expected)
            });
            !errors.is_empty() && lines.collect::<Vec<_>>().join("; ") == message
        }
        _ => false,
    })
}

/// Returns the names of the metadata that the page shows unchanged. The page shows other metadata in another form.
fn shown_metadata(result: &AssertionResult) -> Vec<&str> {
    let is_compared = !result.verdict.held()
        && !result.evidence.iter().any(|it| diff::of_evidence(it).is_some())
        && diff::of_metadata(result).is_some();
    let is_shown = |(name, value): &(&String, &Value)| {
        !THRESHOLDS.contains(&name.as_str())
            && *name != panel::CHOICES
            && !(is_compared && matches!(name.as_str(), "expected" | "actual"))
            && (result.reasoning.is_none() || value.as_str() != result.reasoning.as_deref())
    };
    result.metadata.iter().filter(is_shown).map(|(name, _)| name.as_str()).collect()
}

/// Returns the index of the call with the mismatches; `None` if no call has this tool and id.
///
/// Some servers give calls of several answers the same id. Of several calls with the same tool and id, returns the
/// first call with the actual values of the mismatches, or else the first call.
fn call_index(
    calls: &[ToolCall],
    tool: &str,
    id: Option<&str>,
    mismatches: &[Mismatch],
) -> Option<usize> {
    let is_named = |it: &ToolCall| it.name == tool && id.is_none_or(|id| it.id == id);
    let found = || calls.iter().enumerate().filter(|(_, it)| is_named(it));
    let has_actual = |call: &ToolCall| {
        mismatches.iter().all(|it| {
            let value = call.arguments.pointer(&it.pointer).map(ecma::stringify);
            match (value, it.actual.as_deref()) {
                (Some(value), Some(actual)) => match actual.strip_suffix('…') {
                    Some(start) => value.starts_with(start),
                    None => value == actual,
                },
                (value, actual) => value.is_none() && actual.is_none(),
            }
        })
    };
    let first = found().find(|(_, it)| has_actual(it)).or_else(|| found().next());
    first.map(|(index, _)| index)
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
    // The reasons of other checks are no quotes of a judge.
    let own = result.reasoning.as_deref().filter(|_| result.class == Class::Probabilistic);
    let panel = result.judging.as_ref().and_then(|it| it.panel.as_ref());
    let votes = panel.into_iter().flat_map(|it| &it.votes).filter_map(|it| it.reasoning.as_deref());
    let mut marks = Vec::new();
    let title = format!("quoted by the judge: {}", result.label);
    for quote in own.into_iter().chain(votes).flat_map(quotes) {
        if quote.chars().count() >= SHORTEST {
            marks.extend(places(output, quote, "quote", &title));
        }
    }
    marks
}

/// Returns the quotations in a text, without their quotation marks.
///
/// A quotation has at most [`LONGEST`] characters.
///
/// A quotation mark inside a word, such as an apostrophe, neither opens nor closes a quotation.
fn quotes(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut is_in_word = false;
    while let Some(mark) = rest.chars().next() {
        let after = &rest[mark.len_utf8()..];
        let end = match mark {
            '“' => Some('”'),
            '‘' => Some('’'),
            '„' => Some('“'),
            '«' => Some('»'),
            '"' | '\'' | '`' => Some(mark),
            _ => None,
        };
        let close = end.filter(|_| !is_in_word).and_then(|end| {
            let mut ends = after.char_indices().take(LONGEST + 1).filter(|(_, it)| *it == end);
            ends.find_map(|(at, it)| {
                let behind = &after[at + it.len_utf8()..];
                let is_inside = behind.starts_with(char::is_alphanumeric);
                (!is_inside).then_some((&after[..at], behind))
            })
        });
        if let Some((quote, behind)) = close {
            found.push(quote);
            rest = behind;
            is_in_word = false;
        } else {
            is_in_word = mark.is_alphanumeric();
            rest = after;
        }
    }
    found
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
            // The sign has index 0, and the first part is plain. So the parts at even indices are emphasised.
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
    fn evidence_is_about_the_call_with_its_values() {
        let call = |name: &str, amount: u32| ToolCall {
            id: "call_0".to_owned(),
            name: name.to_owned(),
            arguments: json!({"amount": amount}),
            malformed_arguments: None,
            response: None,
        };
        let calls = [call("look", 24), call("refund", 249), call("refund", 24)];
        let mismatch = |actual: &str| Mismatch::new("/amount", "25", Some(actual.to_owned()));
        for (tool, id, actual, expected) in [
            ("refund", Some("call_0"), "249", Some(1)),
            ("refund", Some("call_0"), "24", Some(2)),
            ("refund", None, "24…", Some(1)),
            // The difference may be in the result of the call.
            ("refund", Some("call_0"), "7", Some(1)),
            ("refund", Some("call_1"), "24", None),
            ("cancel", Some("call_0"), "24", None),
        ] {
            let found = call_index(&calls, tool, id, &[mismatch(actual)]);
            assert_eq!(found, expected, "{tool} {id:?} {actual}");
        }
    }

    #[test]
    fn quotes_are_found_in_characters() {
        let mut result = AssertionResult::pass("judge", "Is right")
            .with_reasoning("It says \"für 249 €\" and 'nothing else'.");
        result.class = Class::Probabilistic;
        let marks = quoted(&result, "Grüße: für 249 €, für 249 €");
        let places: Vec<(u64, u64)> = marks.iter().map(|it| (it.start, it.end)).collect();
        assert_eq!(places, [(7, 16), (18, 27)]);
        result.class = Class::Deterministic;
        assert!(quoted(&result, "Grüße: für 249 €").is_empty());
    }

    #[test]
    fn quotation_marks_open_and_close() {
        for (text, expected) in [
            ("It says \"one\", then \"two\".", vec!["one", "two"]),
            ("“a 'b' c” and ‘d’", vec!["a 'b' c", "d"]),
            ("It doesn't say 'what's due' yet.", vec!["what's due"]),
            ("5' and 6' are `feet`", vec!["feet"]),
            ("\"never closed", vec![]),
        ] {
            assert_eq!(quotes(text), expected, "{text}");
        }
    }

    #[test]
    fn a_table_of_schema_errors_replaces_its_message() {
        let error = |pointer: &str, expected: &str| Mismatch::new(pointer, expected, None);
        for (message, expected) in [
            ("/: `id` is required; /a: expected a string", true),
            ("/: `id` is required; /a: expected a string (in the cart)", false),
        ] {
            let code = kindlm_types::FailureCode::new("SCHEMA_INVALID");
            let result = AssertionResult::fail("schema", "Schema: inline", code, message)
                .with_evidence(ResultEvidence::Schema {
                    errors: vec![error("", "`id` is required"), error("/a", "expected a string")],
                });
            assert_eq!(is_in_table(&result), expected, "{message}");
        }
    }

    #[test]
    fn responses_of_tools_name_their_source() {
        let mut case = kindlm_testing::green_report().cases.remove(0);
        case.executions.truncate(1);
        case.executions[0].execution =
            Execution { model: "gpt-4o".to_owned(), ..Execution::default() };
        assert_eq!(answer_title(&case), "simulated response");
        case.executions[0].execution.command =
            kindlm_types::CommandEnd::from_parts(Some(0), String::new());
        assert_eq!(answer_title(&case), "response");
        case.executions[0].execution =
            Execution { model: "transcript".to_owned(), ..Execution::default() };
        assert_eq!(answer_title(&case), "response");
    }
}
