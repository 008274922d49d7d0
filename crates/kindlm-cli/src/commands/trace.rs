//! `kindlm trace`: judges what an agent did by the spans that it sends.

use std::path::Path;
use std::time::Duration;

use kindlm_engine::{CaseKind, RunOptions, Suite};
use kindlm_reporters::Verbosity;
use kindlm_store::responses::Recorded;

use super::gate::set_pass_rate;
use super::test::{Door, Run, Spending, baseline_for, check_compliance_folder};
use crate::args::{SelectArgs, TraceArgs};
use crate::failure::Outcome;
use crate::output::{Output, verbosity};
use crate::programs::Purpose;
use crate::project::{self, Place, Project};
use crate::resume::{Identity, TRACE};
use crate::scripts::Scripted;
use crate::suite_files::SuiteFiles;
use crate::trace::{Gathering, MODEL, Observations, Options, gather, model, read_files};
use crate::{Failure, Io, identity, responses, saved, select, trust};

/// How long no more spans must have come, if nobody says.
const SETTLE: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &TraceArgs, io: &mut Io) -> Outcome {
    let Project { place, mut suite, files } = project::open(io, &args.suite, Purpose::Run)?;
    let verbosity = verbosity(args.quiet, args.verbose);
    let quiet = verbosity == Verbosity::Quiet;
    // Everything that can be refused is refused before the agent is run.
    let reports = project::reports(&place, &suite, args.suite.allow_outside)?;
    let output = Output::new(io, args.reporters.clone(), reports, verbosity)?;
    output.spare(io, &SuiteFiles::new(&place, &files, Some(&suite)))?;
    saved::remove_abandoned(&place);
    if let Some(rate) = args.gate {
        set_pass_rate(&mut suite.gates, rate);
    }
    trust::settle((io.now)(), &place.state(), trust::models_of(&suite.models), &mut suite.gates)?;
    check_compliance_folder(&place, &suite, args.suite.allow_outside)?;
    let (baseline, digest) = baseline_for(io, &place, &mut suite, args.baseline.as_deref(), quiet)?;
    let options = options(io, &place, &suite, args)?;
    stand_in(&mut suite);
    let Some(plan) = select::plan(io, &suite, &options)? else {
        return Err(Failure::internal("no test case was selected"));
    };
    let spending = Spending {
        may_ask: args.responses.may_ask(),
        always_asks: args.responses.always_asks(),
        allow_unpriced: args.allow_unpriced,
        asks_models: false,
    };
    spending.check(io, &place, (&suite, &files, &plan), &plan, &options)?;

    let mut info = identity::begin((io.now)(), &place.folder);
    let observed = observe(io, &mut suite, args, files.root(), quiet)?;
    let Some(plan) = select::plan(io, &suite, &options)? else {
        return Err(Failure::internal("no test case was selected"));
    };

    let concurrency = suite.defaults.concurrency;
    let door = Door::new(io, &place, (&suite, &files), concurrency, &args.responses)?;
    let Door { client, runner, responses, secrets, waits } = door;
    let client = Scripted::new(&client, runner);
    let backend = Recorded::new(&client, responses);
    let mut kept = if args.no_journal {
        None
    } else {
        let arguments = vec![TRACE.to_owned()];
        let identity = Identity::new(&mut info, (&suite, &files, &plan), digest, arguments);
        Some(identity.keep(io, &place, None)?)
    };
    let observed = Some(observed);
    // The spans are gone when the run is: there is nothing to go on with.
    let can_resume = false;
    // The agent has worked wherever it was.
    let workspaces = None;
    let run = Run {
        place,
        suite,
        plan,
        options,
        baseline,
        quiet,
        can_resume,
        waits,
        workspaces,
        observed,
    };
    let done = run.execute(io, &backend, &mut info, kept.as_mut())?;
    let outcome = run.report(io, done, kept.as_ref(), info, &secrets, &output);
    responses::tell(io, backend.responses(), quiet);
    outcome
}

/// Which tests, and how they are judged.
fn options(
    io: &mut Io,
    place: &Place,
    suite: &Suite,
    args: &TraceArgs,
) -> Result<RunOptions, Failure> {
    let chosen = SelectArgs {
        tags: args.tags.clone(),
        tests: args.tests.clone(),
        models: Vec::new(),
        failed: false,
        changed: false,
        shard: None,
        shard_durations: None,
    };
    let filter = select::filter(io, place, suite, &chosen, None)?;
    Ok(RunOptions { strict: args.strict, filter, ..RunOptions::default() })
}

/// Gathers the spans, and gives each test case as many executions as there are traces for it.
fn observe(
    io: &mut Io,
    suite: &mut Suite,
    args: &TraceArgs,
    folder: &Path,
    quiet: bool,
) -> Result<Observations, Failure> {
    let told = if args.from.is_empty() {
        gather(io, &gathering(args, suite, folder, quiet))?
    } else {
        read_files(io, &args.from)?
    };
    let (spans, traces) = (told.spans(), told.traces.len());
    let how = Options { merge: args.merge, traces: args.traces.map(|it| it as usize) };
    let (observed, notes) = Observations::new(suite, told, &how)?;
    if !quiet {
        io.tell(&format!("{} in {}", count(spans, "span"), count(traces, "trace")));
    }
    for note in notes {
        io.tell(&note);
        suite.warnings.extend(note.strip_prefix("warning: ").map(str::to_owned));
    }
    for case in &mut suite.cases {
        case.repeat = observed.repeats(&case.name);
    }
    Ok(observed)
}

/// Lets traces stand where the models of the suite would: whatever a test case sends, it is not sent.
fn stand_in(suite: &mut Suite) {
    suite.models.push(model());
    for case in &mut suite.cases {
        case.kind = CaseKind::Prompt;
        case.models = [MODEL.to_owned()].into();
        case.repeat = 1;
    }
}

fn gathering<'a>(
    args: &'a TraceArgs,
    suite: &Suite,
    folder: &'a Path,
    quiet: bool,
) -> Gathering<'a> {
    Gathering {
        host: args.host,
        port: args.port.unwrap_or(suite.trace.port),
        // Who is told the address need not be told the usual one.
        any_port: args.port.is_none() && args.command.is_some(),
        timeout: args.timeout.unwrap_or(suite.trace.timeout),
        settle: args.settle.unwrap_or(SETTLE),
        command: args.command.as_deref(),
        folder,
        traces: args.traces.map(|it| it as usize),
        quiet,
    }
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
