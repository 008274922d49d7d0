//! The runs that the server shows.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kindlm_reporters::{ServeOptions, ServedRun, case_difference, one_line, serve_run_with};
use kindlm_store::{Baseline, ReportError, Runs, SavedCases, StoreError};
use kindlm_types::{CaseResult, CaseSource, Report};
use kindlm_wire::v1::RunHead;
use lru::LruCache;
use serde_json::{Value, json};

use super::editor::start_folder;
use crate::compare::{self, Side};
use crate::history::PastRuns;
use crate::saved::{self, Saved};
use crate::suites::SuiteKey;
use crate::{Failure, SuiteFolder, World};

/// The maximum number of runs in the history.
const HISTORY: usize = 30;
/// The maximum number of runs that stay in memory, in compressed form, besides the run to show.
const OPEN: NonZeroUsize = NonZeroUsize::new(4).unwrap();

/// The reason why data cannot be served.
#[derive(Debug)]
pub(super) enum NotServed {
    /// There is no such run or part.
    Absent(String),
    /// The data cannot be read.
    Failed(String),
}

/// A run with its report open.
pub(super) struct OpenRun {
    report: Report<SavedCases>,
    head: RunHead,
    /// The file of the report. A mutation result may be in the same folder.
    path: PathBuf,
    world: World,
    served: OnceLock<ServedRun>,
}

impl OpenRun {
    fn new(world: &World, report: Report<SavedCases>, path: PathBuf) -> Self {
        let head = RunHead::from_report(&report);
        Self { report, head, path, world: world.clone(), served: OnceLock::new() }
    }

    pub(super) fn head(&self) -> &RunHead {
        &self.head
    }

    /// Returns the data for the page, which is rendered on the first request.
    pub(super) fn served(&self, library: &Library) -> Result<&ServedRun, NotServed> {
        if let Some(served) = self.served.get() {
            return Ok(served);
        }
        let mutation = saved::mutation_beside(&self.world, &self.path, &self.report.run.id);
        let options = library.options(self.report.suite.config_path.as_deref());
        let served = serve_run_with(&self.report, mutation.as_ref(), &options);
        let served = served.map_err(|err| NotServed::Failed(err.to_string()))?;
        Ok(self.served.get_or_init(|| served))
    }

    fn side(&self) -> Result<Side, NotServed> {
        let results = Baseline::from_report(&self.report)
            .map_err(|err| NotServed::Failed(err.to_string()))?;
        Ok(Side { name: format!("run `{}`", self.head.run), results })
    }

    fn case(&self, name: &str, model: &str) -> Result<Option<CaseResult>, NotServed> {
        let cases = &self.report.cases;
        let of_model =
            (0..cases.len()).filter(|at| cases.mark(*at).is_some_and(|it| it.model == model));
        for position in of_model {
            let case =
                cases.read_case(position).map_err(|err| NotServed::Failed(err.to_string()))?;
            if case.case == name {
                return Ok(Some(case.into_owned()));
            }
        }
        Ok(None)
    }
}

/// The library of a folder: the runs that the server shows. The library opens when the folder has a run.
pub(super) struct LazyLibrary {
    world: World,
    place: SuiteFolder,
    of: Option<SuiteKey>,
    /// The link that opens a source location in an editor; `None` if no editor is chosen.
    editor: Option<String>,
    library: OnceLock<Library>,
}

impl LazyLibrary {
    /// Opens the library of the named run, or else of the newest run in the folder. A folder without runs has no
    /// library yet.
    pub(super) fn new(
        world: &World,
        place: SuiteFolder,
        of: Option<&SuiteKey>,
        run: Option<&str>,
    ) -> Result<Self, Failure> {
        let library = OnceLock::new();
        let saved = match run {
            Some(_) => Some(saved::find(world, &place, run, of)?),
            None => saved::newest(world, &place, of)?,
        };
        if let Some(saved) = saved {
            library.get_or_init(|| Library::new(world, &place, saved));
        }
        Ok(Self { world: world.clone(), place, of: of.cloned(), editor: None, library })
    }

    /// Adds the link that opens a source location in an editor.
    pub(super) fn with_editor(mut self, editor: Option<String>) -> Self {
        if let Some(library) = self.library.get_mut() {
            library.editor.clone_from(&editor);
        }
        Self { editor, ..self }
    }

    /// Returns the library; `None` as long as the folder has no run.
    pub(super) fn get(&self) -> Result<Option<&Library>, NotServed> {
        if let Some(library) = self.library.get() {
            return Ok(Some(library));
        }
        let saved = saved::newest(&self.world, &self.place, self.of.as_ref());
        let saved = saved.map_err(|failure| {
            let why = failure.message.unwrap_or_else(|| "the run cannot be read".to_owned());
            NotServed::Failed(why)
        })?;
        let open = |saved| Library {
            editor: self.editor.clone(),
            ..Library::new(&self.world, &self.place, saved)
        };
        Ok(saved.map(|saved| self.library.get_or_init(|| open(saved))))
    }
}

/// The run to show, and the other runs of its suite.
pub(super) struct Library {
    world: World,
    runs: Runs,
    past: PastRuns,
    shown: Arc<OpenRun>,
    place: SuiteFolder,
    editor: Option<String>,
    open: Mutex<LruCache<String, Arc<OpenRun>>>,
}

impl Library {
    pub(super) fn new(world: &World, place: &SuiteFolder, saved: Saved) -> Self {
        let runs = Runs::new(place.state());
        let of = SuiteKey::new(place, &saved.report.suite);
        Self {
            past: PastRuns::new(world, runs.clone(), of),
            runs,
            world: world.clone(),
            shown: Arc::new(OpenRun::new(world, saved.report, saved.path)),
            place: place.clone(),
            editor: None,
            open: Mutex::new(LruCache::new(OPEN)),
        }
    }

    /// Opens a run of the folder by its whole id. An empty id returns the run to show. Fails if there is no such run, or
    /// if its report cannot be read.
    pub(super) fn open(&self, id: &str) -> Result<Arc<OpenRun>, NotServed> {
        if id.is_empty() || id == self.shown.head.run {
            return Ok(Arc::clone(&self.shown));
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = open.get(id) {
            return Ok(Arc::clone(found));
        }
        let report = self.runs.open(id).map_err(|err| match err {
            ReportError::Store(StoreError::BadName { .. } | StoreError::NoSuchRun { .. }) => {
                NotServed::Absent(format!("there is no run `{}`", one_line(id)))
            }
            err => NotServed::Failed(format!("cannot read the run `{id}`: {err}")),
        })?;
        let path = self.runs.path(id).map_err(|err| NotServed::Failed(err.to_string()))?;
        let run = Arc::new(OpenRun::new(&self.world, report, path));
        open.put(id.to_owned(), Arc::clone(&run));
        Ok(run)
    }

    /// Returns the totals of the newest runs of the suite, oldest first.
    pub(super) fn heads(&self) -> Vec<RunHead> {
        self.past.heads(HISTORY)
    }

    /// Returns the options of a page. `config_path` is the path of the config file in the report.
    fn options(&self, config_path: Option<&str>) -> ServeOptions {
        ServeOptions {
            past: self.heads(),
            editor: self.editor.clone(),
            folder: start_folder(&self.world, &self.place, config_path),
        }
    }

    /// Returns the outcomes of a case in the newest runs of the suite, oldest first.
    pub(super) fn history(&self, case: &str, model: &str) -> Vec<Value> {
        let key = (case.to_owned(), model.to_owned());
        let heads = self.heads();
        let found = heads.iter().filter_map(|head| {
            let results = self.past.results(&head.run)?;
            let past = results.cases.get(&key)?;
            Some(json!({
                "run": head.run,
                "startedAt": head.started_at,
                "outcome": past.outcome,
                "held": past.held,
                "of": past.executed,
            }))
        });
        found.collect()
    }

    /// Compares a run with the run `base`, as `kindlm compare` does without a margin.
    pub(super) fn compare(&self, base: &str, after: &OpenRun) -> Result<Value, NotServed> {
        let comparison = compare::compare(&self.base(base)?.side()?, &after.side()?, None);
        Ok(json!({ "comparison": comparison }))
    }

    fn base(&self, id: &str) -> Result<Arc<OpenRun>, NotServed> {
        if id.is_empty() {
            return Err(NotServed::Absent("the parameter `base` has no run".to_owned()));
        }
        self.open(id)
    }

    /// Returns the results of a case in both runs, and the differences of their texts.
    pub(super) fn difference(
        &self,
        base: &str,
        after: &OpenRun,
        case: &str,
        model: &str,
    ) -> Result<Value, NotServed> {
        let before = self.base(base)?.case(case, model)?;
        let after = after.case(case, model)?;
        if before.is_none() && after.is_none() {
            return Err(NotServed::Absent("no run has this case".to_owned()));
        }
        Ok(case_difference(before.as_ref(), after.as_ref()))
    }
}
