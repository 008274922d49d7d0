//! The totals of each prompt assertion: its violations, and the violating cases.

use std::collections::BTreeMap;

use crate::{AssertionResult, MeasuredRate, RateSum, Verdict};

/// The id of the assertion that judges the rules of a prompt. Each rule has its own result.
pub const PROMPT_ASSERTION: &str = "prompt-assertion";

/// The maximum number of failing cases that are named for each prompt assertion.
///
/// Further failing cases are only counted.
pub const NAMED_FAILURES: usize = 20;

/// The maximum length of a stored example, in characters.
const EXAMPLE: usize = 500;

/// The totals of one prompt assertion.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AssertionSummary {
    /// The assertion's id.
    pub id: String,
    /// The number of passes, out of passes and failures.
    pub kept: MeasuredRate,
    /// The number of results without a verdict of the judge.
    pub errored: u64,
    /// The number of results in which the rule did not apply.
    pub skipped: u64,
    /// The first cases that violated the rule, in the order of the plan; at most [`NAMED_FAILURES`].
    pub failing: Vec<FailingCase>,
    /// The number of cases that violated the rule.
    pub failing_cases: u64,
    /// The reason or the message of the first violation. Without violations, the message of the first missing verdict.
    /// `None` if there is neither a violation nor a missing verdict.
    pub example: Option<String>,
}

impl AssertionSummary {
    /// Returns the number of violating cases that are not named.
    pub fn unnamed(&self) -> u64 {
        self.failing_cases.saturating_sub(self.failing.len() as u64)
    }

    /// Returns true if the rule was never violated and no verdict is missing.
    pub fn held(&self) -> bool {
        self.kept.count == self.kept.total && self.errored == 0
    }
}

/// A case that violates a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailingCase {
    /// The test case's name.
    pub case: String,
    /// The model's id.
    pub model: String,
}

/// Counts of the results of prompt assertions, by id.
///
/// Cases may be added in any order. The memory use depends on the numbers of assertions and of named clusters.
#[derive(Clone, Debug, Default)]
pub struct Breakdown {
    entries: BTreeMap<String, Entry>,
    most: Option<usize>,
    left_out: u64,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    /// The first appearance: the position of the case, and the index within the case.
    first: (usize, usize),
    kept: RateSum,
    errored: u64,
    skipped: u64,
    /// The first [`NAMED_FAILURES`] cases by position.
    ///
    /// The order in which cases finish does not matter.
    failing: BTreeMap<usize, FailingCase>,
    failing_cases: u64,
    /// The position of the case that was last counted as failing; `None` if no case was.
    latest: Option<usize>,
    failure: Option<(usize, String)>,
    obstacle: Option<(usize, String)>,
}

impl Breakdown {
    /// Creates a breakdown that counts at most `most` ids, because judges can invent ids.
    pub fn with_limit(most: usize) -> Self {
        Self { most: Some(most), ..Self::default() }
    }

    /// Adds the results of all repeats of the case at a position of the plan. Must be called once for each case.
    ///
    /// `cluster` is the case's cluster, or `None` if no other case belongs to it.
    pub fn observe<'a>(
        &mut self,
        position: usize,
        cluster: Option<&str>,
        (case, model): (&str, &str),
        results: impl IntoIterator<Item = &'a AssertionResult>,
    ) {
        let mut rules = Vec::new();
        results.into_iter().for_each(|it| collect(it, &mut rules));
        let mut judged: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
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
            let (passed, all) = judged.entry(id).or_default();
            *passed += u64::from(result.verdict == Verdict::Pass);
            *all += u64::from(matches!(result.verdict, Verdict::Pass | Verdict::Fail { .. }));
        }
        for (id, (passed, all)) in judged {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.kept.add(cluster, passed, all);
            }
        }
    }

    /// Returns the number of results without an entry, because the number of ids has reached its limit.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the totals of all assertions, in the order of the plan.
    pub fn summaries(&self) -> Vec<AssertionSummary> {
        let mut entries: Vec<(&String, &Entry)> = self.entries.iter().collect();
        entries.sort_by_key(|(_, it)| it.first);
        entries.into_iter().map(|(id, it)| it.summary(id)).collect()
    }
}

/// Collects the results of prompt assertions with their ids, including results inside sets.
fn collect<'a>(result: &'a AssertionResult, rules: &mut Vec<(&'a str, &'a AssertionResult)>) {
    result.parts().iter().for_each(|it| collect(it, rules));
    if result.assertion == PROMPT_ASSERTION {
        rules.push((prompt_assertion_id(result), result));
    }
}

/// Returns the rule's id of a prompt assertion's result, or else the label of the result.
///
/// The label alone does not identify the assertion, because the user may define the label.
pub fn prompt_assertion_id(result: &AssertionResult) -> &str {
    result.rule_id().unwrap_or(&result.label)
}

impl Entry {
    fn add(&mut self, position: usize, case: &str, model: &str, result: &AssertionResult) {
        match &result.verdict {
            Verdict::Pass => {}
            Verdict::Fail { message, .. } => {
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

    /// Counts the case as failing. The repeats of a case are added consecutively, and count once.
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
            kept: self.kept.rate(),
            errored: self.errored,
            skipped: self.skipped,
            failing: self.failing.values().cloned().collect(),
            failing_cases: self.failing_cases,
            example: example.map(|(_, words)| words.clone()),
        }
    }
}

/// Replaces the stored text if this case comes earlier in the plan. Long texts are cut.
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
            set: Some(crate::SetRule { checks: 1, ..crate::SetRule::default() }),
            ..AssertionResult::pass(crate::ASSERT_SET, "set")
        };
        let labelled = AssertionResult { label: "mine".to_owned(), ..pass("a") };
        let other = AssertionResult::fail("judge", "Judge: a", CODE, "low");
        let skipped = AssertionResult::skipped(PROMPT_ASSERTION, "c", "does not apply");
        let first = [labelled.with_rule_id("a"), set, other, skipped];
        breakdown.observe(0, None, ("one", "m"), &first);
        // Two failing repeats of one case are one failing case.
        breakdown.observe(
            1,
            None,
            ("two", "m"),
            &[fail("a", "first"), fail("a", "second"), errored("b")],
        );
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
                breakdown.observe(
                    at,
                    None,
                    (&format!("case {at}"), "m"),
                    &[fail(id, &why), pass("z")],
                );
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
        breakdown.observe(0, None, ("one", "m"), &[errored("a"), errored("b")]);
        breakdown.observe(1, None, ("two", "m"), &[fail("a", &"long ".repeat(500))]);
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
            breakdown.observe(at, None, ("case", "m"), &[pass(&format!("id {at}")), pass("id 0")]);
        }
        assert_eq!(lines(&breakdown).len(), 2);
        assert_eq!(breakdown.left_out(), 3);
    }
}
