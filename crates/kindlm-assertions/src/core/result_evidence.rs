//! Builders for the evidence of failed results.
//!
//! Assertions call the builders only after a failure, so that a pass takes no extra time. Lists have an upper length,
//! because a report shows only their beginning.

use std::ops::Range;

use kindlm_schema::Schema;
use kindlm_types::{
    AssertionResult, Bound, CheckedText, DiffFormat, Mismatch, ResultEvidence, TextSpan, ecma,
    pointer,
};
use serde_json::Value;

use crate::core::grade::text;
use crate::core::range;
use crate::shared::compare::equal;
use crate::shared::pattern::Pattern;

/// The highest number of places, texts or steps in one piece of evidence.
pub(crate) const MOST: usize = 100;

/// The highest number of characters of a value in a mismatch.
const SHOWN: usize = 200;

/// The number of lines that are kept from the output of a command.
const LAST_LINES: usize = 40;

/// Adds the evidence to the results that failed.
pub(crate) fn explained<I: IntoIterator<Item = ResultEvidence>>(
    results: Vec<AssertionResult>,
    evidence: impl Fn() -> I,
) -> Vec<AssertionResult> {
    results.into_iter().map(|it| it.with_failure_evidence(&evidence)).collect()
}

/// Identifies a checked text other than the output by its name.
pub(crate) fn other(name: impl Into<String>) -> CheckedText {
    CheckedText::Other { name: name.into() }
}

/// Returns the evidence that texts or values do not occur in the output.
pub(crate) fn absent<T: Into<String>>(expected: impl IntoIterator<Item = T>) -> ResultEvidence {
    absent_in(CheckedText::Output, expected)
}

/// Returns the evidence that texts or values do not occur in a text.
pub(crate) fn absent_in<T: Into<String>>(
    of: CheckedText,
    expected: impl IntoIterator<Item = T>,
) -> ResultEvidence {
    let expected = expected.into_iter().take(MOST).map(Into::into).collect();
    ResultEvidence::Absent { of, expected }
}

/// Returns the evidence of unwanted parts of a text: the byte ranges, each with a description.
pub(crate) fn found(
    of: CheckedText,
    text: &str,
    ranges: impl IntoIterator<Item = (Range<usize>, String)>,
) -> ResultEvidence {
    let mut ranges: Vec<_> = ranges.into_iter().take(MOST).collect();
    ranges.sort_by_key(|(it, _)| (it.start, it.end));
    // Count the characters once for all spans: each span starts at or after the one before it.
    let (mut at, mut before) = (0, 0);
    let mut spans = Vec::with_capacity(ranges.len());
    for (range, what) in ranges {
        let start = text.floor_char_boundary(range.start);
        before += text[at..start].chars().count() as u64;
        at = start;
        let span = TextSpan::of_bytes(&text[at..], 0..range.end.saturating_sub(at), what);
        spans.push(TextSpan { start: before, end: before + span.end, what: span.what });
    }
    ResultEvidence::Matches { of, spans }
}

/// Returns the evidence that a whole text is unwanted. `what` describes the text.
pub(crate) fn whole(of: CheckedText, text: &str, what: &str) -> ResultEvidence {
    found(of, text, [(0..text.len(), what.to_owned())])
}

/// Returns the byte ranges of `text` at which `part` occurs, without overlaps. An empty `part` occurs nowhere.
pub(crate) fn occurrences<'t>(
    text: &'t str,
    part: &'t str,
) -> impl Iterator<Item = Range<usize>> + 't {
    let found = text.match_indices(part).filter(|(_, it)| !it.is_empty());
    found.map(|(at, it)| at..at + it.len())
}

/// Returns the byte ranges of `text` at which `part` occurs, ignoring case.
pub(crate) fn occurrences_in_any_case(text: &str, part: &str) -> Vec<Range<usize>> {
    let lower = text.to_lowercase();
    // A letter may have more or fewer bytes in lower case.
    let mut starts = Vec::new();
    let mut end = 0;
    for (at, c) in text.char_indices() {
        starts.push((end, at));
        end += c.to_lowercase().map(char::len_utf8).sum::<usize>();
    }
    let letter = |place: usize| starts.partition_point(|(lowered, _)| *lowered <= place);
    let original = |it: Range<usize>| {
        let start = starts.get(letter(it.start).saturating_sub(1)).map_or(0, |it| it.1);
        let end = starts.get(letter(it.end.saturating_sub(1))).map_or(text.len(), |it| it.1);
        start..end
    };
    occurrences(&lower, &part.to_lowercase()).take(MOST).map(original).collect()
}

/// Returns the byte ranges at which a pattern matches, up to the first error of the search.
pub(crate) fn matches_of(pattern: &Pattern, text: &str) -> Vec<(Range<usize>, String)> {
    let what = format!("/{}/", pattern.as_str());
    let ranges = pattern.find_iter(text).map_while(Result::ok).take(MOST);
    ranges.map(|it| (it, what.clone())).collect()
}

/// Returns the difference of two texts.
pub(crate) fn text_diff(expected: &str, actual: &str) -> ResultEvidence {
    let (expected, actual) = (expected.to_owned(), actual.to_owned());
    ResultEvidence::Diff { format: DiffFormat::Text, expected, actual }
}

/// Returns the difference of two values.
pub(crate) fn json_diff(expected: &Value, actual: &Value) -> ResultEvidence {
    let (expected, actual) = (indented(expected), indented(actual));
    ResultEvidence::Diff { format: DiffFormat::Json, expected, actual }
}

/// Returns the difference of an expected value and an output that may not be JSON.
pub(crate) fn output_diff(
    expected: &Value,
    output: &str,
    parsed: Option<&Value>,
) -> ResultEvidence {
    match (expected, parsed) {
        (Value::Object(_) | Value::Array(_), Some(actual)) => json_diff(expected, actual),
        (Value::Object(_) | Value::Array(_), None) => text_diff(&indented(expected), output),
        (expected, _) => text_diff(&text(expected), output),
    }
}

/// Returns a value as JSON, indented by two spaces.
fn indented(value: &Value) -> String {
    // Serialization of a JSON value does not fail.
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Returns the evidence that a score is below its threshold.
pub(crate) fn score(name: &str, actual: f64, limit: f64) -> ResultEvidence {
    measure(name, actual, (limit, Bound::AtLeast), None)
}

/// Returns the evidence that a measure is on the wrong side of its limit.
pub(crate) fn measure(
    name: &str,
    actual: f64,
    (limit, bound): (f64, Bound),
    unit: Option<&str>,
) -> ResultEvidence {
    let unit = unit.map(str::to_owned);
    let actual = Some(actual).filter(|it| it.is_finite());
    ResultEvidence::Measure { name: name.to_owned(), actual, limit, bound, unit }
}

/// Returns the evidence that a count is outside a range; with `negate`, that the count is inside the range.
#[expect(clippy::cast_precision_loss, reason = "no count reaches 2^53")]
pub(crate) fn counted(
    name: &str,
    count: usize,
    range: range::Range,
    negate: bool,
) -> ResultEvidence {
    let least = range.min.map(|it| (it as f64, Bound::AtLeast));
    let most = range.max.map(|it| (it as f64, Bound::AtMost));
    let is_above = range.max.is_some_and(|it| count as u64 > it);
    let side = match (negate, is_above) {
        (false, true) => most.or(least),
        (false, false) => least.or(most),
        // The count must be outside the range: below the lower limit, or above the upper limit.
        (true, _) => least
            .filter(|it| it.0 >= 1.0)
            .map(|(it, _)| (it - 1.0, Bound::AtMost))
            .or(most.map(|(it, _)| (it + 1.0, Bound::AtLeast))),
    };
    measure(name, count as f64, side.unwrap_or((0.0, Bound::AtLeast)), None)
}

/// Returns the evidence that the recorded actions are not the expected actions.
pub(crate) fn trajectory<E: Into<String>, A: Into<String>>(
    expected: impl IntoIterator<Item = E>,
    actual: impl IntoIterator<Item = A>,
) -> ResultEvidence {
    let expected = expected.into_iter().take(MOST).map(Into::into).collect();
    let actual = actual.into_iter().take(MOST).map(Into::into).collect();
    ResultEvidence::Trajectory { expected, actual }
}

/// Returns the places at which a value violates a schema.
pub(crate) fn violations(schema: &Schema, value: &Value) -> Vec<Mismatch> {
    let found = schema.violations(value).into_iter().take(MOST);
    let mismatch = |it: kindlm_schema::Violation| {
        let actual = value.pointer(&it.instance).map(shown);
        Mismatch::new(it.instance, it.message, actual)
    };
    found.map(mismatch).collect()
}

/// Returns the innermost differences of two values. Actual objects may have more keys, unless `is_exact` is true.
pub(crate) fn differences(wanted: &Value, actual: &Value, is_exact: bool) -> Vec<Mismatch> {
    let mut open = vec![(String::new(), Some(wanted), Some(actual))];
    let mut found = Vec::new();
    while let Some((at, wanted, actual)) = open.pop() {
        match (wanted, actual) {
            (Some(Value::Object(wanted)), Some(Value::Object(actual))) => {
                let more = actual.keys().filter(|it| is_exact && !wanted.contains_key(*it));
                // `open` is a stack, so the entries are pushed in reverse order.
                for key in wanted.keys().chain(more).rev() {
                    let at = format!("{at}/{}", pointer::segment(key));
                    open.push((at, wanted.get(key), actual.get(key)));
                }
            }
            (Some(Value::Array(wanted)), Some(Value::Array(actual)))
                if wanted.len() == actual.len() =>
            {
                for (index, pair) in wanted.iter().zip(actual).enumerate().rev() {
                    open.push((format!("{at}/{index}"), Some(pair.0), Some(pair.1)));
                }
            }
            (Some(wanted), actual) if actual.is_none_or(|it| !equal(it, wanted)) => {
                found.push(mismatch(at, ecma::stringify(wanted), actual));
            }
            (None, actual) => found.push(mismatch(at, "no value", actual)),
            (Some(_), _) => {}
        }
    }
    found
}

/// Returns a mismatch of an expected and an actual value at a place.
pub(crate) fn mismatch(
    pointer: impl Into<String>,
    expected: impl Into<String>,
    actual: Option<&Value>,
) -> Mismatch {
    let expected = shortened(&expected.into());
    Mismatch::new(pointer, expected, actual.map(shown))
}

/// Returns the evidence of a call whose arguments differ. An empty `call_id` is left out.
pub(crate) fn call(tool: &str, call_id: &str, mismatches: Vec<Mismatch>) -> ResultEvidence {
    let call_id = Some(call_id.to_owned()).filter(|it| !it.is_empty());
    ResultEvidence::ToolCall { tool: tool.to_owned(), call_id, mismatches }
}

/// Returns true for the evidence of a call that differs from the expected call.
pub(crate) fn is_tool_call(evidence: &ResultEvidence) -> bool {
    matches!(evidence, ResultEvidence::ToolCall { .. })
}

/// Returns the evidence with the reason of a script, a service or a judge.
pub(crate) fn reason(text: impl Into<String>) -> ResultEvidence {
    ResultEvidence::Reason { text: text.into() }
}

/// Returns the last [`LAST_LINES`] lines of the output of a command.
pub(crate) fn last_lines(text: &str) -> String {
    let mut breaks = text.trim_end().rmatch_indices('\n');
    let start = breaks.nth(LAST_LINES - 1).map_or(0, |(at, _)| at + 1);
    text.get(start..).unwrap_or_default().to_owned()
}

fn shown(value: &Value) -> String {
    shortened(&ecma::stringify(value))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(evidence: ResultEvidence) -> Vec<(u64, u64)> {
        let ResultEvidence::Matches { spans, .. } = evidence else { return Vec::new() };
        spans.iter().map(|it| (it.start, it.end)).collect()
    }

    #[test]
    fn spans_count_characters_in_the_order_of_the_text() {
        let text = "Grüße an Ida, Grüße an Åse";
        let ranges =
            ["Åse", "Ida"].map(|it| (occurrences(text, it).next().unwrap(), String::new()));
        assert_eq!(spans(found(CheckedText::Output, text, ranges)), [(9, 12), (23, 26)]);
        assert_eq!(spans(whole(CheckedText::Output, text, "")), [(0, 26)]);
    }

    #[test]
    fn case_does_not_move_places() {
        for (text, part, expected) in [
            ("Say NO, no", "no", vec!["NO", "no"]),
            ("İİ Stop", "stop", vec!["Stop"]),
            ("İ", "i̇", vec!["İ"]),
            ("ΟΔΟΣ x", "οδος", vec!["ΟΔΟΣ"]),
            ("nothing", "", vec![]),
        ] {
            let found = occurrences_in_any_case(text, part);
            let found: Vec<&str> = found.into_iter().map(|it| &text[it]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn the_bound_of_a_count_is_the_one_to_reach() {
        let range = |min, max| range::Range { min, max };
        for (range, count, negate, expected) in [
            (range(Some(2), Some(3)), 1, false, (2.0, Bound::AtLeast)),
            (range(Some(2), Some(3)), 4, false, (3.0, Bound::AtMost)),
            (range(Some(1), None), 4, true, (0.0, Bound::AtMost)),
            (range(None, Some(3)), 2, true, (4.0, Bound::AtLeast)),
            (range(Some(0), Some(0)), 0, true, (1.0, Bound::AtLeast)),
        ] {
            let evidence = counted("calls", count, range, negate);
            let ResultEvidence::Measure { limit, bound, .. } = evidence else { unreachable!() };
            assert_eq!((limit, bound), expected);
        }
    }

    #[test]
    fn the_last_lines_of_long_outputs_are_kept() {
        let long = (0..100).map(|it| it.to_string()).collect::<Vec<_>>().join("\n");
        let kept = last_lines(&long);
        assert_eq!((kept.lines().count(), kept.lines().next()), (40, Some("60")));
        assert_eq!(last_lines("a\nb"), "a\nb");
    }
}
