//! Writes the evidence of a verdict as the lines of a unified diff.

use std::borrow::Cow;

use kindlm_types::{AssertionResult, CheckedText, Mismatch, ResultEvidence, TextSpan};

use crate::diff::{self, LineKind};

/// The number of unchanged lines that are shown before and after a change.
const CONTEXT: usize = 2;
/// The number of characters that are shown before and after a match.
const AROUND: usize = 30;
/// The id of the check whose matches are personal data.
pub(crate) const PERSONAL: &str = "pii";
/// The character that replaces personal data.
const MASK: char = '•';

/// Returns lines that begin with `-` (expected), `+` (actual) or a space.
///
/// `output` is the output of the execution, with personal data [masked]. Returns no lines if the message of the check
/// already has all facts.
pub(crate) fn lines(evidence: &ResultEvidence, output: &str) -> Vec<String> {
    match evidence {
        ResultEvidence::Diff { .. } | ResultEvidence::Trajectory { .. } => {
            diff::of_evidence(evidence).map(|it| changes(&it)).unwrap_or_default()
        }
        ResultEvidence::ToolCall { tool, mismatches, .. } => mismatched(tool, mismatches),
        ResultEvidence::Schema { errors } => mismatched("", errors),
        ResultEvidence::Matches { of: CheckedText::Output, spans } => {
            spans.iter().map(|it| found(it, output)).collect()
        }
        ResultEvidence::Absent { expected, .. } => {
            expected.iter().map(|it| format!("- {it}")).collect()
        }
        ResultEvidence::Command { exit_code, stderr, .. } => {
            let exit = exit_code.map(|it| format!("+ exit code {it}"));
            exit.into_iter().chain(stderr.lines().map(|it| format!("  {it}"))).collect()
        }
        ResultEvidence::Tests { failed, .. } => {
            let line = |it: &kindlm_types::FailedTest| match &it.message {
                Some(message) => format!("+ {}: {message}", it.name),
                None => format!("+ {}", it.name),
            };
            failed.iter().map(line).collect()
        }
        // The message already has the facts of other evidence.
        _ => Vec::new(),
    }
}

/// Returns the schema errors of a failed check, such as `/a: must be string`.
///
/// Returns no errors if the message of the check already has all of them.
pub(crate) fn unnamed_errors(result: &AssertionResult) -> Vec<String> {
    let message = result.verdict.message().filter(|_| !result.verdict.held()).unwrap_or_default();
    let mut lines = Vec::new();
    for evidence in &result.evidence {
        let ResultEvidence::Schema { errors } = evidence else { continue };
        // Compare the pointer too, because errors at several places may have the same text.
        let is_named =
            |it: &Mismatch| message.contains(&it.pointer) && message.contains(&it.expected);
        if result.verdict.held() || errors.iter().all(is_named) {
            continue;
        }
        lines.extend(errors.iter().map(|it| match it.pointer.as_str() {
            "" => it.expected.clone(),
            pointer => format!("{pointer}: {}", it.expected),
        }));
    }
    lines
}

/// Returns the changed lines with a few lines around them.
fn changes(lines: &[diff::DiffLine]) -> Vec<String> {
    let is_changed = |it: &diff::DiffLine| it.kind != LineKind::Same;
    let is_near = |at: usize| {
        let from = at.saturating_sub(CONTEXT);
        lines.iter().skip(from).take(at - from + CONTEXT + 1).any(is_changed)
    };
    let mut shown = Vec::new();
    let mut was_near = true;
    for (at, line) in lines.iter().enumerate() {
        if !is_near(at) {
            if was_near {
                shown.push("  …".to_owned());
            }
            was_near = false;
            continue;
        }
        was_near = true;
        let sign = match line.kind {
            LineKind::Same => ' ',
            LineKind::Added => '+',
            LineKind::Removed => '-',
        };
        let text: String = line.segments.iter().map(|(_, it)| it.as_str()).collect();
        shown.push(format!("{sign} {text}").trim_end().to_owned());
    }
    shown
}

fn mismatched(tool: &str, mismatches: &[Mismatch]) -> Vec<String> {
    let mut lines = Vec::new();
    for it in mismatches {
        let place = [tool, &it.pointer].into_iter().filter(|it| !it.is_empty());
        let place = place.collect::<Vec<_>>().join(" ");
        let place = if place.is_empty() { place } else { format!("{place}: ") };
        lines.push(format!("- {place}{}", it.expected));
        let actual = it.actual.as_deref().unwrap_or("no value");
        lines.push(format!("+ {place}{actual}"));
    }
    lines
}

/// Returns a match with the text around it.
fn found(span: &TextSpan, output: &str) -> String {
    let Excerpt { before, found, after } = Excerpt::new(span, output);
    let text = format!("{before}{found}{after}");
    format!("+ {}: {}", span.what, text.replace(['\r', '\n'], " "))
}

/// A match in a text, and the text around it. `…` stands for the rest of the text.
pub(crate) struct Excerpt {
    pub(crate) before: String,
    pub(crate) found: String,
    pub(crate) after: String,
}

impl Excerpt {
    /// Returns the match at this span. `output` is the output with personal data [masked].
    pub(crate) fn new(span: &TextSpan, output: &str) -> Self {
        let (start, end) = range(span);
        let from = start.saturating_sub(AROUND);
        let mut chars = output.chars().skip(from);
        let mut next = |count: usize| chars.by_ref().take(count).collect::<String>();
        let (mut before, found) = (next(start - from), next(end.saturating_sub(start)));
        let mut after = next(AROUND);
        if from > 0 {
            before.insert(0, '…');
        }
        if chars.next().is_some() {
            after.push('…');
        }
        Self { before, found, after }
    }
}

fn range(span: &TextSpan) -> (usize, usize) {
    let number = |it: u64| usize::try_from(it).unwrap_or(usize::MAX);
    (number(span.start), number(span.end))
}

/// Replaces the characters of personal data in an output by `•`, except the first character of each match.
///
/// `results` are the results of the execution. The number of characters stays the same, so that the spans of the
/// evidence stay valid.
pub(crate) fn masked<'o>(output: &'o str, results: &[AssertionResult]) -> Cow<'o, str> {
    let mut spans: Vec<&TextSpan> = Vec::new();
    // A script may nest parts arbitrarily deep, so there is no recursion.
    let mut open: Vec<&AssertionResult> = results.iter().collect();
    while let Some(result) = open.pop() {
        open.extend(&result.components);
        let evidence = result.evidence.iter().filter(|_| result.assertion == PERSONAL);
        spans.extend(evidence.flat_map(|it| match it {
            ResultEvidence::Matches { of: CheckedText::Output, spans } => spans.as_slice(),
            _ => &[],
        }));
    }
    if spans.is_empty() {
        return Cow::Borrowed(output);
    }
    let mut chars: Vec<char> = output.chars().collect();
    for (start, end) in spans.into_iter().map(range) {
        let end = end.min(chars.len());
        if let Some(personal) = chars.get_mut(start.saturating_add(1)..end) {
            personal.fill(MASK);
        }
    }
    Cow::Owned(chars.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use kindlm_types::DiffFormat;

    use super::*;

    #[test]
    fn personal_data_is_masked_in_all_excerpts() {
        let span = |start, end| TextSpan { start, end, what: "e-mail address".to_owned() };
        let matches = |spans| ResultEvidence::Matches { of: CheckedText::Output, spans };
        let code = || kindlm_types::FailureCode::new("PII_DETECTED");
        let personal = AssertionResult::fail(PERSONAL, "PII", code(), "found")
            .with_evidence(matches(vec![span(4, 9), span(16, 21)]));
        let other = AssertionResult::fail("not-contains", "or", code(), "found")
            .with_evidence(matches(vec![span(10, 12)]));
        let set = AssertionResult {
            components: vec![personal],
            ..AssertionResult::fail("assert-set", "set", code(), "failed")
        };
        let output = "Ask ä@b.c or is d@e.f.";
        assert!(
            matches!(masked(output, std::slice::from_ref(&other)), Cow::Borrowed(it) if it == output)
        );
        let hidden = masked(output, &[other, set]);
        assert_eq!(hidden, "Ask ä•••• or is d••••.");
        assert_eq!(hidden.chars().count(), output.chars().count());
    }

    #[test]
    fn schema_errors_outside_the_message_are_listed() {
        let error = |pointer: &str, expected: &str| Mismatch::new(pointer, expected, None);
        let errors = vec![error("", "must have `q`"), error("/a", "must be string")];
        let result = |message: &str| {
            let code = kindlm_types::FailureCode::new("SCHEMA_INVALID");
            AssertionResult::fail("is-json", "JSON", code, message)
                .with_evidence(ResultEvidence::Schema { errors: errors.clone() })
        };
        for (message, expected) in [
            ("Errors: must have `q`", &["must have `q`", "/a: must be string"][..]),
            ("must have `q`; /a must be string", &[]),
        ] {
            assert_eq!(unnamed_errors(&result(message)), expected);
        }
    }

    #[test]
    fn equal_schema_errors_at_other_places_are_listed() {
        let errors: Vec<Mismatch> = (0..30)
            .map(|index| Mismatch::new(format!("/{index}"), "must be string", None))
            .collect();
        let code = kindlm_types::FailureCode::new("SCHEMA_INVALID");
        let result =
            AssertionResult::fail("is-json", "JSON", code, "Errors: data/0 must be string")
                .with_evidence(ResultEvidence::Schema { errors });
        let lines = unnamed_errors(&result);
        assert_eq!((lines.len(), lines[29].as_str()), (30, "/29: must be string"));
    }

    #[test]
    fn evidence_reads_like_a_diff() {
        let text = |it: &str| it.to_owned();
        let mismatch =
            |pointer: &str, actual: Option<&str>| Mismatch::new(pointer, "24.9", actual.map(text));
        let long = "x".repeat(40);
        for (evidence, expected) in [
            (
                ResultEvidence::Diff {
                    format: DiffFormat::Text,
                    expected: text("1\n2\n3\n4\nold\n6"),
                    actual: text("1\n2\n3\n4\nnew\n6"),
                },
                vec!["  …", "  3", "  4", "- old", "+ new", "  6"],
            ),
            (
                ResultEvidence::ToolCall {
                    tool: text("issue_refund"),
                    call_id: None,
                    mismatches: vec![mismatch("/amount", Some("249"))],
                },
                vec!["- issue_refund /amount: 24.9", "+ issue_refund /amount: 249"],
            ),
            (
                ResultEvidence::Schema { errors: vec![mismatch("", None)] },
                vec!["- 24.9", "+ no value"],
            ),
            (
                ResultEvidence::Matches {
                    of: CheckedText::Output,
                    spans: vec![TextSpan { start: 40, end: 43, what: text("name") }],
                },
                vec!["+ name: …xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxÄda is"],
            ),
            (
                ResultEvidence::Absent { of: CheckedText::Output, expected: vec![text("thanks")] },
                vec!["- thanks"],
            ),
        ] {
            assert_eq!(lines(&evidence, &format!("{long}Äda is")), expected);
        }
    }
}
