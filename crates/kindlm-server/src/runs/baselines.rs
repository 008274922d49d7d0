//! Baselines of suites, and comparisons with baselines, as in `kindlm baseline` and `kindlm compare`.

use std::path::Path;

use kindlm_run::baselines::{self, Insist, NotSet, SetBaseline};
use kindlm_run::compare::{self, LAST, Side};
use kindlm_run::saved::{self, Saved};
use kindlm_run::suites::SuiteKey;
use kindlm_run::{Failure, SuiteFolder};
use kindlm_store::{Baseline, Baselines};
use kindlm_types::{Comparison, ExitStatus};
use serde::Serialize;
use utoipa::ToSchema;

use super::RunService;
use super::stored::NotRead;

/// A baseline of a suite.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BaselineInfo {
    /// The label of the baseline.
    label: String,
    /// The id of the run whose results the baseline has; absent if the baseline cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    /// The start of the run (RFC 3339); absent if the baseline cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    /// The number of results, one for each test case and model; absent if the baseline cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    results: Option<usize>,
    /// The reason why the baseline cannot be read; absent otherwise. The suite of such a baseline is not known, so each
    /// suite of the folder lists the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl BaselineInfo {
    fn new(label: &str, baseline: &Baseline) -> Self {
        Self {
            label: label.to_owned(),
            run: baseline.run_id.clone(),
            created_at: Some(baseline.created_at.clone()),
            results: Some(baseline.entries().len()),
            error: None,
        }
    }
}

impl RunService {
    /// Returns the baselines of a suite, by label. A baseline that cannot be read has an `error`.
    ///
    /// # Errors
    ///
    /// Fails if there is no such suite, or the suite or its folder cannot be read.
    pub(crate) fn baselines(&self, suite: &str) -> Result<Vec<BaselineInfo>, NotRead> {
        let (place, key) = self.suite(suite)?;
        let baselines = Baselines::new(place.state());
        let labels = baselines.list().map_err(|err| refused(Failure::store(&err)))?;
        let info = |label: String| match baselines.load(&label) {
            Ok(it) => key.has_baseline(&it).then(|| BaselineInfo::new(&label, &it)),
            Err(err) => {
                let error = Some(err.to_string());
                Some(BaselineInfo { label, run: None, created_at: None, results: None, error })
            }
        };
        Ok(labels.into_iter().filter_map(info).collect())
    }

    /// Stores the results of a run as a baseline of its suite. Returns true if the label is new.
    ///
    /// # Errors
    ///
    /// Fails if:
    ///
    /// - there is no such suite or run
    /// - the run is of another suite, or has no report
    /// - the label or the run is unsuitable (see [`baselines::set`])
    pub(crate) fn set_baseline(
        &self,
        suite: &str,
        label: &str,
        (run, insist): (&str, Insist),
    ) -> Result<(BaselineInfo, bool), NotRead> {
        let (place, key) = self.suite(suite)?;
        let saved = self.run_of((&place, &key), run)?;
        let set = baselines::set(&place, label, saved, insist);
        let SetBaseline { baseline, is_new, .. } = set.map_err(|why| match why {
            NotSet::NeedsForce(failure) => accepted_by("force", failure),
            NotSet::NeedsPartial(failure) => accepted_by("partial", failure),
            NotSet::Failed(failure) => refused(failure),
        })?;
        Ok((BaselineInfo::new(label, &baseline), is_new))
    }

    /// Deletes a baseline of a suite. A baseline that cannot be read is deleted too.
    ///
    /// # Errors
    ///
    /// Fails if there is no such suite or baseline, or the file cannot be removed.
    pub(crate) fn delete_baseline(&self, suite: &str, label: &str) -> Result<(), NotRead> {
        let (place, key) = self.suite(suite)?;
        let baselines = Baselines::new(place.state());
        let labels = baselines.list().map_err(|err| refused(Failure::store(&err)))?;
        let is_other = baselines.load(label).is_ok_and(|it| !key.has_baseline(&it));
        if is_other || !labels.iter().any(|it| it == label) {
            return Err(NotRead::NoBaseline(label.to_owned()));
        }
        baselines.remove(label).map_err(|err| refused(Failure::store(&err)))
    }

    /// Compares two sides of a suite: each is the label of a baseline, the id of a run, or `last` for the newest run.
    ///
    /// # Errors
    ///
    /// Fails if there is no such suite or side, or if a side is of another suite or cannot be read.
    pub(crate) fn compare_sides(
        &self,
        suite: &str,
        [before, after]: [&str; 2],
        margin: Option<f64>,
    ) -> Result<Comparison, NotRead> {
        let (place, key) = self.suite(suite)?;
        let of = (&place, &key);
        let (before, after) = (self.side(of, before)?, self.side(of, after)?);
        Ok(compare::compare(&before, &after, margin))
    }

    /// Returns the folder of a suite, and its key.
    fn suite(&self, name: &str) -> Result<(SuiteFolder, SuiteKey), NotRead> {
        let unknown = || NotRead::NoSuite(name.to_owned());
        if !self.suites()?.iter().any(|it| it == name) {
            return Err(unknown());
        }
        let (world, path) = (self.world(), Path::new(name));
        let key = SuiteKey::named(world, Some(path)).map_err(refused)?.ok_or_else(unknown)?;
        Ok((SuiteFolder::new(world, path), key))
    }

    /// Finds a side of a comparison by a label, the id of a run, or `last`. Unlike on the command line, `word` cannot
    /// be the path of a file.
    fn side(&self, of: (&SuiteFolder, &SuiteKey), word: &str) -> Result<Side, NotRead> {
        let (place, key) = of;
        let unknown = || NotRead::NoSide(word.to_owned());
        if word == LAST {
            let newest = saved::newest(self.world(), place, Some(key)).map_err(refused)?;
            return Ok(Side::of_run(&newest.ok_or_else(unknown)?)?);
        }
        let baselines = Baselines::new(place.state());
        let labels = baselines.list().map_err(|err| refused(Failure::store(&err)))?;
        if labels.iter().any(|it| it == word) {
            let side = Side::of_baseline(place, word).map_err(refused)?;
            return if key.has_baseline(&side.results) { Ok(side) } else { Err(unknown()) };
        }
        match self.run_of(of, word) {
            Ok(saved) => Ok(Side::of_run(&saved)?),
            Err(NotRead::NoRun(_)) => Err(unknown()),
            Err(err) => Err(err),
        }
    }

    /// Opens the report of a run of a suite. Fails if the run is unknown, has no report, or is of another suite.
    fn run_of(&self, (place, key): (&SuiteFolder, &SuiteKey), id: &str) -> Result<Saved, NotRead> {
        let (found, saved) = self.open(id)?;
        if found.folder != place.folder {
            return Err(NotRead::NoRun(id.to_owned()));
        }
        key.check(&saved.name, &saved.report).map_err(refused)?;
        Ok(saved)
    }
}

/// Converts a failure that the client can accept. The message says to send `"<key>": true`.
fn accepted_by(key: &str, failure: Failure) -> NotRead {
    let message = failure.message.unwrap_or_default();
    NotRead::Refused(format!("{message}; send `\"{key}\": true` to accept this"))
}

/// Converts a failure. The help text is left out, because it names options of the command line.
fn refused(failure: Failure) -> NotRead {
    let message = failure.message.unwrap_or_default();
    if failure.status == ExitStatus::Internal {
        NotRead::Failed(message)
    } else {
        NotRead::Refused(message)
    }
}
