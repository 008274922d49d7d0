//! Describes the results of judges: votes, agreement, and the choice for each order of the outputs.

use kindlm_types::{
    AssertionResult, CaseResult, FailureCode, JudgePanel, JudgeVote, Judging, Verdict, VoteStatus,
    ecma,
};
use serde_json::Value;

use crate::plain::one_line;
use crate::score::two;

/// The metadata key of a judge's choices, which [`lines`] describes as text.
pub(crate) const CHOICES: &str = "choices";

/// Returns the lines that describe the judges of a result, each with its label.
///
/// Choices in an unknown format are shown as JSON. Digests are only in the JSON report.
pub(crate) fn lines(result: &AssertionResult) -> Vec<(&'static str, String)> {
    let none = Judging::default();
    let judging = result.judging.as_deref().unwrap_or(&none);
    let mut lines: Vec<(&str, String)> =
        [("judge", &judging.model), ("answered by", &judging.answered)]
            .into_iter()
            .filter_map(|(label, it)| Some((label, one_line(it.as_ref()?))))
            .collect();
    lines.extend(judging.settings.as_ref().map(|it| ("judging", settings(it))));
    lines.extend(judging.panel.iter().flat_map(votes));
    if let Some(choices) = result.metadata.get(CHOICES) {
        match choices.as_array().and_then(|it| it.iter().map(choice).collect::<Option<Vec<_>>>()) {
            Some(choices) => lines.extend(choices.into_iter().map(|it| ("choice", it))),
            None => lines.push((CHOICES, one_line(&ecma::stringify(choices)))),
        }
    }
    if judging.tie {
        lines.push(("tie", tie(result).to_owned()));
    } else if judging.borderline && judging.panel.is_none() {
        lines.push(("borderline", "judgements differ".to_owned()));
    }
    lines.extend(asked(judging).map(|it| ("asked", it)));
    lines
}

/// Formats the options of judges as `models a, b; jury majority`.
fn settings(settings: &serde_json::Map<String, Value>) -> String {
    let text = |it: &Value| match it {
        Value::Array(items) => items.iter().map(ecma::text).collect::<Vec<_>>().join(", "),
        other => ecma::text(other),
    };
    let all = settings.iter().map(|(key, it)| format!("{key} {}", text(it)));
    one_line(&all.collect::<Vec<_>>().join("; "))
}

/// Returns the doubtful results of a case, including parts of sets.
///
/// These are passing checks with a doubtful judgement, and scripts that returned no verdict in passing sets.
///
/// Each result is given by its label and a reason. Equal entries of several repeats are listed once.
pub(crate) fn doubts(case: &CaseResult) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let results = case.executions.iter().rev().flat_map(|it| it.results.iter().rev());
    let mut open: Vec<(&AssertionResult, bool)> = results.map(|it| (it, false)).collect();
    while let Some((result, is_held)) = open.pop() {
        let holds = result.verdict == Verdict::Pass;
        open.extend(result.parts().iter().rev().map(|it| (it, is_held || holds)));
        let doubt = match &result.verdict {
            Verdict::Pass => doubt(result),
            Verdict::Fail { code, message } if is_held && *code == FailureCode::SCRIPT_THREW => {
                let first = message.lines().next().unwrap_or_default();
                Some(format!("its script returned no verdict: {}", one_line(first)))
            }
            _ => None,
        };
        let entry = doubt.map(|it| (result.label.as_str(), it));
        found.extend(entry.filter(|it| !found.contains(it)));
    }
    found
}

/// Returns the reason why the judgement of a passing result is doubtful.
///
/// The reasons are a tie, judgements that differ, and a judge that was asked several times. Returns `None` if the
/// judgement is not doubtful.
fn doubt(result: &AssertionResult) -> Option<String> {
    let judging = result.judging.as_deref()?;
    if judging.tie {
        return Some(format!("a tie: {}", tie(result)));
    }
    if let Some(panel) = judging.panel.as_ref().filter(|it| it.borderline) {
        return votes(panel).into_iter().next().map(|(_, facts)| facts);
    }
    if judging.borderline {
        return Some("borderline: judgements differ".to_owned());
    }
    asked(judging).map(|it| format!("the judge was asked {it}"))
}

/// Returns the number of times that a judge was asked, with the reason.
///
/// Returns `None` if the judge was asked once.
fn asked(judging: &Judging) -> Option<String> {
    let times = judging.asked.filter(|it| *it > 1)?;
    Some(format!("{times} times: its first reply could not be read in full"))
}

/// Returns the reason for a tie, which depends on the metadata of the result.
fn tie(result: &AssertionResult) -> &'static str {
    if result.metadata.contains_key("driftByOrder") {
        return "the drift is above the limit in one order of reading only";
    }
    if result.metadata.contains_key("scores") {
        return "several have the highest score";
    }
    let choices = result.metadata.get(CHOICES).and_then(Value::as_array);
    let mut best = choices.into_iter().flatten().filter_map(|it| it.get("best"));
    let first = best.next();
    if best.any(|it| Some(it) != first) {
        "the judge's choice depends on the order"
    } else {
        "several outputs are identical"
    }
}

/// Returns the votes with their reasons, if several jurors judged; empty otherwise.
pub(crate) fn jurors(result: &AssertionResult) -> Vec<String> {
    let panel = result.judging.as_ref().and_then(|it| it.panel.as_ref());
    let panel = panel.filter(|it| it.votes.len() > 1);
    panel.into_iter().flat_map(|it| &it.votes).map(vote).collect()
}

fn votes(panel: &JudgePanel) -> Vec<(&'static str, String)> {
    let count = |status| panel.votes.iter().filter(|it| it.status == status).count();
    let mut facts = vec![format!("{} of {} pass", count(VoteStatus::Passed), panel.votes.len())];
    let lost = count(VoteStatus::Errored);
    if lost > 0 {
        facts.push(format!("{lost} could not be counted"));
    }
    if let Some(agreement) = panel.agreement {
        facts.push(format!("{}% agree", ecma::to_fixed(agreement * 100.0, 0)));
    }
    if let Some(spread) = panel.spread.filter(|it| *it > 0.0) {
        facts.push(format!("scores {} apart", two(spread)));
    }
    if panel.borderline {
        facts.push("borderline".to_owned());
    }
    let mut lines = vec![("votes", facts.join(", "))];
    lines.extend(panel.votes.iter().map(|it| ("vote", vote(it))));
    lines
}

fn vote(vote: &JudgeVote) -> String {
    let status = match vote.status {
        VoteStatus::Passed => "pass",
        VoteStatus::Failed => "fail",
        VoteStatus::Errored => "errored",
        VoteStatus::Skipped => "skipped",
    };
    let judge = vote.judge.as_deref().unwrap_or("judge");
    let sample = vote.sample.map(|it| format!(" (answer {})", it + 1)).unwrap_or_default();
    let score = vote.score.map(|it| format!(" {}", two(it))).unwrap_or_default();
    let why = vote.reasoning.as_deref().filter(|it| !it.is_empty());
    let why = why.map(|it| format!(": {it}")).unwrap_or_default();
    one_line(&format!("{judge}{sample} {status}{score}{why}"))
}

fn choice(choice: &Value) -> Option<String> {
    let order = choice.get("order")?.as_array()?;
    let order: Option<Vec<&str>> = order.iter().map(Value::as_str).collect();
    let best = choice.get("best")?.as_str()?;
    let why = choice.get("reason").and_then(Value::as_str).filter(|it| !it.is_empty());
    let why = why.map(|it| format!(": {it}")).unwrap_or_default();
    Some(one_line(&format!("{best} of {}{why}", order?.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns a result with these data of judges and this metadata.
    fn judged(judging: &Value, metadata: &Value) -> AssertionResult {
        let mut result = AssertionResult::pass("judge", "label");
        result.judging = Some(serde_json::from_value(judging.clone()).unwrap());
        result.metadata = metadata.as_object().unwrap().clone();
        result
    }

    #[test]
    fn a_doubt_is_one_line() {
        for (judging, metadata, expected) in [
            (json!({}), json!({}), None),
            (json!({"tie": false, "borderline": false}), json!({}), None),
            (
                json!({"tie": true}),
                json!({"scores": [1, 1]}),
                Some("a tie: several have the highest score"),
            ),
            (
                json!({"tie": true}),
                json!({"driftByOrder": [0.1, 0.9]}),
                Some("a tie: the drift is above the limit in one order of reading only"),
            ),
            (json!({"borderline": true}), json!({}), Some("borderline: judgements differ")),
            (json!({"asked": 1}), json!({}), None),
            (
                json!({"asked": 2}),
                json!({}),
                Some("the judge was asked 2 times: its first reply could not be read in full"),
            ),
            (
                json!({"panel": {"votes": [{"judge": "a", "status": "passed"}, {"judge": "b", "status": "failed"}], "borderline": true}}),
                json!({}),
                Some("1 of 2 pass, borderline"),
            ),
            // A script may return metadata with the names of judge data.
            (json!({}), json!({"tie": true, "borderline": true, "asked": 2}), None),
        ] {
            assert_eq!(doubt(&judged(&judging, &metadata)).as_deref(), expected, "{judging}");
        }
    }

    #[test]
    fn votes_and_choices_are_put_into_words() {
        let judging = json!({
            "promptDigest": "abc",
            "panel": {
                "votes": [
                    {"judge": "strict", "status": "failed", "score": 0.2, "reasoning": "It greets\nnobody."},
                    {"judge": "kind", "sample": 1, "status": "passed", "score": 0.9},
                    {"status": "errored", "reasoning": "down"},
                ],
                "agreement": 0.5, "spread": 0.7, "borderline": true,
            },
            "judging": {"models": ["a", "b"], "samples": 3},
            "borderline": true,
            "tie": true,
        });
        let metadata = json!({"choices": [
            {"order": ["`a`", "`b`"], "best": "`b`", "reason": "It is short."},
            {"order": ["`b`", "`a`"], "best": "`a`"},
        ]});
        let lines = lines(&judged(&judging, &metadata));
        let lines: Vec<String> = lines.iter().map(|(key, it)| format!("{key}: {it}")).collect();
        assert_eq!(
            lines,
            [
                "judging: models a, b; samples 3",
                "votes: 1 of 3 pass, 1 could not be counted, 50% agree, scores 0.70 apart, borderline",
                "vote: strict fail 0.20: It greets\\nnobody.",
                "vote: kind (answer 2) pass 0.90",
                "vote: judge errored: down",
                "choice: `b` of `a`, `b`: It is short.",
                "choice: `a` of `b`, `a`",
                "tie: the judge's choice depends on the order",
            ]
        );
    }

    #[test]
    fn the_reason_of_a_tie_is_named() {
        let choice = |best: &str| json!({"order": ["`a`", "`b`"], "best": best});
        for (metadata, expected) in [
            (json!({"choices": [choice("`a`"), choice("`b`")]}), "depends on the order"),
            (json!({"choices": [choice("`a` and `b`"), choice("`a` and `b`")]}), "are identical"),
            // All outputs are equal, so the judge was not asked.
            (json!({"choices": []}), "are identical"),
            (json!({"scores": {"a": 0.5, "b": 0.5}}), "several have the highest score"),
        ] {
            let last = lines(&judged(&json!({"tie": true}), &metadata)).pop().unwrap();
            assert!(last.0 == "tie" && last.1.contains(expected), "{last:?}");
        }
    }

    #[test]
    fn unknown_choices_are_shown_as_json() {
        let lines = lines(&judged(&json!({}), &json!({"choices": 7})));
        assert_eq!(lines, [(CHOICES, "7".to_owned())]);
    }
}
