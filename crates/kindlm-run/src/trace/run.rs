//! Judges an agent by the spans in its traces.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kindlm_engine::{CaseKind, RunOptions, Suite};

use super::{Gathering, MODEL, Observations, Options, gather, model, read_files};
use crate::baseline::baseline_for;
use crate::gates::set_pass_rate;
use crate::project::Project;
use crate::resume::TRACE;
use crate::run::{Around, Run, TakeReport, specify};
use crate::session::Spending;
use crate::{
    Failure, Outcome, Progress, ResponseSource, Selection, Session, World, compliance, identity,
    saved, select, trust,
};

/// The default time without new spans after which the traces are complete.
const SETTLE: Duration = Duration::from_secs(1);

/// The source of spans, and the settings for judging them.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
pub struct TraceConfig {
    /// The agent's command, which a shell runs in the folder of the suite; `None` without a command.
    pub command: Option<String>,
    /// The files of spans. If any are given, no port is opened.
    pub from: Vec<PathBuf>,
    /// The port to listen on; 0 is any free port. The default is the port of the suite.
    pub port: Option<u16>,
    /// The address to listen on.
    pub host: IpAddr,
    /// The maximum wait for spans or for the command. The default is `trace.timeoutMs` of the suite.
    pub timeout: Option<Duration>,
    /// The time without new spans after which the traces are complete. The default is one second.
    pub settle: Option<Duration>,
    /// The number of expected traces, if it is known.
    pub traces: Option<usize>,
    /// True to join all traces to one execution.
    pub merge: bool,
    /// The selected test cases; the selection of models is not used.
    pub select: Selection,
    /// The source of the judges' answers.
    pub responses: ResponseSource,
    /// The minimum pass rate, from 0 to 1, which replaces `gates.passRateMin`; `None` to keep the gate.
    pub pass_rate_min: Option<f64>,
    /// True if a run with a budget may start although the price of a judge is unknown.
    pub allow_unpriced: bool,
    /// True if executions are not stored while the traces are judged.
    pub no_journal: bool,
    /// True if a failed soft check fails the execution.
    pub strict: bool,
    /// The label of the baseline that drift and pass rates are compared with. The default is `default`.
    pub baseline: Option<String>,
    /// True to show only warnings as notices.
    pub quiet: bool,
}

impl Default for TraceConfig {
    /// Returns settings for all test cases, with the suite's port at 127.0.0.1.
    fn default() -> Self {
        Self {
            command: None,
            from: Vec::new(),
            port: None,
            host: Ipv4Addr::LOCALHOST.into(),
            timeout: None,
            settle: None,
            traces: None,
            merge: false,
            select: Selection::default(),
            responses: ResponseSource::default(),
            pass_rate_min: None,
            allow_unpriced: false,
            no_journal: false,
            strict: false,
            baseline: None,
            quiet: false,
        }
    }
}

/// Collects spans, judges them by the suite, and passes the report to `take`. Returns the exit status of the report.
///
/// # Errors
///
/// Fails for the reasons of [`Prepared::new`](crate::Prepared::new) and [`Prepared::run`](crate::Prepared::run). Also
/// fails if the suite cannot be judged by traces, or if no port can be opened. Also fails if the user interrupts the
/// collection, or if the spans cannot be read.
pub fn judge_traces(
    world: &World,
    project: Project,
    config: &TraceConfig,
    progress: Box<dyn Progress + '_>,
    take: &mut TakeReport<'_>,
) -> Outcome {
    let Project { place, mut suite, files, allow_outside, .. } = project;
    let quiet = config.quiet;
    saved::remove_abandoned(&place);
    if let Some(rate) = config.pass_rate_min {
        set_pass_rate(&mut suite.gates, rate);
    }
    let models = trust::models_of(&suite.models);
    trust::settle((world.now)(), &place.state(), models, &mut suite.gates)?;
    trust::note_calibrations(world, &place.state(), &mut suite, &files);
    compliance::check_folder(&place, &suite, allow_outside)?;
    let label = config.baseline.as_deref();
    let reference = baseline_for(world, &place, &mut suite, label, quiet)?;
    let filter = select::filter(world, &place, &suite, &config.select, None)?;
    let options = RunOptions { strict: config.strict, filter, ..RunOptions::default() };
    stand_in(&mut suite);
    let none_selected = || Failure::internal("no test case was selected");
    let plan = select::plan(world, &suite, &options)?.ok_or_else(none_selected)?;
    let spending = Spending {
        may_ask: config.responses.may_ask(),
        always_asks: config.responses.always_asks(),
        allow_unpriced: config.allow_unpriced,
        asks_models: false,
    };
    spending.check(world, &place, (&suite, &files, &plan), &plan, &options)?;
    let info = identity::begin((world.now)(), &place.folder);
    let dirty = specify(&place, &mut suite, &files, &info);
    let observed = observe(world, &mut suite, config, files.root(), quiet)?;
    let plan = select::plan(world, &suite, &options)?.ok_or_else(none_selected)?;
    let concurrency = suite.defaults.concurrency;
    let session = Session::new(world, &place, (&suite, &files), concurrency, &config.responses)?;
    let run = Run {
        place,
        suite,
        plan,
        options,
        baseline: reference.outputs,
        reference: reference.baseline,
        quiet,
        stores_report: true,
        // Resuming needs the spans, which are not stored.
        can_resume: false,
        waits: session.waits.clone(),
        // The agent uses its own folder, so it needs no workspace.
        workspaces: None,
        observed: Some(observed),
        canaries: None,
    };
    let arguments = vec![TRACE.to_owned()];
    let journal = !config.no_journal;
    let around =
        Around { session, files, digest: reference.digest, past: None, arguments, journal, dirty };
    run.complete(world, progress, take, around, info)
}

/// Collects the spans, and gives each test case one execution per trace.
fn observe(
    world: &World,
    suite: &mut Suite,
    config: &TraceConfig,
    folder: &Path,
    quiet: bool,
) -> Result<Observations, Failure> {
    let gathered = if config.from.is_empty() {
        gather(world, &gathering(config, suite, folder, quiet))?
    } else {
        read_files(world, &config.from)?
    };
    let (spans, traces) = (gathered.spans(), gathered.traces.len());
    let how = Options { merge: config.merge, traces: config.traces };
    let (observed, notes) = Observations::new(suite, gathered, &how)?;
    if !quiet {
        world.notify(&format!("{} in {}", count(spans, "span"), count(traces, "trace")));
    }
    for note in notes {
        world.notify(&note);
        suite.warnings.extend(note.strip_prefix("warning: ").map(str::to_owned));
    }
    for case in &mut suite.cases {
        case.repeat = observed.repeats(&case.name);
        // All traces are recorded already, so no repeat can be left out.
        case.until = None;
    }
    Ok(observed)
}

/// Replaces the models of all test cases by the [model](MODEL) for the results of traces, with one repeat.
///
/// No prompt is sent to this model.
pub(crate) fn stand_in(suite: &mut Suite) {
    suite.models.push(model());
    for case in &mut suite.cases {
        case.kind = CaseKind::Prompt;
        case.models = [MODEL.to_owned()].into();
        case.repeat = 1;
    }
}

fn gathering<'a>(
    config: &'a TraceConfig,
    suite: &Suite,
    folder: &'a Path,
    quiet: bool,
) -> Gathering<'a> {
    Gathering {
        host: config.host,
        port: config.port.unwrap_or(suite.trace.port),
        // The command is given the address, so any free port works.
        any_port: config.port.is_none() && config.command.is_some(),
        timeout: config.timeout.unwrap_or(suite.trace.timeout),
        settle: config.settle.unwrap_or(SETTLE),
        command: config.command.as_deref(),
        folder,
        traces: config.traces,
        quiet,
    }
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
