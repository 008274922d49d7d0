//! Stored runs, and their reports.

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use jiff::Timestamp;
use kindlm_reporters::{ServedRun, Style, serve_run};
use kindlm_run::reports::{NotRendered, render};
use kindlm_run::saved::{self, Saved};
use kindlm_run::stored_runs::{self, Removal, StoredRun};
use kindlm_run::{FailedCase, Failure, SuiteFolder, compare, reporter};
use kindlm_store::{Runs, SavedCases};
use kindlm_types::{AnyReport, CaseSource as _, Report};
use kindlm_wire::v1::RunHead;
use serde::Serialize;
use utoipa::ToSchema;

use super::live::{Event, LiveRun, RunState};
use super::suites::Suites;
use super::{PageVersion, RunService};

/// A run of this process or a stored run, as clients see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunInfo {
    pub(crate) id: String,
    /// The path of the suite below the folder of suites. For an inline suite, or if the file is gone, the name of the
    /// suite; absent if the name is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) suite: Option<String>,
    /// The version of the suite; absent for inline suites, and for runs that no server started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) suite_version: Option<i64>,
    pub(crate) state: RunState,
    /// The start of the run (RFC 3339); absent while the run waits or goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<String>,
    /// The duration in milliseconds; absent without a report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration_ms: Option<f64>,
    /// The number of executions that have ended; absent for stored runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished: Option<usize>,
    /// The number of planned executions; absent before the run starts, and for stored runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<usize>,
    /// The number of cases with the outcome `passed` or `scored`; absent without a report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cases_held: Option<u64>,
    /// The number of cases that were not skipped; absent without a report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cases: Option<u64>,
    /// The reason why the run failed without a report; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl RunInfo {
    /// Describes a run of this process.
    pub(crate) fn of_live(run: &LiveRun) -> Self {
        let known = run.known();
        Self {
            id: run.id.clone(),
            suite: Some(run.suite.clone()),
            suite_version: run.suite_version.get().copied(),
            state: known.state,
            started_at: None,
            duration_ms: None,
            finished: Some(known.finished),
            total: known.total,
            cases_held: None,
            cases: None,
            error: known.error,
        }
    }

    /// Describes a stored run. `place` is the folder of its suite, and `suites` has the paths of all suites.
    fn of_stored(run: StoredRun, place: &SuiteFolder, suites: &Suites) -> Self {
        let path = run.config.as_ref().and_then(|it| suites.path(&place.folder.join(it)));
        Self {
            id: run.id,
            suite: path.or(run.suite),
            suite_version: None,
            state: run.outcome.into(),
            started_at: run.started_at,
            duration_ms: run.duration_ms,
            finished: None,
            total: None,
            cases_held: run.cases_held,
            cases: run.cases,
            error: None,
        }
    }
}

/// The reason why a request for runs, baselines or suites fails.
#[derive(Debug)]
pub(crate) enum NotRead {
    /// There is no such run.
    NoRun(String),
    /// The run has no report yet.
    NoReport(String),
    /// The run cannot be deleted: it is going on, or a baseline has its results. The text is the reason.
    Kept(String),
    /// There is no such suite.
    NoSuite(String),
    /// The suite has no baseline with this label, and no run with this id.
    NoSide(String),
    /// The suite has no baseline with this label.
    NoBaseline(String),
    /// The suite has a case with this name already.
    HasCase(String),
    /// A case cannot be added to the suite.
    NotAppended(String),
    /// The stored data does not permit the request.
    Refused(String),
    /// The store failed.
    Failed(String),
}

impl From<std::io::Error> for NotRead {
    fn from(err: std::io::Error) -> Self {
        Self::Failed(format!("cannot read the folder of suites: {err}"))
    }
}

impl From<Failure> for NotRead {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.message.unwrap_or_default())
    }
}

/// Returns the times at which the report and the mutation result of a run were written; `None` for a missing file. A
/// resumed run has a new report.
fn page_version(place: &SuiteFolder, id: &str) -> PageVersion {
    let folder = Runs::new(place.state()).run_folder(id).ok();
    let time = |name| folder.as_ref()?.join(name).metadata().ok()?.modified().ok();
    [time(Runs::REPORT), time(Runs::MUTATION)]
}

/// Returns data with its version. The version is read first: if the data is replaced while it is read, the version is
/// old, and the next request reads the data again.
fn with_version<T>(
    version: impl FnOnce() -> PageVersion,
    read: impl FnOnce() -> Result<T, NotRead>,
) -> Result<(PageVersion, T), NotRead> {
    let version = version();
    Ok((version, read()?))
}

/// Returns the reason why a run whose results are baselines cannot be deleted.
fn kept_by(labels: &[String]) -> String {
    let names = labels.join("`, `");
    let (baselines, them) = if labels.len() == 1 {
        (format!("the baseline `{names}` has"), "it")
    } else {
        (format!("the baselines `{names}` have"), "them")
    };
    format!(
        "{baselines} the results of the run; set {them} from another run first: \
         `PUT /v1/suites/{{suite}}/baselines/{{label}}`"
    )
}

/// The cases of a finished run, which are read one by one.
pub(crate) struct PastCases(pub(crate) Report<SavedCases>);

impl PastCases {
    pub(crate) fn len(&self) -> usize {
        self.0.cases.len()
    }

    /// Returns the events of some cases, in the order of the report. Fails if a case cannot be read.
    pub(crate) fn events(&self, range: Range<usize>) -> Result<Vec<Event>, NotRead> {
        let event = |at| -> Result<Event, NotRead> {
            let case = self.0.cases.read_case(at);
            let case = case.map_err(|err| NotRead::Failed(err.to_string()))?;
            Ok(FailedCase::of_report(&case)
                .map_or_else(|| Event::of_case(&case), |it| Event::of_failed_case(&it)))
        };
        range.map(event).collect()
    }
}

impl RunService {
    /// Returns the newest runs, newest first, and the number of all runs.
    pub(crate) fn list(&self, limit: usize) -> Result<(Vec<RunInfo>, usize), NotRead> {
        let mut runs: Vec<RunInfo> = Vec::new();
        let mut total = 0;
        let suites = self.suite_paths()?;
        for place in self.places()? {
            let (stored, older) = stored_runs::newest(&place, None, limit)?;
            total += stored.len() + older;
            runs.extend(stored.into_iter().map(|it| RunInfo::of_stored(it, &place, &suites)));
        }
        for live in self.inner.all_live() {
            match runs.iter_mut().find(|it| it.id == live.id) {
                Some(run) if !live.has_ended() => *run = RunInfo::of_live(&live),
                Some(_) => {}
                None if live.has_ended() && live.known().error.is_none() => {}
                None => {
                    total += 1;
                    runs.push(RunInfo::of_live(&live));
                }
            }
        }
        // An id begins with the start time of its run.
        runs.sort_by(|a, b| b.id.cmp(&a.id));
        runs.truncate(limit);
        Ok((runs, total))
    }

    fn stored(&self, id: &str) -> Result<(SuiteFolder, StoredRun), NotRead> {
        for place in self.places()? {
            // A text that cannot be an id names no run.
            if Runs::new(place.state()).run_folder(id).is_err() {
                break;
            }
            if let Some(run) = stored_runs::find(&place, id)? {
                return Ok((place, run));
            }
        }
        Err(NotRead::NoRun(id.to_owned()))
    }

    pub(super) fn open(&self, id: &str) -> Result<(SuiteFolder, Saved), NotRead> {
        let (place, run) = self.stored(id)?;
        let saved = self.open_stored(&place, run)?;
        Ok((place, saved))
    }

    fn open_stored(&self, place: &SuiteFolder, run: StoredRun) -> Result<Saved, NotRead> {
        if run.duration_ms.is_none() {
            return Err(NotRead::NoReport(run.id));
        }
        Ok(saved::find(&self.inner.world, place, Some(&run.id), None)?)
    }

    /// Describes a run, with the head of its report if it has one. Fails if there is no such run, or the head cannot be
    /// read.
    pub(crate) fn described(&self, id: &str) -> Result<(RunInfo, Option<RunHead>), NotRead> {
        let live = self.live(id);
        if let Some(live) = live.as_ref().filter(|it| !it.has_ended()) {
            return Ok((RunInfo::of_live(live), None));
        }
        match self.stored(id) {
            Ok((place, run)) => {
                let has_report = run.duration_ms.is_some();
                let head = has_report.then(|| Runs::new(place.state()).head(id)).transpose();
                let head = head.map_err(|err| NotRead::Failed(err.to_string()))?;
                Ok((RunInfo::of_stored(run, &place, &self.suite_paths()?), head))
            }
            // A run that was cancelled while it waited, or that failed before its first request, is not stored.
            Err(NotRead::NoRun(id)) => {
                let run = live.map(|it| RunInfo::of_live(&it)).ok_or(NotRead::NoRun(id))?;
                Ok((run, None))
            }
            Err(err) => Err(err),
        }
    }

    /// Returns the head of the report of a run. Fails if the run or its report cannot be read.
    pub(crate) fn head(&self, id: &str) -> Result<RunHead, NotRead> {
        self.described(id)?.1.ok_or_else(|| NotRead::NoReport(id.to_owned()))
    }

    /// Returns the cases of a finished run. Fails if the run or its report cannot be read.
    pub(crate) fn past_cases(&self, id: &str) -> Result<PastCases, NotRead> {
        Ok(PastCases(self.open(id)?.1.report))
    }

    /// Returns the time at which the report of a run was written, in milliseconds since 1970. Fails if the run cannot
    /// be read, or has no report.
    pub(crate) fn report_time(&self, id: &str) -> Result<i64, NotRead> {
        let (place, _) = self.stored(id)?;
        let [report, _] = page_version(&place, id);
        let time = report.and_then(|it| Timestamp::try_from(it).ok());
        time.map(Timestamp::as_millisecond).ok_or_else(|| NotRead::NoReport(id.to_owned()))
    }

    /// Returns the data of a finished run for the page of the report. Fails if the run or its report cannot be read.
    pub(crate) fn served(&self, id: &str) -> Result<Arc<ServedRun>, NotRead> {
        let pages = || self.inner.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((place, version, found)) = pages().get(id)
            && *version == page_version(place, id)
        {
            return Ok(Arc::clone(found));
        }
        let (place, run) = self.stored(id)?;
        let read = || {
            let saved = self.open_stored(&place, run)?;
            let mutation = saved.mutation(&self.inner.world);
            let served = serve_run(&saved.report, mutation.as_ref());
            served.map(Arc::new).map_err(|err| NotRead::Failed(err.to_string()))
        };
        let (version, served) = with_version(|| page_version(&place, id), read)?;
        pages().put(id.to_owned(), (place, version, Arc::clone(&served)));
        Ok(served)
    }

    /// Deletes a run. Fails if the run does not exist, cannot be deleted, or has not ended, or if a baseline has its
    /// results.
    pub(crate) fn delete(&self, id: &str) -> Result<(), NotRead> {
        let live = self.live(id);
        if live.as_ref().is_some_and(|it| !it.has_ended()) {
            return Err(NotRead::Kept(format!(
                "the run `{id}` is going on; cancel it first: `POST /v1/runs/{id}/cancel`"
            )));
        }
        match self.stored(id) {
            Ok((place, _)) => match stored_runs::remove(&place, id)? {
                Removal::Removed => {}
                Removal::Running => {
                    let why = format!("another process runs `{id}`; stop it first");
                    return Err(NotRead::Kept(why));
                }
                Removal::HasBaselines(labels) => return Err(NotRead::Kept(kept_by(&labels))),
            },
            // A run that was cancelled while it waited is not stored.
            Err(NotRead::NoRun(_)) if live.is_some() => {}
            Err(err) => return Err(err),
        }
        self.inner.forget(id);
        Ok(())
    }

    /// Renders the report of a finished run. Fails if the run or its report cannot be read, or if the rendering fails.
    pub(crate) fn report(&self, id: &str, format: &str) -> Result<Vec<u8>, NotRead> {
        let (_, saved) = self.open(id)?;
        let mutation = saved.mutation(&self.inner.world);
        let of: (&AnyReport<'_>, _) = (&saved.report, mutation.as_ref());
        let mut bytes = Vec::new();
        match render(reporter(format)?, of, &Style::default(), &mut bytes) {
            Ok(()) => Ok(bytes),
            Err(NotRendered::Written(err)) => Err(NotRead::Failed(err.to_string())),
            Err(NotRendered::Report(err)) => Err(NotRead::Failed(err.to_string())),
            Err(NotRendered::Pdf(err)) => Err(NotRead::Failed(err.to_string())),
        }
    }

    /// Compares a finished run with an earlier one, without a margin. Fails if a run or its report cannot be read.
    pub(crate) fn compare(
        &self,
        before: &str,
        after: &str,
    ) -> Result<kindlm_types::Comparison, NotRead> {
        let side = |id: &str| Ok::<_, NotRead>(compare::Side::of_run(&self.open(id)?.1)?);
        Ok(compare::compare(&side(before)?, &side(after)?, None))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn report_that_is_replaced_while_it_is_read_has_an_old_version() {
        let written = Cell::new(SystemTime::UNIX_EPOCH);
        let version = || [Some(written.get()), None];
        let read = || {
            let text = "old";
            written.set(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
            Ok(text)
        };
        let (of_text, text) = with_version(version, read).unwrap();
        assert_eq!(text, "old");
        assert_ne!(of_text, version());
    }

    #[test]
    fn kept_run_names_its_baselines_and_the_remedy() {
        for (labels, expected) in [
            (&["a"][..], "the baseline `a` has the results of the run; set it from another run"),
            (&["a", "b"][..], "the baselines `a`, `b` have the results of the run; set them"),
        ] {
            let labels: Vec<String> = labels.iter().map(|it| (*it).to_owned()).collect();
            let why = kept_by(&labels);
            assert!(why.starts_with(expected), "{why}");
            assert!(why.ends_with("`PUT /v1/suites/{suite}/baselines/{label}`"), "{why}");
        }
    }
}
