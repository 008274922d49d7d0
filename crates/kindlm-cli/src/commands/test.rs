//! `kindlm test`: runs the suite and reports.

use std::path::{Component, Path};
use std::sync::Arc;

use kindlm_engine::{self as engine, Baseline, Control, Event, Plan, RunOptions, Suite, execute};
use kindlm_providers::{Client, ClientOptions};
use kindlm_reporters::{Style, Verbosity};
use kindlm_store::responses::Recorded;
use kindlm_store::{Baselines, Folder};
use kindlm_types::{AnyReport, Backend, ExitStatus, Report};

use super::baseline;
use super::gate::set_pass_rate;
use crate::args::TestArgs;
use crate::failure::Outcome;
use crate::interrupt::{Abortable, attend};
use crate::output::{Output, check_target, verbosity, write_file};
use crate::progress::Progress;
use crate::project::{self, Place, Project};
use crate::secrets::Secrets;
use crate::{Failure, Io, dry_run, identity, keys, print, responses, saved, select};

/// The reporter that writes the report of the `compliance` block.
const COMPLIANCE: &str = "compliance";

pub(crate) fn run(args: TestArgs, io: &mut Io) -> Outcome {
    let Project { place, mut suite, files } = project::open(io, &args.suite)?;
    let verbosity = verbosity(args.quiet, args.verbose);
    let output = Output::new(io, args.reporters, verbosity)?;
    if let Some(rate) = args.gate {
        set_pass_rate(&mut suite.gates, rate);
    }
    check_compliance_folder(&place, &suite, args.suite.allow_outside)?;
    let options = RunOptions {
        repeat: args.runs,
        concurrency: args.concurrency.map(|it| it as usize),
        timeout: args.timeout,
        fail_fast: args.fail_fast,
        max_failures: args.max_failures,
        strict: args.strict,
        filter: select::filter(io, &place, &suite, &args.select)?,
    };
    let Some(mut plan) = select::plan(io, &suite, &options)? else {
        return Ok(ExitStatus::Success);
    };
    if let Some(shard) = args.select.shard {
        let how = (shard, args.select.shard_durations.as_deref());
        plan = select::part(io, &place, &suite, &plan, &options, how)?;
    }
    let baseline = baseline_for(io, &place, &mut suite, args.baseline.as_deref())?;
    if args.dry_run {
        print(io, &dry_run::describe(&suite, &plan, &options)?)?;
        return Ok(ExitStatus::Success);
    }
    if args.responses.may_ask() {
        for warning in keys::missing_for(io, &suite, &plan) {
            io.tell(&format!("warning: {warning}"));
        }
    }
    let client = client(io, &suite, &files)?;
    let secrets = Secrets::of(io, &suite.providers);
    let responses = args.responses.open(io, &place.state(), &suite.providers, &secrets)?;
    let backend = Recorded::new(&client, responses);
    let quiet = verbosity == Verbosity::Quiet;
    let run = Run { place, suite, plan, options, baseline, quiet };
    let report = run.execute(io, &backend)?;
    let outcome = run.finish(io, &report, &output);
    responses::tell(io, backend.responses(), quiet);
    outcome
}

/// The door to the models.
fn client(io: &Io, suite: &Suite, files: &Folder) -> Result<Client, Failure> {
    let options = ClientOptions::new(Arc::clone(&io.env), files.root());
    Client::new(&suite.providers, files, options).map_err(|problems| {
        Failure::inputs(problems.iter().map(|it| {
            let place = it.pointer.replace('/', ".");
            format!("`providers{place}`: {}", it.message)
        }))
    })
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

/// A run that is ready to begin.
struct Run {
    place: Place,
    suite: Suite,
    plan: Plan,
    options: RunOptions,
    baseline: Baseline,
    quiet: bool,
}

impl Run {
    /// Executes the plan on a runtime of its own, minds Ctrl-C, and evaluates the gates.
    fn execute(&self, io: &mut Io, backend: &dyn Backend) -> Result<Report, Failure> {
        let Self { suite, plan, options, baseline, .. } = self;
        let started = (io.now)();
        let mut info = identity::begin(started, &self.place.folder);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
        let control = Control::default();
        let (backend, abort) = Abortable::new(backend);
        let progress = Progress::new(io, self.quiet);
        let watch = |event: Event<'_>| progress.on(event);
        let run = execute(engine::Run {
            baseline: Some(baseline),
            control: Some(&control),
            watch: &watch,
            ..engine::Run::new(suite, plan, options, &backend)
        });
        let (executed, interrupted) =
            runtime.block_on(attend(run, &control, abort, |text| progress.say(text)));
        drop(progress);
        // Whatever still hangs somewhere must not keep the report waiting.
        runtime.shutdown_background();
        info.duration_ms = identity::elapsed_ms(started, (io.now)());
        info.interrupted = interrupted;
        let mut report = kindlm_engine::report(suite, plan, executed.cases, info);
        Secrets::of(io, &suite.providers).redact(&mut report);
        Ok(report)
    }

    /// Keeps the report and writes it wherever it was asked for.
    fn finish(&self, io: &mut Io, report: &AnyReport<'_>, output: &Output) -> Outcome {
        // First of all: what was paid for is on disk.
        saved::keep(io, &self.place, report, self.quiet);
        let written = output.write(io, report);
        let compliance = self.write_compliance(io, report);
        let summary = report.summary();
        let status = summary.exit_status;
        if let Err(failure) = written.and(compliance) {
            return Err(Failure { status: status.or(failure.status), ..failure });
        }
        if report.shard.is_some() && !self.quiet {
            io.tell("`kindlm merge` puts the reports of all shards together, and decides over the gates");
        }
        if status == ExitStatus::Interrupted {
            io.tell(if summary.broken_off > 0 {
                "interrupted: what was not sent is in the report as such; run again for the rest"
            } else {
                "interrupted, but everything had been sent: the report is complete"
            });
        } else if summary.totals.cases == 0 && report.shard.is_none() {
            io.tell("nothing was run: every test case that was selected is skipped");
        }
        Ok(status)
    }

    /// Writes the report that the `compliance` block asks for.
    fn write_compliance(&self, io: &mut Io, report: &AnyReport<'_>) -> Result<(), Failure> {
        let Some(compliance) = self.suite.compliance.as_ref().filter(|it| it.enabled) else {
            return Ok(());
        };
        if report.shard.is_some() {
            // A part of a run proves nothing; `kindlm merge --reporter compliance=<path>` writes it.
            return Ok(());
        }
        let Some(reporter) = kindlm_reporters::find(COMPLIANCE) else { return Ok(()) };
        let name = format!("kindlm-compliance-{}.{}", report.run.id, reporter.meta.extension);
        let folder = Path::new(&compliance.output_dir);
        let path = folder.strip_prefix(".").unwrap_or(folder).join(name);
        write_file(&self.place.folder.join(&path), reporter, report, &Style::default())?;
        if !self.quiet {
            io.tell(&format!("compliance report written to {}", path.display()));
        }
        Ok(())
    }
}

/// A suite may not write outside its folder either, and where it may, it must be able to.
fn check_compliance_folder(
    place: &Place,
    suite: &Suite,
    allow_outside: bool,
) -> Result<(), Failure> {
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
        let file = Path::new(&compliance.output_dir).join("kindlm-compliance.md");
        return check_target(&place.folder.join(&file), &file);
    }
    Err(Failure::input(format!(
        "`compliance.outputDir` is `{}`, outside the folder of the config file",
        compliance.output_dir
    ))
    .with_help("choose a folder inside it, or give `--allow-outside`"))
}
