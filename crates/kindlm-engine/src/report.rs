//! Creates the report of a run.

use kindlm_types::{
    CaseError, CaseResult, CaseSource, GateResult, ModelInfo, Ports, Report, RunInfo,
};

use crate::derived::derive;
use crate::gates::{Gate, Measurements};
use crate::specification::specify;
use crate::{
    Plan, PlanError, ReadRecord, Recorded, Run, RunOptions, Streamed, Suite, execute, plan,
};

/// Evaluates gates over all cases of a run, in the order of the gates.
pub fn evaluate_gates(gates: &[Box<dyn Gate>], cases: &[CaseResult]) -> Vec<GateResult> {
    gates.iter().map(|gate| gate.evaluate(cases)).collect()
}

/// Evaluates gates over a report like [`evaluate_gates`], but loads one case at a time. Fails if a case cannot be
/// loaded.
pub fn measure_gates<C: CaseSource + ?Sized>(
    gates: &[Box<dyn Gate>],
    report: &Report<C>,
) -> Result<Vec<GateResult>, CaseError> {
    let mut measurements = Measurements::after(gates, &report.canaries);
    for case in report.each() {
        measurements.observe(case?.as_ref());
    }
    Ok(measurements.finish())
}

/// Creates the report of a run with its cases, and evaluates the gates.
pub fn report(suite: &Suite, plan: &Plan, mut cases: Vec<CaseResult>, run: RunInfo) -> Report {
    if let Some(part) = &plan.part {
        cases.iter_mut().zip(&part.cases).for_each(|(it, index)| it.plan_index = Some(*index));
    }
    let gates = evaluate_gates(&suite.gates, &cases);
    with_cases(suite, plan, cases, gates, run)
}

/// Creates the report of a run whose executions are in `record`.
///
/// The executions are loaded during rendering.
pub fn report_streamed<'a>(
    suite: &'a Suite,
    plan: &'a Plan,
    streamed: Streamed,
    record: &'a dyn ReadRecord,
    run: RunInfo,
) -> Report<Recorded<'a>> {
    let gates = streamed.gates();
    with_cases(suite, plan, Recorded::new(suite, plan, record, streamed), gates, run)
}

fn with_cases<C: CaseSource>(
    suite: &Suite,
    plan: &Plan,
    cases: C,
    gates: Vec<GateResult>,
    run: RunInfo,
) -> Report<C> {
    let mut used = vec![false; suite.models.len()];
    // The report of a shard lists the models of the whole run, so that all shards list the same models.
    let of_whole = plan.part.iter().flat_map(|it| it.models.iter().copied());
    for model in plan.units.iter().filter_map(|unit| unit.model).chain(of_whole) {
        if let Some(it) = used.get_mut(model) {
            *it = true;
        }
    }
    let models =
        suite.models.iter().zip(used).filter(|(_, used)| *used).map(|(model, _)| ModelInfo {
            id: model.id.clone(),
            provider: model.provider.clone(),
            name: model.name.clone(),
            params: model.params.clone(),
        });
    let mut skipped = plan.skipped.clone();
    if let Some(part) = &plan.part {
        skipped.iter_mut().zip(&part.skipped).for_each(|(it, index)| it.plan_index = Some(*index));
    }
    let mut info = suite.info.clone();
    specify(&mut info, suite, plan);
    let mut report = Report {
        run,
        suite: info,
        models: models.collect(),
        gates,
        derived: Vec::new(),
        cases,
        skipped,
        shard: plan.part.as_ref().map(|it| it.shard.clone()),
        compliance: suite.compliance.as_ref().map(|it| it.info.clone()),
        warnings: suite.warnings.clone(),
        comparison: None,
        canaries: Vec::new(),
    };
    if !suite.derived_metrics.is_empty() {
        report.derived = derive(&suite.derived_metrics, &report.summary().models);
    }
    report
}

/// Plans and executes a suite, and creates the report: for tests in Rust code.
///
/// The run has no baseline and no progress listener. [`Report::run`] is empty, because this crate reads no clock. This
/// function needs a tokio runtime with time enabled, such as the runtime of `#[tokio::test]`.
///
/// Fails if the suite cannot be planned; see [`plan()`].
pub async fn run<'a>(
    suite: &Suite,
    options: &RunOptions,
    ports: impl Into<Ports<'a>>,
) -> Result<Report, PlanError> {
    let plan = plan(suite, options)?;
    let ports: Ports<'a> = ports.into();
    let executed = execute(Run::new(suite, &plan, options, ports)).await;
    Ok(report(suite, &plan, executed.cases, RunInfo::default()))
}
