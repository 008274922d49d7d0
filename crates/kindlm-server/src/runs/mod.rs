//! Runs of the suites in a folder: starts them, follows them, and reads their reports.
//!
//! The server and `kindlm test` store runs in the same place: beside their suites, in `.kindlm/runs`. So the server
//! also lists the runs of `kindlm test`, and `kindlm` finds the runs of the server.
//!
//! If a server starts a run, the selection (`tests`, `tags`, `models`, `repeat`) is not stored. So only a server can
//! resume such a run: the request to resume repeats the selection.

mod append;
mod baselines;
mod live;
mod start;
mod stored;
mod suites;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use kindlm_reporters::ServedRun;
use kindlm_run::{ServerModels, SuiteFolder, World};
use lru::LruCache;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

pub(crate) use baselines::BaselineInfo;
pub(crate) use live::{Event, Events, LiveRun, RunState};
pub(crate) use start::{NewRun, NotStarted, PlannedRun};
pub(crate) use stored::{NotRead, PastCases, RunInfo};

/// The maximum number of runs that wait or run at once.
const MAX_OPEN: usize = 100;

/// The number of ended runs whose events stay in memory.
const ENDED_KEPT: usize = 100;

/// The number of runs whose page data stays in memory, in compressed form.
const PAGES_KEPT: std::num::NonZeroUsize = std::num::NonZeroUsize::new(4).unwrap();

/// Runs the suites of a folder. Clones share the runs.
#[derive(Clone)]
pub struct RunService {
    inner: Arc<Inner>,
}

struct Inner {
    /// The environment of runs. Its working folder is the folder of suites.
    world: World,
    /// False if the server has no folder of suites.
    has_suites: bool,
    /// The models of inline suites; `None` if the server has no config.
    models: Option<ServerModels>,
    /// A permit for each run that may run at once.
    turns: Arc<Semaphore>,
    runtime: Handle,
    live: Mutex<Vec<Arc<LiveRun>>>,
    pages: Mutex<LruCache<String, KeptPage>>,
    /// Locked while a request changes the file of a suite.
    edits: Mutex<()>,
}

/// The page data of a run, with the folder of its suite.
type KeptPage = (SuiteFolder, PageVersion, Arc<ServedRun>);

/// The times at which the report and the mutation result of a run were written; `None` for a missing file.
type PageVersion = [Option<SystemTime>; 2];

impl std::fmt::Debug for RunService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunService").field("folder", &self.inner.world.working_dir).finish()
    }
}

impl RunService {
    /// Creates the service for the suites below the folder `suites`. With `None`, there are no suites.
    ///
    /// Inline suites can use only the models in `models`. With `None`, the service refuses inline suites.
    ///
    /// At most `at_once` runs (at least 1) run at the same time; further runs wait. Call this function in a tokio
    /// runtime, because waiting runs use the runtime.
    pub fn new(
        world: World,
        suites: Option<PathBuf>,
        models: Option<ServerModels>,
        at_once: usize,
    ) -> Self {
        let has_suites = suites.is_some();
        let working_dir = suites.unwrap_or_else(|| world.working_dir.clone());
        let service = Self {
            inner: Arc::new(Inner {
                world: World { working_dir, ..world },
                has_suites,
                models,
                turns: Arc::new(Semaphore::new(at_once.max(1))),
                runtime: Handle::current(),
                live: Mutex::default(),
                pages: Mutex::new(LruCache::new(PAGES_KEPT)),
                edits: Mutex::default(),
            }),
        };
        service.look_for_ignored_suites();
        service
    }

    /// Returns the environment of runs, which receives the notices of the server.
    pub(crate) fn world(&self) -> &World {
        &self.inner.world
    }

    /// Waits until no other request changes the file of a suite, and locks the files for this request.
    fn lock_edits(&self) -> MutexGuard<'_, ()> {
        self.inner.edits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a run that this process started; `None` if there is none. Newer runs may have replaced an ended run.
    pub(crate) fn live(&self, id: &str) -> Option<Arc<LiveRun>> {
        self.inner.all_live().into_iter().find(|it| it.id == id)
    }

    /// Stops all runs, and waits until they have written their reports.
    pub async fn stop(&self) {
        let runs = self.inner.all_live();
        // Cancel all runs first, so that no waiting run starts when another run ends. The second cancellation aborts
        // running executions.
        for run in &runs {
            run.cancel();
            run.cancel();
        }
        for run in runs {
            run.ended().await;
        }
    }
}

impl Inner {
    fn all_live(&self) -> Vec<Arc<LiveRun>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Removes a deleted run, and the data of its page, from memory.
    fn forget(&self, id: &str) {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).retain(|it| it.id != id);
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).pop(id);
    }

    /// Adds a run. Fails if too many runs wait or run, or if this run has not ended yet.
    fn add(&self, run: &Arc<LiveRun>) -> Result<(), NotStarted> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.iter().filter(|it| !it.has_ended()).count() >= MAX_OPEN {
            return Err(NotStarted::TooMany(MAX_OPEN));
        }
        if live.iter().any(|it| it.id == run.id && !it.has_ended()) {
            return Err(NotStarted::Running(run.id.clone()));
        }
        live.iter().for_each(|it| it.trim());
        // A resumed run replaces its earlier part.
        live.retain(|it| it.id != run.id);
        let ended = live.iter().filter(|it| it.has_ended()).count();
        if ended >= ENDED_KEPT
            && let Some(oldest) = live.iter().position(|it| it.has_ended())
        {
            live.remove(oldest);
        }
        live.push(Arc::clone(run));
        Ok(())
    }
}
