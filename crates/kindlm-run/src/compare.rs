//! Compares runs, reports and baselines, and a finished run with its baseline.

use std::collections::HashSet;

use kindlm_engine::gates::{Gate, NOT_COMPARED, RegressionDemand, no_regression};
use kindlm_engine::{CaseKind, Plan, Suite};
use kindlm_store::{Baseline, Baselines, CompareOptions};
use kindlm_types::{
    CaseChangeKind, CaseSource, Comparison, ComparisonVerdict, ExitStatus, GateOutcome, Report,
    SuiteInfo,
};

use crate::baseline::{DEFAULT, PassRates, other_suite};
use crate::saved::Saved;
use crate::suites::SuiteKey;
use crate::{Failure, SuiteFolder, World, saved};

/// The argument that selects the newest run.
pub const LAST: &str = "last";

/// One side of a comparison.
#[derive(Debug)]
#[non_exhaustive]
pub struct Side {
    /// The name for messages, such as ``baseline `default` ``.
    pub name: String,
    /// The results, in the form of a baseline.
    pub results: Baseline,
}

/// Finds a run, a report or a baseline from an argument of the user.
///
/// `named` is one of these, and the first match counts:
///
/// - `last`, for the newest run;
/// - the path of a report;
/// - the label of a baseline;
/// - the beginning of a run's id.
///
/// With `of`, a run must belong to that suite.
///
/// # Errors
///
/// Fails if `named` matches nothing or several runs, or if the run belongs to another suite than `of`. Also fails if
/// the results or the folder of the baselines cannot be read.
pub fn find(
    world: &World,
    place: &SuiteFolder,
    named: &str,
    of: Option<&SuiteKey>,
) -> Result<Side, Failure> {
    let baselines = Baselines::new(place.state());
    // A label may look like a file name, such as `release-1.2`. So `named` is a path only if it has a separator, or if
    // the file exists.
    let is_file = named.contains(['/', '\\']) || world.working_dir.join(named).exists();
    let labels = baselines.list().map_err(|err| Failure::store(&err))?;
    if named != LAST && !is_file && labels.iter().any(|it| it == named) {
        return Side::of_baseline(place, named);
    }
    Side::of_run(&saved::find(world, place, Some(named).filter(|it| *it != LAST), of)?)
}

/// Finds both sides of a comparison, see [`find`].
///
/// # Errors
///
/// Fails if [`find`] fails for an argument, or if one side is a baseline and the other side belongs to another suite.
pub fn find_both(
    world: &World,
    place: &SuiteFolder,
    [before, after]: [&str; 2],
    of: Option<&SuiteKey>,
) -> Result<[Side; 2], Failure> {
    let sides = [find(world, place, before, of)?, find(world, place, after, of)?];
    let [before, after] = &sides;
    for (baseline, other) in [(before, after), (after, before)] {
        let (Some(label), Some(project)) = (label_of(&baseline.name), &other.results.project)
        else {
            continue;
        };
        let (project, name) = (project.clone(), other.results.suite_name.clone());
        let suite = SuiteInfo { project, name, ..SuiteInfo::default() };
        check_suite(label, &baseline.results, &suite)
            .map_err(|err| err.with_help("name two runs of the same suite"))?;
    }
    Ok(sides)
}

impl Side {
    /// Loads the baseline with this label.
    ///
    /// # Errors
    ///
    /// Fails if the baseline does not exist or cannot be read.
    pub fn of_baseline(place: &SuiteFolder, label: &str) -> Result<Self, Failure> {
        let results = crate::baseline::load(place, label)?;
        Ok(Self { name: baseline_name(label), results })
    }

    /// Reads the results of a run.
    ///
    /// # Errors
    ///
    /// Fails if a case of the run cannot be read.
    pub fn of_run(saved: &Saved) -> Result<Self, Failure> {
        let results =
            Baseline::from_report(&saved.report).map_err(|err| Failure::input(err.to_string()))?;
        Ok(Self { name: saved.name.clone(), results })
    }
}

fn baseline_name(label: &str) -> String {
    format!("baseline `{label}`")
}

/// Returns the label in the name of a baseline; `None` for the name of anything else.
fn label_of(name: &str) -> Option<&str> {
    name.strip_prefix("baseline `")?.strip_suffix('`')
}

/// Compares two sides.
///
/// `margin` is the non-inferiority margin, a fall of the pass rate from 0 to 1. `None` is the default of
/// [`CompareOptions`]. The verdict "no regression" needs a confidence interval that excludes a larger fall. A
/// significant fall is a regression, even if the fall is smaller than `margin`.
pub fn compare(before: &Side, after: &Side, margin: Option<f64>) -> Comparison {
    let names = (before.name.as_str(), after.name.as_str());
    before.results.compare(&after.results, names, options(margin))
}

fn options(margin: Option<f64>) -> CompareOptions {
    let mut options = CompareOptions::default();
    options.margin = margin.unwrap_or(options.margin);
    options
}

/// Returns the exit status of a comparison.
///
/// A regression fails. If the user gave a margin (`has_margin`), too little data fails, too. Runs without a comparable
/// case are invalid input, because the comparison has no result.
pub fn status(comparison: &Comparison, has_margin: bool) -> ExitStatus {
    match comparison.verdict {
        ComparisonVerdict::Regression => ExitStatus::GatesFailed,
        ComparisonVerdict::NotEnoughData { .. } if has_margin => ExitStatus::GatesFailed,
        ComparisonVerdict::NotComparable { .. } => ExitStatus::InvalidInput,
        _ => ExitStatus::Success,
    }
}

/// Parses a margin in percentage points, such as `3pp`, to a share.
///
/// # Errors
///
/// Fails if the text is not a number above 0 and at most 100 with the unit `pp`.
pub fn parse_margin(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("pp").and_then(|it| it.trim_end().parse::<f64>().ok());
    let share = number.map(|it| it / 100.0).filter(|it| *it > 0.0 && *it <= 1.0);
    share.ok_or_else(|| "expected percentage points, such as `3pp`".to_owned())
}

/// Checks that a baseline belongs to the suite of a run.
///
/// # Errors
///
/// Fails with the names of both suites if the suites differ.
pub fn check_suite(label: &str, baseline: &Baseline, suite: &SuiteInfo) -> Result<(), Failure> {
    other_suite(label, baseline, suite).map_or(Ok(()), |why| Err(Failure::input(why)))
}

/// Compares a finished run with its baseline, and decides the gate `noRegression`.
///
/// Cases that the user did not select are left out. If a case cannot be read, there is no comparison, and the report
/// has a warning.
pub(crate) fn measure<Cases: CaseSource>(
    report: &mut Report<Cases>,
    (suite, plan): (&Suite, &Plan),
    baseline: &PassRates,
) {
    let demand = suite.gates.iter().find_map(|it| it.no_regression());
    let mut why = not_compared(baseline).to_owned();
    if let PassRates::Known(label, baseline) = baseline {
        let margin = demand.and_then(|it| it.margin);
        match Baseline::from_report(report) {
            Ok(results) => {
                compare_with(report, results, (label, selected(baseline, suite, plan)), margin);
            }
            Err(err) => {
                why = format!("not compared with the baseline: {err}");
                report.warnings.push(why.clone());
            }
        }
    }
    decide(report, demand, &why);
}

/// Compares a report with the baseline again, and decides the gate `noRegression` again.
///
/// The baseline is that of the `earlier` comparisons, or else the default baseline. If the baseline was replaced or
/// removed since, the earlier results stay. `gates` are the gates whose results the report has.
///
/// A report does not record the selection of its run. So only these cases of the baseline are compared:
///
/// - cases in the report;
/// - cases that an `earlier` comparison lists as gone.
///
/// A report does not record the margin of the gate either. Without `knows_margin`, a violated gate stays violated if no
/// `earlier` comparison found a regression. Only the unknown margin can explain such a violation.
///
/// # Errors
///
/// Fails if the baseline or a case cannot be read.
pub fn measure_again<Cases: CaseSource>(
    place: &SuiteFolder,
    report: &mut Report<Cases>,
    earlier: &[Comparison],
    (gates, knows_margin): (&[Box<dyn Gate>], bool),
) -> Result<(), Failure> {
    let demand = gates.iter().find_map(|it| it.no_regression());
    if demand.is_none() && earlier.is_empty() {
        return Ok(());
    }
    let label = earlier.iter().find_map(|it| label_of(&it.before.name));
    let baseline = PassRates::load(place, label.unwrap_or(DEFAULT), &report.suite)?;
    if let PassRates::Known(label, baseline) = &baseline {
        if earlier.iter().all(|it| is_before(it, baseline)) {
            let results =
                Baseline::from_report(report).map_err(|err| Failure::input(err.to_string()))?;
            let gone = earlier.iter().flat_map(|it| &it.cases);
            let gone = gone.filter(|it| it.kind == CaseChangeKind::Gone);
            let gone = gone.map(|it| (it.case.as_str(), it.model.as_str()));
            let has = results.entries().map(|it| (it.case.as_str(), it.model.as_str()));
            let has: HashSet<(&str, &str)> = has.chain(gone).collect();
            let mut before = Baseline::clone(baseline);
            before.retain(|case, model| has.contains(&(case, model)));
            compare_with(report, results, (label, before), demand.and_then(|it| it.margin));
        } else if report.comparison.is_some() {
            report.warnings.push(format!(
                "the baseline `{label}` was replaced after the run, so the comparison is still that of the run; \
                 `kindlm compare {label} last` compares with the new one"
            ));
        }
    }
    let needed_margin = !knows_margin
        && report.gates.iter().any(|it| {
            it.gate == REGRESSION
                && it.outcome == GateOutcome::Violated
                && earlier.iter().all(|it| it.verdict != ComparisonVerdict::Regression)
        });
    // The baseline of the shards was replaced or removed, so the worst result of a shard stays.
    let is_lost = report.comparison.is_none() && !earlier.is_empty();
    if is_lost {
        let label = label.unwrap_or(DEFAULT);
        report.warnings.push(format!(
            "the baseline `{label}` of the shards was replaced or removed, so the merged run is not compared; the \
             result of `noRegression` is the worst of a shard"
        ));
    } else if !needed_margin {
        decide(report, demand, not_compared(&baseline));
    }
    Ok(())
}

/// The id of the gate that a comparison decides.
const REGRESSION: &str = "noRegression";

/// Returns true if a comparison was made with this baseline.
fn is_before(comparison: &Comparison, baseline: &Baseline) -> bool {
    let started_at = Some(&baseline.created_at).filter(|it| !it.is_empty());
    let before = &comparison.before;
    before.run_id == baseline.run_id && before.started_at.as_ref() == started_at
}

/// Compares `results`, the results of the report, with a baseline, and sets the comparison of the report.
fn compare_with<Cases>(
    report: &mut Report<Cases>,
    results: Baseline,
    (label, baseline): (&str, Baseline),
    margin: Option<f64>,
) {
    let after = Side { name: format!("run `{}`", report.run.id), results };
    let before = Side { name: baseline_name(label), results: baseline };
    report.comparison = Some(compare(&before, &after, margin));
}

/// Replaces the result of the gate `noRegression` by the result of the comparison.
///
/// `why` is the reason for a missing comparison.
fn decide<Cases>(report: &mut Report<Cases>, demand: Option<RegressionDemand>, why: &str) {
    let Some(demand) = demand else { return };
    let result = no_regression(demand, report.comparison.as_ref().ok_or(why));
    if let Some(gate) = report.gates.iter_mut().find(|it| it.gate == result.gate) {
        *gate = result;
    }
}

/// Returns the reason why a run is not compared.
fn not_compared(baseline: &PassRates) -> &str {
    match baseline {
        PassRates::OfOtherSuite(why) => why,
        PassRates::Absent | PassRates::Known(..) => NOT_COMPARED,
    }
}

/// Returns the baseline without the cases that are in the suite, but not in the plan.
fn selected(baseline: &Baseline, suite: &Suite, plan: &Plan) -> Baseline {
    let name = |case: usize| suite.cases.get(case).map_or("", |it| it.name.as_str());
    let planned: HashSet<(&str, &str)> =
        plan.units.iter().map(|it| (name(it.case), it.target(suite))).collect();
    let mut possible: HashSet<(&str, &str)> = HashSet::new();
    for case in suite.cases.iter().filter(|it| it.skip.is_none()) {
        let models =
            case.models.iter().map(String::as_str).filter(|_| case.kind == CaseKind::Prompt);
        possible.extend(models.chain(case.kind.alone()).map(|model| (case.name.as_str(), model)));
    }
    let mut kept = baseline.clone();
    kept.retain(|case, model| {
        planned.contains(&(case, model)) || !possible.contains(&(case, model))
    });
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_is_found_by_its_name() {
        assert_eq!(label_of(&baseline_name("main")), Some("main"));
        assert_eq!(label_of("run `main`"), None);
    }

    #[test]
    fn a_margin_has_a_unit() {
        for (text, expected) in [
            ("3pp", Some(0.03)),
            ("0.5 pp", Some(0.005)),
            ("100pp", Some(1.0)),
            ("3", None),
            ("3%", None),
            ("0pp", None),
            ("-1pp", None),
            ("NaNpp", None),
            ("101pp", None),
        ] {
            assert_eq!(parse_margin(text).ok(), expected, "{text}");
        }
    }
}
