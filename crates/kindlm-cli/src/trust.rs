//! Whether the judges of a run agree with people well enough to judge: the gate `judgeKappaMin`.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::Path;

use kindlm_assertions::{Evidence, first_questions};
use kindlm_engine::gates::{Gate, JudgeKappa, judge_kappa_min};
use kindlm_engine::{Model, Plan, Suite, TestCase, judge_of};
use kindlm_store::{Calibration, Calibrations, prompt_digest};
use kindlm_types::{Answers, Execution, GateOutcome, GateResult, Question, ecma};

use crate::Failure;
use crate::calibrate::confusion;

/// How certain intervals are.
const CONFIDENCE: kindlm_stats::Confidence = kindlm_stats::Confidence::P95;

/// Gives the gate, if there is one, what is known about the judges: each an id, a provider and a model name.
pub(crate) fn settle<'m>(
    state: &Path,
    models: impl Iterator<Item = (&'m str, &'m str, &'m str)>,
    gates: &mut [Box<dyn Gate>],
) -> Result<(), Failure> {
    let mut places = gates.iter_mut().filter_map(|it| Some((it.judge_kappa_min()?, it)));
    let Some((threshold, gate)) = places.next() else { return Ok(()) };
    let calibrations = Calibrations::new(state);
    let mut known = Vec::new();
    for (id, provider, model) in models {
        let checks = calibrations.of(provider, model).map_err(|err| Failure::store(&err))?;
        known.extend(checks.into_iter().map(|(check, it)| {
            let kappa = confusion(it.counts).kappa(CONFIDENCE).ok().map(|it| it.value);
            JudgeKappa { check, model: id.to_owned(), kappa }
        }));
    }
    *gate = judge_kappa_min(threshold, known);
    Ok(())
}

/// The models of a suite, as [`settle`] takes them.
pub(crate) fn models_of(suite: &[Model]) -> impl Iterator<Item = (&str, &str, &str)> {
    suite
        .iter()
        .filter(|it| it.agent.is_none())
        .map(|it| (it.id.as_str(), it.provider.as_str(), it.name.as_str()))
}

/// Takes over what the gate has said in reports, of which this one is made: nothing in them says which models their
/// judges are. The worst counts.
pub(crate) fn carry_over<'r>(
    gates: &mut [GateResult],
    before: impl Iterator<Item = &'r GateResult>,
) {
    const ID: &str = "judgeKappaMin";
    let rank = |it: &GateResult| match it.outcome {
        GateOutcome::NothingToMeasure => 0,
        GateOutcome::Held => 1,
        GateOutcome::Broken => 2,
    };
    let worse = |a: &GateResult, b: &GateResult| {
        rank(a).cmp(&rank(b)).then(b.actual.partial_cmp(&a.actual).unwrap_or(Ordering::Equal))
    };
    let said = before.filter(|it| it.gate == ID).max_by(|a, b| worse(a, b));
    if let (Some(said), Some(gate)) = (said, gates.iter_mut().find(|it| it.gate == ID)) {
        gate.clone_from(said);
    }
}

/// Refuses a run if somebody would judge in it who does not agree with people well enough, or of whom nobody knows.
pub(crate) fn check(state: &Path, config: &str, suite: &Suite, plan: &Plan) -> Result<(), Failure> {
    let Some(least) = suite.gates.iter().find_map(|it| it.judge_kappa_min()) else {
        return Ok(());
    };
    let calibrations = Calibrations::new(state);
    let mut refused = Vec::new();
    let mut whom = BTreeSet::new();
    for (check, model, prompt) in judges(suite, plan) {
        let checks =
            calibrations.of(&model.provider, &model.name).map_err(|err| Failure::store(&err))?;
        let known = checks.values().find(|it| it.prompts.contains(&prompt));
        let why = match known {
            Some(known) => disagreement(known, least),
            None if checks.contains_key(check) => {
                Some("was calibrated with other instructions than it would get now".to_owned())
            }
            None => Some("was never calibrated for it".to_owned()),
        };
        if let Some(why) = why {
            whom.insert(model.id.as_str());
            let who = format!("{} ({}:{})", model.id, model.provider, model.name);
            refused.push(format!("{who} may not judge `{check}`: it {why}"));
        }
    }
    if refused.is_empty() {
        return Ok(());
    }
    let model = whom.first().copied().unwrap_or_default();
    refused.push(format!("`gates.judgeKappaMin` is {}; nothing was sent", ecma::number(least)));
    Err(Failure::inputs(refused).with_help(format!(
        "hold it against outputs that people have labelled: `kindlm calibrate labels.csv -c {config} --judge {model}`; \
         or have another model judge, with `defaults.judgeModel`"
    )))
}

/// Why a calibrated judge may not judge, if so.
fn disagreement(known: &Calibration, least: f64) -> Option<String> {
    let counts = confusion(known.counts);
    let two = |it: f64| ecma::to_fixed(it, 2);
    match counts.kappa(CONFIDENCE) {
        Err(why) => Some(format!("has no κ: {why}")),
        Ok(kappa) if kappa.value + 1e-9 >= least => None,
        Ok(kappa) => {
            let interval = kappa
                .interval
                .interval()
                .map(|it| format!(", 95% interval {} to {}", two(it.low), two(it.high)));
            Some(format!(
                "agrees with people with a κ of {} only ({} labels{})",
                two(kappa.value),
                counts.total(),
                interval.unwrap_or_default()
            ))
        }
    }
}

/// Who judges what with which instructions in a plan, each once.
fn judges<'s>(suite: &'s Suite, plan: &Plan) -> Vec<(&'static str, &'s Model, String)> {
    let mut found: Vec<(&'static str, &'s Model, String)> = Vec::new();
    let mut last = None;
    for unit in &plan.units {
        // The repeats of a case on all its models follow each other.
        if last.replace(unit.case) == Some(unit.case) {
            continue;
        }
        let Some(case) = suite.cases.get(unit.case) else { continue };
        for (check, model, prompt) in judges_of(suite, case) {
            let is_same = |it: &(&str, &Model, String)| it.1.id == model.id && it.2 == prompt;
            if !found.iter().any(is_same) {
                found.push((check, model, prompt));
            }
        }
    }
    found
}

fn judges_of<'s>(suite: &'s Suite, case: &TestCase) -> Vec<(&'static str, &'s Model, String)> {
    let (execution, answers) = (Execution::default(), Answers::default());
    let evidence =
        Evidence { execution: &execution, answers: &answers, baseline: None, contest: None };
    // A body that cannot be made asks nobody; the run says why.
    let Ok(body) = case.body.body() else { return Vec::new() };
    let default = suite.defaults.judge_model.as_deref();
    let mut found = Vec::new();
    let checks = body.checks.iter().chain(body.conversation.iter().flat_map(|it| &*it.checks));
    for (check, question) in first_questions(checks, &evidence) {
        let Question::Judge(question) = question else { continue };
        let model = judge_of(&suite.models, question.model.as_deref().or(default));
        found.extend(model.map(|it| (check.meta.id, it, prompt_digest(&question.system))));
    }
    found
}
