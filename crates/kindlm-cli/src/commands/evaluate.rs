//! `kindlm evaluate`: checks outputs that exist already.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kindlm_assertions::ScriptSettings;
use kindlm_engine::{Control, Model, judge_of};
use kindlm_providers::transport::Waits;
use kindlm_providers::{Client, ClientOptions};
use kindlm_reporters::one_line;
use kindlm_store::responses::Recorded;
use kindlm_store::{Folder, MAX_FILE_BYTES};
use kindlm_types::{ExitStatus, Files, Limits, NoFiles, Params, SuiteInfo, suggest};
use serde_json::Map;
use tokio::sync::watch;

use crate::args::EvaluateArgs;
use crate::{Failure, Io, opening};
use kindlm_run::Outcome;
use kindlm_run::evaluate::{
    Asking, Basis, Evaluator, Output, Referred, Stoppable, no_record, run_stream,
};
use kindlm_run::interrupt::{Abortable, attend};
use kindlm_run::programs::Purpose;
use kindlm_run::project;
use kindlm_run::reports::{check_target, resolved};
use kindlm_run::scripts::{Runner, Scripted};
use kindlm_run::secrets::Secrets;
use kindlm_run::{keys, responses};

pub(crate) fn run(args: &EvaluateArgs, io: &mut Io) -> Outcome {
    let base =
        args.base.as_ref().map_or_else(|| io.working_dir.clone(), |it| io.working_dir.join(it));
    let files = Folder::open(&base)
        .map_err(|err| Failure::input(format!("cannot use `--base`: {err}")))?
        .allow_outside(args.allow_outside);
    let concurrency = args.concurrency as usize;
    let referred = Referred::new(&files);
    let (control, waits) = (Control::default(), Waits::default());
    let options = ClientOptions::new(Arc::clone(&io.env), &base).with_waits(waits.clone());
    if let Some(config) = &args.config {
        let config = kindlm_run::OpenOptions {
            config: config.clone(),
            allow_outside: args.allow_outside,
            allow_programs: false,
        };
        let project = opening::open(io, &config, Purpose::Models)?;
        let suite = &project.suite;
        let runner = Runner::new(io, project.files.root())?;
        let options = project::with_limits(options, suite)
            .with_scripts(project::scripts(&suite.scripts, &runner));
        let client = client(&suite.providers, &project.files, options)?;
        let secrets = Secrets::of(io, &suite.providers);
        let state = project.place.state();
        let decides = (&suite.providers, &suite.scripts, &project.files as &dyn Files);
        let responses = args.responses.source().open(io, &state, decides, &secrets)?;
        let client = Scripted::new(&client, Runner::new(io, &base)?);
        let recorded = Recorded::new(&client, responses);
        let (backend, abort) = Abortable::new(&recorded);
        let default = suite.defaults.judge_model.as_deref();
        check_price(args, judge_of(&suite.models, default))?;
        let asking =
            Asking::somebody(&backend, &suite.models, default, concurrency, args.budget_usd)?;
        let ids: Vec<String> = suite.models.iter().map(|it| it.id.clone()).collect();
        let basis = Basis::new(&referred, &suite.models, default).with_suite(suite);
        if suite.gates.iter().any(|it| it.judge_kappa_min().is_some()) {
            // Who judges is the records' to say, and they are not known before they come.
            io.tell(&format!(
                "warning: `gates.judgeKappaMin` of {} holds for `kindlm test` only: how far its judges agree with people is not asked here",
                project.place.name
            ));
        }
        let setup = project::setup(io, &referred, Some(&ids), Some(suite));
        let evaluator = Evaluator::new(setup, asking, args.echo)
            .with_threshold(suite.defaults.threshold)
            .with_basis(args.output.as_ref().map(|_| basis))
            .with_control(control.clone())
            .with_secrets(secrets);
        let around = Surroundings { suite: Some(&suite.info), control, waits, abort };
        let outcome = with(&evaluator, around, args, io);
        responses::tell(io, recorded.responses(), false);
        return outcome;
    }
    let judge = args.judge.as_deref().map(judge).transpose()?;
    let models: Vec<Model> = judge.into_iter().collect();
    let providers = addressed(shorthand(&models), args);
    let client = client(&providers, &NoFiles, options)?;
    keys::require(io, models.first(), &providers, &args.responses.source())?;
    let secrets = Secrets::of(io, &providers);
    let state = io.working_dir.join(".kindlm");
    let decides = (&providers, &ScriptSettings::default(), &NoFiles as &dyn Files);
    let responses = args.responses.source().open(io, &state, decides, &secrets)?;
    let client = Scripted::new(&client, Runner::new(io, &base)?);
    let recorded = Recorded::new(&client, responses);
    let (backend, abort) = Abortable::new(&recorded);
    let asking = if models.is_empty() {
        Asking::nobody(&backend)?
    } else {
        check_price(args, models.first())?;
        Asking::somebody(&backend, &models, None, concurrency, args.budget_usd)?
    };
    let basis = Basis::new(&referred, &models, None);
    // Where there is a judge, nobody else can be asked: a juror who does not exist would only be missing.
    let ids: Vec<String> = models.iter().map(|it| it.id.clone()).collect();
    let known = Some(ids.as_slice()).filter(|it| !it.is_empty());
    let evaluator = Evaluator::new(project::setup(io, &referred, known, None), asking, args.echo)
        .with_basis(args.output.as_ref().map(|_| basis))
        .with_control(control.clone())
        .with_secrets(secrets);
    let around = Surroundings { suite: None, control, waits, abort };
    let outcome = with(&evaluator, around, args, io);
    responses::tell(io, recorded.responses(), false);
    outcome
}

/// Gives the provider of the judge, the only one, the address and key of the command line.
fn addressed(
    mut providers: Map<String, serde_json::Value>,
    args: &EvaluateArgs,
) -> Map<String, serde_json::Value> {
    for config in providers.values_mut().filter_map(serde_json::Value::as_object_mut) {
        for (key, value) in [("baseUrl", &args.base_url), ("apiKeyEnv", &args.api_key_env)] {
            config.extend(value.iter().map(|it| (key.to_owned(), it.as_str().into())));
        }
    }
    providers
}

/// The configuration that models have which are named without any.
pub(super) fn shorthand(models: &[Model]) -> Map<String, serde_json::Value> {
    let config = |it: &Model| {
        let config = kindlm_providers::find(&it.provider)?.default_config()?;
        Some((it.provider.clone(), config))
    };
    models.iter().filter_map(config).collect()
}

pub(super) fn client(
    providers: &Map<String, serde_json::Value>,
    files: &dyn kindlm_types::Files,
    options: ClientOptions,
) -> Result<Client, Failure> {
    Client::new(providers, files, options)
        .map_err(|problems| Failure::inputs(problems.into_iter().map(|it| it.message)))
}

/// The model that `provider:model` names.
pub(super) fn judge(text: &str) -> Result<Model, Failure> {
    let usable =
        || kindlm_providers::REGISTRY.iter().filter(|it| it.meta.shorthand).map(|it| it.meta.id);
    let Some((provider, name)) = text.split_once(':').filter(|(_, name)| !name.is_empty()) else {
        return Err(Failure::input(format!("`{text}` is no judge"))
            .with_help("write `provider:model`, such as `openai:gpt-4o-mini`"));
    };
    if !usable().any(|it| it == provider) {
        let help = if kindlm_providers::find(provider).is_some() {
            format!("`{provider}` needs a configuration: name a suite that has one with `-c`")
        } else {
            suggest(provider, "providers", usable().collect::<Vec<_>>())
        };
        return Err(
            Failure::input(format!("`{provider}` cannot be used by its name")).with_help(help)
        );
    }
    Ok(Model {
        id: text.to_owned(),
        provider: provider.to_owned(),
        name: name.to_owned(),
        params: Params::default(),
        price: kindlm_providers::pricing::price(provider, name),
        limits: Limits::default(),
        tells_vars: false,
        offers: [].into(),
        declared: std::collections::BTreeSet::new(),
        agent: None,
    })
}

/// A budget can be kept only where the price is known.
fn check_price(args: &EvaluateArgs, judge: Option<&Model>) -> Result<(), Failure> {
    let Some(judge) = judge.filter(|it| it.price.is_none()) else { return Ok(()) };
    if args.budget_usd.is_none() || args.allow_unpriced {
        return Ok(());
    }
    let message = format!("the budget cannot be kept: nobody knows the price of `{}`", judge.id);
    Err(Failure::input(message).with_help(
        "name a suite with `-c` in which the model has a `price`, or give `--allow-unpriced`: then it is not counted",
    ))
}

/// What an evaluation has besides its records and rules.
struct Surroundings<'a> {
    suite: Option<&'a SuiteInfo>,
    control: Control,
    /// Ends the waits of requests that are to be sent.
    waits: Waits,
    /// Gives up what is under way.
    abort: watch::Sender<bool>,
}

fn with(
    evaluator: &Evaluator<'_>,
    around: Surroundings<'_>,
    args: &EvaluateArgs,
    io: &mut Io,
) -> Outcome {
    check_targets(io, args)?;
    let mut file = args.file.as_deref().map(|path| open(io, path)).transpose()?;
    if file.is_none() && io.screen.stdin_is_terminal {
        io.tell("reading from the terminal; end with Ctrl-D");
    }
    let suite = around.suite;
    let outcome = if args.jsonl {
        let workers = if evaluator.may_wait() { args.concurrency as usize } else { cores() };
        match &args.output {
            None => {
                let input: &mut (dyn Read + Send) = match &mut file {
                    Some(file) => file,
                    None => &mut *io.stdin,
                };
                run_stream(evaluator, input, &mut *io.stdout, None, workers)
            }
            Some(path) => {
                let input: Box<dyn Read + Send> = match file {
                    Some(file) => Box::new(file),
                    None => std::mem::replace(&mut io.stdin, Box::new(std::io::empty())),
                };
                let output = (path.as_path(), args.resume);
                into_file(evaluator, input, output, workers, around, io)
            }
        }
    } else {
        let input: &mut (dyn Read + Send) = match &mut file {
            Some(file) => file,
            None => &mut *io.stdin,
        };
        one(evaluator, input, &mut *io.stdout)
    };
    // What is refused before a record was looked at has nothing to add up.
    if let (Some(path), true) = (&args.summary, outcome.is_ok() || evaluator.has_looked()) {
        evaluator.write_summary(&io.working_dir.join(path), suite)?;
        io.tell(&format!("summary written to {}", path.display()));
    }
    for warning in evaluator.warnings() {
        io.tell(&format!("warning: {}", one_line(&warning)));
    }
    match outcome {
        Ok(status) if evaluator.lacked_judge() => Err(Failure {
            status: status.or(ExitStatus::InvalidInput),
            ..Failure::input("some checks ask a model, and none is configured that could answer")
                .with_help(
                    "name one with `--judge provider:model` (and `--base-url`, `--api-key-env`), or a file with `providers` and `models` with `-c`",
                )
        }),
        outcome => outcome,
    }
}

/// Refuses to write one file over another, before anything is judged.
fn check_targets(io: &Io, args: &EvaluateArgs) -> Result<(), Failure> {
    let named = [
        ("the records", &args.file),
        ("`--output`", &args.output),
        ("`--summary`", &args.summary),
        ("the suite", &args.config),
    ];
    let named = named.into_iter().filter_map(|(what, path)| Some((what, path.as_ref()?)));
    let named: Vec<(&str, PathBuf)> =
        named.map(|(what, path)| (what, resolved(&io.working_dir.join(path)))).collect();
    for (index, (what, path)) in named.iter().enumerate() {
        if let Some((other, _)) = named.iter().skip(index + 1).find(|(_, it)| it == path) {
            let message = format!("{what} and {other} are the same file, `{}`", path.display());
            return Err(Failure::input(message).with_help("give each a file of its own"));
        }
    }
    match &args.summary {
        Some(path) => check_target(&io.working_dir.join(path), path),
        None => Ok(()),
    }
}

/// Evaluates a stream into a file, which is whole when the stream came to its end. Ctrl-C leaves it so that it can be gone
/// on with.
fn into_file(
    evaluator: &Evaluator<'_>,
    input: Box<dyn Read + Send>,
    (path, resume): (&Path, bool),
    workers: usize,
    around: Surroundings<'_>,
    io: &mut Io,
) -> Outcome {
    let Surroundings { control, waits, abort, .. } = around;
    let mut output = Output::open(io.working_dir.join(path), resume)?;
    let kept = output.kept.take();
    let mut input = Stoppable::new(input, control.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
    let (tell, told) = tokio::sync::oneshot::channel();
    let (status, interrupted) = std::thread::scope(|scope| {
        let file = &mut output.file;
        scope.spawn(move || tell.send(run_stream(evaluator, &mut input, file, kept, workers)));
        let say = |text: &str| io.tell(text);
        runtime.block_on(async {
            // Listening needs the runtime.
            let interrupts = (io.interrupts)();
            attend(told, &control, &waits, abort, interrupts, say).await
        })
    });
    let status = status.map_err(|_| Failure::internal("the evaluation stopped"));
    let status = match status? {
        // Nothing had come yet.
        Err(failure) if !interrupted => return Err(failure),
        Err(_) => ExitStatus::Interrupted,
        Ok(status) => status,
    };
    output.finish()?;
    io.tell(&format!("{}: {}", path.display(), evaluator.counts()));
    if interrupted {
        io.tell("interrupted: the same command with `--resume` evaluates the other records, and those that are errored");
        return Ok(status.or(ExitStatus::Interrupted));
    }
    Ok(status)
}

fn open(io: &Io, path: &Path) -> Result<File, Failure> {
    let failed = |err: &std::io::Error| {
        Failure::input(format!("cannot read `{}`: {}", path.display(), kindlm_store::words(err)))
    };
    let file = File::open(io.working_dir.join(path)).map_err(|err| failed(&err))?;
    if file.metadata().map_err(|err| failed(&err))?.is_dir() {
        return Err(Failure::input(format!("cannot read `{}`: it is a folder", path.display())));
    }
    Ok(file)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// One record, however many lines it has.
fn one(
    evaluator: &Evaluator<'_>,
    input: &mut (dyn Read + Send),
    output: &mut (dyn std::io::Write + Send),
) -> Outcome {
    let mut json = Vec::new();
    input
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut json)
        .map_err(|err| Failure::internal(format!("cannot read the record: {err}")))?;
    if json.len() as u64 > MAX_FILE_BYTES {
        let mib = MAX_FILE_BYTES >> 20;
        return Err(Failure::input(format!("the record is larger than {mib} MiB"))
            .with_help("several records, one on each line, go with `--jsonl`"));
    }
    if json.trim_ascii().is_empty() {
        return Err(no_record());
    }
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&json);
    let mut text = Vec::new();
    let status: ExitStatus = evaluator.record(json, 1, &mut text);
    // Nothing was judged then, and half a result would look like one.
    if !evaluator.lacked_judge() {
        Failure::of_stdout(output.write_all(&text))?;
    }
    Ok(status)
}
