//! Finds the commit, or the changes of a suite, that made a case fail.

mod changes;
mod commits;
mod repository;
mod search;
mod trial;
mod units;

use kindlm_engine::gates::dollars;
use kindlm_engine::{Pattern, RunOptions, Suite, TestCase, Until, budget_usd};
use kindlm_reporters::bisect_text;
use kindlm_stats::{Decision, Sprt};
use kindlm_types::ExitStatus;
use kindlm_wire::bisect::{Answer, Bisection, Candidate, CandidateKind};

use self::search::Verdict;
use self::trial::{Rule, Target, Trials};
use crate::reports::json_text;
use crate::{Failure, OpenOptions, World};

/// The highest probability that a try is still undecided after `max_repeats` executions.
///
/// The probability holds for a case whose true pass rate is the good or the bad rate.
const UNDECIDED: f64 = 0.05;
/// The highest number of repeats of a try.
const MOST_REPEATS: u32 = 10_000;
/// The default good and bad pass rates, if neither the user nor the suite sets them.
const RATES: (f64, f64) = (0.95, 0.5);

/// The two versions between which the case began to fail.
#[derive(Clone, Debug)]
pub enum Range {
    /// Two commits, as the user names them.
    Commits {
        /// A commit in which the case passes.
        good: String,
        /// A later commit in which the case fails.
        bad: String,
    },
    /// The changes from an older version of the suite's file to the present version.
    Changes {
        /// The older version: a file, or a commit.
        from: String,
    },
}

/// The settings of the search.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BisectConfig {
    /// The test case: its name, a part of the name, a glob, or `/a regular expression/`.
    pub case: String,
    /// The id of the model. `None` selects the only model of the case, and fails if the case has several models.
    pub model: Option<String>,
    /// The two versions.
    pub range: Range,
    /// The pass rate that is good, above 0 and below 1. The default is `pass` in the case's repeat rule `decided`, or
    /// 0.95 without that rule.
    pub pass: Option<f64>,
    /// The pass rate that is bad, above 0 and below `pass`. The default is `fail` in the case's repeat rule `decided`,
    /// or 0.5 without that rule.
    pub fail: Option<f64>,
    /// The highest probability that the answer is wrong, above 0 and below 0.5.
    pub error: f64,
    /// The maximum number of executions; `None` for no limit.
    pub max_executions: Option<u64>,
    /// The budget of all tries together in US dollars. The lower of this budget and the suite's `costMaxUsd` applies.
    /// With neither of them, there is no limit.
    pub budget_usd: Option<f64>,
    /// True if a search with a budget may start although a price is unknown.
    pub allow_unpriced: bool,
}

impl BisectConfig {
    /// Creates the settings for a test case and two versions, with the highest probability of a wrong answer.
    ///
    /// The search has no limits, and the pass rates are those of the case.
    pub fn new(case: impl Into<String>, range: Range, error: f64) -> Self {
        Self {
            case: case.into(),
            model: None,
            range,
            pass: None,
            fail: None,
            error,
            max_executions: None,
            budget_usd: None,
            allow_unpriced: false,
        }
    }
}

/// A search that is ready to start.
pub struct PreparedBisection<'a> {
    world: &'a World,
    suite: String,
    target: Target,
    rule: Rule,
    /// The expected number of decisions. The error probability is divided equally between the decisions.
    decisions: u32,
    search: Search,
}

/// The candidates of a search.
enum Search {
    Commits(commits::Commits),
    Changes(changes::SuiteChanges),
}

/// The answer of a search, without the counts of its tries.
struct Found {
    answer: Answer,
    is_stopped: bool,
}

impl<'a> PreparedBisection<'a> {
    /// Prepares the search. Nothing is sent.
    ///
    /// # Errors
    ///
    /// Fails if:
    ///
    /// - the suite is in no git repository, and the versions are commits;
    /// - a version does not exist or cannot be parsed, or the good commit is not before the bad commit;
    /// - the files of the bad commit cannot be written;
    /// - the suite of the bad version cannot be loaded;
    /// - `config` does not select exactly one case and one model;
    /// - the case compares outputs with each other, or has a history;
    /// - the older and the present version of the suite are equal, or no change affects the case;
    /// - a rate or the error is invalid, or the rates are too close.
    pub fn new(
        world: &'a World,
        options: &OpenOptions,
        config: &BisectConfig,
    ) -> Result<Self, Failure> {
        let (project, source) = match &config.range {
            Range::Commits { good, bad } => {
                let (commits, project) = commits::Commits::open(world, options, good, bad)?;
                (project, Search::Commits(commits))
            }
            Range::Changes { from } => {
                let (changes, project) = changes::SuiteChanges::open(world, options, from)?;
                (project, Search::Changes(changes))
            }
        };
        let case = find_case(&project.suite, &config.case)?;
        let target = Target { case: case.name.clone(), model: find_model(case, config)? };
        let search = match source {
            Search::Changes(changes) => Search::Changes(changes.relevant(world, &target)?),
            commits @ Search::Commits(_) => commits,
        };
        let decisions = search.decisions();
        let options = RunOptions { budget_usd: config.budget_usd, ..RunOptions::default() };
        let budget_usd = budget_usd(&project.suite, &options);
        let rule = Rule { budget_usd, ..rule(case, config, decisions)? };
        let suite = project.suite.info.name.clone();
        Ok(Self { world, suite, target, rule, decisions, search })
    }

    /// Describes the candidates, the statistical test, and the expected number of executions.
    pub fn describe(&self) -> String {
        use std::fmt::Write as _;
        let candidates = self.search.candidates();
        let (count, decisions) = (candidates.len(), self.decisions);
        let Rule { test, max_repeats, .. } = self.rule;
        let what = match (self.search.kind(), count) {
            (CandidateKind::Commits, 1) => "commit",
            (CandidateKind::Commits, _) => "commits",
            (CandidateKind::Changes, 1) => "change",
            (CandidateKind::Changes, _) => "changes",
        };
        let Target { case, model } = &self.target;
        let mut text = format!("{case} · {model}: {count} {what}\n");
        for it in &candidates {
            let _ = writeln!(text, "  {}", kindlm_reporters::bisect_candidate(it));
        }
        let least = |decision, passes: bool| {
            let decides = |it: &u64| {
                let (passed, failed) = if passes { (*it, 0) } else { (0, *it) };
                test.decide(passed, failed) == Some(decision)
            };
            (1..=u64::from(max_repeats)).find(decides).unwrap_or(max_repeats.into())
        };
        let (good, bad) = (least(Decision::Pass, true), least(Decision::Fail, false));
        let most = u64::from(max_repeats) * u64::from(decisions);
        let _ = write!(
            text,
            "\nabout {decisions} decisions; each needs {good} repeats if all pass, {bad} if all fail, and at most {max_repeats}\n\
             usually at most {} executions, and up to {most} if the case is flaky; `--max-executions` sets a limit\n",
            good.max(bad) * u64::from(decisions),
        );
        if let Some(usd) = self.rule.budget_usd {
            let _ = writeln!(text, "the budget of all executions together is {}", dollars(usd));
        }
        text
    }

    /// Searches, and sends a notice after each step.
    ///
    /// The exit status is 0 if the commit or the changes were found. Otherwise it is 130 if the user interrupted the
    /// search, 3 if a provider error prevented a decision, and 1 in all other cases.
    ///
    /// # Errors
    ///
    /// Fails if the case cannot be run, for example because a key is missing. Also fails if the files of a commit
    /// cannot be written.
    pub fn run(self) -> Result<(Bisection, ExitStatus), Failure> {
        let Self { world, suite, target, rule, search, .. } = self;
        let mut trials = Trials::new(world, target.clone(), rule);
        let found = match &search {
            Search::Commits(commits) => commits.search(world, &mut trials)?,
            Search::Changes(changes) => changes.search(world, &mut trials)?,
        };
        let is_found = matches!(found.answer, Answer::Found { .. });
        let status = match (is_found, found.is_stopped && trials.is_interrupted) {
            (true, _) => ExitStatus::Success,
            (false, true) => ExitStatus::Interrupted,
            (false, false) if trials.has_provider_error => ExitStatus::ProviderError,
            (false, false) => ExitStatus::GatesFailed,
        };
        let report = Bisection {
            schema_version: kindlm_wire::bisect::VERSION,
            suite,
            case: target.case,
            model: target.model,
            kind: search.kind(),
            candidates: search.candidates(),
            test: rule.described(),
            error_bound: trials.error_bound(),
            executions: trials.executions,
            steps: trials.steps,
            answer: found.answer,
        };
        Ok((report, status))
    }
}

impl Search {
    fn kind(&self) -> CandidateKind {
        match self {
            Self::Commits(_) => CandidateKind::Commits,
            Self::Changes(_) => CandidateKind::Changes,
        }
    }

    fn candidates(&self) -> Vec<Candidate> {
        match self {
            Self::Commits(commits) => commits.candidates(),
            Self::Changes(changes) => changes.candidates(),
        }
    }

    /// Returns the usual number of decisions: one for each end of the range, and one or two for each halving.
    fn decisions(&self) -> u32 {
        let count = self.candidates().len().max(1);
        let halvings = count.next_power_of_two().ilog2();
        match self {
            Self::Commits(_) => 2 + halvings,
            Self::Changes(_) => 2 + 2 * halvings,
        }
    }
}

/// Returns the result as text for a terminal, or as a JSON object.
///
/// The text has the steps only with `shows_steps`, because a terminal already shows them as notices.
///
/// # Errors
///
/// Fails if the object cannot be written.
pub fn render(report: &Bisection, as_json: bool, shows_steps: bool) -> Result<String, Failure> {
    if as_json { json_text(report) } else { Ok(bisect_text(report, shows_steps)) }
}

/// Ends the search if an end of the range does not have the `expected` verdict.
///
/// Returns `None` if the verdict is as expected, so the search goes on.
fn end(trials: &Trials<'_>, verdict: Verdict, expected: Verdict) -> Option<Found> {
    let (end, verb) = match expected {
        Verdict::Bad => ("bad", "fail"),
        _ => ("good", "pass"),
    };
    let reason = match verdict {
        it if it == expected => return None,
        Verdict::Stop => format!("{}, before the {end} end was decided", stop_reason(trials)),
        Verdict::Skip => format!("the {end} end is undecided"),
        Verdict::Good | Verdict::Bad => format!("the case does not {verb} at the {end} end"),
    };
    let is_stopped = verdict == Verdict::Stop;
    Some(Found { answer: Answer::NotReproduced { reason }, is_stopped })
}

/// Returns the reason of the last step.
fn stop_reason(trials: &Trials<'_>) -> String {
    let reason = trials.steps.last().and_then(|it| it.reason.clone());
    reason.unwrap_or_else(|| "the search was stopped".to_owned())
}

/// Returns the case with exactly this name, or else the only case that matches the pattern.
///
/// Fails if no case or several cases match. Also fails if the case compares outputs with each other, or has a history.
fn find_case<'s>(suite: &'s Suite, pattern: &str) -> Result<&'s TestCase, Failure> {
    if let Some(case) = suite.cases.iter().find(|it| it.name == pattern) {
        return check_case(case);
    }
    let matcher: Pattern = pattern
        .parse()
        .map_err(|err: kindlm_engine::PatternError| Failure::input(err.to_string()))?;
    let found: Vec<&TestCase> =
        suite.cases.iter().filter(|it| matcher.is_match(&it.name)).collect();
    match &*found {
        [only] => check_case(only),
        [] => Err(Failure::input(format!("the bad version has no case `{pattern}`"))
            .with_help("`kindlm test --list` shows the cases of the suite")),
        several => {
            let names = several.iter().map(|it| format!("`{}`", it.name)).collect::<Vec<_>>();
            let (count, names) = (several.len(), names.join(", "));
            Err(Failure::input(format!("`{pattern}` matches {count} cases: {names}"))
                .with_help("name one of them"))
        }
    }
}

fn check_case(case: &TestCase) -> Result<&TestCase, Failure> {
    if case.compared.is_some() {
        return Err(Failure::input(format!(
            "`{}` compares outputs with each other, so it cannot be repeated alone",
            case.name
        )));
    }
    if case.history.is_some() {
        return Err(Failure::input(format!(
            "`{}` has a `history`: it depends on earlier tests, so it cannot be repeated alone",
            case.name
        )));
    }
    Ok(case)
}

/// Returns the configured model, or else the only model of the case.
///
/// Fails if the case does not run on the configured model, or if no model is configured and the case has several
/// models.
fn find_model(case: &TestCase, config: &BisectConfig) -> Result<String, Failure> {
    let models: Vec<&str> = match case.kind.alone() {
        Some(alone) => vec![alone],
        None => case.models.iter().map(String::as_str).collect(),
    };
    let named = models.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
    match (&config.model, &*models) {
        (Some(model), _) if models.contains(&model.as_str()) => Ok(model.clone()),
        (Some(model), _) => {
            Err(Failure::input(format!("`{}` does not run on the model `{model}`", case.name))
                .with_help(format!("it runs on {named}")))
        }
        (None, [only]) => Ok((*only).to_owned()),
        (None, _) => {
            let count = models.len();
            Err(Failure::input(format!("`{}` runs on {count} models: {named}", case.name))
                .with_help("choose one of them with `--model`"))
        }
    }
}

/// Returns the test of each try. The error is divided equally between the decisions.
///
/// Fails if a rate or the error is invalid, or if the rates are too close.
fn rule(case: &TestCase, config: &BisectConfig, decisions: u32) -> Result<Rule, Failure> {
    let (pass, fail) = match case.until {
        Some(Until::Decided(test)) => (test.pass(), test.fail()),
        Some(Until::Settled) | None => RATES,
    };
    let (pass, fail) = (config.pass.unwrap_or(pass), config.fail.unwrap_or(fail));
    let error = config.error / f64::from(decisions);
    let invalid = || {
        let of = config.error;
        Failure::input(format!("no test of the pass rates {fail} and {pass} has the error {of}"))
            .with_help("`--fail` must be above 0 and below `--pass`, `--pass` below 1, and `--error` above 0 and below 50%")
    };
    let test = Sprt::new(fail, pass, error, error).ok().filter(|_| config.error < 0.5);
    let test = test.ok_or_else(invalid)?;
    let max_repeats = test.smallest_max(UNDECIDED, MOST_REPEATS).ok_or_else(|| {
        Failure::input(format!(
            "the pass rates {fail} and {pass} are too close: a decision needs more than {MOST_REPEATS} repeats"
        ))
        .with_help("lower `--fail`")
    })?;
    let BisectConfig { max_executions, budget_usd, allow_unpriced, .. } = *config;
    Ok(Rule { test, error, max_repeats, max_executions, budget_usd, allow_unpriced })
}

#[cfg(test)]
mod tests;
