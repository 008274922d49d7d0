//! The cases of past runs, with their repeats and costs.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use kindlm_stats::{PilotCase, Tally};
use kindlm_types::{CaseResult, ExecutionResult};

use crate::compare::LAST;
use crate::saved::{self, Saved};
use crate::suites::SuiteKey;
use crate::{Failure, SuiteFolder, World};

/// The cases of one or more runs of a suite.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// The ids of the runs, newest first.
    pub(super) runs: Vec<String>,
    /// The name of the suite.
    pub(super) suite: String,
    cases: IndexMap<(String, String), PastCase>,
    /// The cases whose variables or checks in an older run differ from the newest run.
    changed: BTreeSet<(String, String)>,
    /// The cases whose prompt, command or transcript in an older run differs from the newest run.
    other_prompts: BTreeSet<(String, String)>,
    has_early_ends: bool,
    has_stored_answers: bool,
    /// The number of stored answers that do not count, because several runs may use the same stored answer.
    repeated_answers: u64,
}

/// A test case on one model.
#[derive(Debug)]
struct PastCase {
    cluster: String,
    /// The digest of the case without its prompt; the digest of the whole case if the report has no other digest;
    /// `None` if the report has no digest.
    digest: Option<String>,
    /// The digest of the whole case in the newest run, with the prompt; `None` if it was not recorded.
    whole_digest: Option<String>,
    passed: u64,
    judged: u64,
    /// The sum of the known costs, in US dollars.
    usd: f64,
    /// The number of executions whose cost is known.
    priced: u64,
    /// The number of executions whose cost is unknown.
    unpriced: u64,
}

/// The cost of one call.
#[derive(Debug)]
pub(super) enum Costs {
    /// The mean cost in US dollars.
    Known(f64),
    /// The reason why the cost is unknown.
    Unknown(String),
}

impl Past {
    /// Reads the runs; without names, the newest run.
    pub(super) fn load(
        world: &World,
        place: &SuiteFolder,
        of: Option<&SuiteKey>,
        names: &[String],
    ) -> Result<Self, Failure> {
        let find = |name: &str| saved::find(world, place, Some(name).filter(|it| *it != LAST), of);
        let mut runs = Vec::new();
        for name in names {
            runs.push(find(name)?);
        }
        if runs.is_empty() {
            runs.push(find(LAST)?);
        }
        runs.sort_by(|one, other| other.report.run.started_at.cmp(&one.report.run.started_at));
        let mut past = Self::default();
        for run in &runs {
            past.add(run, runs.len() > 1)?;
        }
        Ok(past)
    }

    /// Adds a run. `is_one_of_several` is true if other runs may have the same stored answers.
    fn add(&mut self, run: &Saved, is_one_of_several: bool) -> Result<(), Failure> {
        let (report, name) = (&run.report, &run.name);
        if self.runs.contains(&report.run.id) {
            return Err(Failure::input(format!(
                "the run `{}` is named more than once",
                report.run.id
            )));
        }
        if self.runs.is_empty() {
            self.suite.clone_from(&report.suite.name);
        } else if self.suite != report.suite.name {
            return Err(Failure::input(format!(
                "{name} is of the suite `{}`, and the newest run is of `{}`",
                report.suite.name, self.suite
            ))
            .with_help("name runs of one suite"));
        }
        let is_newest = self.runs.is_empty();
        self.runs.push(report.run.id.clone());
        for case in report.each() {
            let mut case =
                case.map_err(|err| Failure::input(format!("cannot read {name}: {err}")))?;
            if is_one_of_several && case.cached_repeats() > 0 {
                self.repeated_answers += u64::from(case.cached_repeats());
                case.to_mut().executions.retain(|it| !it.execution.spend.cached);
            }
            if case.repeats > 0 {
                self.add_case(&case, is_newest);
            }
        }
        Ok(())
    }

    fn add_case(&mut self, case: &CaseResult, is_newest: bool) {
        let key = (case.case.clone(), case.model.clone());
        let digest = case.task_digest.clone().or_else(|| case.digest.clone());
        // The newest run decides which cases the suite has.
        if !is_newest && self.cases.get(&key).is_none_or(|it| it.digest != digest) {
            self.changed.insert(key);
            return;
        }
        if self.cases.get(&key).is_some_and(|it| it.whole_digest != case.digest) {
            self.other_prompts.insert(key.clone());
        }
        self.has_early_ends |= case.early_end.is_some();
        let past = self.cases.entry(key).or_insert_with(|| PastCase {
            cluster: case.cluster_name().to_owned(),
            digest,
            whole_digest: case.digest.clone(),
            passed: 0,
            judged: 0,
            usd: 0.0,
            priced: 0,
            unpriced: 0,
        });
        if let Some(tally) = case.judged() {
            past.passed += tally.passed();
            past.judged += tally.total();
        }
        for it in case.executions.iter().filter(|it| it.error.is_none()) {
            self.has_stored_answers |= it.execution.spend.cached;
            match cost(it) {
                Some(usd) => {
                    past.usd += usd;
                    past.priced += 1;
                }
                None => past.unpriced += 1,
            }
        }
    }

    fn judged_cases(&self) -> impl Iterator<Item = (&PastCase, Tally)> {
        let tally = |it: &PastCase| Tally::new(it.passed, it.judged).ok();
        self.cases.values().filter_map(move |it| Some((it, tally(it)?)))
    }

    /// Returns the cases with a judged repeat.
    pub(super) fn cases(&self) -> Vec<PilotCase<'_>> {
        self.judged_cases().map(|(case, passed)| PilotCase::new(&case.cluster, passed)).collect()
    }

    /// Returns the number of judged repeats.
    pub(super) fn judged(&self) -> u64 {
        self.cases.values().map(|it| it.judged).sum()
    }

    /// Returns the mean pass rate of the cases, from 0 to 1; 0 without cases.
    pub(super) fn rate(&self) -> f64 {
        let (sum, cases) = self
            .judged_cases()
            .fold((0.0, 0.0), |(sum, cases), (_, passed)| (sum + passed.rate(), cases + 1.0));
        if cases > 0.0 { sum / cases } else { 0.0 }
    }

    /// Returns the failure for runs without a judged repeat.
    pub(super) fn nothing(&self) -> Failure {
        let runs = self.runs.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
        Failure::input(format!("no repeat was judged in the run {runs}"))
            .with_help("name a run whose cases passed or failed")
    }

    /// Returns the mean cost of an execution, in which each case has the same weight.
    ///
    /// The result is [`Costs::Unknown`] if the cost of any execution is unknown: a mean of the other executions could
    /// be too low or too high. The cost is also unknown without executions.
    pub(super) fn costs(&self) -> Costs {
        let (mut sum, mut cases, mut unpriced, mut all) = (0.0, 0.0, 0, 0);
        for it in self.cases.values() {
            unpriced += it.unpriced;
            all += it.unpriced + it.priced;
            if it.priced > 0 {
                #[expect(clippy::cast_precision_loss, reason = "a few repeats")]
                let priced = it.priced as f64;
                sum += it.usd / priced;
                cases += 1.0;
            }
        }
        if unpriced > 0 {
            return Costs::Unknown(format!(
                "the cost of {unpriced} of {all} executions is not recorded; set `models[].price`, or let the agent report its \
                 cost"
            ));
        }
        if all == 0 {
            return Costs::Unknown("no execution has a recorded cost".to_owned());
        }
        Costs::Known(sum / cases)
    }

    /// Returns the remarks about cases that count in part or not at all.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let unjudged = self.cases.values().filter(|it| it.judged == 0).count();
        if unjudged > 0 {
            notes.push(format!("left out because no repeat was judged: {}", cases(unjudged)));
        }
        if !self.changed.is_empty() {
            notes.push(format!(
                "left out of older runs because the newest run has no such case, or other variables or checks: {}",
                cases(self.changed.len())
            ));
        }
        if !self.other_prompts.is_empty() {
            notes.push(format!(
                "older runs tested another prompt, command or transcript in {}; their repeats count, too",
                cases(self.other_prompts.len())
            ));
        }
        if self.has_early_ends {
            notes.push("repeats that end early need fewer calls than the table says".to_owned());
        }
        if self.repeated_answers > 0 {
            notes.push(format!(
                "left out because other runs may have the same answers from the response store: {} repeat{}",
                self.repeated_answers,
                if self.repeated_answers == 1 { "" } else { "s" }
            ));
        }
        if self.has_stored_answers {
            notes.push(
                "stored answers count with their recorded cost; judges' stored answers count as free"
                    .to_owned(),
            );
        }
        notes
    }
}

fn cases(count: usize) -> String {
    format!("{count} case{}", if count == 1 { "" } else { "s" })
}

/// Returns the cost of an execution and its judges in US dollars, as if no answer came from the response store. Returns
/// `None` if the cost is unknown.
fn cost(it: &ExecutionResult) -> Option<f64> {
    Some(it.execution.spend.cost_usd? + it.judge_cost_usd?)
}
