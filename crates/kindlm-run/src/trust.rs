//! The gate `judgeKappaMin`, which demands that the judges of a run agree with people.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::Path;

use jiff::Timestamp;
use kindlm_assertions::{Check, Criterion, JudgeBlock};
use kindlm_config::Programs;
use kindlm_engine::gates::{
    Calibrated, Gate, JudgeKappa, Labels, judge_kappa_min, missing_evidence,
};
use kindlm_engine::{JudgedCheck, Model, Plan, Suite, TestCase, measure_gates};
use kindlm_stats::Confusion;
use kindlm_store::{Calibration, Calibrations, CriterionCounts, Folder};
use kindlm_types::{CaseSource, GateOutcome, GateResult, JudgeCalibration, Report, ecma};

use crate::judge_setup::{Panel, from_stored};
use crate::{Failure, World};

/// The number of seconds in a day.
const DAY: f64 = 86_400.0;

/// The confidence level of the intervals.
const CONFIDENCE: kindlm_stats::Confidence = kindlm_stats::Confidence::P95;

/// Passes the stored calibrations in `state` to the gate `judgeKappaMin`, if this gate is set.
///
/// Each item of `models` has the model's id, its provider and its name.
///
/// # Errors
///
/// Fails if the calibrations or their watches cannot be read.
pub fn settle<'m>(
    now: Timestamp,
    state: &Path,
    models: impl Iterator<Item = (&'m str, &'m str, &'m str)>,
    gates: &mut [Box<dyn Gate>],
) -> Result<(), Failure> {
    let mut places = gates.iter_mut().filter_map(|it| Some((it.judge_kappa_min()?, it)));
    let Some((demand, gate)) = places.next() else { return Ok(()) };
    let mut calibrated = Calibrated::default();
    for (id, provider, model) in models {
        calibrated.models.insert(id.to_owned(), format!("{provider}:{model}"));
    }
    let calibrations = Calibrations::new(state);
    for (stored, checks) in calibrations.all().map_err(|err| Failure::store(&err))? {
        let Some(judge) = from_stored(&stored) else { continue };
        for it in &checks {
            let alarm = calibrations.alarm(&stored, it).map_err(|err| Failure::store(&err))?;
            let by = it.criteria.iter().map(Some).chain([None]);
            let known = by.map(|criterion| {
                let mut kappa = kappa_of(it, criterion, &judge, now);
                kappa.alarm.clone_from(&alarm);
                kappa
            });
            calibrated.known.extend(known);
        }
    }
    *gate = judge_kappa_min(demand, calibrated);
    Ok(())
}

/// Returns the agreement in a calibration, for one criterion, or for all criteria together.
fn kappa_of(
    known: &Calibration,
    criterion: Option<&CriterionCounts>,
    judge: &JudgeBlock,
    now: Timestamp,
) -> JudgeKappa {
    let counts: Confusion = criterion.map_or(known.counts, |it| it.counts).into();
    let at = criterion.map_or(&known.calibrated_at, |it| &it.calibrated_at);
    let age = at.parse().ok().map(|at: Timestamp| now.duration_since(at).as_secs_f64() / DAY);
    let mut kappa = JudgeKappa::new(known.check.clone(), judge.clone(), labels(&counts));
    kappa.prompts.clone_from(&known.prompts);
    kappa.criterion = criterion.map(|it| it.digest.clone());
    kappa.answered.clone_from(&known.answered);
    kappa.age_days = age;
    kappa.kappa = counts.kappa(CONFIDENCE).ok().map(|it| it.value);
    kappa.unanswered = (known.errored > 0).then(|| (known.errored, known.labelled()));
    kappa
}

/// Returns the models of a suite in the form that [`settle`] takes.
///
/// Agents are left out, because they cannot judge.
pub fn models_of(suite: &[Model]) -> impl Iterator<Item = (&str, &str, &str)> {
    suite
        .iter()
        .filter(|it| it.agent.is_none())
        .map(|it| (it.id.as_str(), it.provider.as_str(), it.name.as_str()))
}

/// Returns the results of all shards that [`carry_over`] copies to the merged report.
///
/// A gate of another crate whose options are not recorded is created again from its threshold alone:
///
/// - If that gives the recorded result of each shard, the results are left out. The result over all cases then stays.
/// - Otherwise the gate has options that cannot be created again, and its result is violated.
///
/// `gates` are the gates of the first report, created again.
///
/// # Errors
///
/// Fails if a case cannot be loaded.
pub fn results_of_shards<Cases: CaseSource>(
    world: &World,
    gates: &[Box<dyn Gate>],
    shards: &[(String, Report<Cases>)],
) -> Result<Vec<GateResult>, Failure> {
    let mut results: Vec<GateResult> =
        shards.iter().flat_map(|(_, it)| it.gates.iter().cloned()).collect();
    let is_foreign =
        |id: &str| has_lost_options(world, id) && kindlm_engine::gates::find(id).is_none();
    if !results.iter().any(|it| is_foreign(&it.gate)) {
        return Ok(results);
    }
    let mut unequal = BTreeSet::new();
    for (_, report) in shards {
        let measured = measure_gates(gates, report);
        let measured = measured.map_err(|err| Failure::input(err.to_string()))?;
        for (again, recorded) in measured.iter().zip(&report.gates) {
            if again != recorded {
                unequal.insert(recorded.gate.clone());
            }
        }
    }
    results.retain(|it| !is_foreign(&it.gate) || unequal.contains(&it.gate));
    for it in results.iter_mut().filter(|it| is_foreign(&it.gate)) {
        let message = "Not measured over all shards: the reports lack the options of this gate (run the suite \
                       without `--shard`)";
        *it = missing_evidence(&it.gate, it.threshold, message.to_owned());
    }
    Ok(results)
}

/// Returns true if a gate with this id may have options that its results do not have.
fn has_lost_options(world: &World, id: &str) -> bool {
    let options = world.registries.gates.find(id).and_then(|it| it.options.as_ref());
    options.is_some_and(|it| !it.are_recorded)
}

/// Copies the worst earlier result of each gate whose options are not recorded.
///
/// Reports record neither these options nor the judge models. So `kindlm merge` and `kindlm gate` cannot evaluate these
/// gates again. The earlier results are those of the same cases, or of [`results_of_shards`].
pub fn carry_over(world: &World, gates: &mut [GateResult], before: &[GateResult]) {
    let rank = |it: &GateResult| match it.outcome {
        GateOutcome::NothingToMeasure => 0,
        GateOutcome::Held => 1,
        GateOutcome::Violated => 2,
    };
    let worse = |a: &GateResult, b: &GateResult| {
        rank(a).cmp(&rank(b)).then(b.actual.partial_cmp(&a.actual).unwrap_or(Ordering::Equal))
    };
    for gate in gates.iter_mut().filter(|it| has_lost_options(world, &it.gate)) {
        let same = before.iter().filter(|it| it.gate == gate.gate);
        if let Some(earlier) = same.max_by(|a, b| worse(a, b)) {
            gate.clone_from(earlier);
        }
    }
}

/// Adds the stored agreement with people to the judges of a suite, for reports.
///
/// A judge gets no agreement if there is no calibration for its check, its instructions, its settings and all its
/// criteria. If the calibrations cannot be read, there is a notice, and the judges stay unchanged.
pub(crate) fn note_calibrations(world: &World, state: &Path, suite: &mut Suite, files: &Folder) {
    match find_calibrations(state, suite, files) {
        Ok(found) => {
            for (check, calibration) in suite.judged.iter_mut().zip(found) {
                check.calibration = calibration;
            }
        }
        Err(failure) => {
            let why = failure.message.unwrap_or_default();
            world.notify(&format!("warning: the report lacks the agreement of judges: {why}"));
        }
    }
}

/// Returns the agreement of each judged check of a suite; `None` for a check without a calibration.
fn find_calibrations(
    state: &Path,
    suite: &Suite,
    files: &Folder,
) -> Result<Vec<Option<JudgeCalibration>>, Failure> {
    let calibrations = Calibrations::new(state);
    let programs = Programs::new(files);
    let default = suite.defaults.judge_model.as_deref();
    let agreement = |check: &JudgedCheck| -> Result<Option<JudgeCalibration>, Failure> {
        let Some(panel) = Panel::resolve(&suite.models, default, &check.judging) else {
            return Ok(None);
        };
        let known = panel.calibration(&calibrations, check.check, &check.prompts)?;
        let decided = panel.decided(&suite.providers, &programs);
        let Some(known) = known.filter(|it| it.providers == decided && covers(it, check)) else {
            return Ok(None);
        };
        let alarm = calibrations.alarm(&panel.stored(), &known);
        Ok(Some(noted(&known, alarm.map_err(|err| Failure::store(&err))?)))
    };
    suite.judged.iter().map(agreement).collect()
}

/// Returns true if a calibration has each criterion of a check.
fn covers(known: &Calibration, check: &JudgedCheck) -> bool {
    check.criteria.iter().all(|digest| known.criteria.iter().any(|it| it.digest == *digest))
}

fn noted(known: &Calibration, alarm: Option<String>) -> JudgeCalibration {
    let counts: Confusion = known.counts.into();
    let interval = counts.kappa_interval(CONFIDENCE).ok();
    JudgeCalibration {
        kappa: counts.kappa(CONFIDENCE).ok().map(|it| it.value),
        low: interval.map(|it| it.low),
        high: interval.map(|it| it.high),
        agreement: known.agreement,
        labels: counts.total(),
        calibrated_at: known.calibrated_at.clone(),
        alarm,
    }
}

/// Refuses a run if the gate `judgeKappaMin` is set, and a judge has no calibration or too little agreement.
///
/// The gate sets the minimum.
pub(crate) fn check(
    now: Timestamp,
    state: &Path,
    config: &str,
    (suite, files): (&Suite, &Folder),
    plan: &Plan,
) -> Result<(), Failure> {
    let Some(demand) = suite.gates.iter().find_map(|it| it.judge_kappa_min()) else {
        return Ok(());
    };
    let calibrations = Calibrations::new(state);
    let programs = Programs::new(files);
    let mut refused = Vec::new();
    let mut whom = BTreeSet::new();
    for it in judged(suite, plan) {
        let decided = it.panel.decided(&suite.providers, &programs);
        let known = it.known(&calibrations, decided.as_deref(), now)?;
        let unmet = known
            .and_then(|known| known.iter().find_map(|it| demand.unmet(it)).map_or(Ok(()), Err));
        let Err(why) = unmet else { continue };
        if let [judge] = it.panel.models.as_slice() {
            whom.insert(judge.id.as_str());
        }
        let place = it.place(suite);
        refused.push(format!("{place}: {} may not judge `{}`: {why}", it.panel.name(), it.check));
    }
    if refused.is_empty() {
        return Ok(());
    }
    refused
        .push(format!("`gates.judgeKappaMin` is {}; nothing was sent", ecma::number(demand.min)));
    Err(Failure::inputs(refused).with_help(format!(
        "calibrate it with labelled outputs: {}; or set another judge with `defaults.judgeModel`",
        calibrate_command(config, whom.first().copied())
    )))
}

/// Returns the command that calibrates a judge of a suite, in backticks. Without `judge`, the command calibrates the
/// suite's default judge.
pub(crate) fn calibrate_command(config: &str, judge: Option<&str>) -> String {
    let judge = judge.map(|it| format!(" --judge {it}")).unwrap_or_default();
    format!("`kindlm calibrate labels.csv -c {config}{judge}`")
}

/// Returns the number of labels in these counts, and the interval of the kappa.
fn labels(counts: &kindlm_stats::Confusion) -> Labels {
    let interval = counts.kappa_interval(CONFIDENCE).ok();
    Labels::new(counts.total(), interval.map(|it| (it.low, it.high)))
}

/// A kind of check in a plan, with its judges and instructions.
pub(crate) struct CheckKind<'s> {
    pub(crate) check: &'static str,
    pub(crate) panel: Panel<'s>,
    pub(crate) prompts: Vec<String>,
    /// The criteria; empty if the check has fixed instructions.
    criteria: Vec<Criterion>,
    /// The data that the verdict depends on, and that a file of labels does not contain.
    ///
    /// The field is `None` if there is no such data.
    pub(crate) further_evidence: Option<&'static str>,
    /// The name of the first test with this check.
    test: &'s str,
}

impl CheckKind<'_> {
    /// Returns the location of the check in the config, or the name of its test.
    fn place(&self, suite: &Suite) -> String {
        let is_this = |it: &&JudgedCheck| {
            it.check == self.check
                && it.prompts == self.prompts
                && Panel::resolve(&suite.models, suite.defaults.judge_model.as_deref(), &it.judging)
                    .is_some_and(|it| it.judging == self.panel.judging)
        };
        match suite.judged.iter().find(is_this) {
            Some(it) => it.place.clone(),
            None => format!("test `{}`", self.test),
        }
    }

    /// Returns the stored agreement of the judge for each criterion.
    ///
    /// The inner error is a part of a sentence about the judge: the reason why no agreement is known.
    fn known(
        &self,
        known: &Calibrations,
        decided: Option<&str>,
        now: Timestamp,
    ) -> Result<Result<Vec<JudgeKappa>, String>, Failure> {
        if let Some(what) = self.further_evidence {
            return Ok(Err(format!(
                "its verdict depends on {what}, so labelled outputs cannot show if people agree; remove the gate or \
                 this check"
            )));
        }
        let kept = self.panel.stored();
        let own = known.for_judge(&kept).map_err(|err| Failure::store(&err))?;
        let mut own = own.iter().filter(|it| it.check == self.check).peekable();
        if own.peek().is_some() {
            return Ok(match own.find(|it| it.prompts == self.prompts) {
                Some(it) if it.providers.as_deref() != decided => Err(
                    "it was calibrated with other settings of its provider, or with another program"
                        .to_owned(),
                ),
                Some(it) => match known.alarm(&kept, it).map_err(|err| Failure::store(&err))? {
                    Some(alarm) => Err(alarm),
                    None => self.by_criteria(it, now),
                },
                None => Err(
                    "it was calibrated with other instructions".to_owned(),
                ),
            });
        }
        // Search for a calibration of the same models with other settings.
        let all = known.all().map_err(|err| Failure::store(&err))?;
        let near = all.iter().find(|(it, checks)| {
            it.models == kept.models && checks.iter().any(|it| it.check == self.check)
        });
        Ok(Err(match near.and_then(|(it, _)| from_stored(it)) {
            Some(other) => format!(
                "it was calibrated as {}, which is another judge: calibrate it with its current settings",
                other.in_words()
            ),
            None => "it was never calibrated for it".to_owned(),
        }))
    }

    fn by_criteria(&self, known: &Calibration, now: Timestamp) -> Result<Vec<JudgeKappa>, String> {
        let judge = self.panel.full();
        if self.criteria.is_empty() {
            return Ok(vec![kappa_of(known, None, &judge, now)]);
        }
        let of = |criterion: &Criterion| {
            let same = known.criteria.iter().find(|it| it.digest == criterion.digest);
            let same = same.ok_or_else(|| {
                format!("it was calibrated with other criteria than `{}`", criterion.name)
            })?;
            Ok(kappa_of(known, Some(same), &judge, now))
        };
        self.criteria.iter().map(of).collect()
    }
}

/// Returns the different checks of a plan that need a judge.
pub(crate) fn judged<'s>(suite: &'s Suite, plan: &Plan) -> Vec<CheckKind<'s>> {
    let mut found: Vec<CheckKind<'s>> = Vec::new();
    let mut last = None;
    for unit in &plan.units {
        // The plan lists all units of a case in succession.
        if last.replace(unit.case) == Some(unit.case) {
            continue;
        }
        let Some(case) = suite.cases.get(unit.case) else { continue };
        for it in judged_in(suite, case) {
            let is_same = |known: &CheckKind<'_>| {
                (known.check, &known.panel.judging, &known.prompts, &known.criteria)
                    == (it.check, &it.panel.judging, &it.prompts, &it.criteria)
            };
            if !found.iter().any(is_same) {
                found.push(it);
            }
        }
    }
    found
}

fn judged_in<'s>(suite: &'s Suite, case: &'s TestCase) -> Vec<CheckKind<'s>> {
    // A case whose body cannot be built asks no judge; the run reports this error.
    let Ok(body) = case.body.body() else { return Vec::new() };
    let default = suite.defaults.judge_model.as_deref();
    let checks = body.checks.iter().chain(body.conversation.iter().flat_map(|it| &*it.checks));
    let leaves = checks.filter(|it| it.options.skip.is_none()).flat_map(Check::leaves);
    let mut found = Vec::new();
    for check in leaves.filter(|it| it.options.skip.is_none()) {
        let Some(told) = &check.traits.instructions else { continue };
        let judging = check.judging.as_deref().cloned().unwrap_or_default();
        let Some(panel) = Panel::resolve(&suite.models, default, &judging) else { continue };
        found.push(CheckKind {
            check: check.meta.id,
            panel,
            prompts: told.digests().to_vec(),
            criteria: told.criteria().to_vec(),
            further_evidence: told.further_evidence(),
            test: &case.name,
        });
    }
    found
}
