//! Describes the results of a judge panel: votes, agreement, and choices by order.

use kindlm_types::{AssertionResult, CaseResult, FailureCode, Verdict, ecma};
use serde_json::Value;

use crate::plain::one_line;
use crate::score::two;

/// The metadata keys that [`lines`] describes.
const WORDED: [&str; 5] = ["panel", "choices", "borderline", "tie", "asked"];

/// Returns true if [`lines`] describes this metadata key.
pub(crate) fn is_worded(key: &str) -> bool {
    WORDED.contains(&key)
}

/// Returns lines that describe the votes and choices in a result's metadata, each with a label.
///
/// An entry in an unknown format is shown as JSON.
pub(crate) fn lines(metadata: &serde_json::Map<String, Value>) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(panel) = metadata.get("panel") {
        match votes(panel) {
            Some(votes) => lines.extend(votes),
            None => lines.push(("panel", one_line(&ecma::stringify(panel)))),
        }
    }
    if let Some(choices) = metadata.get("choices") {
        match choices.as_array().and_then(|it| it.iter().map(choice).collect::<Option<Vec<_>>>()) {
            Some(choices) => lines.extend(choices.into_iter().map(|it| ("choice", it))),
            None => lines.push(("choices", one_line(&ecma::stringify(choices)))),
        }
    }
    let is = |key: &str| metadata.get(key) == Some(&Value::Bool(true));
    if is("tie") {
        lines.push(("tie", tie(metadata).to_owned()));
    }
    if is("borderline") && !metadata.contains_key("panel") && !is("tie") {
        lines.push(("borderline", "judgements differ".to_owned()));
    }
    lines.extend(asked(metadata).map(|it| ("asked", it)));
    lines
}

/// Returns the doubtful results of a case. These are passing checks on which judges disagree, including parts of sets,
/// and failed scripts in passing sets.
///
/// Each has a label and a reason. Equal doubts of several repeats are listed once.
pub(crate) fn doubts(case: &CaseResult) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let results = case.executions.iter().rev().flat_map(|it| it.results.iter().rev());
    let mut open: Vec<(&AssertionResult, bool)> = results.map(|it| (it, false)).collect();
    while let Some((result, is_held)) = open.pop() {
        let holds = result.verdict == Verdict::Pass;
        open.extend(result.parts().iter().rev().map(|it| (it, is_held || holds)));
        let doubt = match &result.verdict {
            Verdict::Pass => doubt(&result.metadata),
            Verdict::Fail { code, message } if is_held && *code == FailureCode::SCRIPT_THREW => {
                let first = message.lines().next().unwrap_or_default();
                Some(format!("its script gave no verdict: {}", one_line(first)))
            }
            _ => None,
        };
        let told = doubt.map(|it| (result.label.as_str(), it));
        found.extend(told.filter(|it| !found.contains(it)));
    }
    found
}

/// Returns why a passing result is doubtful: a tie, or judges that disagree. `None` if it is certain.
fn doubt(metadata: &serde_json::Map<String, Value>) -> Option<String> {
    let is = |it: Option<&Value>| it == Some(&Value::Bool(true));
    if is(metadata.get("tie")) {
        return Some(format!("a tie: {}", tie(metadata)));
    }
    let panel = metadata.get("panel");
    if is(panel.and_then(|it| it.get("borderline"))) {
        return panel.and_then(votes)?.into_iter().next().map(|(_, facts)| facts);
    }
    if is(metadata.get("borderline")) {
        return Some("borderline: judgements differ".to_owned());
    }
    asked(metadata).map(|it| format!("the judge was asked {it}"))
}

/// Describes how often a judge was asked, if more than once.
fn asked(metadata: &serde_json::Map<String, Value>) -> Option<String> {
    let times = metadata.get("asked")?.as_u64().filter(|it| *it > 1)?;
    Some(format!("{times} times: its first reply could not be read in full"))
}

/// Describes a tie: several outputs are best, or two orders disagree.
fn tie(metadata: &serde_json::Map<String, Value>) -> &'static str {
    if metadata.contains_key("driftByOrder") {
        return "the judge finds more drift than is allowed in one order of reading, and not in the other";
    }
    if metadata.contains_key("scores") {
        return "several have the highest score";
    }
    let choices = metadata.get("choices").and_then(Value::as_array);
    let mut best = choices.into_iter().flatten().filter_map(|it| it.get("best"));
    let first = best.next();
    if best.any(|it| Some(it) != first) {
        "the judge has not chosen the same in each order"
    } else {
        "several said the same, word for word"
    }
}

fn votes(panel: &Value) -> Option<Vec<(&'static str, String)>> {
    let votes = panel.get("votes")?.as_array()?;
    let is = |it: &Value, status: &str| it.get("status").and_then(Value::as_str) == Some(status);
    let passed = votes.iter().filter(|it| is(it, "passed")).count();
    let mut facts = vec![format!("{passed} of {} pass", votes.len())];
    let lost = votes.iter().filter(|it| is(it, "errored")).count();
    if lost > 0 {
        facts.push(format!("{lost} could not be counted"));
    }
    if let Some(agreement) = panel.get("agreement").and_then(Value::as_f64) {
        facts.push(format!("{}% agree", ecma::to_fixed(agreement * 100.0, 0)));
    }
    if let Some(spread) = panel.get("spread").and_then(Value::as_f64).filter(|it| *it > 0.0) {
        facts.push(format!("scores {} apart", two(spread)));
    }
    if panel.get("borderline") == Some(&Value::Bool(true)) {
        facts.push("borderline".to_owned());
    }
    let mut lines = vec![("votes", facts.join(", "))];
    for it in votes {
        lines.push(("vote", vote(it)?));
    }
    Some(lines)
}

fn vote(vote: &Value) -> Option<String> {
    let status = match vote.get("status")?.as_str()? {
        "passed" => "pass",
        "failed" => "fail",
        other => other,
    };
    let judge = vote.get("judge").and_then(Value::as_str).unwrap_or("judge");
    let sample = vote.get("sample").and_then(Value::as_u64);
    let sample = sample.map(|it| format!(" (answer {})", it + 1)).unwrap_or_default();
    let score = vote.get("score").and_then(Value::as_f64);
    let score = score.map(|it| format!(" {}", two(it))).unwrap_or_default();
    let why = vote.get("reasoning").and_then(Value::as_str).filter(|it| !it.is_empty());
    let why = why.map(|it| format!(": {it}")).unwrap_or_default();
    Some(one_line(&format!("{judge}{sample} {status}{score}{why}")))
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

    #[test]
    fn what_is_doubtful_is_said_in_a_line() {
        for (metadata, said) in [
            (json!({}), None),
            (json!({"tie": false, "borderline": false}), None),
            (json!({"tie": true, "scores": [1, 1]}), Some("a tie: several have the highest score")),
            (
                json!({"tie": true, "driftByOrder": [0.1, 0.9]}),
                Some(
                    "a tie: the judge finds more drift than is allowed in one order of reading, and not in the other",
                ),
            ),
            (json!({"borderline": true}), Some("borderline: judgements differ")),
            (json!({"asked": 1}), None),
            (
                json!({"asked": 2}),
                Some("the judge was asked 2 times: its first reply could not be read in full"),
            ),
            (
                json!({"panel": {"votes": [{"judge": "a", "status": "passed"}, {"judge": "b", "status": "failed"}], "borderline": true}}),
                Some("1 of 2 pass, borderline"),
            ),
        ] {
            assert_eq!(doubt(metadata.as_object().unwrap()).as_deref(), said, "{metadata}");
        }
    }

    #[test]
    fn votes_and_choices_are_said_in_words() {
        let metadata = json!({
            "panel": {
                "votes": [
                    {"judge": "strict", "status": "failed", "score": 0.2, "reasoning": "It greets\nnobody."},
                    {"judge": "kind", "sample": 1, "status": "passed", "score": 0.9},
                    {"status": "errored", "reasoning": "down"},
                ],
                "agreement": 0.5, "spread": 0.7, "borderline": true,
            },
            "choices": [
                {"order": ["`a`", "`b`"], "best": "`b`", "reason": "It is short."},
                {"order": ["`b`", "`a`"], "best": "`a`"},
            ],
            "borderline": true,
            "tie": true,
        });
        let said: Vec<String> = lines(metadata.as_object().unwrap())
            .iter()
            .map(|(key, it)| format!("{key}: {it}"))
            .collect();
        assert_eq!(
            said,
            [
                "votes: 1 of 3 pass, 1 could not be counted, 50% agree, scores 0.70 apart, borderline",
                "vote: strict fail 0.20: It greets\\nnobody.",
                "vote: kind (answer 2) pass 0.90",
                "vote: judge errored: down",
                "choice: `b` of `a`, `b`: It is short.",
                "choice: `a` of `b`, `a`",
                "tie: the judge has not chosen the same in each order",
            ]
        );
    }

    #[test]
    fn a_tie_says_why_there_is_one() {
        let choice = |best: &str| json!({"order": ["`a`", "`b`"], "best": best});
        for (metadata, expected) in [
            (json!({"choices": [choice("`a`"), choice("`b`")]}), "has not chosen the same"),
            (json!({"choices": [choice("`a` and `b`"), choice("`a` and `b`")]}), "said the same"),
            // All outputs are equal, so no judge was asked.
            (json!({"choices": []}), "said the same"),
            (json!({"scores": {"a": 0.5, "b": 0.5}}), "several have the highest score"),
        ] {
            let mut metadata = metadata.as_object().unwrap().clone();
            metadata.insert("tie".to_owned(), json!(true));
            let said = lines(&metadata).pop().unwrap();
            assert!(said.0 == "tie" && said.1.contains(expected), "{said:?}");
        }
    }

    #[test]
    fn what_somebody_else_wrote_is_shown_as_it_is() {
        for panel in [json!([1]), json!({"votes": [{"status": 5}]}), json!("x")] {
            let metadata = json!({"panel": panel, "choices": 7});
            let lines = lines(metadata.as_object().unwrap());
            assert_eq!(lines[0], ("panel", one_line(&ecma::stringify(&panel))));
            assert_eq!(lines[1], ("choices", "7".to_owned()));
        }
    }
}
