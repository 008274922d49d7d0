//! Selects the test cases to run: by name, tag, model, shard, and the results of earlier runs.

use std::collections::HashMap;

use kindlm_engine::{
    Durations, Filter, Fingerprint, Pattern, Plan, PlanError, RunOptions, Shard, Suite, Targets,
    TestCase, plan as planned, shard as part_of,
};
use kindlm_store::{Runs, SavedCases};
use kindlm_types::{CaseMark, CaseResult, CaseSource as _, ExecutionError, Outcome, Report};

use crate::project::SuiteFolder;
use crate::resume::{Past, is_of_trace};
use crate::saved::PastRun;
use crate::suites::SuiteKey;
use crate::trace::MODEL;
use crate::{Failure, World, saved};

/// A tag that selects test cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Test cases that have this tag.
    With(String),
    /// Test cases that do not have this tag.
    Without(String),
}

/// The selection of test cases and models for a run. The default selects all.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The tags. A selected case has at least one of the [`With`](Tag::With) tags, if there are any, and none of the
    /// [`Without`](Tag::Without) tags.
    pub tags: Vec<Tag>,
    /// The name patterns: a part of the name, a glob, or `/a regular expression/`.
    pub tests: Vec<String>,
    /// The ids of the models; `command` selects the command tests, and `transcript` the transcript tests.
    pub models: Vec<String>,
    /// True to select only executions that did not pass in the last run.
    pub failed: bool,
    /// True to select only executions that never ran, that did not pass in their last run, or whose test has changed
    /// since.
    pub changed: bool,
    /// The part of the executions to run; `None` for all.
    pub shard: Option<Shard>,
    /// The id of a run, or the file of a report. Its durations balance the shards; `None` to balance without durations.
    pub shard_durations: Option<String>,
}

/// The maximum number of removed cases that a notice names.
const NAMED: usize = 5;

/// Builds the filter of a selection.
///
/// A resumed run with `failed` or `changed` keeps the test cases of the original run.
pub(crate) fn filter(
    world: &World,
    place: &SuiteFolder,
    suite: &Suite,
    select: &Selection,
    past: Option<&Past>,
) -> Result<Filter, Failure> {
    let tests: Result<Vec<Pattern>, _> = select.tests.iter().map(|it| it.parse()).collect();
    let tests = tests.map_err(|err| Failure::input(err.to_string()))?;
    let mut filter = Filter { tests, models: select.models.clone(), ..Filter::default() };
    for tag in &select.tags {
        match tag {
            Tag::With(tag) => filter.tags.push(tag.clone()),
            Tag::Without(tag) => {
                warn_unused(world, suite, tag);
                filter.without_tags.push(tag.clone());
            }
        }
    }
    filter.only = match (select.failed || select.changed, past) {
        (false, _) => None,
        (true, Some(past)) => Some(past.targets()),
        (true, None) if select.failed => Some(failed(world, place, suite)?),
        (true, None) => Some(changed(world, place, suite)?),
    };
    Ok(filter)
}

/// Warns if no test case has the excluded tag, but a test case has a similar tag.
fn warn_unused(world: &World, suite: &Suite, tag: &str) {
    let tags = || suite.cases.iter().flat_map(|it| &*it.tags).map(String::as_str);
    if !tags().any(|it| it == tag)
        && let Some(near) = kindlm_types::nearest(tag, tags())
    {
        world.notify(&format!(
            "warning: `!{tag}` excludes nothing: no test case has that tag; did you mean `!{near}`?"
        ));
    }
}

/// Plans the run.
///
/// Returns `None`, after a notice, if a selection by the results of earlier runs is empty.
pub(crate) fn plan(
    world: &World,
    suite: &Suite,
    options: &RunOptions,
) -> Result<Option<Plan>, Failure> {
    let by_history = options.filter.only.is_some();
    match planned(suite, options) {
        Ok(plan) => Ok(Some(plan)),
        Err(PlanError::NothingSelected { .. }) if by_history => {
            world.notify("nothing to run, and nothing was sent");
            Ok(None)
        }
        Err(err) => Err(not_planned(world, &err)),
    }
}

/// Returns the failure for a planning error. If the user gave a file as a pattern, the help names the option for files.
fn not_planned(world: &World, err: &PlanError) -> Failure {
    let failure = Failure::input(err.to_string());
    match err {
        PlanError::NoSuchTest { pattern, .. } if world.working_dir.join(pattern).is_file() => {
            failure
                .with_help(format!("there is a file `{pattern}`: run a suite with `-c {pattern}`"))
        }
        _ => failure,
    }
}

/// Returns the part of a plan that belongs to a shard.
///
/// A notice gives the size of this part.
///
/// If a report is named, its durations balance the shards.
pub(crate) fn part(
    world: &World,
    place: &SuiteFolder,
    suite: &Suite,
    plan: &Plan,
    options: &RunOptions,
    (shard, durations): (Shard, Option<&str>),
) -> Result<Plan, Failure> {
    let durations = match durations {
        Some(named) => {
            let report = saved::find(world, place, Some(named), None)?.report;
            Some(Durations::from_report(&report).map_err(|err| Failure::input(err.to_string()))?)
        }
        None => None,
    };
    let part = part_of(suite, plan, options, shard, durations.as_ref());
    let (mine, all) = (part.units.len(), plan.units.len());
    let Shard { index, count, .. } = shard;
    world.notify(&format!("shard {index} of {count}: {mine} of {all} executions"));
    Ok(part)
}

/// Returns the cases that did not pass in the last run of the suite.
///
/// If the last run left out a case, the newest run with this case counts.
fn failed(world: &World, place: &SuiteFolder, suite: &Suite) -> Result<Targets, Failure> {
    let (found, traced) = last_of(world, place, suite)?;
    let name = &suite.info.name;
    let report = match (found, traced) {
        (Some(report), None) => report,
        (Some(report), Some(traced)) => {
            let id = &report.run.id;
            world.notify(&format!(
                "the run `{traced}` is of `kindlm trace` and ignored: the last of `kindlm test` is `{id}`"
            ));
            report
        }
        (None, Some(id)) => {
            return Err(Failure::input(format!(
                "the last run of the suite `{name}`, `{id}`, is of `kindlm trace`, and a traced run cannot be \
                 repeated"
            ))
            .with_help("run `kindlm trace` again, or `kindlm test` without `--failed`"));
        }
        (None, None) => {
            return Err(Failure::input(format!("there is no run of the suite `{name}` yet"))
                .with_help("run `kindlm test` first"));
        }
    };
    let id = &report.run.id;
    let mut targets = Targets::default();
    let mut gone = Vec::new();
    let known: HashMap<&str, &TestCase> =
        suite.cases.iter().map(|it| (it.name.as_str(), it)).collect();
    let failed = |it: CaseMark<'_>| !it.outcome.held() && it.outcome != Outcome::Skipped;
    for case in report.each_where(failed) {
        let case = case.map_err(|err| Failure::input(err.to_string()))?;
        targets.insert(&case.case, &case.model);
        let here = known.get(case.case.as_str());
        if here.is_none_or(|it| !models_of(it).contains(&case.model.as_str())) {
            gone.push(format!("`{}` on `{}`", case.case, case.model));
        }
    }
    let last = targets.clone();
    let mut earlier = Vec::new();
    let all: usize = expected(suite).values().map(|(_, models)| models.len()).sum();
    if !gone.is_empty() || report.cases.len() < all {
        look_back(place, suite, &mut |case, model, seen| {
            if !seen.held && !last.contains(case, model) {
                targets.insert(case, model);
                earlier.push(format!("`{case}` on `{model}`"));
            }
        })?;
    }
    if !earlier.is_empty() {
        world.notify(&format!(
            "the last run, `{id}`, skipped tests that had not passed before: {}",
            named(earlier)
        ));
    } else if report.cases.is_empty() {
        world.notify(&format!("nothing was run in the last run, `{id}`"));
    } else if targets.is_empty() {
        world.notify(&format!("everything passed in the last run, `{id}`"));
    }
    // Without this notice, removed cases that failed would look like fixed cases.
    if !gone.is_empty() {
        let nothing_left = gone.len() == targets.len();
        let message = format!(
            "tests that did not pass in the last run, `{id}`, are no longer in the suite: {}",
            named(gone)
        );
        if nothing_left {
            return Err(Failure::input(message)
                .with_help("if a test was renamed, run it with `--test`, or run all tests"));
        }
        world.notify(&format!("warning: {message}"));
    }
    Ok(targets)
}

/// Returns the last `kindlm test` report, and the id of a later `kindlm trace` run.
///
/// Unreadable reports, running runs and unfinished runs of `kindlm trace` are ignored, with a notice. Fails if a later
/// run of `kindlm test` has ended without a report.
fn last_of(
    world: &World,
    place: &SuiteFolder,
    suite: &Suite,
) -> Result<(Option<Report<SavedCases>>, Option<String>), Failure> {
    let (runs, key) = (Runs::new(place.state()), SuiteKey::new(place, &suite.info));
    let mut traced = None;
    for run in saved::newest_first(&runs, Some(&key))? {
        match run? {
            PastRun::Finished(it) if is_traced(&it.report) => {
                traced.get_or_insert(it.report.run.id);
            }
            PastRun::Finished(it) => return Ok((Some(it.report), traced)),
            PastRun::Unfinished(journal) if is_of_trace(&journal) => {
                let id = &journal.header().run;
                world.notify(&format!(
                    "the run `{id}` is of `kindlm trace`, has no report, and is ignored"
                ));
            }
            PastRun::Unfinished(journal) => saved::check_still_going(world, &journal)?,
            PastRun::Unreadable(id, err) => world.notify(&format!(
                "warning: the report of run `{id}` cannot be read, so its failed tests are unknown: {err}"
            )),
        }
    }
    Ok((None, traced))
}

/// Joins the first few names with commas, and counts the remaining names.
fn named(mut all: Vec<String>) -> String {
    let more = all.len().saturating_sub(NAMED);
    all.truncate(NAMED);
    all.extend((more > 0).then(|| format!("and {more} more")));
    all.join(", ")
}

/// Returns the cases that have changed, did not pass, or never ran.
///
/// The last run of each case counts.
///
/// A failed case stays selected until it passes.
fn changed(world: &World, place: &SuiteFolder, suite: &Suite) -> Result<Targets, Failure> {
    let mut targets = Targets::default();
    let (runs, never) = look_back(place, suite, &mut |case, model, seen| {
        if seen.changed || !seen.held {
            targets.insert(case, model);
        }
    })?;
    if runs == 0 {
        let name = &suite.info.name;
        world.notify(&format!(
            "there is no run of the suite `{name}` yet: everything counts as changed"
        ));
    }
    for (case, (_, models)) in never {
        for model in models {
            targets.insert(case, model);
        }
    }
    if targets.is_empty() {
        world.notify("no test case has changed since it was last run, and all passed then");
    }
    Ok(targets)
}

/// The comparison of a case on a model with its last run.
struct CaseState {
    /// True if the test has changed, or if a digest is missing.
    changed: bool,
    /// True if the last result held, or was skipped.
    held: bool,
}

/// Passes the last result of each case on each model to `on`.
///
/// The runs are read from the newest to the oldest.
///
/// Returns the number of runs read, and the cases that have never run.
fn look_back<'s>(
    place: &SuiteFolder,
    suite: &'s Suite,
    on: &mut dyn FnMut(&str, &str, CaseState),
) -> Result<(u32, Expected<'s>), Failure> {
    let mut open = expected(suite);
    let mut runs = 0;
    let (store, key) = (Runs::new(place.state()), SuiteKey::new(place, &suite.info));
    for id in store.list().map_err(|err| Failure::store(&err))?.iter().rev() {
        // Collect the results first, because the report names its suite only after the cases.
        let mut ran = Vec::new();
        let report = store.each_case(id, &mut |case| {
            if was_run(&case) && open.contains_key(case.case.as_str()) {
                let held = case.outcome.held() || case.outcome == Outcome::Skipped;
                ran.push((case.case, case.model, case.digest, held));
            }
        });
        // Skip reports that are unreadable, or belong to another suite or to `kindlm trace`.
        if !report.is_ok_and(|it| key.has_report(&it) && !is_traced(&it)) {
            continue;
        }
        runs += 1;
        for (case, model, then, held) in ran {
            let Some((digest, models)) = open.get_mut(case.as_str()) else { continue };
            let Some(at) = models.iter().position(|it| *it == model) else { continue };
            models.swap_remove(at);
            let now = digest.map(|it| it.to_string());
            on(&case, &model, CaseState { changed: now.is_none() || now != then, held });
        }
        open.retain(|_, (_, models)| !models.is_empty());
        if open.is_empty() {
            break;
        }
    }
    Ok((runs, open))
}

/// The test cases by name, each with its digest (`None` if it is unknown) and its models.
type Expected<'s> = HashMap<&'s str, (Option<Fingerprint>, Vec<&'s str>)>;

/// Returns the test cases of the suite that are not skipped and have a model.
fn expected(suite: &Suite) -> Expected<'_> {
    let cases = suite.cases.iter().filter(|it| it.skip.is_none());
    let expected = cases.map(|case| (case.name.as_str(), (case.digest, models_of(case))));
    expected.filter(|(_, (_, models))| !models.is_empty()).collect()
}

/// Returns true if at least one repeat was executed.
fn was_run(case: &CaseResult) -> bool {
    case.executions.iter().any(|it| !matches!(it.error, Some(ExecutionError::NotRun { .. })))
}

/// Returns the models of a case, even if it is skipped.
fn models_of(case: &TestCase) -> Vec<&str> {
    match case.kind.alone() {
        Some(alone) => vec![alone],
        None => case.models.iter().map(String::as_str).collect(),
    }
}

/// Returns true if a report belongs to `kindlm trace`.
fn is_traced<Cases>(report: &Report<Cases>) -> bool {
    report.models.iter().any(|it| it.provider == MODEL)
}
