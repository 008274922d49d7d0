//! Evaluates single records for a server or another program: [`RecordService`].
//!
//! The senders of records to a server are not trusted. A record can compute, and can ask the judges of the server's
//! config. It cannot read files, read environment variables, reach the network, or run programs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use kindlm_engine::judge_of;
use kindlm_store::Folder;
use kindlm_store::responses::Recorded;
use kindlm_types::{Files, PROMPT_ASSERTION, SuiteInfo};
use kindlm_wire::evaluate::{BatchSummary, EvaluatedResult, Evaluation};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

pub use super::JudgeCost;
use super::caller::{Abandon, Caller};
use super::judge::{Asking, NotJudged};
use super::summary::{self, Totals, results_of};
use super::{Evaluator, JudgedRecord, Line, Malformed, literal};
use crate::inline::NoAccess;
use crate::session::ports;
use crate::{Failure, Project, ResponseSource, Session, World, project};
pub use kindlm_assertions::CheckOutcome;

/// The reason why a record was not evaluated.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RecordError {
    /// The record is invalid, or it has a check that is not permitted.
    Invalid {
        /// The record's id; `None` if it is missing or could not be read.
        id: Option<Value>,
        /// The error message, which names the field, with advice.
        message: String,
    },
    /// A check needs a judge model, and the config has no model.
    NoJudge,
    /// The evaluation panicked.
    Internal,
    /// The evaluation was not started, because the caller left or the service has ended.
    NotStarted,
    /// The evaluation was ended, because the caller left.
    Ended {
        /// True if judges may have been asked.
        asks_judges: bool,
    },
}

impl RecordError {
    /// Returns the cost of the judges that were asked before the error.
    pub fn cost(&self) -> JudgeCost {
        let is_unknown = matches!(self, Self::Internal | Self::Ended { asks_judges: true });
        JudgeCost { known_usd: 0.0, is_unknown }
    }
}

/// Returns true if a check is errored because a provider failed. Another attempt may decide the check.
pub fn failed_by_provider(evaluation: &Evaluation) -> bool {
    summary::failed_by_provider(&evaluation.results)
}

/// Returns the `expect` block for a test that has the checks of a record: the record's `assertions` and `expect`.
///
/// Without variables, braces in the rules of a record are plain text, so the block escapes the braces.
pub fn expect_of(checks: &Map<String, Value>, has_vars: bool) -> Value {
    let mut expect = checks.get("expect").and_then(Value::as_object).cloned().unwrap_or_default();
    let rules =
        checks.get("assertions").filter(|it| it.as_array().is_some_and(|it| !it.is_empty()));
    if let Some(mut rules) = rules.cloned() {
        if !has_vars {
            literal(&mut rules);
        }
        let mut entries = vec![json!({"type": PROMPT_ASSERTION, "assertions": rules})];
        if let Some(Value::Array(own)) = expect.remove("assert") {
            entries.extend(own);
        }
        expect.insert("assert".to_owned(), Value::Array(entries));
    }
    Value::Object(expect)
}

/// Checks the format of the evidence in a record, for records that are stored now and evaluated later.
///
/// # Errors
///
/// Returns the error message if the evidence cannot be read. The message names the key.
pub fn check_evidence(json: &[u8]) -> Result<(), String> {
    Line::parse(json).map(drop).map_err(|it| it.error)
}

/// The channel for the results of the checks of a record. Each result is sent as soon as its check is evaluated.
///
/// Nothing is sent if no check of the record asks a question or is required, because all results are then known at
/// once.
pub type WatchResults = mpsc::UnboundedSender<EvaluatedResult>;

/// The sender of the checks.
#[derive(Clone, Copy, PartialEq)]
enum Sender {
    /// The user who started this program.
    Trusted,
    Untrusted,
}

/// The work for one record, and the channel for its result.
enum Job {
    Evaluate {
        json: Vec<u8>,
        caller: Caller,
        watch: Option<WatchResults>,
        reply: oneshot::Sender<Result<Evaluated, RecordError>>,
    },
    Compile(Vec<u8>, oneshot::Sender<Result<(), RecordError>>),
}

/// An evaluated record.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Evaluated {
    /// The outcome of the record, and the results of its checks.
    pub evaluation: Evaluation,
    /// The outcome of each check and rule. The names are the same for all records with these checks. A trusted service
    /// has no outcomes.
    pub outcomes: Vec<CheckOutcome>,
    /// The cost of the judges.
    pub cost: JudgeCost,
}

/// A record that waits for its evaluation, or is being evaluated. Dropping this value skips the evaluation or ends it
/// at once.
#[derive(Debug)]
pub struct PendingRecord {
    result: oneshot::Receiver<Result<Evaluated, RecordError>>,
    abandon: Abandon,
}

impl PendingRecord {
    /// Waits for the result. If the future is dropped, this method can be called again.
    ///
    /// # Errors
    ///
    /// Fails like [`RecordService::evaluate`].
    pub async fn result(&mut self) -> Result<Evaluated, RecordError> {
        (&mut self.result).await.unwrap_or(Err(RecordError::NotStarted))
    }

    /// Makes the service skip the record, or end its evaluation. If the record asks judges, the judges get one more
    /// minute to answer, so that the [`cost`](Self::cost) is known.
    pub fn abandon(&self) {
        self.abandon.send_replace(true);
    }

    /// Waits until the evaluation has ended or was skipped, and returns its cost.
    pub async fn cost(mut self) -> JudgeCost {
        self.result().await.map_or_else(|err| err.cost(), |it| it.cost)
    }
}

/// The maximum number of scripts of an untrusted record. Each script may take 5 seconds, and the scripts of all records
/// share the worker processes.
pub(super) const MAX_SCRIPTS: usize = 100;

/// The time for which the circuit to a judge's provider is open after repeated failures: no request is sent.
const CIRCUIT_OPEN: Duration = Duration::from_mins(1);

/// Evaluates records, any number at once. Clones share the threads, which end with the last clone.
#[derive(Clone, Debug)]
pub struct RecordService {
    jobs: mpsc::Sender<Job>,
    suite: Arc<Option<SuiteInfo>>,
    has_judge: bool,
}

impl RecordService {
    /// Opens the judges of `suite`, and starts `concurrency` threads (at least 1). No request is sent.
    ///
    /// Without a suite, or with a suite without models, there is no judge. Agents do not judge. Records can use the
    /// named checks of the suite, with the same restrictions as for other checks of records.
    ///
    /// # Errors
    ///
    /// Fails if the config of a provider is invalid, or a thread cannot be started.
    pub fn start(
        world: World,
        suite: Option<Project>,
        concurrency: usize,
    ) -> Result<Self, Failure> {
        Self::start_for(Sender::Untrusted, world, suite, concurrency)
    }

    /// Starts a service like [`start`](Self::start), for checks of the user who started this program.
    ///
    /// The checks have the same permissions as the checks of `kindlm evaluate`. They can name files below the working
    /// folder, and their scripts have the permissions of the suite.
    ///
    /// # Errors
    ///
    /// Fails like [`start`](Self::start), and if the working folder cannot be read.
    pub fn start_trusted(
        world: World,
        suite: Option<Project>,
        concurrency: usize,
    ) -> Result<Self, Failure> {
        Self::start_for(Sender::Trusted, world, suite, concurrency)
    }

    fn start_for(
        sender: Sender,
        world: World,
        suite: Option<Project>,
        concurrency: usize,
    ) -> Result<Self, Failure> {
        let concurrency = concurrency.max(1);
        let (jobs, todo) = mpsc::channel(concurrency);
        let (started, is_started) = std::sync::mpsc::sync_channel(1);
        let info = suite.as_ref().map(|it| it.suite.info.clone());
        let models = suite.as_ref().map_or(&[][..], |it| &it.suite.models);
        let has_judge = judge_of(models, None).is_some();
        let run = move || {
            // The receiver waits for one message: the judges are open, or the start has failed.
            let ready = || drop(started.send(Ok(())));
            if let Err(failure) = serve(&world, suite.as_ref(), (sender, concurrency), todo, ready)
            {
                drop(started.send(Err(failure)));
            }
        };
        let failed = |why: String| Failure::internal(format!("cannot start: {why}"));
        let thread = thread::Builder::new().name("records".to_owned()).spawn(run);
        thread.map_err(|err| failed(err.to_string()))?;
        is_started.recv().map_err(|_| failed("a thread stopped".to_owned()))??;
        Ok(Self { jobs, suite: Arc::new(info), has_judge })
    }

    /// Returns true if the config has a model, so that checks can ask a judge.
    pub fn has_judge(&self) -> bool {
        self.has_judge
    }

    /// Evaluates one record: a JSON object, as `kindlm evaluate` reads it.
    ///
    /// If all threads are busy, this waits. A record whose caller no longer waits is not started.
    ///
    /// # Errors
    ///
    /// Fails if the record is invalid, has a check that is not permitted, or needs a judge that does not exist. Also
    /// fails if the evaluation panicked or the service has ended.
    pub async fn evaluate(&self, json: Vec<u8>) -> Result<Evaluated, RecordError> {
        self.submit(json).await?.result().await
    }

    /// Puts a record into the queue of the threads. Waits while the queue is full.
    ///
    /// # Errors
    ///
    /// Fails if the service has ended.
    pub async fn submit(&self, json: Vec<u8>) -> Result<PendingRecord, RecordError> {
        self.submit_watched(json, None).await
    }

    /// Does the same as [`submit`](Self::submit). `watch` receives results while other checks wait for their judges.
    /// `watch` is dropped after the evaluation.
    ///
    /// # Errors
    ///
    /// Fails if the service has ended.
    pub async fn submit_watched(
        &self,
        json: Vec<u8>,
        watch: Option<WatchResults>,
    ) -> Result<PendingRecord, RecordError> {
        let (reply, result) = oneshot::channel();
        let (abandon, caller) = Caller::new();
        let job = Job::Evaluate { json, caller, watch, reply };
        self.jobs.send(job).await.map_err(|_| RecordError::NotStarted)?;
        Ok(PendingRecord { result, abandon })
    }

    /// Compiles the checks of a record without evaluating any check. The record needs no input and no output.
    ///
    /// If the checks have templates, their errors may depend on the variables of a record, so they are not reported.
    ///
    /// # Errors
    ///
    /// Fails if there are no checks, or if a check is invalid or not permitted. Also fails if the service has ended.
    pub async fn compile(&self, json: Vec<u8>) -> Result<(), RecordError> {
        let (reply, result) = oneshot::channel();
        self.jobs.send(Job::Compile(json, reply)).await.map_err(|_| RecordError::NotStarted)?;
        result.await.unwrap_or(Err(RecordError::NotStarted))
    }

    /// Returns empty totals for a series of records.
    pub fn batch(&self) -> BatchTotals {
        BatchTotals { totals: Totals::default(), suite: Arc::clone(&self.suite) }
    }
}

/// The totals of a series of records.
pub struct BatchTotals {
    totals: Totals,
    suite: Arc<Option<SuiteInfo>>,
}

impl BatchTotals {
    /// Adds the result of the record on this line, from 1.
    pub fn observe(&self, line: u64, evaluation: &Evaluation) {
        self.totals.observe(line, evaluation, &results_of(evaluation));
    }

    /// Counts a line that was not evaluated.
    pub fn malformed(&self) {
        self.totals.malformed();
    }

    /// Counts a record whose checks could not be evaluated.
    pub fn errored(&self) {
        self.totals.errored();
    }

    /// Returns the summary, with the same fields as the `--summary` of `kindlm evaluate`.
    pub fn summary(&self) -> BatchSummary {
        let suite = self.suite.as_ref().as_ref();
        let agent = suite.map(|it| it.project.clone());
        self.totals.summary(agent, suite.map(|it| it.name.clone()), None)
    }
}

/// Evaluates records until all senders are gone. `ready` is called when the judges are open.
fn serve(
    world: &World,
    suite: Option<&Project>,
    (sender, concurrency): (Sender, usize),
    todo: mpsc::Receiver<Job>,
    ready: impl FnOnce(),
) -> Result<(), Failure> {
    let live = ResponseSource::default();
    let root = suite.map_or(Path::new(&world.working_dir), |it| it.files.root());
    let session = match suite {
        Some(Project { place, suite, files, .. }) => {
            Session::new(world, place, (suite, files), concurrency, &live)?
        }
        None => Session::without_suite(world, None, root, concurrency, &live)?,
    };
    let folder = match sender {
        Sender::Trusted => {
            let folder = Folder::open(&world.working_dir);
            Some(folder.map_err(|err| Failure::input(err.to_string()))?)
        }
        Sender::Untrusted => None,
    };
    let session = match &folder {
        Some(folder) => session.with_check_scripts(world, folder.root())?,
        None => session.sandboxed(world),
    };
    let Session { client, runner, responses, secrets, .. } = session;
    let client = client.with_circuits_closed_after(CIRCUIT_OPEN);
    let recorded = Recorded::new(&client, responses);
    let asked = ports(&client, &recorded, &runner);
    let models = suite.map(|it| it.suite.models.as_slice()).filter(|it| !it.is_empty());
    let ids: Option<Vec<String>> = models.map(|it| it.iter().map(|it| it.id.clone()).collect());
    let default = suite.and_then(|it| it.suite.defaults.judge_model.as_deref());
    let asking = Asking::new(asked, models, default, concurrency, None)?;
    let files = folder.as_ref().map_or(&NoAccess as &dyn Files, |it| it);
    let settings = suite.map(|it| &it.suite);
    let mut setup = project::setup(world, files, ids.as_deref(), settings);
    if sender == Sender::Untrusted {
        setup = setup.sandboxed();
    }
    let evaluator = Evaluator::new(setup, asking, false)
        .with_threshold(settings.and_then(|it| it.defaults.threshold))
        .with_secrets(secrets);
    let evaluator = match sender {
        Sender::Trusted => evaluator,
        // Only the server reads outcomes.
        Sender::Untrusted => evaluator.with_max_scripts(Some(MAX_SCRIPTS)).with_outcomes(),
    };
    let todo = Mutex::new(todo);
    ready();
    thread::scope(|scope| {
        for _ in 0..concurrency {
            scope.spawn(|| work(&evaluator, &todo));
        }
    });
    Ok(())
}

fn work(evaluator: &Evaluator<'_>, todo: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        let job = todo.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        match job {
            None => return,
            Some(Job::Evaluate { json, caller, watch, reply }) => {
                answer(reply, || {
                    if caller.has_left() {
                        return Err(RecordError::NotStarted);
                    }
                    evaluate(evaluator, &json, watch, &caller)
                });
            }
            Some(Job::Compile(json, reply)) => {
                answer(reply, || evaluator.compiles(&json).map_err(|it| invalid(evaluator, it)));
            }
        }
    }
}

fn answer<T>(
    reply: oneshot::Sender<Result<T, RecordError>>,
    work: impl FnOnce() -> Result<T, RecordError>,
) {
    if reply.is_closed() {
        return;
    }
    // A panic is an error of this record, and must not end the thread.
    let result = catch_unwind(AssertUnwindSafe(work));
    // The caller may have left while the record was evaluated.
    let _ = reply.send(result.unwrap_or(Err(RecordError::Internal)));
}

fn evaluate(
    evaluator: &Evaluator<'_>,
    json: &[u8],
    watch: Option<WatchResults>,
    caller: &Caller,
) -> Result<Evaluated, RecordError> {
    let observe = watch.map(|watch| {
        move |result| {
            // The caller may have left.
            let _ = watch.send(result);
        }
    });
    let observe = observe.as_ref().map(|it| it as &(dyn Fn(EvaluatedResult) + Sync));
    match evaluator.judged(json, 1, observe, caller) {
        Ok(Ok(JudgedRecord { evaluation, outcomes, cost, .. })) => {
            Ok(Evaluated { evaluation, outcomes, cost })
        }
        Ok(Err(NotJudged::CallerLeft { asks_judges })) => Err(RecordError::Ended { asks_judges }),
        Ok(Err(_)) => Err(RecordError::NoJudge),
        Err(malformed) => Err(invalid(evaluator, malformed)),
    }
}

fn invalid(evaluator: &Evaluator<'_>, malformed: Malformed) -> RecordError {
    let Malformed { id, error: mut message } = malformed;
    evaluator.secrets.redact_text(&mut message);
    RecordError::Invalid { id: evaluator.shown(id), message }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use kindlm_testing::{MockReply, MockServer};

    use super::*;
    use crate::OpenOptions;
    use crate::programs::Purpose;

    /// Waits until a judge has received a number of requests.
    fn wait_for(judge: &MockServer, count: usize) {
        let end = Instant::now() + Duration::from_mins(1);
        while judge.count() < count {
            assert!(Instant::now() < end, "{} requests", judge.count());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts a service with one thread, and a judge with or without a price.
    fn service(folder: &Path, judge: &MockServer, price: &str) -> RecordService {
        let config = format!(
            "kindlm: 1\nproject: p\nsuite: {{ name: s }}\n\
             providers: {{ openai: {{ apiKeyEnv: MOCK_KEY, baseUrl: '{}' }} }}\n\
             models: [{{ id: judge, provider: openai, model: own{price} }}]\n",
            judge.url()
        );
        std::fs::write(folder.join("kindlm.yaml"), config).unwrap();
        let world = World::new(folder, Arc::new(|_| Some("k".to_owned())));
        let project =
            Project::open(&world, &OpenOptions::new("kindlm.yaml"), Purpose::Models).unwrap();
        RecordService::start(world, Some(project), 1).unwrap()
    }

    /// Returns a record with this output. A different output leads to a different question for the judge.
    fn record(output: &str) -> Vec<u8> {
        let expect = json!({"judge": [{"criteria": "Is polite"}]});
        let record = json!({"agent_input": "hello", "agent_output": output, "expect": expect});
        serde_json::to_vec(&record).unwrap()
    }

    #[tokio::test]
    async fn abandoned_record_costs_what_its_judge_cost() {
        let judge = MockServer::answering(|_| MockReply::text("no verdict")).unwrap();
        for (price, is_unknown) in [(", price: { input: 1, output: 1 }", false), ("", true)] {
            let folder = tempfile::tempdir().unwrap();
            let service = service(folder.path(), &judge, price);
            let before = judge.count();
            judge.hold();
            let slow = service.submit(record("first")).await.unwrap();
            wait_for(&judge, before + 1);
            let queued = service.submit(record("second")).await.unwrap();
            slow.abandon();
            queued.abandon();
            judge.release();
            let cost = slow.cost().await;
            assert_eq!((cost.known_usd > 0.0, cost.is_unknown), (!is_unknown, is_unknown));
            let asked = judge.requests();
            assert_eq!(queued.cost().await, JudgeCost::default());
            // The second record was skipped: its judge was not asked.
            assert_eq!(judge.requests().len(), asked.len());
            let third = service.evaluate(record("third")).await.unwrap();
            assert_eq!(third.cost.is_unknown, is_unknown);
        }
    }

    #[tokio::test]
    async fn evaluation_ends_when_its_caller_leaves() {
        let judge = MockServer::answering(|_| MockReply::text("no verdict")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let service = service(folder.path(), &judge, "");
        judge.hold();
        let left = service.submit(record("first")).await.unwrap();
        wait_for(&judge, 1);
        drop(left);
        // The only thread is free again, although the judge has not answered.
        let plain = json!({"agent_output": "a", "expect": {"output": {"contains": ["a"]}}});
        let plain = service.evaluate(serde_json::to_vec(&plain).unwrap());
        let evaluated = tokio::time::timeout(Duration::from_secs(30), plain).await;
        judge.release();
        assert_eq!(evaluated.unwrap().unwrap().evaluation.passed, 1);
    }

    #[tokio::test]
    async fn suite_with_only_agents_has_no_judge() {
        let folder = tempfile::tempdir().unwrap();
        let config =
            "kindlm: 1\nproject: p\nsuite: { name: s }\nagents: { parrot: { command: sh a.sh } }\n";
        std::fs::write(folder.path().join("kindlm.yaml"), config).unwrap();
        let world = World::new(folder.path(), Arc::new(|_| None));
        let options = OpenOptions::new("kindlm.yaml");
        let project = Project::open(&world, &options, Purpose::Models).unwrap();
        assert!(!project.suite.models.is_empty());
        let service = RecordService::start(world, Some(project), 1).unwrap();
        assert!(!service.has_judge());
        let refused = service.evaluate(record("first")).await;
        assert!(matches!(refused, Err(RecordError::NoJudge)), "{refused:?}");
    }

    #[tokio::test]
    async fn untrusted_record_has_few_scripts() {
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(folder.path(), Arc::new(|_| None));
        let service = RecordService::start(world, None, 1).unwrap();
        let script = |at| json!({"type": "javascript", "value": format!("{at} > 0")});
        let scripts: Vec<Value> = (0..=MAX_SCRIPTS).map(script).collect();
        let set = json!({"expect": {"assert": scripts}});
        let record = json!({"agent_output": "a", "expect": set["expect"]});
        let refused = service.evaluate(serde_json::to_vec(&record).unwrap()).await;
        let Err(RecordError::Invalid { message, .. }) = refused else { panic!("{refused:?}") };
        assert!(message.contains("101 scripts, and a record has at most 100"), "{message}");
        // A set with too many scripts is refused before its first record.
        let refused = service.compile(serde_json::to_vec(&set).unwrap()).await;
        let Err(RecordError::Invalid { message, .. }) = refused else { panic!("{refused:?}") };
        assert!(message.contains("at most 100; split the set"), "{message}");
    }

    #[tokio::test]
    async fn only_trusted_checks_read_files() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("check.js"), "module.exports = () => true;").unwrap();
        let world = World::new(folder.path(), Arc::new(|_| None));
        let script = json!([{"type": "javascript", "value": "file://check.js"}]);
        let checks = serde_json::to_vec(&json!({"expect": {"assert": script}})).unwrap();
        let untrusted = RecordService::start(world.clone(), None, 1).unwrap();
        let refused = untrusted.compile(checks.clone()).await;
        assert!(matches!(refused, Err(RecordError::Invalid { .. })), "{refused:?}");
        let trusted = RecordService::start_trusted(world, None, 1).unwrap();
        assert_eq!(trusted.compile(checks).await, Ok(()));
    }

    #[test]
    fn only_a_panic_or_a_cancelled_request_has_an_unknown_cost() {
        let invalid = RecordError::Invalid { id: None, message: String::new() };
        for free in [invalid, RecordError::NoJudge, RecordError::NotStarted] {
            assert_eq!(free.cost(), JudgeCost::default(), "{free:?}");
        }
        assert!(RecordError::Internal.cost().is_unknown);
        for asks_judges in [true, false] {
            assert_eq!(RecordError::Ended { asks_judges }.cost().is_unknown, asks_judges);
        }
    }
}
