//! Evaluates a file or a stream of records, for `kindlm evaluate`.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use kindlm_engine::{Control, Model, judge_of};
use kindlm_providers::transport::Waits;
use kindlm_reporters::one_line;
use kindlm_store::responses::Recorded;
use kindlm_store::{Folder, MAX_FILE_BYTES};
use kindlm_types::ExitStatus;
use tokio::sync::watch;

use super::basis::{Basis, Referred};
use super::input::Stoppable;
use super::judge::Asking;
use super::kept::Output;
use super::readable::ReadableResults;
use super::{Evaluator, no_record, stream};
use crate::interrupt::{Abortable, attend};
use crate::reports::{check_target, resolved};
use crate::session::ports;
use crate::{
    Failure, NamedJudge, Outcome, Project, ResponseSource, Session, World, budget, project,
    responses,
};

/// The settings of an evaluation. The default evaluates one record, without a judge.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
pub struct EvaluateConfig {
    /// The base folder of paths in records, relative to the working folder. The default is the working folder.
    pub base: Option<PathBuf>,
    /// True if records may refer to files outside the base folder.
    pub allow_outside: bool,
    /// The judge given by name; `None` if there is a suite, or no judge.
    pub judge: Option<NamedJudge>,
    /// The source of the judges' answers.
    pub responses: ResponseSource,
    /// The budget for judges in US dollars; `None` is no limit.
    pub budget_usd: Option<f64>,
    /// True to allow a budget although the price of a judge is unknown.
    pub allow_unpriced: bool,
    /// The number of records judged at once, at least 1.
    pub concurrency: usize,
    /// True if each line is a record; otherwise the whole input is one record.
    pub jsonl: bool,
    /// True if each result repeats the unknown keys of its record.
    pub echo: bool,
    /// The file for the results of JSON lines, relative to the working folder; `None` without such a file. A stopped
    /// evaluation can be resumed from the file.
    pub output: Option<PathBuf>,
    /// True to reuse the results in `output`. Records without a result, or with an errored or outdated result, are
    /// evaluated again.
    pub resume: bool,
    /// The file for the summary of all records, relative to the working folder; `None` without such a file.
    pub summary: Option<PathBuf>,
    /// If set, the results are text for a terminal with this number of columns; `None` for JSON lines.
    ///
    /// The results in `output` are always JSON lines.
    pub columns: Option<usize>,
}

impl Default for EvaluateConfig {
    fn default() -> Self {
        Self {
            base: None,
            allow_outside: false,
            judge: None,
            responses: ResponseSource::default(),
            budget_usd: None,
            allow_unpriced: false,
            concurrency: 8,
            jsonl: false,
            echo: false,
            output: None,
            resume: false,
            summary: None,
            columns: None,
        }
    }
}

/// The source of records.
pub enum Records {
    /// A file, relative to the working folder.
    File(PathBuf),
    /// A stream. For JSON lines with `output` or without a judge, a separate thread reads the stream.
    Stream(Box<dyn Read + Send>),
}

/// Evaluates records, and writes the results.
///
/// The results of JSON lines are written to the `output` of `config`, if it is set. All other results are written to
/// `results`.
///
/// The models of `suite` may judge, and its scripts and named checks can be used.
///
/// # Errors
///
/// Fails if:
///
/// - the base folder cannot be opened, a file cannot be read or written, or two files are the same;
/// - the `output` contains results and `resume` is false, or another process is writing it;
/// - the input has no record, or a single record is too large;
/// - the key of a judge given by name is missing, and every answer must be requested;
/// - a budget is set and the price of the judge is unknown, unless [`EvaluateConfig::allow_unpriced`] is set;
/// - the configuration of a provider is invalid, or the response store cannot be used;
/// - a check needs a judge model and no judge model is configured.
///
/// A malformed record is not a failure: its result is an error, and the exit status is 2.
pub fn evaluate(
    world: &World,
    suite: Option<&Project>,
    config: &EvaluateConfig,
    records: Records,
    results: &mut (dyn Write + Send),
) -> Outcome {
    let base = config.base.as_deref().unwrap_or(Path::new(""));
    let files = Folder::open(world.working_dir.join(base))
        .map_err(|err| Failure::input(format!("cannot use `--base`: {err}")))?
        .allow_outside(config.allow_outside);
    let (concurrency, judge) = (config.concurrency, config.judge.as_ref());
    let session = match suite {
        Some(Project { place, suite, files, .. }) => {
            Session::new(world, place, (suite, files), concurrency, &config.responses)?
        }
        None => Session::without_suite(world, judge, files.root(), concurrency, &config.responses)?,
    };
    let Session { client, runner, responses, secrets, waits } =
        session.with_check_scripts(world, files.root())?;
    let recorded = Recorded::new(&client, responses);
    let (abortable, abort) = Abortable::new(ports(&client, &recorded, &runner));
    let models: Option<&[Model]> = match (suite, judge) {
        (Some(project), _) => Some(&project.suite.models),
        (None, Some(judge)) => Some(std::slice::from_ref(&judge.model)),
        (None, None) => None,
    };
    let default = suite.and_then(|it| it.suite.defaults.judge_model.as_deref());
    let judges = judge_of(models.unwrap_or_default(), default);
    budget::check_judges(judges, config.budget_usd, config.allow_unpriced)?;
    let asking = Asking::new(abortable.ports(), models, default, concurrency, config.budget_usd)?;
    // With judge models, a check that names an unknown model is refused. Without them, the check is errored.
    let ids: Option<Vec<String>> =
        models.map(|models| models.iter().map(|it| it.id.clone()).collect());
    let referred = Referred::new(&files);
    let read = suite.map(|it| &it.suite);
    let setup = project::setup(world, &referred, ids.as_deref(), read);
    let mut basis = Basis::new(&referred, models.unwrap_or_default(), default)
        .with_variables(&setup.env, &world.env);
    if let Some(project) = suite {
        basis = basis.with_suite(&project.suite);
        if project.suite.gates.iter().any(|it| it.judge_kappa_min().is_some()) {
            // The records name their judges, but no record was read yet, so the gate cannot be checked.
            world.notify(&format!(
                "warning: only `kindlm test` checks `gates.judgeKappaMin` of {}; `kindlm evaluate` does not",
                project.place.name
            ));
        }
    }
    let control = Control::default();
    let evaluator = Evaluator::new(setup, asking, config.echo)
        .with_threshold(read.and_then(|it| it.defaults.threshold))
        .with_basis(config.output.as_ref().map(|_| basis))
        .with_control(control.clone())
        .with_secrets(secrets);
    let evaluation = Evaluation { world, suite, config, evaluator, control, waits, abort };
    let outcome = match config.columns {
        Some(columns) => {
            let mut text = ReadableResults::new(results, columns, config.jsonl);
            let outcome = evaluation.run(records, &mut text);
            Failure::of_stdout(text.finish())?;
            outcome
        }
        None => evaluation.run(records, results),
    };
    responses::report_use(world, recorded.responses(), false);
    outcome
}

/// An evaluation that is ready to read records.
struct Evaluation<'a> {
    world: &'a World,
    suite: Option<&'a Project>,
    config: &'a EvaluateConfig,
    evaluator: Evaluator<'a>,
    control: Control,
    /// The waits before requests; an interrupt ends these waits.
    waits: Waits,
    /// The sender that aborts running requests.
    abort: watch::Sender<bool>,
}

impl Evaluation<'_> {
    fn run(self, records: Records, results: &mut (dyn Write + Send)) -> Outcome {
        let Self { world, suite, config, ref evaluator, .. } = self;
        check_targets(world, suite, config, &records)?;
        let mut input: Box<dyn Read + Send> = match records {
            Records::File(path) => Box::new(open(world, &path)?),
            Records::Stream(stream) => stream,
        };
        let outcome = match &config.output {
            Some(path) if config.jsonl => self.write_file(input, path),
            // Without a judge, the evaluation ends at the first record that needs a judge, even if no more input
            // arrives.
            _ if config.jsonl && !evaluator.may_wait() => {
                let mut input = Stoppable::new(input, self.control.clone())?;
                stream::run(evaluator, &mut input, results, None, self.workers())
            }
            _ if config.jsonl => stream::run(evaluator, &mut input, results, None, self.workers()),
            _ => one(evaluator, &mut input, results),
        };
        // After a failure before the first record, there is nothing to summarize.
        if let (Some(path), true) = (&config.summary, outcome.is_ok() || evaluator.has_looked()) {
            let suite = suite.map(|it| &it.suite.info);
            evaluator.write_summary(&world.working_dir.join(path), suite)?;
            world.notify(&format!("summary written to {}", path.display()));
        }
        for warning in evaluator.warnings() {
            world.notify(&format!("warning: {}", one_line(&warning)));
        }
        outcome
    }

    /// Returns the number of threads.
    ///
    /// The number is the concurrency if records may wait for a judge, otherwise the number of cores.
    fn workers(&self) -> usize {
        if self.evaluator.may_wait() {
            return self.config.concurrency;
        }
        std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
    }

    /// Evaluates a stream into a file. After an interrupt, the evaluation can be resumed from the file.
    fn write_file(&self, input: Box<dyn Read + Send>, path: &Path) -> Outcome {
        let Self { world, config, evaluator, control, waits, .. } = self;
        let mut output = Output::open(world.working_dir.join(path), config.resume)?;
        let kept = output.kept.take();
        let mut input = Stoppable::new(input, control.clone())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
        let (send, result) = tokio::sync::oneshot::channel();
        let (status, interrupted) = std::thread::scope(|scope| {
            let (file, workers) = (&mut output.file, self.workers());
            scope.spawn(move || send.send(stream::run(evaluator, &mut input, file, kept, workers)));
            runtime.block_on(async {
                // The signal handlers can only be installed inside the runtime.
                let interrupts = (world.interrupts)();
                let say = |text: &str| world.notify(text);
                attend(result, control, waits, self.abort.clone(), interrupts, say).await
            })
        });
        let status = status.map_err(|_| Failure::internal("the evaluation stopped"));
        let status = match status? {
            // An interrupt before the first record, for example, is not a failure.
            Err(_) if interrupted => ExitStatus::Interrupted,
            Err(failure) => return Err(failure),
            Ok(status) => status,
        };
        output.finish()?;
        world.notify(&format!("{}: {}", path.display(), evaluator.counts()));
        if interrupted {
            world.notify("interrupted: the same command with `--resume` evaluates the missing and errored records");
            return Ok(status.or(ExitStatus::Interrupted));
        }
        Ok(status)
    }
}

/// Checks, before any record is read, that the named files differ and that the summary can be written.
fn check_targets(
    world: &World,
    suite: Option<&Project>,
    config: &EvaluateConfig,
    records: &Records,
) -> Result<(), Failure> {
    let records = match records {
        Records::File(path) => Some(path),
        Records::Stream(_) => None,
    };
    let named = [
        ("the records", records),
        ("`--output`", config.output.as_ref()),
        ("`--summary`", config.summary.as_ref()),
        ("the suite", suite.map(|it| &it.place.path)),
    ];
    let named = named.into_iter().filter_map(|(name, path)| Some((name, path?)));
    let named: Vec<(&str, PathBuf)> =
        named.map(|(name, path)| (name, resolved(&world.working_dir.join(path)))).collect();
    for (index, (name, path)) in named.iter().enumerate() {
        if let Some((other, _)) = named.iter().skip(index + 1).find(|(_, it)| it == path) {
            let message = format!("{name} and {other} are the same file, `{}`", path.display());
            return Err(Failure::input(message).with_help("give each a file of its own"));
        }
    }
    match &config.summary {
        Some(path) => check_target(&world.working_dir.join(path), path),
        None => Ok(()),
    }
}

fn open(world: &World, path: &Path) -> Result<File, Failure> {
    let failed = |err: &std::io::Error| {
        Failure::input(format!(
            "cannot read `{}`: {}",
            path.display(),
            kindlm_store::describe_io_error(err)
        ))
    };
    let file = File::open(world.working_dir.join(path)).map_err(|err| failed(&err))?;
    if file.metadata().map_err(|err| failed(&err))?.is_dir() {
        return Err(Failure::input(format!("cannot read `{}`: it is a folder", path.display())));
    }
    Ok(file)
}

/// Evaluates one record, which may span several lines.
fn one(
    evaluator: &Evaluator<'_>,
    input: &mut (dyn Read + Send),
    results: &mut (dyn Write + Send),
) -> Outcome {
    let mut json = Vec::new();
    input
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut json)
        .map_err(|err| Failure::internal(format!("cannot read the record: {err}")))?;
    if json.len() as u64 > MAX_FILE_BYTES {
        let mib = MAX_FILE_BYTES >> 20;
        return Err(Failure::input(format!("the record is larger than {mib} MiB"))
            .with_help("give several records with `--jsonl`, one on each line"));
    }
    if json.trim_ascii().is_empty() {
        return Err(no_record());
    }
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&json);
    let mut text = Vec::new();
    let status = evaluator.record(json, 1, &mut text)?;
    Failure::of_stdout(results.write_all(&text))?;
    Ok(status)
}
