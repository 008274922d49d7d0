//! Starts runs. Each run has a thread of its own, because a run blocks its thread.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use kindlm_run::{
    Failure, OpenOptions, Prepared, Project, Purpose, RunConfig, Selection, SuiteFolder, Tag,
    resume,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use utoipa::ToSchema;

use super::live::{LiveRun, RunState, Watcher, state_of};
use super::{Inner, RunService};

/// The maximum number of executions of an inline suite.
const MAX_EXECUTIONS: u64 = 10_000;

/// The request for a run.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewRun {
    /// The suite: its path below the folder of suites. Or an inline suite: an object, or a text of several lines of
    /// YAML.
    #[schema(value_type = SuiteForm)]
    suite: SuiteChoice,
    /// The test cases by name: each text is a part of a name, a glob, or `/a regular expression/`. Without texts, all
    /// test cases run.
    #[serde(default)]
    tests: Vec<String>,
    /// The tags to select by: a test case must have at least one of them. `!tag` leaves out the test cases with this
    /// tag.
    #[serde(default)]
    tags: Vec<String>,
    /// The ids of the models. Without ids, all models of the suite are used.
    #[serde(default)]
    models: Vec<String>,
    /// The number of repeats of each test case, from 1 to 1000, in place of the number in the suite.
    #[schema(minimum = 1, maximum = 1000)]
    repeat: Option<u32>,
    /// The id of a run to resume. The request must have the same suite and selection as that run.
    resume: Option<String>,
}

/// The JSON forms of a suite in a request.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only described; `SuiteChoice` reads it with its lines")]
pub(crate) enum SuiteForm {
    /// A path, or a suite as YAML of several lines.
    Text(String),
    /// A suite as an object.
    Object(Map<String, Value>),
}

/// The suite of a run.
#[derive(Clone, Debug)]
enum SuiteChoice {
    /// The path below the folder of suites.
    Named(String),
    /// The text of an inline suite.
    Inline(String),
}

impl<'de> Deserialize<'de> for SuiteChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Keep the text of an object, because errors name its lines.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if raw.get().starts_with('{') {
            return Ok(Self::Inline(raw.get().to_owned()));
        }
        let text: String = serde_json::from_str(raw.get()).map_err(|_| {
            D::Error::custom("`suite`: expected a path, a suite as YAML text, or an object")
        })?;
        Ok(if text.contains('\n') { Self::Inline(text) } else { Self::Named(text) })
    }
}

impl NewRun {
    /// Creates the request for a run of the test cases with these names, or of all test cases if `tests` is empty.
    pub(crate) fn new(suite: String, tests: Vec<String>) -> Self {
        let (tags, models) = (Vec::new(), Vec::new());
        let suite = SuiteChoice::Named(suite);
        Self { suite, tests, tags, models, repeat: None, resume: None }
    }
}

/// The reason why a run did not start.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// There is no such suite.
    NoSuite(String),
    /// The server runs no inline suites, because it was started without the named option.
    NoInline(&'static str),
    /// The suite or the selection is invalid.
    Invalid(Failure),
    /// Too many runs wait or run already. The value is the limit.
    TooMany(usize),
    /// The run with this id has not ended yet.
    Running(String),
    /// The server failed.
    Internal(String),
}

impl From<Failure> for NotStarted {
    fn from(failure: Failure) -> Self {
        Self::Invalid(failure)
    }
}

/// A planned run. If it is dropped before its [`start`](Self::start), the run does not start, and no request finds it.
pub(crate) struct PlannedRun {
    run: Arc<LiveRun>,
    /// The text of the suite's file; `None` for an inline suite.
    text: Option<String>,
    inner: Arc<Inner>,
    /// The channel whose message starts the run; `None` once the run has started.
    start: Option<oneshot::Sender<()>>,
}

impl PlannedRun {
    pub(crate) fn run(&self) -> &Arc<LiveRun> {
        &self.run
    }

    /// Returns the text of the suite's file; `None` for an inline suite.
    pub(crate) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Starts the run as soon as fewer runs than permitted are running.
    pub(crate) fn start(mut self) -> Arc<LiveRun> {
        if let Some(start) = self.start.take() {
            // The thread of the run waits for this message.
            let _ = start.send(());
        }
        Arc::clone(&self.run)
    }
}

impl Drop for PlannedRun {
    fn drop(&mut self) {
        if self.start.take().is_some() {
            let error = "the run did not start, because its request failed; send the request again";
            // Remove the run before it ends. After its end, another request may add a run with the same id, and this
            // call would remove that run.
            self.inner.forget(&self.run.id);
            self.run.end(RunState::Errored, Some(error.to_owned()));
        }
    }
}

impl RunService {
    /// Plans a run, which waits for its [`start`](PlannedRun::start).
    ///
    /// # Errors
    ///
    /// Fails if:
    ///
    /// - the options are invalid, the suite cannot be opened, or no test case is selected
    /// - the run to resume is not found or has not ended
    /// - too many runs wait or run
    /// - a file cannot be read, or the thread of the run cannot start
    pub(crate) async fn plan(&self, new: NewRun) -> Result<PlannedRun, NotStarted> {
        let repeats = 1..=1000;
        if new.repeat.is_some_and(|it| !repeats.contains(&it)) {
            let message = "`repeat` must be from 1 to 1000";
            return Err(NotStarted::Invalid(Failure::input(message)));
        }
        let (reported, planned) = oneshot::channel();
        let inner = Arc::clone(&self.inner);
        let service = self.clone();
        let spawned = thread::Builder::new().name("run".to_owned()).spawn(move || {
            match service.prepare(&new) {
                Ok((prepared, run, text)) => {
                    let (start, has_started) = oneshot::channel();
                    let (of_plan, start) = (Arc::clone(&inner), Some(start));
                    let planned = PlannedRun { run: Arc::clone(&run), text, inner: of_plan, start };
                    // If the caller has left, this drops the plan.
                    drop(reported.send(Ok(planned)));
                    if has_started.blocking_recv().is_ok() {
                        inner.perform(prepared, &run);
                    }
                }
                Err(why) => drop(reported.send(Err(why))),
            }
        });
        spawned.map_err(|err| NotStarted::Internal(format!("cannot start a thread: {err}")))?;
        planned.await.unwrap_or_else(|_| {
            Err(NotStarted::Internal("the run ended before it started".to_owned()))
        })
    }

    fn prepare(
        &self,
        new: &NewRun,
    ) -> Result<(Prepared, Arc<LiveRun>, Option<String>), NotStarted> {
        let world = &self.inner.world;
        let (project, name, text) = self.open_suite(&new.suite, new.repeat)?;
        let find = |id: &String| resume::find(world, &project.place, &project.suite, Some(id));
        let past = new.resume.as_ref().map(find).transpose()?;
        let mut config = RunConfig {
            select: Selection {
                tags: new.tags.iter().map(|it| tag(it)).collect(),
                tests: new.tests.clone(),
                models: new.models.clone(),
                ..Selection::default()
            },
            quiet: true,
            ..RunConfig::default()
        };
        config.options.repeat = new.repeat;
        let prepared = Prepared::new(world, project, config, past)?
            .ok_or_else(|| Failure::input("the selection has no test case"))?;
        let run = LiveRun::new(prepared.id().to_owned(), name);
        self.inner.add(&run)?;
        Ok((prepared, run, text))
    }

    /// Opens a suite. Returns the suite, its name, and the text of its file; the text is `None` for an inline suite.
    ///
    /// The name is the path of the file, or the name in the text of an inline suite.
    fn open_suite(
        &self,
        suite: &SuiteChoice,
        repeat: Option<u32>,
    ) -> Result<(Project, String, Option<String>), NotStarted> {
        let world = &self.inner.world;
        match suite {
            SuiteChoice::Named(name) => {
                let suites = self.suites().map_err(|err| {
                    NotStarted::Internal(format!("cannot read the folder of suites: {err}"))
                })?;
                if !suites.contains(name) {
                    return Err(NotStarted::NoSuite(name.clone()));
                }
                let options = OpenOptions::new(Path::new(name));
                let text = SuiteFolder::new(world, Path::new(name)).read_config()?;
                let project = Project::of_text(world, &options, &text, Purpose::Run)?;
                Ok((project, name.clone(), String::from_utf8(text).ok()))
            }
            SuiteChoice::Inline(text) => {
                let models = self.inner.models.as_ref().ok_or(NotStarted::NoInline("--config"))?;
                if !self.inner.has_suites {
                    return Err(NotStarted::NoInline("--suites"));
                }
                let project = models.open(world, &self.inline_folder(), text.as_bytes())?;
                check_size(&project, repeat)?;
                let name = project.suite.info.name.clone();
                Ok((project, name, None))
            }
        }
    }
}

/// Refuses an inline suite whose plan would need too much memory.
fn check_size(project: &Project, repeat: Option<u32>) -> Result<(), Failure> {
    let cases = project.suite.cases.iter();
    let executions = cases.fold(0_u64, |sum, it| {
        let of_case = it.models.len() as u64 * u64::from(repeat.unwrap_or(it.repeat));
        sum.saturating_add(of_case)
    });
    if executions <= MAX_EXECUTIONS {
        return Ok(());
    }
    let message = format!(
        "the suite has {executions} executions (tests, models and repeats), and an inline suite has at most \
         {MAX_EXECUTIONS}; send several suites"
    );
    Err(Failure::input(message))
}

fn tag(text: &str) -> Tag {
    match text.strip_prefix('!') {
        Some(without) => Tag::Without(without.to_owned()),
        None => Tag::With(text.to_owned()),
    }
}

/// Marks a run as ended when this value is dropped, so that the run ends even if its thread panics.
struct Ends<'a>(&'a LiveRun);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if !self.0.has_ended() {
            let error = "the run failed; the standard error of the server has the details";
            self.0.end(RunState::Errored, Some(error.to_owned()));
        }
    }
}

impl Inner {
    /// Waits for a permit, and performs the run. A run that is cancelled while it waits does not start.
    fn perform(&self, prepared: Prepared, run: &Arc<LiveRun>) {
        let _ends = Ends(run);
        let turn = self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = run.cancelled() => None,
                turn = Arc::clone(&self.turns).acquire_owned() => turn.ok(),
            }
        });
        let Some(_turn) = turn else {
            return run.end(RunState::Interrupted, None);
        };
        run.start();
        let world = run.world(&self.world);
        let watcher = Box::new(Watcher(Arc::clone(run)));
        let outcome = prepared.run(&world, watcher, &mut |report| {
            run.judged(report);
            Ok(())
        });
        let (state, error) = state_of(&outcome);
        run.end(state, error);
    }
}
