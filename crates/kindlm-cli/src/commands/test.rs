//! `kindlm test`: runs the suite and reports.

use std::path::{Component, Path};
use std::sync::Arc;

use kindlm_engine::{Baseline, Control, Filter, Pattern, Plan, RunOptions, Suite, execute, plan};
use kindlm_providers::{Client, ClientOptions};
use kindlm_reporters::{Style, Verbosity};
use kindlm_store::{Baselines, Runs};
use kindlm_types::wire::v1;
use kindlm_types::{Backend, CaseResult, ExitStatus, Report, RunInfo};

use super::baseline;
use super::gate::set_pass_rate;
use crate::args::{SelectArgs, TestArgs};
use crate::failure::Outcome;
use crate::interrupt::{Abortable, attend};
use crate::output::{Output, render, verbosity};
use crate::progress::Progress;
use crate::project::{self, Place, Project};
use crate::{Failure, Io, dry_run, identity, print};

/// The reporter that writes the report of the `compliance` block.
const COMPLIANCE: &str = "compliance";

pub(crate) fn run(args: TestArgs, io: &mut Io) -> Outcome {
    let Project { place, mut suite, files } = project::open(io, &args.suite)?;
    let verbosity = verbosity(args.quiet, args.verbose);
    let output = Output::new(io, args.reporters, verbosity)?;
    if let Some(rate) = args.gate {
        set_pass_rate(&mut suite.gates, rate);
    }
    check_compliance_folder(&suite, args.suite.allow_outside)?;
    let options = RunOptions {
        repeat: args.runs,
        concurrency: args.concurrency.map(|it| it as usize),
        timeout: args.timeout,
        fail_fast: args.fail_fast,
        strict: args.strict,
        filter: filter(args.select)?,
    };
    let plan = plan(&suite, &options).map_err(|err| Failure::input(err.to_string()))?;
    let baseline = baseline_for(io, &place, &mut suite, args.baseline.as_deref())?;
    if args.dry_run {
        print(io, &dry_run::describe(&suite, &plan, &options))?;
        return Ok(ExitStatus::Success);
    }
    let client_options = ClientOptions::new(Arc::clone(&io.env), files.root());
    let client = Client::new(&suite.providers, &files, client_options).map_err(|problems| {
        let said: Vec<String> = problems
            .iter()
            .map(|it| format!("`providers{}`: {}", it.pointer, it.message))
            .collect();
        Failure::input(said.join("\n"))
    })?;

    let started = (io.now)();
    let mut info = identity::begin(started, &place.folder);
    let (cases, interrupted) =
        execute_all(io, &suite, &plan, &options, &client, &baseline, args.quiet)?;
    info.duration_ms = identity::elapsed_ms(started, (io.now)());
    info.interrupted = interrupted;
    finish(io, &place, &suite, &plan, cases, info, &output, verbosity)
}

fn filter(select: SelectArgs) -> Result<Filter, Failure> {
    let tests: Result<Vec<Pattern>, _> = select.tests.iter().map(|it| it.parse()).collect();
    let tests = tests.map_err(|err| Failure::input(err.to_string()))?;
    Ok(Filter { tags: select.tags, tests, models: select.models })
}

/// The outputs that drift is measured against; none if no baseline was set and none was asked for.
fn baseline_for(
    io: &mut Io,
    place: &Place,
    suite: &mut Suite,
    label: Option<&str>,
) -> Result<Baseline, Failure> {
    let found = match label {
        Some(label) => Some(baseline::load(place, label)?),
        None => Baselines::new(place.state())
            .find(baseline::DEFAULT)
            .map_err(|err| Failure::input(err.to_string()))?,
    };
    let mut outputs = Baseline::default();
    let Some(found) = found else { return Ok(outputs) };
    if found.suite_name != suite.info.name {
        let warning = format!(
            "the baseline was set from the suite `{}`, and this is `{}`",
            found.suite_name, suite.info.name
        );
        io.tell(&format!("warning: {warning}"));
        suite.warnings.push(warning);
    }
    for entry in found.entries().filter(|it| it.run_count > 0) {
        // What has no output is nothing to compare with.
        if !entry.output_text.is_empty() {
            outputs.insert(&entry.case, &entry.model, entry.output_text.as_str());
        }
        for (turn, text) in &entry.turns {
            outputs.insert_turn(&entry.case, &entry.model, turn, text.as_str());
        }
    }
    Ok(outputs)
}

/// Executes the plan on a runtime of its own, and minds Ctrl-C.
fn execute_all(
    io: &mut Io,
    suite: &Suite,
    plan: &Plan,
    options: &RunOptions,
    backend: &dyn Backend,
    baseline: &Baseline,
    quiet: bool,
) -> Result<(Vec<CaseResult>, bool), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
    let control = Control::default();
    let (backend, abort) = Abortable::new(backend);
    let progress = Progress::new(io, quiet);
    let watch = |event: kindlm_engine::Event<'_>| progress.on(event);
    let run = execute(suite, plan, options, &backend, baseline, &control, &watch);
    let result = runtime.block_on(attend(run, &control, abort, |text| progress.say(text)));
    // Whatever still hangs somewhere must not keep the report waiting.
    runtime.shutdown_background();
    Ok(result)
}

/// Gates, keeps and writes the report.
#[expect(clippy::too_many_arguments, reason = "the last step sees everything that came before")]
fn finish(
    io: &mut Io,
    place: &Place,
    suite: &Suite,
    plan: &Plan,
    cases: Vec<CaseResult>,
    info: RunInfo,
    output: &Output,
    verbosity: Verbosity,
) -> Outcome {
    let report = kindlm_engine::report(suite, plan, cases, info);
    // First of all: what was paid for is on disk.
    let kept = keep(io, place, &report, verbosity);
    let written = output.write(io, &report);
    let compliance = write_compliance(io, place, suite, &report, verbosity);
    let status = report.exit_status();
    if let Err(failure) = written.and(compliance) {
        return Err(Failure { status: status.or(failure.status), ..failure });
    }
    if status == ExitStatus::Interrupted && kept {
        io.tell("interrupted: what was not sent is in the report as such; run again for the rest");
    }
    Ok(status)
}

/// Keeps the report for `kindlm report`, `gate` and `baseline`. The run is no worse if that fails.
fn keep(io: &mut Io, place: &Place, report: &Report, verbosity: Verbosity) -> bool {
    let kept = match serde_json::to_string(&v1::Report::from(report)) {
        Ok(json) => {
            Runs::new(place.state()).save(&report.run.id, &json).map_err(|err| err.to_string())
        }
        Err(err) => Err(err.to_string()),
    };
    match kept {
        Ok(_) if verbosity == Verbosity::Quiet => true,
        Ok(_) => {
            io.tell(&format!("run {} kept in .kindlm/runs beside {}", report.run.id, place.name));
            true
        }
        Err(err) => {
            io.tell(&format!("warning: the run is not kept: {err}"));
            false
        }
    }
}

fn write_compliance(
    io: &mut Io,
    place: &Place,
    suite: &Suite,
    report: &Report,
    verbosity: Verbosity,
) -> Result<(), Failure> {
    let Some(compliance) = suite.compliance.as_ref().filter(|it| it.enabled) else { return Ok(()) };
    let Some(reporter) = kindlm_reporters::find(COMPLIANCE) else { return Ok(()) };
    let name = format!("kindlm-compliance-{}.{}", report.run.id, reporter.meta.extension);
    let folder = Path::new(&compliance.output_dir);
    let path = folder.strip_prefix(".").unwrap_or(folder).join(name);
    let text = render(reporter, report, &Style::default())?;
    kindlm_store::write(&place.folder.join(&path), text.as_bytes())
        .map_err(|err| Failure::internal(err.to_string()))?;
    if verbosity != Verbosity::Quiet {
        io.tell(&format!("compliance report written to {}", path.display()));
    }
    Ok(())
}

/// A suite may not write outside its folder either.
fn check_compliance_folder(suite: &Suite, allow_outside: bool) -> Result<(), Failure> {
    let Some(compliance) = suite.compliance.as_ref().filter(|it| it.enabled) else { return Ok(()) };
    let mut depth = 0_i32;
    let inside = Path::new(&compliance.output_dir).components().all(|part| {
        match part {
            Component::CurDir => {}
            Component::Normal(_) => depth += 1,
            Component::ParentDir => depth -= 1,
            Component::RootDir | Component::Prefix(_) => depth = -1,
        }
        depth >= 0
    });
    if inside || allow_outside {
        return Ok(());
    }
    Err(Failure::input(format!(
        "`compliance.outputDir` is `{}`, outside the folder of the config file",
        compliance.output_dir
    ))
    .with_help("choose a folder inside it, or give `--allow-outside`"))
}
