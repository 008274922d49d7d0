//! Measures the strength of a suite's checks on the executions of a past run.

mod judging;
mod offline;
mod originals;

use std::path::PathBuf;

use kindlm_engine::{Plan, RunOptions, Suite};
use kindlm_mutate::{OPERATORS, Operator};
use kindlm_reporters::{Style, mutation};
use kindlm_store::responses::Mode;
use kindlm_types::{CaseSource as _, ExitStatus, suggest};
use kindlm_wire::mutation::{MutantCounts, MutationReport};

use crate::Progress;
use crate::baseline::baseline_for;
use crate::project::Project;
use crate::reports::{check_target, json_text};
use crate::secrets::Secrets;
use crate::session::Spending;
use crate::suite_files::SuiteFiles;
use crate::suites::SuiteKey;
use crate::trace::{MODEL, stand_in};
use crate::{Failure, ResponseSource, Selection, Session, World, saved, select};
use originals::Originals;

/// The maximum number of reasons that an error message gives.
const REASONS: usize = 3;

/// The executions to mutate, and the checks to measure.
#[derive(Clone, Debug, Default)]
pub struct MutateConfig {
    /// The run: an id or its beginning, or the file of a report. The default is the newest run of the suite.
    pub run: Option<String>,
    /// The selected test cases: parts of names, globs, or regular expressions in slashes; empty for all.
    pub only: Vec<String>,
    /// The ids of the selected mutation operators; empty for all.
    pub operators: Vec<String>,
    /// True to evaluate the checks that ask models.
    pub judges: bool,
    /// The source of the judges' answers. By default, answers are stored, so that a judge is asked once for each
    /// mutant.
    pub responses: Option<ResponseSource>,
    /// The maximum cost of the judges, in US dollars; `None` for no limit.
    pub budget_usd: Option<f64>,
    /// The minimum score, from 0 to 1, which replaces `gates.mutationScoreMin`; `None` to keep the gate.
    pub min: Option<f64>,
    /// The file of a page with the result, relative to the working folder; `None` for no page.
    pub html: Option<PathBuf>,
}

/// Mutates the passed executions of a run, and judges the mutants with the suite's checks.
///
/// One execution of each test case and model is used: the first that passed. Nothing is sent, unless the settings allow
/// judges.
///
/// # Errors
///
/// Fails if:
///
/// - the run or the default baseline cannot be read;
/// - an operator or a selected test is unknown, or nothing can be mutated;
/// - the configuration of a provider is invalid, or the HTML page cannot be written;
/// - judges are allowed, and the gate `judgeKappaMin` requires a calibration that a judge lacks;
/// - judges are allowed, a budget is set, and the price of a judge is unknown;
/// - judges are allowed, the key of a judge is missing, and every answer must be requested;
/// - the response store cannot be used.
pub fn mutate(
    world: &World,
    project: Project,
    config: &MutateConfig,
    progress: Box<dyn Progress + '_>,
) -> Result<(MutationReport, ExitStatus), Failure> {
    let Project { place, mut suite, files, .. } = project;
    if let Some(path) = &config.html {
        let target = world.working_dir.join(path);
        check_target(&target, path)?;
        SuiteFiles::new(&place, &files, Some(&suite)).check("html", &target, path)?;
    }
    let operators = operators(&config.operators)?;
    let key = SuiteKey::new(&place, &suite.info);
    let saved = saved::find(world, &place, config.run.as_deref(), Some(&key))?;
    let cases = &saved.report.cases;
    let is_trace = (0..cases.len()).any(|it| cases.mark(it).is_some_and(|it| it.model == MODEL));
    if is_trace {
        stand_in(&mut suite);
    } else {
        // The declared evidence of the suite is about traces, and these executions come from another kind of run.
        suite.trace.evidence = kindlm_types::DeclaredEvidence::default();
    }
    let baseline = baseline_for(world, &place, &mut suite, None, true)?.outputs;
    let selection = Selection { tests: config.only.clone(), ..Selection::default() };
    let filter = select::filter(world, &place, &suite, &selection, None)?;
    let options = RunOptions { filter, budget_usd: config.budget_usd, ..RunOptions::default() };
    let selected = select::plan(world, &suite, &options)?.unwrap_or_default();
    let originals = Originals::load(cases, &mut suite, &selected, &operators, config.judges)?;
    // The repeats of a case are its mutants here, so the first killed mutants must not end the repeats early.
    let plan = Plan { units: originals.units(), fixed_repeats: true, ..Plan::default() };
    if plan.units.is_empty() {
        return Err(nothing(&originals, &saved.name));
    }
    let responses = responses(config);
    if config.judges {
        let spending = Spending {
            may_ask: responses.may_ask(),
            always_asks: responses.always_asks(),
            allow_unpriced: false,
            asks_models: false,
        };
        spending.check(world, &place, (&suite, &files, &plan), &plan, &options)?;
    }
    let min = config.min.or_else(|| suite.gates.iter().find_map(|it| it.mutation_score_min()));
    // The gates limit the run, not the judging of its mutants.
    suite.gates.clear();
    let concurrency = suite.defaults.concurrency;
    let session = Session::new(world, &place, (&suite, &files), concurrency, &responses)?;
    let judging = judging::Judging {
        suite: &suite,
        plan: &plan,
        options: &options,
        baseline: &baseline,
        originals: &originals,
        asks_models: config.judges,
    };
    let judged = judging.run(world, session, progress)?;
    let judging::Judged { tally, is_interrupted, failed_by_provider } = judged;
    let mut report = tally.report(&saved.report.run.id, &suite.info.name, min);
    redact(&Secrets::new(world, &suite.providers), &mut report);
    let is_empty =
        [report.harmful, report.harmless].iter().all(|it| *it == MutantCounts::default());
    // The page of the run shows only a result over all cases and operators, with the gate of the suite.
    if config.only.is_empty() && config.operators.is_empty() && !is_interrupted && !is_empty {
        let mut stored = report.clone();
        stored.gate = report.gate.filter(|_| config.min.is_none());
        saved.keep_mutation(world, &stored);
    }
    if let Some(path) = &config.html {
        let page = mutation::html(&report).map_err(|err| Failure::internal(err.to_string()))?;
        kindlm_store::write(&world.working_dir.join(path), page.as_bytes())
            .map_err(|err| Failure::store(&err))?;
        world.notify(&format!("page written to {}", path.display()));
    }
    let status = match report.gate {
        _ if is_interrupted => ExitStatus::Interrupted,
        _ if failed_by_provider => ExitStatus::ProviderError,
        _ if is_empty => ExitStatus::InvalidInput,
        Some(gate) if !gate.held => ExitStatus::GatesFailed,
        _ => ExitStatus::Success,
    };
    Ok((report, status))
}

/// Returns the result as text for people, or as JSON without a style.
///
/// # Errors
///
/// Fails if the result cannot be rendered.
pub fn render(report: &MutationReport, style: Option<&Style>) -> Result<String, Failure> {
    let Some(style) = style else { return json_text(report) };
    let mut text = String::new();
    let written = mutation::text(report, style, &mut text);
    written.map_err(|err| Failure::internal(err.to_string()))?;
    Ok(text)
}

/// Returns the source of the judges' answers. By default, an answer comes from the response store, or else from a
/// request. Without judges, nothing is stored.
fn responses(config: &MutateConfig) -> ResponseSource {
    let mode = if config.judges { Mode::Cache } else { Mode::Live };
    config.responses.clone().unwrap_or(ResponseSource { mode, folder: None })
}

/// Returns the operators with these ids; without ids, all operators. Fails if an id is unknown.
fn operators(ids: &[String]) -> Result<Vec<&'static Operator>, Failure> {
    let all = || OPERATORS.into_iter().flatten();
    if let Some(unknown) = ids.iter().find(|id| all().all(|it| it.id != **id)) {
        let help = suggest(unknown, "operators", all().map(|it| it.id));
        return Err(Failure::input(format!("there is no operator `{unknown}`")).with_help(help));
    }
    Ok(all().filter(|it| ids.is_empty() || ids.iter().any(|id| *id == it.id)).collect())
}

/// Returns the failure of a run without anything to mutate.
fn nothing(originals: &Originals, run: &str) -> Failure {
    let left_out = originals.left_out();
    let reasons = left_out.iter().take(REASONS).map(|(case, why)| format!("`{case}`: {why}"));
    let mut messages = vec![format!("there is nothing to mutate in {run}")];
    messages.extend(reasons);
    if left_out.len() > REASONS {
        messages.push(format!("… and {} more", left_out.len() - REASONS));
    }
    Failure::inputs(messages)
        .with_help("a case needs an execution that passed, and a check that asks no model unless `--judges` is given")
}

/// Masks secrets in the texts of a result.
fn redact(secrets: &Secrets, report: &mut MutationReport) {
    for it in report.survivors.iter_mut().chain(&mut report.brittle) {
        secrets.redact_text(&mut it.before);
        secrets.redact_text(&mut it.after);
        it.failed.iter_mut().for_each(|it| secrets.redact_text(it));
    }
    report.checks.iter_mut().for_each(|it| secrets.redact_text(&mut it.label));
    report.left_out.iter_mut().for_each(|it| secrets.redact_text(&mut it.reason));
}

/// Returns true if the suite leaves out the mutant of an operator and a case.
fn is_ignored(suite: &Suite, operator: &Operator, case: &str) -> bool {
    suite.ignored_mutants.iter().any(|it| it.includes(operator.id, case))
}
