//! `kindlm test`: runs the suite and reports.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use kindlm_assertions::Check;
use kindlm_engine::{
    self as engine, Baseline, CaseKind, Control, Observed, Plan, RecordError, RunOptions,
    RunProgress, Streamed, Suite, TestCase, execute, execute_streamed, report, report_streamed,
};
use kindlm_providers::transport::Waits;
use kindlm_providers::{Client, ClientOptions};
use kindlm_reporters::{Style, Verbosity};
use kindlm_store::responses::{Recorded, Responses};
use kindlm_store::{Baselines, Digest, Folder};
use kindlm_types::{AnyReport, Backend, CaseResult, ExitStatus, Files, RunInfo};
use kindlm_workspace::Folders;

use super::baseline;
use super::gate::{set_cost_max, set_pass_rate};
use crate::args::TestArgs;
use crate::failure::Outcome;
use crate::interrupt::{Abortable, attend};
use crate::output::{Output, check_target, verbosity, write_file};
use crate::programs::Purpose;
use crate::progress::Progress;
use crate::project::{self, Place, Project};
use crate::responses::ResponsesArgs;
use crate::resume::{self, Identity, Kept};
use crate::scripts::{Runner, Scripted};
use crate::secrets::Secrets;
use crate::suite_files::SuiteFiles;
use crate::trace::Observations;
use crate::{
    Failure, Io, budget, dry_run, identity, keys, print, responses, saved, select, trust,
    workspaces,
};

/// The check that compares with a baseline.
const DRIFT: &str = "drift";

/// The reporter that writes the report of the `compliance` block.
const COMPLIANCE: &str = "compliance";

pub(crate) fn run(args: TestArgs, io: &mut Io) -> Outcome {
    let project = project::open(io, &args.suite, purpose(&args))?;
    run_project(args, project, io)
}

/// The same of a suite that is read already.
pub(crate) fn run_project(args: TestArgs, project: Project, io: &mut Io) -> Outcome {
    let Project { place, mut suite, files } = project;
    let (args, past) = resume::settled(io, &place, &suite, args)?;
    let arguments = resume::arguments_of(io, &place, &args);
    let verbosity = verbosity(args.quiet, args.verbose);
    let reports = project::reports(&place, &suite, args.suite.allow_outside)?;
    let options = options_of(&args);
    let output = Output::new(io, args.reporters, reports, verbosity)?;
    output.spare(io, &SuiteFiles::new(&place, &files, Some(&suite)))?;
    saved::remove_abandoned(&place);
    if let Some(rate) = args.gate {
        set_pass_rate(&mut suite.gates, rate);
    }
    // A budget is one for what this process sends: a shard is not all of its run, and transcripts were paid for elsewhere.
    // Of a cost that is unknown by the user's leave, nobody can say that it is within the budget.
    let sends_all =
        args.select.shard.is_none() && suite.cases.iter().all(|it| it.kind != CaseKind::Transcript);
    if let (Some(usd), true, false) = (args.budget_usd, sends_all, args.allow_unpriced) {
        set_cost_max(&mut suite.gates, usd);
    }
    trust::settle((io.now)(), &place.state(), trust::models_of(&suite.models), &mut suite.gates)?;
    check_compliance_folder(&place, &suite, args.suite.allow_outside)?;
    let filter = select::filter(io, &place, &suite, &args.select, past.as_ref())?;
    let options = RunOptions { filter, ..options };
    let Some(mut plan) = select::plan(io, &suite, &options)? else {
        return past.map_or(Ok(ExitStatus::Success), |it| Err(it.nothing_left()));
    };
    if let Some(shard) = args.select.shard {
        let how = (shard, args.select.shard_durations.as_deref());
        plan = select::part(io, &place, &suite, &plan, &options, how)?;
    }
    let quiet = verbosity == Verbosity::Quiet;
    let (baseline, digest) = baseline_for(io, &place, &mut suite, args.baseline.as_deref(), quiet)?;
    let started = (io.now)();
    let mut info = identity::begin(started, &place.folder);
    let mut identity = Identity::new(&mut info, (&suite, &files, &plan), digest, arguments);
    if let Some(past) = &past {
        identity.settle(io, past)?;
    }
    if args.dry_run {
        return look(io, past.as_ref(), (&suite, &plan), &options, &info.id);
    }
    let spending = Spending {
        may_ask: args.responses.may_ask(),
        always_asks: args.responses.always_asks(),
        allow_unpriced: args.allow_unpriced,
        asks_models: true,
    };
    let open = past.as_ref().map(|it| it.open(io, &suite, &plan)).transpose()?;
    let open = open.as_ref().unwrap_or(&plan);
    spending.check(io, &place, (&suite, &files, &plan), open, &options)?;
    let concurrency = options.concurrency.unwrap_or(suite.defaults.concurrency);
    let door = Door::new(io, &place, (&suite, &files), concurrency, &args.responses)?;
    let keeping = (args.suite.allow_outside, args.keep_workspaces);
    let workspaces = workspaces::open(io, &files, &suite, &plan, keeping)?;
    let Door { client, runner, responses, secrets, waits } = door;
    let client = Scripted::new(&client, runner);
    let backend = Recorded::new(&client, responses);
    let mut kept = if args.no_journal { None } else { Some(identity.keep(io, &place, past)?) };
    let can_resume = kept.is_some();
    let observed = None;
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

/// What would be run, and what it may cost.
fn look(
    io: &mut Io,
    past: Option<&resume::Past>,
    (suite, plan): (&Suite, &Plan),
    options: &RunOptions,
    id: &str,
) -> Outcome {
    let open = past.map(|it| it.open(io, suite, plan)).transpose()?;
    if let Some(open) = &open {
        let (all, open) = (plan.units.len(), open.units.len());
        io.tell(&format!("run {id}: {} of {all} executions are done", all - open));
    }
    print(io, &dry_run::describe(suite, open.as_ref().unwrap_or(plan), options)?)?;
    Ok(ExitStatus::Success)
}

/// What the arguments say of the run, but for which cases it has.
fn options_of(args: &TestArgs) -> RunOptions {
    RunOptions {
        repeat: args.runs,
        concurrency: args.concurrency.map(|it| it as usize),
        timeout: args.timeout,
        fail_fast: args.fail_fast,
        max_failures: args.max_failures,
        budget_usd: args.budget_usd,
        strict: args.strict,
        ..RunOptions::default()
    }
}

/// What a run may spend, and on whom.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one run")]
pub(super) struct Spending {
    /// Whether anything is sent; else all answers are recorded.
    pub(super) may_ask: bool,
    /// True if everything is sent, and no answer comes from the response store.
    pub(super) always_asks: bool,
    /// Whether prices may be unknown although there is a budget.
    pub(super) allow_unpriced: bool,
    /// Whether the models under test are asked, and not only judges.
    pub(super) asks_models: bool,
}

impl Spending {
    /// What can be known to go wrong before anything is sent: judges that nobody may trust, prices that nobody knows, keys
    /// that are not there. `open` is what of the plan is still to be sent.
    pub(super) fn check(
        &self,
        io: &mut Io,
        place: &Place,
        (suite, files, plan): (&Suite, &Folder, &Plan),
        open: &Plan,
        options: &RunOptions,
    ) -> Result<(), Failure> {
        trust::check((io.now)(), &place.state(), &place.name, (suite, files), plan)?;
        if !self.may_ask {
            return Ok(());
        }
        if !self.allow_unpriced {
            budget::check(suite, plan, options, self.asks_models)?;
        }
        let mut missing = keys::missing_for(io, suite, open, self.asks_models);
        missing.refuse(self.always_asks)?;
        for warning in missing.all() {
            io.tell(&format!("warning: {warning}"));
        }
        Ok(())
    }
}

/// Whether the suite is only looked at.
pub(crate) fn purpose(args: &TestArgs) -> Purpose {
    if args.dry_run { Purpose::look(args.suite.allow_programs) } else { Purpose::Run }
}

/// The door to the models of a suite, and what is kept behind it.
pub(super) struct Door {
    pub(super) client: Client,
    pub(super) runner: Arc<Runner>,
    pub(super) responses: Responses,
    /// What must not be told.
    pub(super) secrets: Secrets,
    /// Ends the waits of requests that are to be sent.
    pub(super) waits: Waits,
}

impl Door {
    pub(super) fn new(
        io: &Io,
        place: &Place,
        (suite, files): (&Suite, &Folder),
        concurrency: usize,
        responses: &ResponsesArgs,
    ) -> Result<Self, Failure> {
        let (waits, runner) = (Waits::default(), Runner::new(io, files.root())?);
        let options = ClientOptions::new(Arc::clone(&io.env), files.root())
            .with_concurrency(concurrency)
            .with_waits(waits.clone())
            .with_scripts(project::scripts(&suite.scripts, &runner));
        let options = project::with_limits(options, suite);
        let client = Client::new(&suite.providers, files, options).map_err(|problems| {
            Failure::inputs(problems.iter().map(|it| {
                let place = it.pointer.replace('/', ".");
                format!("`providers{place}`: {}", it.message)
            }))
        })?;
        let secrets = Secrets::of(io, &suite.providers);
        let decides = (&suite.providers, &suite.scripts, files as &dyn Files);
        let responses = responses.open(io, &place.state(), decides, &secrets)?;
        Ok(Self { client, runner, responses, secrets, waits })
    }
}

/// The outputs that drift is measured against; none if no baseline of the suite was set and none was asked for.
pub(super) fn baseline_for(
    io: &mut Io,
    place: &Place,
    suite: &mut Suite,
    label: Option<&str>,
    quiet: bool,
) -> Result<(Baseline, Option<Digest>), Failure> {
    let found = match label {
        Some(label) => Some(baseline::load(place, label)?),
        None => Baselines::new(place.state())
            .find(baseline::DEFAULT)
            .map_err(|err| Failure::input(err.to_string()))?,
    };
    let mut outputs = Baseline::default();
    let Some(found) = found else { return Ok((outputs, None)) };
    if !found.is_of(&suite.info.project, &suite.info.name) {
        let (other, own) = (&found.suite_name, &suite.info.name);
        if let Some(label) = label {
            return Err(Failure::input(format!(
                "the baseline `{label}` belongs to the suite `{other}`, and this is `{own}`"
            ))
            .with_help("name a baseline of this suite; `kindlm baseline list` shows them all"));
        }
        if suite.cases.iter().any(measures_drift) {
            let warning = format!(
                "drift is not measured: the baseline `{}` belongs to the suite `{other}`; set one of `{own}` with \
                 `kindlm baseline set <label>` and name it with `--baseline`",
                baseline::DEFAULT
            );
            // The report for people leaves warnings out then.
            if quiet {
                io.tell(&format!("warning: {warning}"));
            }
            suite.warnings.push(warning);
        }
        return Ok((outputs, None));
    }
    let mut text = String::new();
    for entry in found.entries().filter(|it| it.run_count > 0) {
        // What has no output is nothing to compare with.
        if !entry.output_text.is_empty() {
            outputs.insert(&entry.case, &entry.model, entry.output_text.as_str());
        }
        let _ = write!(text, "{:?}", (&entry.case, &entry.model, &entry.output_text, &entry.turns));
        for (turn, text) in &entry.turns {
            outputs.insert_turn(&entry.case, &entry.model, turn, text.as_str());
        }
    }
    Ok((outputs, Some(Digest::of(text))))
}

/// True if a check of the case compares with a baseline.
fn measures_drift(case: &TestCase) -> bool {
    let Ok(body) = case.body.body() else { return false };
    let checks = body.checks.iter().chain(body.conversation.iter().flat_map(|it| &*it.checks));
    checks.flat_map(Check::leaves).any(|it| it.meta.id == DRIFT)
}

/// What has become of the plan.
pub(super) enum Done {
    /// The journal has it.
    Streamed(Box<Streamed>),
    /// There is no journal.
    Held(Vec<CaseResult>),
}

/// A run that is ready to begin.
pub(super) struct Run {
    pub(super) place: Place,
    pub(super) suite: Suite,
    pub(super) plan: Plan,
    pub(super) options: RunOptions,
    pub(super) baseline: Baseline,
    pub(super) quiet: bool,
    /// Whether there is a journal to go on from.
    pub(super) can_resume: bool,
    /// Ends the waits of requests that are to be sent.
    pub(super) waits: Waits,
    /// Makes folders for agents.
    pub(super) workspaces: Option<Folders>,
    /// What happened already, and is only to be judged.
    pub(super) observed: Option<Observations>,
}

impl Run {
    /// Executes the plan on a runtime of its own, and minds Ctrl-C. Also says why something could not be kept.
    pub(super) fn execute(
        &self,
        io: &mut Io,
        backend: &dyn Backend,
        info: &mut RunInfo,
        mut kept: Option<&mut Kept>,
    ) -> Result<(Done, Option<RecordError>), Failure> {
        let Self { suite, plan, options, baseline, .. } = self;
        let was_complete = kept.as_ref().is_some_and(|it| it.done() >= plan.units.len());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
        let control = Control::default();
        let (backend, abort) = Abortable::new(backend);
        let progress = Progress::new(io, self.quiet);
        let watch = |event: RunProgress<'_>| progress.on(event);
        let run = engine::Run {
            baseline: Some(baseline),
            workspaces: self.workspaces.as_ref().map(|it| it as _),
            control: Some(&control),
            watch: &watch,
            observed: self.observed.as_ref().map(|it| it as &dyn Observed),
            ..engine::Run::new(suite, plan, options, &backend)
        };
        let run = async {
            if let Some(record) = kept.as_deref() {
                let mut streamed = execute_streamed(engine::Run { record, ..run }).await;
                let failure = streamed.failure.take();
                (Done::Streamed(Box::new(streamed)), failure)
            } else {
                let executed = execute(run).await;
                (Done::Held(executed.cases), executed.failure)
            }
        };
        let ((done, failure), interrupted) =
            runtime.block_on(attend(run, &control, &self.waits, abort, |text| progress.say(text)));
        drop(progress);
        // Whatever still hangs somewhere must not keep the report waiting.
        runtime.shutdown_background();
        if let Some(folder) = self.workspaces.as_ref().and_then(Folders::kept) {
            io.tell(&format!("workspaces kept in {}", folder.display()));
        }
        let failure = failure.or_else(|| kept.as_mut().and_then(|it| it.finish()));
        let before =
            if was_complete { resume::duration_before(&self.place, &info.id) } else { None };
        info.duration_ms = match before {
            Some(before) => before,
            None => identity::elapsed_since(&info.started_at, (io.now)()),
        };
        info.interrupted = interrupted;
        Ok((done, failure))
    }

    /// Puts the report together, out of the journal if there is one.
    pub(super) fn report(
        &self,
        io: &mut Io,
        (done, failure): (Done, Option<RecordError>),
        kept: Option<&Kept>,
        info: RunInfo,
        secrets: &Secrets,
        output: &Output,
    ) -> Outcome {
        let Self { suite, plan, .. } = self;
        match (done, kept) {
            (Done::Streamed(streamed), Some(kept)) => {
                let mut report = report_streamed(suite, plan, *streamed, kept, info);
                secrets.redact_head(&mut report);
                self.finish(io, &report, failure, output)
            }
            (Done::Streamed(_), None) => Err(Failure::internal("the journal of the run is gone")),
            (Done::Held(cases), _) => {
                let mut report = report(suite, plan, cases, info);
                secrets.redact(&mut report);
                self.finish(io, &report, failure, output)
            }
        }
    }

    /// Keeps the report and writes it wherever it was asked for.
    fn finish(
        &self,
        io: &mut Io,
        report: &AnyReport<'_>,
        failure: Option<RecordError>,
        output: &Output,
    ) -> Outcome {
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
        if let Some(err) = failure {
            let failure = Failure::internal(err.to_string());
            let failure = if self.can_resume {
                let go_on = resume::command(&self.place, &report.run.id);
                failure.with_help(format!(
                    "once that is mended, {go_on} runs what is missing, and nothing else"
                ))
            } else {
                failure
            };
            return Err(Failure { status: status.or(ExitStatus::Internal), ..failure });
        }
        if status == ExitStatus::Interrupted {
            io.tell(if summary.broken_off > 0 {
                "interrupted: what was not sent is in the report as such"
            } else {
                "interrupted, but everything had been sent: the report is complete"
            });
        }
        let advice =
            resume::advice(&self.place, &report.run.id, &summary).filter(|_| self.can_resume);
        if let Some(advice) = advice.filter(|_| !self.quiet || status == ExitStatus::Interrupted) {
            io.tell(&advice);
        } else if summary.totals.cases == 0 && report.shard.is_none() {
            io.tell(if summary.totals.unchecked() {
                "nothing was checked: no check of the test cases applies; the report says why"
            } else {
                "nothing was run: every test case that was selected is skipped"
            });
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
pub(super) fn check_compliance_folder(
    place: &Place,
    suite: &Suite,
    allow_outside: bool,
) -> Result<(), Failure> {
    let Some(compliance) = suite.compliance.as_ref().filter(|it| it.enabled) else { return Ok(()) };
    if project::is_inside(Path::new(&compliance.output_dir)) || allow_outside {
        let file = Path::new(&compliance.output_dir).join("kindlm-compliance.md");
        return check_target(&place.folder.join(&file), &file);
    }
    Err(Failure::input(format!(
        "`compliance.outputDir` is `{}`, outside the folder of the config file",
        compliance.output_dir
    ))
    .with_help("choose a folder inside it, or give `--allow-outside`"))
}
