//! The arguments of `kindlm trace`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{ConfigArgs, HtmlArgs};
use crate::args::ResponsesArgs;
use kindlm_run::reports::ReporterSpec;

use crate::values;

/// Tests an agent by its OpenTelemetry spans
///
/// Receives spans over OTLP/HTTP (JSON or protobuf), or reads them from files. Each trace is one execution, which the
/// expectations of the suite check. Prompts and models of the suite are not used. A trace with the attribute
/// `kindlm.test` is checked by that test case, every other trace by all of them.
///
/// Without spans the executions are errored.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[command(
    after_help = "Examples:\n  kindlm trace --command 'python agent.py'\n  kindlm trace --port 4318 --timeout 60s\n  kindlm trace --command 'npm run evals' --traces 5 --reporter junit=reports/junit.xml\n  kindlm trace --from traces.jsonl\n  kindlm trace --from otlp.pb.gz --test 'refund *' -v"
)]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    pub(crate) suite: ConfigArgs,

    /// Run this command with `sh -c` in the folder of the suite, with `OTEL_EXPORTER_OTLP_ENDPOINT` and related
    /// variables set, and wait until the command has ended
    #[arg(long, value_name = "COMMAND", conflicts_with = "from")]
    pub(crate) command: Option<String>,

    /// Read spans from this file instead: OTLP JSON, JSON lines as written by the collector, or protobuf, optionally
    /// gzipped; repeatable
    #[arg(long, value_name = "FILE", conflicts_with_all = ["port", "host", "timeout", "settle"])]
    pub(crate) from: Vec<PathBuf>,

    /// The port that receives spans; 0 for any free port [default: `trace.port`, else 4318]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,

    /// The address that receives spans; every program that can reach it can send spans
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,

    /// The time to wait for spans, or for the command to end: `1500` (ms), `30s`, `2m` [default: `trace.timeoutMs`,
    /// else 30s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) timeout: Option<Duration>,

    /// The time without new spans after which the trace is complete [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) settle: Option<Duration>,

    /// The number of traces to wait for; missing ones are errored
    #[arg(long, value_name = "N", value_parser = values::count::<10_000>)]
    pub(crate) traces: Option<u32>,

    /// Treat all traces as one execution: for an agent whose calls do not share a span
    #[arg(long, conflicts_with = "traces")]
    pub(crate) merge: bool,

    /// Write a report: `<id>` to stdout or `<id>=<path>` to a file; repeatable [default: pretty]
    ///
    /// `kindlm explain reporters` lists the ids.
    #[arg(short, long = "reporter", value_name = "ID[=PATH]", value_parser = values::reporter)]
    pub(crate) reporters: Vec<ReporterSpec>,

    #[command(flatten)]
    pub(crate) html: HtmlArgs,

    /// The minimum pass rate, instead of `gates.passRateMin`: `95`, `95%` or `0.95`
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub(crate) gate: Option<f64>,

    /// Only test cases with one of these tags; a tag with `!` in front excludes its test cases; repeatable, or
    /// comma-separated
    #[arg(long, value_name = "[!]TAG", value_delimiter = ',', value_parser = values::tag)]
    pub(crate) tags: Vec<kindlm_run::Tag>,

    /// Only test cases whose name matches: a part of it (`refund`), a glob (`refund*`) or a regular expression
    /// (`/^refund/i`); repeatable
    #[arg(long = "test", value_name = "PATTERN")]
    pub(crate) tests: Vec<String>,

    #[command(flatten)]
    pub(crate) responses: ResponsesArgs,

    /// Allow a budget although the price of a judge is unknown; its cost is not counted
    #[arg(long)]
    pub(crate) allow_unpriced: bool,

    /// Write nothing to disk while the traces are checked
    #[arg(long)]
    pub(crate) no_journal: bool,

    /// Treat soft checks like gates: a case that is only `scored` fails
    #[arg(long)]
    pub(crate) strict: bool,

    /// The baseline for measuring drift [default: `default`, if it exists]
    #[arg(long, value_name = "LABEL")]
    pub(crate) baseline: Option<String>,

    /// Show only the verdict, the gates and the failures; no progress
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Show every check, with outputs
    #[arg(short, long)]
    pub(crate) verbose: bool,
}
