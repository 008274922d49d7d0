//! The message of a check for people: without texts that are shown elsewhere, and not longer than a limit.

use kindlm_types::{AssertionResult, ResultEvidence};

use crate::plain::head;

/// The maximum number of bytes of a message that is shown with a difference.
const BESIDE_DIFFERENCE: usize = 200;

/// Returns the message of a result, with at most this number of lines and bytes.
///
/// If a difference is shown too, the message is one line, without the two texts that the difference shows.
pub(crate) fn shown(result: &AssertionResult, lines: usize, bytes: usize) -> String {
    let mut text = result.verdict.message().unwrap_or_default().replace("\r\n", "\n");
    let mut limits = (lines, bytes);
    for evidence in result.evidence.iter().filter(|_| !result.verdict.held()) {
        if let ResultEvidence::Diff { expected, actual, .. } = evidence
            && expected != actual
        {
            limits = (1, BESIDE_DIFFERENCE);
            for side in [expected, actual] {
                text = text.replace(&format!("\"{side}\""), "\"…\"");
            }
        }
    }
    cut(text.trim_end(), limits.0, limits.1)
}

/// Returns the reason of a judge or a script; `None` if the message already has it.
pub(crate) fn reason(result: &AssertionResult) -> Option<&str> {
    let reason = result.reasoning.as_deref().filter(|it| !it.trim().is_empty())?;
    let is_in_message = result.verdict.message().is_some_and(|it| it.contains(reason.trim()));
    (!is_in_message).then_some(reason)
}

/// Returns true if a juror's vote has the reason of the result, so that a list of the votes shows it.
pub(crate) fn is_of_juror(result: &AssertionResult) -> bool {
    let panel = result.judging.as_ref().and_then(|it| it.panel.as_ref());
    let mut reasons =
        panel.into_iter().flat_map(|it| &it.votes).filter_map(|it| it.reasoning.as_deref());
    let reason = result.reasoning.as_deref().unwrap_or_default().trim();
    !reason.is_empty() && reasons.any(|it| it.trim() == reason)
}

fn cut(text: &str, lines: usize, bytes: usize) -> String {
    let end = text.match_indices('\n').nth(lines.saturating_sub(1)).map(|(at, _)| at);
    let beginning = head(end.and_then(|end| text.get(..end)).unwrap_or(text), bytes).trim_end();
    if beginning.len() < text.len() { format!("{beginning}…") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use kindlm_types::{DiffFormat, FailureCode};

    use super::*;

    fn failed(message: &str) -> AssertionResult {
        AssertionResult::fail("equals", "Equals", FailureCode::new("ASSERTION_FAILED"), message)
    }

    #[test]
    fn texts_of_a_difference_are_not_repeated() {
        let long = "line\n".repeat(500);
        for (expected, actual) in [("b", "a"), ("a\nb", "a\nc"), ("b", long.as_str())] {
            let message = format!("Expected output \"{actual}\" to equal \"{expected}\"");
            let evidence = ResultEvidence::Diff {
                format: DiffFormat::Text,
                expected: expected.to_owned(),
                actual: actual.to_owned(),
            };
            let result = failed(&message).with_evidence(evidence);
            assert_eq!(shown(&result, 5, 800), "Expected output \"…\" to equal \"…\"");
        }
    }

    #[test]
    fn long_messages_are_cut() {
        for (message, expected) in [
            ("short", "short"),
            ("a\nb", "a\nb"),
            ("a\nb\nc", "a\nb…"),
            ("a\n\n\n", "a"),
            ("123456789", "12345678…"),
        ] {
            assert_eq!(shown(&failed(message), 2, 8), expected);
        }
    }

    #[test]
    fn a_reason_is_shown_once() {
        let judged = failed("It is rude. (borderline: 1 of 3 votes pass)");
        assert_eq!(reason(&judged.clone().with_reasoning("It is rude.")), None);
        assert_eq!(reason(&judged.clone().with_reasoning("It is long.")), Some("It is long."));
        let mut by_panel = judged.with_reasoning("It is rude.");
        assert!(!is_of_juror(&by_panel));
        by_panel.judging = serde_json::from_value(serde_json::json!({
            "panel": {"votes": [{"status": "failed", "reasoning": "It is rude."}]},
        }))
        .unwrap();
        assert!(is_of_juror(&by_panel));
    }
}
