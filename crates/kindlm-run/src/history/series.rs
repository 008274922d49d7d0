//! The series of a suite or of a case: the results of the runs, the change points of the pass rate, and the flips. A
//! case flips if it passes in one of two runs and fails in the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use kindlm_stats::{Tally, change_points};
use kindlm_types::{FileDigest, MeasuredRate, RateCount};
use kindlm_wire::history::{
    ChangePoint, Entry, FileChange, Flip, FlippedCase, RunChanges, Series, Unit, ValueChange,
};
use kindlm_wire::v1::{Cost, Rate, RunHead};

use super::past::{PastCase, PastResults, PastRuns};
use crate::project;
use crate::stored_runs::RunOutcome;

/// The significance level: the highest probability of a false change point in a series with a constant pass rate.
const ALPHA: f64 = 0.05;

/// Returns the series of a whole suite. Only the two newest runs are read completely.
pub(super) fn suite_series(past: &PastRuns, heads: &[RunHead]) -> Series {
    let counts = |head: &RunHead| {
        let held = head.totals.passed + head.totals.scored;
        let failed = head.totals.failed.saturating_sub(head.totals.undecided);
        (held, held + failed)
    };
    let tally = |head: &RunHead| {
        let (held, judged) = counts(head);
        Tally::new(held, judged).ok()
    };
    let entries = heads.iter().map(|head| {
        let (count, total) = counts(head);
        let held = held(head, RateCount { count, total });
        let outcome = RunOutcome::of_exit_code(head.exit_code).word();
        let mut entry = entry(head, outcome, held, head.totals.cost);
        entry.errored = head.totals.errored;
        entry.score = head.totals.average_score;
        entry.duration_ms = Some(head.duration_ms);
        entry
    });
    // The totals of a run do not list the cases with stored answers, so a run with stored answers is no new evidence.
    // A partial run does not count either, because its cases may have another pass rate than the whole suite.
    let fresh = |it: &RunHead| tally(it).filter(|_| it.cached_executions == 0 && !it.partial);
    let measured = heads.iter().map(|it| (fresh(it), None)).collect();
    let mut series = series(None, entries.collect(), measured, Unit::Cases);
    if let [.., before, after] = heads {
        series.flips = suite_flip(past, before, after).into_iter().collect();
    }
    series
}

/// Returns the cases that held in one of the two runs and failed in the other; `None` if there is no such case.
fn suite_flip(past: &PastRuns, before: &RunHead, after: &RunHead) -> Option<Flip> {
    let (then, now) = (past.results(&before.run)?, past.results(&after.run)?);
    let cases = now.cases.iter().filter_map(|(key, case)| flipped(key, then.cases.get(key)?, case));
    let cases: Vec<FlippedCase> = cases.collect();
    (!cases.is_empty()).then(|| flip((before, &then), (after, &now), cases))
}

/// Returns the series of a case on a model.
pub(super) fn case_series(past: &PastRuns, heads: &[RunHead], case: &str, model: &str) -> Series {
    let key = (case.to_owned(), model.to_owned());
    let found = heads.iter().filter_map(|head| {
        let results = past.results(&head.run)?;
        results.cases.contains_key(&key).then_some((head, results))
    });
    let found: Vec<(&RunHead, Arc<PastResults>)> = found.collect();
    let cases = || found.iter().filter_map(|(head, it)| Some((*head, it.cases.get(&key)?)));
    let unit = if cases().any(|(_, it)| it.ends_early) { Unit::Runs } else { Unit::Repeats };
    let tally = |(_, case): (&RunHead, &PastCase)| match unit {
        Unit::Runs => {
            // A run is no new evidence if all its answers come from the response store.
            let held = case.decided().filter(|_| case.fresh.is_some())?;
            Tally::new(held.into(), 1).ok()
        }
        Unit::Repeats | Unit::Cases => case.fresh,
    };
    let entries = cases().map(|(head, case)| case_entry(head, case)).collect();
    let mut flips = Vec::new();
    let mut last: Option<(&RunHead, &PastResults, &PastCase)> = None;
    for (head, results) in &found {
        let Some(now) = results.cases.get(&key).filter(|it| it.decided().is_some()) else {
            continue;
        };
        if let Some((before, then, earlier)) = last
            && let Some(it) = flipped(&key, earlier, now)
        {
            flips.push(flip((before, then), (head, results), vec![it]));
        }
        last = Some((head, results, now));
    }
    let measured = cases().map(|it| (tally(it), it.1.digest.clone())).collect();
    let mut series = series(Some(model.to_owned()), entries, measured, unit);
    series.flips = flips;
    series
}

fn case_entry(head: &RunHead, case: &PastCase) -> Entry {
    let rate = MeasuredRate::of_independent(case.judged).into();
    let outcome = if case.is_undecided { "undecided" } else { case.outcome.as_str() };
    let mut entry = entry(head, outcome, rate, case.cost.into());
    entry.errored = case.errored.into();
    entry.score = case.score;
    entry.latency_ms = case.latency_ms;
    entry
}

/// Returns an entry with the data of its run.
fn entry(head: &RunHead, outcome: &str, rate: Rate, cost: Cost) -> Entry {
    Entry {
        run: head.run.clone(),
        started_at: head.started_at.clone(),
        outcome: outcome.to_owned(),
        held: rate,
        errored: 0,
        score: None,
        cost,
        latency_ms: None,
        duration_ms: None,
        git_commit: head.git_commit.clone(),
        git_dirty: head.git_dirty,
        partial: head.partial,
    }
}

/// Returns a series with its change points, without flips. Entries without a tally do not count.
///
/// `measured` has the tally of each entry and the digest of its case.
fn series(
    model: Option<String>,
    runs: Vec<Entry>,
    measured: Vec<(Option<Tally>, Option<String>)>,
    unit: Unit,
) -> Series {
    let judged = runs.iter().zip(measured);
    let judged = judged.filter_map(|(run, (tally, digest))| Some((run, (tally?, digest))));
    let (judged, measured): (Vec<&Entry>, Vec<_>) = judged.unzip();
    let (tallies, digests): (Vec<Tally>, Vec<Option<String>>) = measured.into_iter().unzip();
    let found = change_points(&tallies, ALPHA);
    let points = found.iter().filter_map(|it| {
        let run = &judged.get(it.at)?.run;
        Some(ChangePoint::new(run, rate(it.before), rate(it.after), it.p_value))
    });
    let points = points.collect();
    let since = found.last().map_or(0, |it| it.at).max(last_change(&digests));
    let first = judged.get(since).filter(|_| since > 0).map(|it| it.run.clone());
    // Both this sum and the change points treat the results of different runs as independent.
    let current = tallies.iter().skip(since).fold(RateCount::default(), |sum, it| RateCount {
        count: sum.count + it.passed(),
        total: sum.total + it.total(),
    });
    let flaky = match unit {
        Unit::Cases => None,
        Unit::Repeats | Unit::Runs => {
            (current.total > 1).then_some(current.count > 0 && current.count < current.total)
        }
    };
    let mut series = Series::new(runs, unit, MeasuredRate::of_independent(current).into());
    series.model = model;
    series.change_points = points;
    series.since = first;
    series.flaky = flaky;
    series
}

/// Returns the index of the last digest that differs from the digest before it; 0 without a change. Missing digests do
/// not count.
fn last_change(digests: &[Option<String>]) -> usize {
    let pairs = digests.iter().zip(digests.iter().skip(1));
    let changes =
        pairs.map(|(before, after)| before.is_some() && after.is_some() && before != after);
    changes.enumerate().filter(|(_, changed)| *changed).map(|(at, _)| at + 1).max().unwrap_or(0)
}

fn rate(tally: Tally) -> Rate {
    let counts = RateCount { count: tally.passed(), total: tally.total() };
    MeasuredRate::of_independent(counts).into()
}

/// Returns the rate of the decided cases of a run.
///
/// If all cases are decided, the rate has the interval of the run's report, which counts each cluster of cases once.
fn held(head: &RunHead, decided: RateCount) -> Rate {
    if (head.held.count, head.held.total) == (decided.count, decided.total) {
        return head.held.clone();
    }
    MeasuredRate::of_independent(decided).into()
}

/// Returns a case that held in one of the two runs and failed in the other; `None` for any other case.
fn flipped(
    (case, model): &(String, String),
    before: &PastCase,
    after: &PastCase,
) -> Option<FlippedCase> {
    if before.decided()? == after.decided()? {
        return None;
    }
    let differs =
        |one: &Option<String>, other: &Option<String>| Some(one.as_ref()? != other.as_ref()?);
    let mut flipped = FlippedCase::new(case, model, before.outcome, after.outcome);
    flipped.case_changed = differs(&before.digest, &after.digest);
    flipped.task_changed = differs(&before.task_digest, &after.task_digest);
    Some(flipped)
}

fn flip(
    (before, then): (&RunHead, &PastResults),
    (after, now): (&RunHead, &PastResults),
    cases: Vec<FlippedCase>,
) -> Flip {
    let changes = RunChanges {
        git_commit: changed(before.git_commit.as_ref(), after.git_commit.as_ref()),
        git_dirty: match (before.git_dirty, after.git_dirty) {
            (None, None) => None,
            (then, now) => Some(then == Some(true) || now == Some(true)),
        },
        config: changed(before.config_sha256.as_ref(), after.config_sha256.as_ref()),
        files: files(then, now, after),
        conditions: then.conditions.changes(&now.conditions),
    };
    Flip::new(&before.run, &after.run, cases, changes)
}

fn changed(before: Option<&String>, after: Option<&String>) -> Option<ValueChange> {
    (before != after).then(|| ValueChange::new(before.cloned(), after.cloned()))
}

/// Returns the files that differ, without the config file; empty if a run records no files.
fn files(before: &PastResults, after: &PastResults, head: &RunHead) -> Vec<FileChange> {
    if before.files.is_empty() || after.files.is_empty() {
        return Vec::new();
    }
    let config = head.config_path.as_deref().unwrap_or(project::CONFIG);
    let config = config.rsplit(['/', '\\']).next().unwrap_or(config);
    let mut all: BTreeMap<&str, (Option<&String>, Option<&String>)> = BTreeMap::new();
    for FileDigest { path, sha256, .. } in &before.files {
        all.entry(path).or_default().0 = Some(sha256);
    }
    for FileDigest { path, sha256, .. } in &after.files {
        all.entry(path).or_default().1 = Some(sha256);
    }
    let changes = all.into_iter().filter(|(path, _)| *path != config);
    let changes = changes
        .filter_map(|(path, (before, after))| Some(FileChange::new(path, changed(before, after)?)));
    changes.collect()
}
