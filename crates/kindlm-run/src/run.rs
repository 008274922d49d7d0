//! Runs a suite: plans and performs the executions, and passes on the report.

use std::thread::JoinHandle;

use kindlm_engine::{
    self as engine, Baseline, CaseKind, Control, Observed, Plan, RecordError, RunOptions,
    RunProgress, Streamed, Suite, execute, execute_streamed, measure_gates, report,
    report_streamed,
};
use kindlm_providers::transport::Waits;
use kindlm_store::responses::Recorded;
use kindlm_store::{Digest, Folder};
use kindlm_types::script::ScriptRunner;
use kindlm_types::{
    AnyReport, CanaryWatch, CaseResult, CaseSource, ExitStatus, FileDigest, Ports, Report, RunInfo,
};
use kindlm_workspace::Folders;

use crate::baseline::{PassRates, Reference, baseline_for};
use crate::calibrate::{Canaries, CanaryRun};
use crate::compliance::{self, write_documents};
use crate::gates::{set_cost_max, set_pass_rate};
use crate::interrupt::{Abortable, attend};
use crate::project::{Project, SuiteFolder};
use crate::resume::{self, Identity, Kept, Past};
use crate::secrets::Secrets;
use crate::session::{Spending, ports};
use crate::suite_digest::{file_digests, suite_digest};
use crate::trace::Observations;
use crate::{
    FailedCase, Failure, Outcome, Progress, ResponseSource, Selection, Session, World, compare,
    dry_run, git, hooks, identity, listing, responses, saved, select, trust, workspaces,
};

/// A function that receives the report of a run.
///
/// The report was already stored in `.kindlm/runs`, unless [`RunConfig::no_report`] is set or storing it failed.
///
/// A failure of the function changes the exit status.
pub type TakeReport<'a> = dyn FnMut(&AnyReport<'_>) -> Result<(), Failure> + 'a;

/// The settings of a run that override the suite. The default overrides nothing.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
pub struct RunConfig {
    /// The repeats, concurrency and limits. `select` replaces the filter of these options.
    pub options: RunOptions,
    /// The selected test cases and models.
    pub select: Selection,
    /// The source of the models' answers.
    pub responses: ResponseSource,
    /// The minimum pass rate, from 0 to 1, which replaces `gates.passRateMin`; `None` to keep the gate.
    pub pass_rate_min: Option<f64>,
    /// True if a run with a budget may start although a price is unknown.
    pub allow_unpriced: bool,
    /// The label of the baseline that drift and pass rates are compared with. The default is `default`.
    pub baseline: Option<String>,
    /// True if executions are not stored during the run. Such a run cannot be resumed.
    pub no_journal: bool,
    /// True if the report is not stored in `.kindlm/runs`.
    pub no_report: bool,
    /// True to keep the workspace folders of agents after the run.
    pub keep_workspaces: bool,
    /// True to show only warnings as notices.
    pub quiet: bool,
    /// The arguments that are stored with the run, so that the caller can resume the run.
    pub arguments: Vec<String>,
}

/// A planned run, before the first request.
pub struct Prepared {
    project: Project,
    config: RunConfig,
    plan: Plan,
    /// The executions that are not done yet; `None` if the run is not resumed.
    open: Option<Plan>,
    reference: Reference,
    info: RunInfo,
    past: Option<Past>,
}

impl Prepared {
    /// Plans a run, or the rest of the run `past`.
    ///
    /// Returns `None`, after a notice, if a selection by the results of earlier runs is empty. With `past`, an empty
    /// selection is a failure.
    ///
    /// # Errors
    ///
    /// Fails if the run cannot start. Examples are an empty selection, a baseline of another suite, or a changed suite
    /// of a resumed run.
    pub fn new(
        world: &World,
        project: Project,
        mut config: RunConfig,
        past: Option<Past>,
    ) -> Result<Option<Self>, Failure> {
        let Project { place, mut suite, files, allow_outside, is_inline } = project;
        saved::remove_abandoned(&place);
        if let Some(rate) = config.pass_rate_min {
            set_pass_rate(&mut suite.gates, rate);
        }
        // The budget becomes a cost gate only if this process sends all requests. A shard is only a part of its run,
        // and transcripts were paid for elsewhere. An unknown cost that the user allowed must not fail the gate.
        let sends_all = config.select.shard.is_none()
            && suite.cases.iter().all(|it| it.kind != CaseKind::Transcript);
        if let (Some(usd), true, false) =
            (config.options.budget_usd, sends_all, config.allow_unpriced)
        {
            set_cost_max(&mut suite.gates, usd);
        }
        let models = trust::models_of(&suite.models);
        trust::settle((world.now)(), &place.state(), models, &mut suite.gates)?;
        trust::note_calibrations(world, &place.state(), &mut suite, &files);
        compliance::check_folder(&place, &suite, allow_outside)?;
        config.options.filter =
            select::filter(world, &place, &suite, &config.select, past.as_ref())?;
        let Some(mut plan) = select::plan(world, &suite, &config.options)? else {
            return past.map_or(Ok(None), |it| Err(it.nothing_left()));
        };
        if let Some(shard) = config.select.shard {
            let how = (shard, config.select.shard_durations.as_deref());
            plan = select::part(world, &place, &suite, &plan, &config.options, how)?;
        }
        let label = config.baseline.as_deref();
        let reference = baseline_for(world, &place, &mut suite, label, config.quiet)?;
        let mut info = identity::begin((world.now)(), &place.folder);
        if is_inline {
            // The suite is in no repository.
            (info.git_commit, info.git_branch) = (None, None);
        }
        if let Some(past) = &past {
            let (of, arguments) = ((&suite, &files, &plan), config.arguments.clone());
            Identity::new(&mut info, of, reference.digest, arguments).settle(world, past)?;
        }
        let open = past.as_ref().map(|it| it.open(world, &suite, &plan)).transpose()?;
        let project = Project { place, suite, files, allow_outside, is_inline };
        Ok(Some(Self { project, config, plan, open, reference, info, past }))
    }

    /// Returns the id of the run.
    pub fn id(&self) -> &str {
        &self.info.id
    }

    /// Returns the text of `--dry-run`: executions, requests and the maximum cost.
    ///
    /// For a resumed run, this method also sends a notice about the finished executions.
    ///
    /// # Errors
    ///
    /// Fails if a prompt or a check cannot be built, or if the calibrations for canaries cannot be read.
    pub fn describe(&self, world: &World) -> Result<String, Failure> {
        if let Some(open) = &self.open {
            let (suite, id) = (&self.project.suite, &self.info.id);
            world.notify(&if open.units.is_empty() {
                format!("run {id} is complete")
            } else {
                let done = self.plan.units.len() - open.units.len();
                format!("run {id}: {}", resume::done_of(done, suite, &self.plan))
            });
        }
        let open = self.open.as_ref().unwrap_or(&self.plan);
        let Project { place, suite, files, .. } = &self.project;
        let (mut questions, mut warnings) = (Vec::new(), Vec::new());
        match canaries_of(&self.config.responses, suite.canaries) {
            Some(Ok(count)) => {
                let of = (count, self.info.id.as_str());
                let canaries = Canaries::plan(world, place, (suite, files), &self.plan, of)?;
                questions = canaries.questions();
                warnings.extend(canaries.warnings());
            }
            Some(Err(why)) => warnings.push(why.to_owned()),
            None => {}
        }
        dry_run::describe(suite, open, &self.config.options, (&questions, &warnings))
    }

    /// Returns the lowest of the budgets of all gates and of the user, in US dollars; `None` without a budget.
    pub fn budget_usd(&self) -> Option<f64> {
        engine::budget_usd(&self.project.suite, &self.config.options)
    }

    /// Returns the selected test cases with their source locations, models and tags: one line each, or a JSON array.
    ///
    /// # Errors
    ///
    /// Fails if the array cannot be written.
    pub fn list(&self, json: bool) -> Result<String, Failure> {
        let (suite, plan) = (&self.project.suite, self.open.as_ref().unwrap_or(&self.plan));
        if json { listing::json(suite, plan) } else { Ok(listing::text(suite, plan)) }
    }

    /// Performs the executions, and passes the report to `take`. Returns the exit status of the report.
    ///
    /// # Errors
    ///
    /// Fails if:
    ///
    /// - a judge lacks the calibration that the gate `judgeKappaMin` requires;
    /// - a budget is set and a price is unknown, unless [`RunConfig::allow_unpriced`] is set;
    /// - a key is missing and every answer must be requested, or the user interrupts the questions about canaries;
    /// - the configuration of a provider is invalid, or the response store or a workspace cannot be used;
    /// - a stored calibration cannot be read, or a watch of a judge cannot be stored;
    /// - the journal, a result or a compliance document cannot be written, or `take` fails.
    ///
    /// A report that cannot be stored only causes a warning.
    pub fn run(
        self,
        world: &World,
        progress: Box<dyn Progress + '_>,
        take: &mut TakeReport<'_>,
    ) -> Outcome {
        let Self { project, config, plan, open, reference, info, past } = self;
        let Project { place, mut suite, files, allow_outside, is_inline } = project;
        let dirty = if is_inline {
            specify_inline(&place, &mut suite);
            None
        } else {
            specify(&place, &mut suite, &files, &info)
        };
        let spending = Spending {
            may_ask: config.responses.may_ask(),
            always_asks: config.responses.always_asks(),
            allow_unpriced: config.allow_unpriced,
            asks_models: true,
        };
        let (of, open) = ((&suite, &files, &plan), open.as_ref().unwrap_or(&plan));
        spending.check(world, &place, of, open, &config.options)?;
        let concurrency = config.options.concurrency.unwrap_or(suite.defaults.concurrency);
        let mut session =
            Session::new(world, &place, (&suite, &files), concurrency, &config.responses)?;
        if is_inline {
            session = session.sandboxed(world);
        }
        let keeping = (allow_outside, config.keep_workspaces);
        let workspaces = workspaces::open(world, &files, &suite, &plan, keeping)?;
        let suite_canaries = suite.canaries;
        let run = Run {
            place,
            suite,
            plan,
            options: config.options,
            baseline: reference.outputs,
            reference: reference.baseline,
            quiet: config.quiet,
            stores_report: !config.no_report,
            can_resume: !config.no_journal,
            waits: session.waits.clone(),
            workspaces,
            observed: None,
            canaries: canaries_of(&config.responses, suite_canaries),
        };
        let journal = !config.no_journal;
        let arguments = config.arguments;
        let digest = reference.digest;
        let around = Around { session, files, digest, past, arguments, journal, dirty };
        run.complete(world, progress, take, around, info)
    }
}

/// The session, the files and the journal settings of a run.
pub(crate) struct Around {
    pub(crate) session: Session,
    pub(crate) files: Folder,
    pub(crate) digest: Option<Digest>,
    /// The run that is resumed; `None` for a new run.
    pub(crate) past: Option<Past>,
    /// The arguments stored with the run.
    pub(crate) arguments: Vec<String>,
    /// True if each execution is stored when it finishes.
    pub(crate) journal: bool,
    /// The thread that asks git for uncommitted changes; `None` without a commit.
    pub(crate) dirty: Option<JoinHandle<Option<bool>>>,
}

/// Adds the digests of the suite's files to the data for reports, and asks git for uncommitted changes. Returns `None`
/// if `info` has no commit.
pub(crate) fn specify(
    place: &SuiteFolder,
    suite: &mut Suite,
    files: &Folder,
    info: &RunInfo,
) -> Option<JoinHandle<Option<bool>>> {
    suite.info.files = file_digests(place, files, suite);
    suite.info.suite_digest = Some(suite_digest(&suite.info.files));
    info.git_commit.as_ref()?;
    Some(git::ask_dirty(files.root(), &suite.info.files))
}

/// Adds the digest of the text of an inline suite to the data for reports.
fn specify_inline(place: &SuiteFolder, suite: &mut Suite) {
    let text = suite.info.config_sha256.clone();
    suite.info.files =
        text.into_iter().map(|sha256| FileDigest::new(place.name.clone(), sha256)).collect();
    suite.info.suite_digest = Some(suite_digest(&suite.info.files));
}

/// The results of the performed executions.
enum Done {
    /// The results are in the journal.
    Streamed(Box<Streamed>),
    /// The results are in memory, as there is no journal.
    Held(Vec<CaseResult>),
}

/// A run that is ready to start.
pub(crate) struct Run {
    pub(crate) place: SuiteFolder,
    pub(crate) suite: Suite,
    pub(crate) plan: Plan,
    pub(crate) options: RunOptions,
    pub(crate) baseline: Baseline,
    /// The baseline that pass rates are compared with.
    pub(crate) reference: PassRates,
    pub(crate) quiet: bool,
    /// True if the report is stored in `.kindlm/runs`.
    pub(crate) stores_report: bool,
    /// True if the run can be resumed from its journal.
    pub(crate) can_resume: bool,
    /// The waits before requests; an interrupt ends these waits.
    pub(crate) waits: Waits,
    /// The workspace folders for agents; `None` if no agent needs a workspace folder.
    pub(crate) workspaces: Option<Folders>,
    /// The recorded executions of `kindlm trace`, which are only judged.
    ///
    /// The field is `None` for other runs.
    pub(crate) observed: Option<Observations>,
    /// The number of canaries for each judge, or the reason why no judge is asked; `None` if the suite requests no
    /// canaries. A canary is an output of the calibration that the judge is asked about again.
    pub(crate) canaries: Option<Result<usize, &'static str>>,
}

/// Returns the number of canaries for each judge, or the reason why no judge is asked; `None` if `count` is 0.
fn canaries_of(responses: &ResponseSource, count: u32) -> Option<Result<usize, &'static str>> {
    if count == 0 {
        return None;
    }
    let why = "canaries are not asked about, because the run may not send requests";
    Some(if responses.may_ask() { Ok(count as usize) } else { Err(why) })
}

impl Run {
    /// Performs the executions, stores the results, and passes the report to `take`.
    pub(crate) fn complete(
        mut self,
        world: &World,
        progress: Box<dyn Progress + '_>,
        take: &mut TakeReport<'_>,
        around: Around,
        mut info: RunInfo,
    ) -> Outcome {
        let Around { session, files, digest, past, arguments, journal, dirty } = around;
        info.partial = self.plan.is_selection;
        let Session { client, runner, responses, secrets, .. } = session;
        let recorded = Recorded::new(&client, responses);
        // Answers about canaries never come from the response store, because a stored answer cannot show a change of
        // the judge.
        let live = Ports { models: &client, ..ports(&client, &recorded, &runner) };
        let mut kept = if journal {
            let of = (&self.suite, &files, &self.plan);
            let identity = Identity::new(&mut info, of, digest, arguments);
            Some(identity.keep(world, &self.place, past)?)
        } else {
            None
        };
        // Ask the judges about canaries only after the journal is open, so that the answers belong to a recorded run.
        let was_complete = kept.as_ref().is_some_and(Kept::was_complete);
        let of_run = (&*info.id, was_complete);
        let canaries = self.watch_judges(world, live, (&files, &secrets), &*progress, of_run)?;
        let done = self.execute(
            world,
            ports(&client, &recorded, &runner),
            (progress, &secrets),
            &mut info,
            (kept.as_mut(), &canaries),
        )?;
        info.git_dirty = dirty.and_then(|it| it.join().ok().flatten());
        let scripts = (&*runner as &dyn ScriptRunner, &secrets);
        let outcome = self.report(world, (done, canaries), kept.as_ref(), info, scripts, take);
        responses::report_use(world, recorded.responses(), self.quiet);
        outcome
    }

    /// Asks the judges about canaries before the executions, and passes an alarm to the gates and to the report.
    ///
    /// If an earlier process has already done all executions of the run, no judge is asked.
    ///
    /// Fails if a calibration cannot be read or a watch cannot be stored, or if the user interrupts.
    fn watch_judges(
        &mut self,
        world: &World,
        ports: Ports<'_>,
        (files, secrets): (&Folder, &Secrets),
        progress: &(dyn Progress + '_),
        (run, was_complete): (&str, bool),
    ) -> Result<Vec<CanaryWatch>, Failure> {
        let Some(Ok(count)) = self.canaries else { return Ok(Vec::new()) };
        let Self { place, suite, plan, options, .. } = &*self;
        let mut canaries = Canaries::plan(world, place, (suite, files), plan, (count, run))?;
        if was_complete {
            canaries.refrain("the run was complete");
        }
        if let Some(notice) = canaries.notice().filter(|_| !self.quiet) {
            world.notify(&notice);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
        let (abortable, abort) = Abortable::new(ports);
        let asking = CanaryRun {
            ports: abortable.ports(),
            suite,
            concurrency: options.concurrency.unwrap_or(suite.defaults.concurrency).max(1),
            budget_usd: engine::budget_usd(suite, options),
            run,
            now: identity::rfc3339((world.now)()),
            secrets,
        };
        let say = |text: &str| progress.show_notice(text);
        let attended = async {
            let interrupts = (world.interrupts)();
            let control = Control::default();
            attend(canaries.ask(&asking), &control, &self.waits, abort, interrupts, say).await
        };
        let (watches, interrupted) = runtime.block_on(attended);
        runtime.shutdown_background();
        let watches = watches?;
        if interrupted {
            let message =
                "interrupted while the judges were asked about canaries; no test was started";
            let failure = Failure { status: ExitStatus::Interrupted, ..Failure::input(message) };
            if !self.can_resume {
                return Err(failure);
            }
            let go_on = resume::command(&self.place, run);
            return Err(failure.with_help(format!("{go_on} continues the run")));
        }
        if watches.iter().any(|it| it.alarm.is_some()) {
            let models = trust::models_of(&self.suite.models);
            let state = self.place.state();
            trust::settle((world.now)(), &state, models, &mut self.suite.gates)?;
            trust::note_calibrations(world, &state, &mut self.suite, files);
        }
        Ok(watches)
    }

    /// Performs the executions in a new runtime, and handles interrupts.
    ///
    /// Also returns the error of a result that could not be stored or loaded; `None` without such an error.
    fn execute(
        &self,
        world: &World,
        ports: Ports<'_>,
        (progress, secrets): (Box<dyn Progress + '_>, &Secrets),
        info: &mut RunInfo,
        (mut kept, canaries): (Option<&mut Kept>, &[CanaryWatch]),
    ) -> Result<(Done, Option<RecordError>), Failure> {
        let Self { suite, plan, options, baseline, .. } = self;
        let was_complete = kept.as_ref().is_some_and(|it| it.was_complete());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
        let control = Control::default();
        let (abortable, abort) = Abortable::new(ports);
        let watch = |event: RunProgress<'_>| {
            progress.on(event);
            if let RunProgress::CaseFinished(case) = event
                && let Some(failed) = FailedCase::from_case(case, secrets)
            {
                progress.case_failed(&failed);
            }
        };
        let run = engine::Run {
            baseline: Some(baseline),
            workspaces: self.workspaces.as_ref().map(|it| it as _),
            control: Some(&control),
            watch: &watch,
            observed: self.observed.as_ref().map(|it| it as &dyn Observed),
            canaries,
            ..engine::Run::new(suite, plan, options, abortable.ports())
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
        let say = |text: &str| progress.show_notice(text);
        let attended = async {
            // The signal handlers can only be installed inside the runtime.
            let interrupts = (world.interrupts)();
            attend(run, &control, &self.waits, abort, interrupts, say).await
        };
        let ((done, failure), interrupted) = runtime.block_on(attended);
        drop(progress);
        // A task that hangs must not delay the report.
        runtime.shutdown_background();
        if let Some(folder) = self.workspaces.as_ref().and_then(Folders::kept) {
            world.notify(&format!("workspaces kept in {}", folder.display()));
        }
        let failure = failure.or_else(|| kept.as_mut().and_then(|it| it.finish()));
        let before =
            if was_complete { resume::duration_before(&self.place, &info.id) } else { None };
        info.duration_ms = match before {
            Some(before) => before,
            None => identity::elapsed_since(&info.started_at, (world.now)()),
        };
        info.interrupted = interrupted;
        Ok((done, failure))
    }

    /// Builds the report, masks its secrets, then stores and writes it.
    fn report(
        &self,
        world: &World,
        ((done, failure), canaries): ((Done, Option<RecordError>), Vec<CanaryWatch>),
        kept: Option<&Kept>,
        info: RunInfo,
        scripts: (&dyn ScriptRunner, &Secrets),
        take: &mut TakeReport<'_>,
    ) -> Outcome {
        let Self { suite, plan, .. } = self;
        let (_, secrets) = scripts;
        match (done, kept) {
            (Done::Streamed(streamed), Some(kept)) => {
                let mut report = report_streamed(suite, plan, *streamed, kept, info);
                secrets.redact_summary(&mut report);
                self.note_canaries(&mut report, canaries);
                compare::measure(&mut report, (suite, plan), &self.reference);
                self.finish(world, &report, failure, scripts, take)
            }
            (Done::Streamed(_), None) => {
                Err(Failure::internal("the journal of the run was closed"))
            }
            (Done::Held(cases), _) => {
                let mut report = report(suite, plan, cases, info);
                self.note_canaries(&mut report, canaries);
                // Measure the gates after the canaries are added, because the gates count the cost of the canaries.
                let gates = measure_gates(&suite.gates, &report);
                report.gates = gates.map_err(|err| Failure::internal(err.to_string()))?;
                secrets.redact(&mut report);
                compare::measure(&mut report, (suite, plan), &self.reference);
                self.finish(world, &report, failure, scripts, take)
            }
        }
    }

    /// Adds the judges' answers about canaries to the report, as watches with their warnings.
    fn note_canaries<C: CaseSource>(&self, report: &mut Report<C>, canaries: Vec<CanaryWatch>) {
        report.warnings.extend(canaries.iter().filter_map(CanaryWatch::warning));
        if let Some(Err(why)) = self.canaries {
            report.warnings.push(why.to_owned());
        }
        report.canaries = canaries;
    }

    /// Stores the report, passes it to `take`, writes the compliance documents, and calls the hooks.
    fn finish(
        &self,
        world: &World,
        report: &AnyReport<'_>,
        failure: Option<RecordError>,
        scripts: (&dyn ScriptRunner, &Secrets),
        take: &mut TakeReport<'_>,
    ) -> Outcome {
        // Store the report first, because its results are paid for.
        if self.stores_report {
            saved::keep(world, &self.place, report, self.quiet);
        }
        let written = take(report);
        let compliance = write_documents(world, &self.place, &self.suite, report, self.quiet);
        let summary = report.summary();
        let status = summary.exit_status;
        // The results are incomplete after a failure to store one of them.
        let called = match failure {
            None => hooks::call(world, scripts, &self.suite, report),
            Some(_) => Ok(()),
        };
        if let Err(failure) = written.and(compliance).and(called) {
            return Err(Failure { status: status.or(failure.status), ..failure });
        }
        if report.shard.is_some() && !self.quiet {
            world.notify(
                "`kindlm merge` combines the reports of all shards and evaluates the gates",
            );
        }
        if let Some(err) = failure {
            let failure = Failure::internal(err.to_string());
            let failure = if self.can_resume {
                let go_on = resume::command(&self.place, &report.run.id);
                failure.with_help(format!("after fixing this, {go_on} runs only what is missing"))
            } else {
                failure
            };
            return Err(Failure { status: status.or(ExitStatus::Internal), ..failure });
        }
        if status == ExitStatus::Interrupted {
            world.notify(if summary.broken_off > 0 {
                "interrupted: the report marks what was not sent"
            } else {
                "interrupted, but everything had been sent: the report is complete"
            });
        }
        let advice =
            resume::advice(&self.place, &report.run.id, &summary).filter(|_| self.can_resume);
        if let Some(advice) = advice.filter(|_| !self.quiet || status == ExitStatus::Interrupted) {
            world.notify(&advice);
        } else if summary.totals.cases == 0 && report.shard.is_none() {
            world.notify(if summary.totals.unchecked() {
                "nothing was checked: no check of the test cases applies; the report says why"
            } else {
                "nothing was run: every test case that was selected is skipped"
            });
        }
        Ok(status)
    }
}
