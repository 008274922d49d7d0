//! Measures a server under load, and after it is killed.
//!
//! `cargo bench --profile dist -p kindlm-server --bench load -- [part…] [setting=value…]` starts the real
//! `kindlm-server` on 127.0.0.1, and prints one table for each part. Without a part, it prints all tables. The parts:
//!
//! - `evaluate`: `POST /v1/evaluate` with rule checks, and the same evaluations by the library without HTTP;
//! - `start`: the time from the start of the process to its first response;
//! - `ingest`: samples that are stored; SIGKILL ends the server after half of them;
//! - `queue`: samples that are stored and evaluated in the background;
//! - `soak`: memory over time, with requests and samples.
//!
//! | setting | meaning | default |
//! |---|---|--:|
//! | `requests` | maximum requests of each row of `evaluate`; a row takes at most a minute | 20,000 |
//! | `starts` | starts of each row of `start` | 20 |
//! | `samples` | samples of `ingest` | 100,000 |
//! | `evaluated` | samples of each row of `queue` | 10,000 |
//! | `minutes` | duration of `soak` | 10 |
//! | `database` | `postgres://…`, an empty database, for `ingest`, `queue` and `soak` | SQLite |
//! | `servers` | maximum number of servers of `queue`; PostgreSQL only | 1 |
//!
//! The clients run on the same machine, so they use a part of its processor time.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::cast_precision_loss, reason = "counts and milliseconds are far below 2^52")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot run must say so loudly")]

mod client;
mod evaluate;
mod ingest;
mod queue;
mod server;
mod soak;
mod start;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

/// A part of the bench: its name, and the function that prints its table.
type Part = (&'static str, fn(&Settings, &Path));

/// All parts, in the order of their tables.
const PARTS: [Part; 5] = [
    ("evaluate", evaluate::run),
    ("start", start::run),
    ("ingest", ingest::run),
    ("queue", queue::run),
    ("soak", soak::run),
];

/// The sizes of the measurements.
#[derive(Debug)]
struct Settings {
    requests: usize,
    starts: usize,
    samples: usize,
    evaluated: usize,
    minutes: f64,
    /// A PostgreSQL database; `None` for SQLite files.
    database: Option<String>,
    servers: usize,
}

impl Settings {
    fn new() -> Self {
        let (requests, starts, samples, evaluated) = (20_000, 20, 100_000, 10_000);
        Self { requests, starts, samples, evaluated, minutes: 10.0, database: None, servers: 1 }
    }

    fn set(&mut self, name: &str, value: &str) {
        match name {
            "requests" => self.requests = value.parse().unwrap(),
            "starts" => self.starts = value.parse().unwrap(),
            "samples" => self.samples = value.parse().unwrap(),
            "evaluated" => self.evaluated = value.parse().unwrap(),
            "minutes" => self.minutes = value.parse().unwrap(),
            "database" => self.database = Some(value.to_owned()),
            "servers" => self.servers = value.parse().unwrap(),
            other => panic!("unknown setting `{other}`"),
        }
    }

    /// Returns the URL of the database, and the name of its kind for the tables. A SQLite file is in `folder`.
    fn database(&self, folder: &Path) -> (String, &'static str) {
        let sqlite = || format!("sqlite://{}", folder.join("load.db").display());
        self.database.clone().map_or_else(|| (sqlite(), "SQLite"), |it| (it, "PostgreSQL"))
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, callers, requests] = arguments.as_slice()
        && first == evaluate::LIBRARY
    {
        return evaluate::library(callers.parse().unwrap(), requests.parse().unwrap());
    }
    // `cargo bench` passes `--bench`; `cargo test --benches` only checks that the bench compiles.
    if !arguments.iter().any(|it| it == "--bench") || !Path::new("/proc/self/status").exists() {
        return;
    }
    let mut settings = Settings::new();
    let mut parts = Vec::new();
    for argument in arguments.iter().filter(|it| *it != "--bench") {
        match argument.split_once('=') {
            Some((name, value)) => settings.set(name, value),
            None => parts.push(argument.as_str()),
        }
    }
    for part in &parts {
        assert!(PARTS.iter().any(|(name, _)| name == part), "unknown part `{part}`");
    }
    let chosen = |name: &str| parts.is_empty() || parts.contains(&name);
    for (name, run) in PARTS.into_iter().filter(|(name, _)| chosen(name)) {
        // A folder of the disk, because temporary folders may be in memory.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        run(&settings, folder.path());
        println!();
        assert!(folder.close().is_ok(), "the folder of `{name}` cannot be removed");
    }
}

/// Returns the checks of the bench: a required word, a forbidden word, a maximum length, and no personal data.
fn checks() -> Value {
    json!({
        "output": {"contains": ["refund"], "notContains": ["sorry"], "maxLength": 10_000},
        "guardrails": {"pii": {"enabled": true}},
    })
}

/// Returns an output of 600 bytes. It passes the checks.
fn output(number: usize) -> String {
    let mut text = format!("Order {number}: we refund you. ");
    while text.len() < 600 {
        text.push_str("The parcel is on its way to you. ");
    }
    text.truncate(600);
    text
}

/// Returns a record with its checks.
fn record(number: usize) -> Vec<u8> {
    let (question, answer) = ("Where is my order?", output(number));
    let record =
        json!({"id": number, "agent_input": question, "agent_output": answer, "expect": checks()});
    record.to_string().into_bytes()
}

/// Returns the samples of a request as JSON lines. Each id starts with `series`, so no sample of another series has the
/// id.
fn lines(series: &str, from: usize, count: usize) -> Vec<u8> {
    let mut text = String::new();
    for number in from..from + count {
        let id = format!("{series}-{number}");
        let (question, answer) = ("Where is my order?", output(number));
        let sample = json!({"id": id, "agent": series, "version": "v1", "agent_input": question, "agent_output": answer});
        writeln!(text, "{sample}").unwrap();
    }
    text.into_bytes()
}

/// Returns the quantile of sorted values for a share from 0 to 1 (nearest rank).
fn quantile(sorted: &[Duration], share: f64) -> Duration {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len());
    sorted[at - 1]
}

/// Formats a duration in µs or ms.
fn shown(it: Duration) -> String {
    let ms = it.as_secs_f64() * 1e3;
    if ms < 1.0 { format!("{:.0} µs", ms * 1e3) } else { format!("{ms:.1} ms") }
}
