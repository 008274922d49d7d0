//! The binary `kindlm-server`.

mod token;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};
use kindlm_assertions::Redactor;
use kindlm_run::calibrate::JudgeWatches;
use kindlm_run::evaluate::service::RecordService;
use kindlm_run::{OpenOptions, Project, Purpose, SCRIPT_WORKER, ServerModels, TracePrices, World};
use kindlm_server::store::{DEFAULT_DATABASE, Store};
use kindlm_server::{
    AlertUrl, Alerts, App, Destination, Email, EmbedOrigin, LEASE, REFERENCE, RunService,
    TRACE_DELAY, WORKERS, app, deliver, listen, monitor, serve,
};
use token::TokenCommand;
use url::Url;

/// Checks outputs over HTTP.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The address to listen on; without tokens, a loopback address
    #[arg(long, default_value = "127.0.0.1:8477")]
    listen: SocketAddr,
    /// The database: `sqlite://<file>` or `postgres://<user>@<host>/<name>`
    #[arg(long, global = true, env = "KINDLM_DATABASE", hide_env_values = true, default_value = DEFAULT_DATABASE)]
    database: String,
    /// The config with the judges: their `providers` and `models`
    #[arg(short, long)]
    config: Option<PathBuf>,
    /// The folder of the suites that clients may run
    #[arg(long, value_name = "FOLDER")]
    suites: Option<PathBuf>,
    /// The number of suites that run at once
    #[arg(long, default_value_t = 1)]
    runs: u16,
    /// The number of records that are evaluated at once
    #[arg(long, default_value_t = 16)]
    concurrency: u16,
    /// The time after which another server evaluates the samples that a killed server was evaluating; the same for all servers
    #[arg(long, value_name = "SECONDS", default_value_t = LEASE.as_secs(), value_parser = clap::value_parser!(u64).range(5..=86_400))]
    lease: u64,
    /// The number of samples that are evaluated in the background at once
    #[arg(long, default_value_t = WORKERS, value_parser = workers)]
    workers: usize,
    /// The time after which the sample of a trace is evaluated; spans that arrive earlier change the sample
    #[arg(long, value_name = "SECONDS", default_value_t = TRACE_DELAY.as_secs(), value_parser = clap::value_parser!(u64).range(0..=3600))]
    trace_delay: u64,
    /// Mask personal data in samples before they are stored
    #[arg(long)]
    redact_pii: bool,
    /// The number of days after which samples are deleted, with their results and feedback; by default, never
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    keep_days: Option<u32>,
    /// A site that may show the panel in a frame, such as `https://builder.example.com`; can be repeated
    #[arg(long, value_name = "ORIGIN")]
    embed_origin: Vec<EmbedOrigin>,
    /// A service that receives alerts as JSON; can be repeated. The variable separates addresses by spaces
    #[arg(long, value_name = "URL", env = "KINDLM_ALERT_WEBHOOK", hide_env_values = true)]
    alert_webhook: Vec<String>,
    /// An incoming webhook of Slack that receives alerts; can be repeated. The variable separates addresses by spaces
    #[arg(long, value_name = "URL", env = "KINDLM_ALERT_SLACK", hide_env_values = true)]
    alert_slack: Vec<String>,
    /// An address that receives alerts by e-mail; can be repeated
    #[arg(long, value_name = "ADDRESS", requires = "smtp_url", requires = "alert_from")]
    alert_email: Vec<String>,
    /// The mail server: `smtps://<user>@<host>`, or `smtp://<host>` for STARTTLS. The password is in the variable `KINDLM_SMTP_PASSWORD`
    #[arg(long, value_name = "URL")]
    smtp_url: Option<String>,
    /// The sender of e-mails
    #[arg(long, value_name = "ADDRESS")]
    alert_from: Option<String>,
    /// The number of first results of an assertion with which later results are compared
    #[arg(long, value_name = "RESULTS", default_value_t = REFERENCE, value_parser = clap::value_parser!(u64).range(20..=1_000_000))]
    alert_reference: u64,
    /// The URL of the server for links in alerts; by default, `http://` and the address of `--listen`, but no link if
    /// that is an unspecified address such as 0.0.0.0
    #[arg(long, value_name = "URL")]
    public_url: Option<Url>,
}

#[derive(Subcommand)]
enum Command {
    /// Creates, lists or revokes the tokens of clients
    #[command(subcommand)]
    Token(TokenCommand),
    /// Copies an SQLite database to a new file, also while a server uses it
    Backup {
        /// The new file
        file: PathBuf,
    },
}

fn workers(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|it| (1..=1000).contains(it));
    number.ok_or_else(|| "expected a number from 1 to 1000".to_owned())
}

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|arg| arg == SCRIPT_WORKER) {
        return kindlm_script::worker::main().into();
    }
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "error: {why}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let runtime = tokio::runtime::Runtime::new().map_err(|err| err.to_string())?;
    let open = || async { Store::open(&args.database).await.map_err(|err| err.to_string()) };
    if let Some(Command::Token(command)) = &args.command {
        return runtime.block_on(async {
            let store = open().await?;
            let done = token::run(&store, command).await;
            store.close().await;
            let _ = writeln!(std::io::stdout(), "{}", done?);
            Ok(())
        });
    }
    if let Some(Command::Backup { file }) = &args.command {
        return runtime.block_on(async {
            let store =
                Store::open_existing(&args.database).await.map_err(|err| err.to_string())?;
            let done = store.back_up(file).await.map_err(|err| err.to_string());
            store.close().await;
            done
        });
    }
    let Opened { records, judge, models, prices } = records(&world(), args)?;
    let redactor = args.redact_pii.then(Redactor::new).transpose();
    let redactor = redactor.map_err(|err| err.to_string())?;
    let suites = args.suites.as_ref().map(suites).transpose()?;
    let destinations = destinations(args)?;
    runtime.block_on(async {
        let store = open().await?;
        let has_tokens = store.has_tokens().await.map_err(|err| err.to_string())?;
        let listener = listen(args.listen, has_tokens).await.map_err(|err| err.to_string())?;
        let address = listener.local_addr().map_err(|err| err.to_string())?;
        let _ = writeln!(std::io::stderr(), "listening on http://{address}");
        let runs = RunService::new(world(), suites, models, args.runs.into());
        // A link to an unspecified address, such as 0.0.0.0, does not open this server.
        let own = Some(address).filter(|it| !it.ip().is_unspecified());
        let own = own.and_then(|it| format!("http://{it}").parse().ok());
        let link = args.public_url.clone().or(own);
        let services = App::new(records, runs.clone(), store.clone(), redactor)
            .with_embed_origins(args.embed_origin.clone())
            .with_workers(args.workers)
            .with_lease(Duration::from_secs(args.lease))
            .with_keep_days(args.keep_days)
            .with_traces(Duration::from_secs(args.trace_delay), prices)
            .with_alerts(Alerts { reference: args.alert_reference, judge, link });
        let monitor = tokio::spawn(monitor(services.clone()));
        let deliver = tokio::spawn(deliver(services.clone(), destinations));
        serve(&listener, app(services), stopped()).await;
        monitor.abort();
        deliver.abort();
        runs.stop().await;
        store.close().await;
        Ok(())
    })
}

/// Waits until the user interrupts the process, or a service manager ends it.
async fn stopped() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut ended) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = ended.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    drop(tokio::signal::ctrl_c().await);
}

/// Returns the absolute path of the folder of suites. Fails if it is not a folder.
fn suites(folder: &PathBuf) -> Result<PathBuf, String> {
    let failed = |why: &str| format!("`--suites {}`: {why}", folder.display());
    let absolute = std::fs::canonicalize(folder).map_err(|err| failed(&err.to_string()))?;
    if absolute.is_dir() { Ok(absolute) } else { Err(failed("it is not a folder")) }
}

/// Returns the receivers of alerts.
///
/// The URLs of services may contain secrets, so clap does not parse them: its errors would show them.
fn destinations(args: &Args) -> Result<Vec<Destination>, String> {
    let read = |option, texts: &[String], make: fn(AlertUrl) -> Destination| {
        let words = texts.iter().flat_map(|it| it.split_whitespace());
        let all = words.map(|it| it.parse().map(make).map_err(|why| format!("`{option}`: {why}")));
        all.collect::<Result<Vec<Destination>, String>>()
    };
    let webhooks = read("--alert-webhook", &args.alert_webhook, Destination::Webhook)?;
    let slack = read("--alert-slack", &args.alert_slack, Destination::Slack)?;
    let password = std::env::var("KINDLM_SMTP_PASSWORD").ok();
    let (url, from) = (args.smtp_url.as_deref(), args.alert_from.as_deref());
    let email = |to: &String| {
        Email::new(to, from.unwrap_or_default(), url.unwrap_or_default(), password.as_deref())
            .map(|it| Destination::Email(Box::new(it)))
            .map_err(|err| err.to_string())
    };
    let emails: Result<Vec<Destination>, String> = args.alert_email.iter().map(email).collect();
    Ok([webhooks, slack, emails?].concat())
}

/// The service for records, and the parts of the config that other services use.
struct Opened {
    records: RecordService,
    judge: Option<JudgeWatches>,
    models: Option<ServerModels>,
    prices: TracePrices,
}

/// Opens the config, if there is one, and starts the service for records.
fn records(world: &World, args: &Args) -> Result<Opened, String> {
    let shown = |failure: kindlm_run::Failure| {
        [failure.message, failure.help].into_iter().flatten().collect::<Vec<_>>().join("; ")
    };
    let open = |config: &PathBuf| Project::open(world, &OpenOptions::new(config), Purpose::Models);
    let suite = args.config.as_ref().map(open).transpose().map_err(shown)?;
    let judge = suite.as_ref().and_then(JudgeWatches::of_project);
    let models = suite.as_ref().map(ServerModels::of_project);
    let prices = suite.as_ref().map(TracePrices::of_project).unwrap_or_default();
    let records = RecordService::start(world.clone(), suite, args.concurrency.into());
    Ok(Opened { records: records.map_err(shown)?, judge, models, prices })
}

fn world() -> World {
    let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("kindlm-server"));
    World {
        variables: std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect(),
        notices: Arc::new(|text| drop(writeln!(std::io::stderr(), "{text}"))),
        script_worker: (program, vec![SCRIPT_WORKER.into()]),
        ..World::new(folder, Arc::new(|name| std::env::var(name).ok()))
    }
}
