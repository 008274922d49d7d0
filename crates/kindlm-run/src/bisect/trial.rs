//! Tries a version of a suite: repeats one case until a sequential test has decided.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use kindlm_engine::gates::dollars;
use kindlm_engine::{CaseKind, RunOptions, Suite, Until, plan};
use kindlm_stats::{Decision, Sprt};
use kindlm_store::Digest;
use kindlm_types::{AnyReport, CaseResult, ExecutionError, ExitStatus};
use kindlm_wire::bisect::{DecisionTest, Step, StepVerdict};

use super::search::Verdict;
use crate::{Failure, Prepared, Progress, Project, RunConfig, Selection, World, resume};

/// The kinds of providers that run a program. The suite's digest does not cover this program.
const PROGRAMS: [&str; 3] = ["command", "mcp", "script"];

/// The `reason` of a step that the user interrupted.
const INTERRUPTED: &str = "the user interrupted it";

/// The case to try, on one model.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) case: String,
    pub(super) model: String,
}

/// The test of each try, and the limit of executions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) test: Sprt,
    /// The highest probability that one decision is wrong.
    pub(super) error: f64,
    pub(super) max_repeats: u32,
    pub(super) max_executions: Option<u64>,
    /// The budget of all tries together, in US dollars; `None` for no limit.
    pub(super) budget_usd: Option<f64>,
    pub(super) allow_unpriced: bool,
}

impl Rule {
    pub(super) fn described(&self) -> DecisionTest {
        DecisionTest {
            pass: self.test.pass(),
            fail: self.test.fail(),
            error: self.error,
            max_repeats: self.max_repeats,
        }
    }
}

/// The tries so far.
pub(super) struct Trials<'a> {
    world: &'a World,
    target: Target,
    rule: Rule,
    /// The results of tries, by the digest of everything that the case depends on.
    known: HashMap<Digest, Step>,
    /// The tries, in their order.
    pub(super) steps: Vec<Step>,
    /// The number of executions of all tries.
    pub(super) executions: u64,
    /// The known cost of the executions and their judges, in US dollars.
    spent_usd: f64,
    /// The number of decisions that needed executions.
    pub(super) decisions: u64,
    /// True if a provider error prevented a decision.
    pub(super) has_provider_error: bool,
    /// True if the user interrupted a try.
    pub(super) is_interrupted: bool,
}

/// The executions of one try.
#[derive(Default)]
struct Executed {
    case: Option<CaseResult>,
    is_interrupted: bool,
    /// The known cost, in US dollars.
    usd: f64,
}

impl<'a> Trials<'a> {
    pub(super) fn new(world: &'a World, target: Target, rule: Rule) -> Self {
        Self {
            world,
            target,
            rule,
            known: HashMap::new(),
            steps: Vec::new(),
            executions: 0,
            spent_usd: 0.0,
            decisions: 0,
            has_provider_error: false,
            is_interrupted: false,
        }
    }

    /// Returns an upper bound of the probability that any decision is wrong: the sum over all decisions, at most 1.
    #[expect(clippy::cast_precision_loss, reason = "counts of decisions stay far below 2^52")]
    pub(super) fn error_bound(&self) -> f64 {
        (self.decisions as f64 * self.rule.error).min(1.0)
    }

    /// Tries a version of the suite, and adds the step. A version that cannot be loaded is skipped.
    ///
    /// The result of an earlier try with an equal digest is reused. If the case may run a program, the result is only
    /// reused with `is_same_tree`. This flag is true if only the suite differs between the tries, and no other file.
    pub(super) fn attempt(
        &mut self,
        tried: String,
        project: Result<Project, Failure>,
        is_same_tree: bool,
    ) -> Result<Verdict, Failure> {
        let mut step = self.step(project, is_same_tree)?;
        step.tried = tried;
        let verdict = match step.verdict {
            StepVerdict::Good => Verdict::Good,
            StepVerdict::Bad => Verdict::Bad,
            StepVerdict::Skipped => Verdict::Skip,
            StepVerdict::Stopped => Verdict::Stop,
        };
        self.executions += step.executions;
        let is_decided = matches!(verdict, Verdict::Good | Verdict::Bad);
        self.decisions += u64::from(is_decided && !step.reused);
        self.world.notify(&kindlm_reporters::bisect_step(&step));
        self.steps.push(step);
        Ok(verdict)
    }

    fn step(
        &mut self,
        project: Result<Project, Failure>,
        is_same_tree: bool,
    ) -> Result<Step, Failure> {
        let chosen = project.and_then(|it| choose(it, &self.target));
        let mut project = match chosen {
            Ok(project) => project,
            Err(failure) => return Ok(skipped(reason(&failure))),
        };
        let digest = digest(&project, &self.target)
            .filter(|_| is_same_tree || !runs_programs(&project.suite, &self.target));
        if let Some(known) = digest.and_then(|it| self.known.get(&it)) {
            let mut step = known.clone();
            (step.executions, step.reused) = (0, true);
            return Ok(step);
        }
        let left = self.rule.max_executions.map(|it| it.saturating_sub(self.executions));
        let max = left.map_or(self.rule.max_repeats, |it| {
            u32::try_from(it).unwrap_or(u32::MAX).min(self.rule.max_repeats)
        });
        let limit = "the maximum number of executions is reached";
        if max == 0 {
            return Ok(stopped(limit));
        }
        if self.is_interrupted {
            return Ok(stopped(INTERRUPTED));
        }
        for case in &mut project.suite.cases {
            (case.repeat, case.until) = (max, Some(Until::Decided(self.rule.test)));
        }
        let executed = self.execute(project)?;
        self.is_interrupted |= executed.is_interrupted;
        self.spent_usd += executed.usd;
        let Some(case) = executed.case else {
            return Ok(skipped("the case was not run".to_owned()));
        };
        let mut step = self.judge(&case, executed.is_interrupted);
        if step.verdict == StepVerdict::Skipped && max < self.rule.max_repeats {
            (step.verdict, step.reason) = (StepVerdict::Stopped, Some(limit.to_owned()));
        }
        if let Some(digest) = digest.filter(|_| step.verdict != StepVerdict::Stopped) {
            self.known.insert(digest, step.clone());
        }
        Ok(step)
    }

    /// Runs the case. The run and its report are not stored.
    fn execute(&self, project: Project) -> Result<Executed, Failure> {
        let config = RunConfig {
            select: Selection { models: vec![self.target.model.clone()], ..Selection::default() },
            options: RunOptions {
                budget_usd: self.rule.budget_usd.map(|it| (it - self.spent_usd).max(0.0)),
                ..RunOptions::default()
            },
            allow_unpriced: self.rule.allow_unpriced,
            no_journal: true,
            no_report: true,
            quiet: true,
            ..RunConfig::default()
        };
        let mut executed = Executed::default();
        let Some(prepared) = Prepared::new(self.world, project, config, None)? else {
            return Ok(executed);
        };
        let mut failed = None;
        let mut take = |report: &AnyReport<'_>| {
            executed.is_interrupted = report.run.interrupted;
            let totals = report.totals();
            executed.usd = totals.cost.known_usd + totals.judge_cost.known_usd;
            match report.each().next() {
                Some(Ok(case)) => executed.case = Some(case.into_owned()),
                Some(Err(err)) => failed = Some(Failure::internal(err.to_string())),
                None => {}
            }
            Ok(())
        };
        let lost_usd = Mutex::new(0.0);
        let progress = Box::new(Notices { world: self.world, lost_usd: &lost_usd });
        // Ignore the exit status, because the results of the case decide the verdict of the try.
        let _: ExitStatus = prepared.run(self.world, progress, &mut take)?;
        executed.usd += lost_usd.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(executed), Err)
    }

    fn judge(&mut self, case: &CaseResult, is_interrupted: bool) -> Step {
        let counts = case.repeat_counts();
        let (passed, failed) = (u64::from(counts.held()), u64::from(counts.failed));
        let decision = case.early_end.and_then(|it| it.decision);
        let errors = || case.executions.iter().filter_map(|it| it.error.as_ref());
        let (verdict, reason) = match decision {
            Some(Decision::Pass) => (StepVerdict::Good, None),
            Some(Decision::Fail) => (StepVerdict::Bad, None),
            None if is_interrupted => (StepVerdict::Stopped, Some(INTERRUPTED.to_owned())),
            None if self.rule.budget_usd.is_some() && errors().any(is_not_run) => {
                let budget = self.rule.budget_usd.unwrap_or_default();
                let reason = format!(
                    "the rest of the budget of {} is too low for another request",
                    dollars(budget)
                );
                (StepVerdict::Stopped, Some(reason))
            }
            None => {
                self.has_provider_error |=
                    errors().any(|it| matches!(it, ExecutionError::Provider(_)));
                let reason = match (errors().next(), counts.errored) {
                    (Some(err), errored) => format!("{errored} errored: {}", err.message()),
                    (None, 0) => "undecided".to_owned(),
                    (None, errored) => format!("undecided, with {errored} errored repeats"),
                };
                (StepVerdict::Skipped, Some(reason))
            }
        };
        let mut step = Step::new("", verdict);
        step.reason = reason;
        (step.passed, step.judged) = (passed, passed + failed);
        step.executions = u64::from(counts.executed());
        step
    }
}

/// Shows the notices of a run, and no progress. Adds up the cost of answers that are not in the report.
pub(super) struct Notices<'a> {
    pub(super) world: &'a World,
    pub(super) lost_usd: &'a Mutex<f64>,
}

impl Progress for Notices<'_> {
    fn on(&self, event: crate::RunProgress<'_>) {
        if let crate::RunProgress::AnswersLost { usd, .. } = event {
            *self.lost_usd.lock().unwrap_or_else(PoisonError::into_inner) += usd;
        }
    }

    fn show_notice(&self, text: &str) {
        self.world.notify(text);
    }
}

fn is_not_run(err: &ExecutionError) -> bool {
    matches!(err, ExecutionError::NotRun { .. })
}

fn stopped(reason: &str) -> Step {
    let mut step = skipped(reason.to_owned());
    step.verdict = StepVerdict::Stopped;
    step
}

fn skipped(reason: String) -> Step {
    let mut step = Step::new("", StepVerdict::Skipped);
    step.reason = Some(reason);
    step
}

/// Returns the first line of a failure's message, or a general reason without a message.
pub(super) fn reason(failure: &Failure) -> String {
    let message = failure.message.as_deref().unwrap_or("it cannot be loaded");
    message.lines().next().unwrap_or_default().to_owned()
}

/// Keeps only the case in the suite, and removes gates, canaries, reports, hooks and the compliance document.
///
/// Fails if the suite has no such case, or if the case is skipped or does not run on the model.
fn choose(mut project: Project, target: &Target) -> Result<Project, Failure> {
    let suite = &mut project.suite;
    suite.cases.retain(|it| it.name == target.case);
    let case = suite.cases.first();
    let case = case.ok_or_else(|| Failure::input(format!("there is no case `{}`", target.case)))?;
    if let Some(reason) = &case.skip {
        return Err(Failure::input(format!("the case is skipped: {reason}")));
    }
    let has_model = match case.kind.alone() {
        Some(alone) => alone == target.model,
        None => case.models.contains(&target.model),
    };
    if !has_model {
        let Target { case, model } = target;
        return Err(Failure::input(format!("the case `{case}` does not run on `{model}`")));
    }
    suite.gates.clear();
    suite.canaries = 0;
    suite.compliance = None;
    suite.reports.clear();
    suite.hooks.clear();
    Ok(project)
}

/// Returns the digest of everything that the case depends on; `None` if it cannot be computed.
pub(super) fn digest(project: &Project, target: &Target) -> Option<Digest> {
    let mut options = RunOptions::default();
    options.filter.models.push(target.model.clone());
    let plan = plan(&project.suite, &options).ok()?;
    resume::case_digest(&project.suite, &project.files, &plan).ok()
}

/// Returns the digest of the case in a suite; `None` if the suite cannot be loaded or [`choose`] fails.
pub(super) fn digest_of(project: Result<Project, Failure>, target: &Target) -> Option<Digest> {
    digest(&choose(project.ok()?, target).ok()?, target)
}

/// Returns true if the case may run a program, whose files can differ although the digest is equal.
fn runs_programs(suite: &Suite, target: &Target) -> bool {
    let is_prompt = suite.cases.iter().all(|it| it.kind == CaseKind::Prompt);
    let Some(model) = suite.models.iter().find(|it| it.id == target.model) else { return true };
    if !is_prompt || model.agent.is_some() {
        return true;
    }
    let Some(config) = suite.providers.get(&model.provider) else { return true };
    let known = kindlm_providers::built_in();
    let registration = kindlm_providers::configured(&known, &model.provider, config);
    let is_program = registration.is_none_or(|(it, _)| PROGRAMS.contains(&it.meta.id));
    is_program || kindlm_providers::runs_scripts(&model.provider, config)
}
