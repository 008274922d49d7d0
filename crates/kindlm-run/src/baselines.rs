//! Sets and lists the baselines of a suite.

use std::fmt::Write as _;

use kindlm_reporters::one_line;
use kindlm_store::{Baseline, Baselines, Entry, StoreError};
use kindlm_types::{AnyReport, SuiteInfo};

use crate::compare::check_suite;
use crate::saved::Saved;
use crate::{Failure, SuiteFolder};

/// The maximum number of names in an error message. Further names are only counted.
const NAMED: usize = 5;

/// The flags with which a user accepts an unsuitable run as the baseline.
#[derive(Clone, Copy, Debug, Default)]
pub struct Insist {
    /// True to accept a run with failed or errored cases, or without cases.
    pub force: bool,
    /// True to accept an incomplete run, or a run that lacks cases of the suite or of the replaced baseline.
    pub partial: bool,
}

/// A baseline that was stored.
#[derive(Debug)]
#[non_exhaustive]
pub struct SetBaseline {
    /// The baseline, as written to its file.
    pub baseline: Baseline,
    /// False if a baseline with this label was replaced.
    pub is_new: bool,
    /// A sentence for the user about the stored baseline.
    pub summary: String,
}

/// The reason why a run was not stored as a baseline.
#[derive(Debug)]
pub enum NotSet {
    /// Cases failed or errored, or no case ran. [`Insist::force`] accepts such a run.
    NeedsForce(Failure),
    /// The run is incomplete or lacks cases. [`Insist::partial`] accepts such a run.
    NeedsPartial(Failure),
    /// Another reason, such as an invalid label or a file that cannot be read.
    Failed(Failure),
}

impl From<Failure> for NotSet {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<NotSet> for Failure {
    fn from(why: NotSet) -> Self {
        match why {
            NotSet::NeedsForce(failure)
            | NotSet::NeedsPartial(failure)
            | NotSet::Failed(failure) => failure,
        }
    }
}

/// Stores the results of a run as a baseline.
///
/// # Errors
///
/// Fails if:
///
/// - the label is invalid, or a baseline of another suite has it;
/// - cases of the run failed or errored, or no case ran, and `insist` does not accept that;
/// - the run is incomplete, or lacks cases of the suite or of the replaced baseline, and `insist` does not accept that;
/// - a case of the run or the replaced baseline cannot be read, or the new baseline cannot be written.
///
/// A damaged baseline is replaced like a missing baseline, because its cases are unknown.
pub fn set(
    place: &SuiteFolder,
    label: &str,
    saved: Saved,
    insist: Insist,
) -> Result<SetBaseline, NotSet> {
    let baselines = Baselines::new(place.state());
    if let Some(reason) = incomplete(&saved.report).filter(|_| !insist.partial) {
        return Err(NotSet::NeedsPartial(
            Failure::input(format!("{} is not a complete run: {reason}", saved.name))
                .with_help("run all tests, or accept it with `--partial`"),
        ));
    }
    if let Some(reason) = unfit(&saved.report).filter(|_| !insist.force) {
        return Err(NotSet::NeedsForce(
            Failure::input(format!("{} cannot be a baseline: {reason}", saved.name))
                .with_help("fix the tests and run again, or accept it with `--force`"),
        ));
    }
    let baseline =
        Baseline::from_report(&saved.report).map_err(|err| Failure::input(err.to_string()))?;
    let (replaced, is_new) = replaced(&baselines, label, &saved.report.suite)?;
    // If a baseline is replaced, its cases show below which cases the run lacks. A new label or a damaged baseline has
    // no cases to compare with.
    if replaced.is_none() && saved.report.run.partial && !insist.partial {
        let why = if is_new {
            format!("there is no baseline `{label}` yet")
        } else {
            format!("the baseline `{label}` is damaged")
        };
        return Err(NotSet::NeedsPartial(
            Failure::input(format!("{} ran only a part of the suite, and {why}", saved.name))
                .with_help("run all tests on all models, or accept this part with `--partial`"),
        ));
    }
    let dropped = replaced.iter().flat_map(|it| dropped(it, &baseline)).collect::<Vec<_>>();
    if !dropped.is_empty() && !insist.partial {
        let (what, count) = (saved.name, dropped.len());
        let of = replaced.as_ref().map_or(0, |it| it.entries().len());
        return Err(NotSet::NeedsPartial(
            Failure::input(format!(
                "{what} did not run {count} of the {of} cases of the baseline `{label}`: {}",
                named(dropped)
            ))
            .with_help("run all tests, or drop these cases with `--partial`"),
        ));
    }
    baselines.set(label, &baseline).map_err(|err| Failure::store(&err))?;
    let verb = if is_new { "set from" } else { "replaced by" };
    let cases = plural(baseline.entries().len(), "result");
    let mut done = format!("baseline `{label}` {verb} {} ({cases})", saved.name);
    if !dropped.is_empty() {
        let _ = write!(done, "; dropped {}", named(dropped));
    }
    Ok(SetBaseline { baseline, is_new, summary: one_line(&done) })
}

/// Loads the baseline that a new baseline with this label replaces. The flag is true if the label is new.
///
/// The baseline is `None` if no baseline has this label, or if the baseline is damaged.
///
/// Fails if the label is invalid, or if the baseline cannot be read or belongs to another suite.
fn replaced(
    baselines: &Baselines,
    label: &str,
    suite: &SuiteInfo,
) -> Result<(Option<Baseline>, bool), Failure> {
    let found = match baselines.find(label) {
        Ok(found) => found,
        Err(StoreError::Baseline { .. }) => return Ok((None, false)),
        Err(err) => return Err(Failure::store(&err)),
    };
    match found {
        Some(it) => {
            let checked = check_suite(label, &it, suite);
            checked.map(|()| (Some(it), false)).map_err(|err| {
                err.with_help(format!(
                    "choose another label (`kindlm baseline set <label>`), or remove it (`kindlm baseline remove {label}`)"
                ))
            })
        }
        None => Ok((None, true)),
    }
}

/// Returns the names of the cases that were executed for the old baseline, but not for the new baseline.
fn dropped(before: &Baseline, after: &Baseline) -> Vec<String> {
    let is_gone = |it: &&Entry| {
        it.was_executed() && !after.get(&it.case, &it.model).is_some_and(Entry::was_executed)
    };
    before.entries().filter(is_gone).map(|it| format!("`{}`", name(&it.case, &it.model))).collect()
}

/// Joins up to [`NAMED`] names with commas, and appends the number of further names.
fn named(mut all: Vec<String>) -> String {
    let more = all.len().saturating_sub(NAMED);
    all.truncate(NAMED);
    all.extend((more > 0).then(|| format!("and {more} more")));
    all.join(", ")
}

/// Returns the reason why a run should not be a baseline; `None` if the run may be a baseline.
fn unfit(report: &AnyReport<'_>) -> Option<String> {
    let totals = report.totals();
    if totals.errored > 0 {
        return Some(format!("{} could not be judged", cases(totals.errored)));
    }
    if totals.failed > 0 {
        return Some(format!("{} failed", cases(totals.failed)));
    }
    // A run in which no check applied is allowed: without a baseline, `drift` checks do not apply yet.
    (totals.cases == 0 && !totals.unchecked()).then(|| "no test case ran".to_owned())
}

/// Returns the reason why a run is incomplete: it is a shard, or it was interrupted; `None` for a complete run.
fn incomplete(report: &AnyReport<'_>) -> Option<String> {
    if let Some(shard) = &report.shard {
        return Some(format!("it is shard {} of {}", shard.index, shard.count));
    }
    report.run.interrupted.then(|| "it was interrupted".to_owned())
}

fn cases(count: u64) -> String {
    if count == 1 { "1 test case".to_owned() } else { format!("{count} test cases") }
}

/// Returns one line for each baseline; empty without baselines.
///
/// # Errors
///
/// Fails if the folder of the baselines cannot be read. A baseline that cannot be read has a line with the reason.
pub fn list(place: &SuiteFolder) -> Result<String, Failure> {
    let baselines = Baselines::new(place.state());
    let labels = baselines.list().map_err(|err| Failure::store(&err))?;
    let width = labels.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for label in labels {
        let _ = match baselines.load(&label) {
            Ok(it) => {
                let results = plural(it.entries().len(), "result");
                let suite = one_line(&it.suite_name);
                writeln!(text, "{label:width$}  {}  {results}  {suite}", it.created_at)
            }
            // A damaged file must not hide the other baselines.
            Err(err) => writeln!(text, "{label:width$}  {}", one_line(&err.to_string())),
        };
    }
    Ok(text)
}

fn name(case: &str, model: &str) -> String {
    one_line(&if model.is_empty() { case.to_owned() } else { format!("{case} [{model}]") })
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use kindlm_store::Runs;
    use kindlm_wire::v1;

    use super::*;
    use crate::{World, saved};

    #[test]
    fn damaged_baseline_is_replaced_and_not_new() {
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(folder.path(), Arc::new(|_| None));
        let place = SuiteFolder::new(&world, Path::new("kindlm.yaml"));
        let mut report = kindlm_testing::sample_report();
        report.run.partial = true;
        report.run.interrupted = false;
        report.shard = None;
        let mut json = Vec::new();
        v1::write_compact(&report, &mut json).unwrap();
        let json = String::from_utf8(json).unwrap();
        Runs::new(place.state()).save(&report.run.id, &json).unwrap();
        let set = |partial| {
            let path = Baselines::new(place.state()).path("main").unwrap();
            kindlm_store::write(&path, b"{").unwrap();
            let saved = saved::find(&world, &place, Some(&report.run.id), None).unwrap();
            super::set(&place, "main", saved, Insist { force: true, partial })
        };
        let Err(NotSet::NeedsPartial(failure)) = set(false) else { panic!("it is partial") };
        let message = failure.message.unwrap();
        assert!(
            message.ends_with("a part of the suite, and the baseline `main` is damaged"),
            "{message}"
        );
        let stored = set(true).unwrap();
        assert!(!stored.is_new);
        assert!(
            stored.summary.starts_with("baseline `main` replaced by run"),
            "{}",
            stored.summary
        );
    }
}
