//! The results of each prompt assertion over many outputs: the violated rules, and the cases that violate them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{AssertionResult, RateCount, Verdict};

/// The id of the assertion that judges the rules of a prompt. Each rule has a result of its own.
pub const PROMPT_ASSERTION: &str = "prompt-assertion";

/// The number of failing cases of a prompt assertion that are named; the others are counted.
pub const NAMED_FAILURES: usize = 20;

/// The longest stored part of an example, in characters.
const EXAMPLE: usize = 500;

/// The results of one prompt assertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssertionSummary {
    /// The assertion's id.
    pub id: String,
    /// The number of times that the rule held, of the times that it was judged: passed or failed.
    pub kept: RateCount,
    /// The number of times that the judge gave no verdict.
    pub errored: u64,
    /// The number of times that the rule did not apply.
    pub skipped: u64,
    /// The first cases that broke the rule, in the order of the plan; at most [`NAMED_FAILURES`].
    pub failing: Vec<FailingCase>,
    /// The number of cases that violated the rule.
    pub failing_cases: u64,
    /// Why the first of them broke it, in the judge's words; or, if none did, why there was no verdict.
    pub example: Option<String>,
}

impl AssertionSummary {
    /// The number of cases that violated the rule and are not named.
    pub fn unnamed(&self) -> u64 {
        self.failing_cases.saturating_sub(self.failing.len() as u64)
    }

    /// True if the rule held wherever it was judged, and was judged wherever it applies.
    pub fn held(&self) -> bool {
        self.kept.count == self.kept.total && self.errored == 0
    }
}

/// A case in which a rule was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingCase {
    /// The test case's name.
    pub case: String,
    /// The model's id.
    pub model: String,
}

/// Adds up prompt assertions by their ids while cases finish, in any order.
///
/// The size depends on how many assertions there are, not on how many cases.
#[derive(Clone, Debug, Default)]
pub struct Breakdown {
    entries: BTreeMap<String, Entry>,
    most: Option<usize>,
    left_out: u64,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    /// The first place of the assertion: the position of the case, and the place within the case.
    first: (usize, usize),
    kept: RateCount,
    errored: u64,
    skipped: u64,
    /// By position: the first [`NAMED_FAILURES`], whatever finished first.
    failing: BTreeMap<usize, FailingCase>,
    failing_cases: u64,
    /// The case that was counted as failing last.
    latest: Option<usize>,
    failure: Option<(usize, String)>,
    obstacle: Option<(usize, String)>,
}

impl Breakdown {
    /// Keeps at most this many assertions apart: those that come first. For ids that come from judges and not from the suite.
    pub fn with_limit(most: usize) -> Self {
        Self { most: Some(most), ..Self::default() }
    }

    /// Adds what was found in the case at a position, over all its repeats, once.
    pub fn observe<'a>(
        &mut self,
        position: usize,
        case: &str,
        model: &str,
        results: impl IntoIterator<Item = &'a AssertionResult>,
    ) {
        let mut rules = Vec::new();
        results.into_iter().for_each(|it| collect(it, &mut rules));
        for (place, (id, result)) in rules.into_iter().enumerate() {
            let is_new = !self.entries.contains_key(id);
            if is_new && self.most.is_some_and(|most| self.entries.len() >= most) {
                self.left_out += 1;
                continue;
            }
            let entry = self.entries.entry(id.to_owned()).or_default();
            if is_new || (position, place) < entry.first {
                entry.first = (position, place);
            }
            entry.add(position, case, model, result);
        }
    }

    /// The number of results of assertions beyond the limit.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Every assertion, in the order in which the plan has them.
    pub fn summaries(&self) -> Vec<AssertionSummary> {
        let mut entries: Vec<(&String, &Entry)> = self.entries.iter().collect();
        entries.sort_by_key(|(_, it)| it.first);
        entries.into_iter().map(|(id, it)| it.summary(id)).collect()
    }
}

/// The results of prompt assertions, those in sets as well, each with its id.
fn collect<'a>(result: &'a AssertionResult, rules: &mut Vec<(&'a str, &'a AssertionResult)>) {
    result.parts().iter().for_each(|it| collect(it, rules));
    // A judge's verdict on an id that was not asked about is no result of a rule.
    let is_unknown = result.metadata.get("unknown") == Some(&Value::Bool(true));
    if result.assertion == PROMPT_ASSERTION && !is_unknown {
        rules.push((prompt_assertion_id(result), result));
    }
}

/// The id of a prompt assertion's result. The label may be the user's.
pub fn prompt_assertion_id(result: &AssertionResult) -> &str {
    result.metadata.get("id").and_then(Value::as_str).unwrap_or(&result.label)
}

impl Entry {
    fn add(&mut self, position: usize, case: &str, model: &str, result: &AssertionResult) {
        match &result.verdict {
            Verdict::Pass => {
                self.kept.count += 1;
                self.kept.total += 1;
            }
            Verdict::Fail { message, .. } => {
                self.kept.total += 1;
                let words = result.reasoning.as_deref().filter(|it| !it.trim().is_empty());
                keep_first(&mut self.failure, position, words.unwrap_or(message));
                self.fail(position, case, model);
            }
            Verdict::Errored { message, .. } => {
                self.errored += 1;
                keep_first(&mut self.obstacle, position, message);
            }
            Verdict::Skipped { .. } => self.skipped += 1,
        }
    }

    /// Names the case, once for all its repeats; they come together.
    fn fail(&mut self, position: usize, case: &str, model: &str) {
        if self.latest.replace(position) == Some(position) {
            return;
        }
        self.failing_cases += 1;
        let failing = FailingCase { case: case.to_owned(), model: model.to_owned() };
        self.failing.insert(position, failing);
        if self.failing.len() > NAMED_FAILURES {
            self.failing.pop_last();
        }
    }
}

impl Entry {
    fn summary(&self, id: &str) -> AssertionSummary {
        let example = self.failure.as_ref().or(self.obstacle.as_ref());
        AssertionSummary {
            id: id.to_owned(),
            kept: self.kept,
            errored: self.errored,
            skipped: self.skipped,
            failing: self.failing.values().cloned().collect(),
            failing_cases: self.failing_cases,
            example: example.map(|(_, words)| words.clone()),
        }
    }
}

/// Keeps the words of the case that the plan has first.
fn keep_first(kept: &mut Option<(usize, String)>, position: usize, words: &str) {
    if kept.as_ref().is_none_or(|(at, _)| position < *at) {
        let mut shown: String = words.chars().take(EXAMPLE).collect();
        if shown.len() < words.len() {
            shown.push('…');
        }
        *kept = Some((position, shown));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailureCode;

    const CODE: FailureCode = FailureCode::new("PROMPT_ASSERTION_FAILED");

    fn pass(id: &str) -> AssertionResult {
        AssertionResult::pass(PROMPT_ASSERTION, id)
    }

    fn fail(id: &str, why: &str) -> AssertionResult {
        AssertionResult::fail(PROMPT_ASSERTION, id, CODE, "message").with_reasoning(why)
    }

    fn errored(id: &str) -> AssertionResult {
        AssertionResult::errored(PROMPT_ASSERTION, id, CODE, "no verdict")
    }

    fn lines(breakdown: &Breakdown) -> Vec<String> {
        let line = |it: AssertionSummary| {
            let names: Vec<&str> = it.failing.iter().map(|it| it.case.as_str()).collect();
            format!(
                "{} {}/{} errored {} skipped {} in {} and {} more: {}",
                it.id,
                it.kept.count,
                it.kept.total,
                it.errored,
                it.skipped,
                names.join(" "),
                it.unnamed(),
                it.example.unwrap_or_default()
            )
        };
        breakdown.summaries().into_iter().map(line).collect()
    }

    #[test]
    fn rules_are_added_up_by_id_and_other_checks_are_not() {
        let mut breakdown = Breakdown::default();
        let set = AssertionResult {
            components: vec![fail("b", "in a set")],
            ..AssertionResult::pass(crate::ASSERT_SET, "set")
        };
        let labelled = AssertionResult { label: "mine".to_owned(), ..pass("a") };
        let unknown = errored("made up").with_metadata("unknown", true);
        let other = AssertionResult::fail("judge", "Judge: a", CODE, "low");
        let skipped = AssertionResult::skipped(PROMPT_ASSERTION, "c", "does not apply");
        let first = [labelled.with_metadata("id", "a"), set, unknown, other, skipped];
        breakdown.observe(0, "one", "m", &first);
        // Two repeats of one case are one failing case.
        breakdown.observe(1, "two", "m", &[fail("a", "first"), fail("a", "second"), errored("b")]);
        assert_eq!(
            lines(&breakdown),
            [
                "a 1/3 errored 0 skipped 0 in two and 0 more: first",
                "b 0/1 errored 1 skipped 0 in one and 0 more: in a set",
                "c 0/0 errored 0 skipped 1 in  and 0 more: ",
            ]
        );
    }

    #[test]
    fn cases_may_finish_in_any_order_and_few_are_named() {
        let cases = 3 * NAMED_FAILURES;
        let breakdown = |step: usize| {
            let mut breakdown = Breakdown::default();
            for at in (0..cases).map(|it| it * step % cases) {
                let why = format!("why {at}");
                let id = ["a", "b"][at % 2];
                breakdown.observe(at, &format!("case {at}"), "m", &[fail(id, &why), pass("z")]);
            }
            breakdown.summaries()
        };
        let expected = breakdown(1);
        assert_eq!(expected, breakdown(7));
        assert_eq!(expected[0].failing.len(), NAMED_FAILURES);
        assert_eq!(expected[0].failing[1].case, "case 2");
        assert_eq!(expected[0].unnamed(), (NAMED_FAILURES / 2) as u64);
        let order: Vec<&str> = expected.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(order, ["a", "z", "b"]);
        assert_eq!(expected[2].example.as_deref(), Some("why 1"));
    }

    #[test]
    fn an_obstacle_is_the_example_only_where_nothing_failed() {
        let mut breakdown = Breakdown::default();
        breakdown.observe(0, "one", "m", &[errored("a"), errored("b")]);
        breakdown.observe(1, "two", "m", &[fail("a", &"long ".repeat(500))]);
        let summaries = breakdown.summaries();
        let example = summaries[0].example.as_deref().unwrap();
        assert!(example.starts_with("long long") && example.ends_with('…'));
        assert_eq!(summaries[1].example.as_deref(), Some("no verdict"));
        assert!(!summaries[1].held() && summaries[1].kept.rate().is_none());
    }

    #[test]
    fn a_limit_keeps_the_first_and_counts_the_rest() {
        let mut breakdown = Breakdown::with_limit(2);
        for at in 0..5 {
            breakdown.observe(at, "case", "m", &[pass(&format!("id {at}")), pass("id 0")]);
        }
        assert_eq!(lines(&breakdown).len(), 2);
        assert_eq!(breakdown.left_out(), 3);
    }
}
