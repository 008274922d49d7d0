//! Loads the baseline that a run is compared with: its outputs for drift, and its pass rates.

use std::fmt::Write as _;

use kindlm_assertions::Check;
use kindlm_engine::{Baseline, Suite, TestCase};
use kindlm_store::{Baselines, Digest, StoreError};
use kindlm_types::{SuiteInfo, suggest};

use crate::{Failure, SuiteFolder, World};

/// The label of the default baseline.
pub(crate) const DEFAULT: &str = "default";

/// The id of the check that compares an output with a baseline.
const DRIFT: &str = "drift";

/// The baseline that a run is measured against.
#[derive(Debug, Default)]
pub(crate) struct Reference {
    /// The outputs that drift is measured against.
    pub(crate) outputs: Baseline,
    /// The digest of the outputs; `None` without a baseline of this suite.
    pub(crate) digest: Option<Digest>,
    /// The baseline that pass rates are compared with.
    pub(crate) baseline: PassRates,
}

/// The baseline that pass rates are compared with.
#[derive(Debug, Default)]
pub(crate) enum PassRates {
    /// There is no baseline.
    #[default]
    Absent,
    /// The baseline belongs to another suite. The field is the message for the user.
    OfOtherSuite(String),
    /// The label of the baseline, and the baseline.
    Known(String, Box<kindlm_store::Baseline>),
}

impl PassRates {
    /// Loads the baseline with this label for a suite.
    ///
    /// # Errors
    ///
    /// Fails if the baseline cannot be read.
    pub(crate) fn load(
        place: &SuiteFolder,
        label: &str,
        suite: &SuiteInfo,
    ) -> Result<Self, Failure> {
        let found = Baselines::new(place.state()).find(label);
        Ok(match found.map_err(|err| Failure::input(err.to_string()))? {
            None => Self::Absent,
            Some(it) => match other_suite(label, &it, suite) {
                Some(why) => Self::OfOtherSuite(why),
                None => Self::Known(label.to_owned(), Box::new(it)),
            },
        })
    }
}

/// Returns a message if the baseline belongs to another suite than the run; `None` if both belong to the same suite.
///
/// If only the projects differ, the message names them.
pub(crate) fn other_suite(
    label: &str,
    baseline: &kindlm_store::Baseline,
    suite: &SuiteInfo,
) -> Option<String> {
    if baseline.is_of(&suite.project, &suite.name) {
        return None;
    }
    let (other, own) = (&baseline.suite_name, &suite.name);
    let projects = baseline.project.as_ref().filter(|_| other == own).map(|it| {
        (format!(" of the project `{it}`"), format!(" of the project `{}`", suite.project))
    });
    let (of_other, of_own) = projects.unwrap_or_default();
    Some(format!(
        "the baseline `{label}` belongs to the suite `{other}`{of_other}, and the run is of `{own}`{of_own}"
    ))
}

/// Loads the baseline that a run is measured against.
///
/// Without a `label`, this is the default baseline. If this baseline does not exist or belongs to another suite, the
/// reference has no outputs.
///
/// A default baseline of another suite adds a warning to `suite` if a check measures drift, or if the gate
/// `noRegression` is set. With `quiet`, the warning is also sent as a notice.
///
/// Fails if the baseline cannot be read. With a `label`, also fails if the baseline does not exist or belongs to
/// another suite.
pub(crate) fn baseline_for(
    world: &World,
    place: &SuiteFolder,
    suite: &mut Suite,
    label: Option<&str>,
    quiet: bool,
) -> Result<Reference, Failure> {
    let found = match label {
        Some(label) => Some(load(place, label)?),
        None => Baselines::new(place.state())
            .find(DEFAULT)
            .map_err(|err| Failure::input(err.to_string()))?,
    };
    let mut outputs = Baseline::default();
    let Some(found) = found else { return Ok(Reference::default()) };
    if let Some(why) = other_suite(label.unwrap_or(DEFAULT), &found, &suite.info) {
        if label.is_some() {
            return Err(Failure::input(why).with_help(
                "name a baseline of this suite; `kindlm baseline list` shows them all",
            ));
        }
        let measured = if suite.cases.iter().any(measures_drift) {
            Some("drift")
        } else {
            suite.gates.iter().find_map(|it| it.no_regression()).map(|_| "`noRegression`")
        };
        if let Some(measured) = measured {
            let warning = format!(
                "{measured} is not measured: {why}; set one of this suite with `kindlm baseline set <label>` and name it \
                 with `--baseline`"
            );
            // A quiet run does not print the suite's warnings, so print this warning here.
            if quiet {
                world.notify(&format!("warning: {warning}"));
            }
            suite.warnings.push(warning);
        }
        return Ok(Reference { baseline: PassRates::OfOtherSuite(why), ..Reference::default() });
    }
    let mut text = String::new();
    for entry in found.entries().filter(|it| it.run_count > 0) {
        // Drift cannot be measured against an empty output.
        if !entry.output_text.is_empty() {
            outputs.insert(&entry.case, &entry.model, entry.output_text.as_str());
        }
        let _ = write!(text, "{:?}", (&entry.case, &entry.model, &entry.output_text, &entry.turns));
        for (turn, text) in entry.turns.iter() {
            outputs.insert_turn(&entry.case, &entry.model, turn, text);
        }
    }
    let label = label.unwrap_or(DEFAULT).to_owned();
    Ok(Reference {
        outputs,
        digest: Some(Digest::from_content(text)),
        baseline: PassRates::Known(label, Box::new(found)),
    })
}

/// True if a check of the case, or of its conversation, measures drift.
fn measures_drift(case: &TestCase) -> bool {
    let Ok(body) = case.body.body() else { return false };
    let checks = body.checks.iter().chain(body.conversation.iter().flat_map(|it| &*it.checks));
    checks.flat_map(Check::leaves).any(|it| it.meta.id == DRIFT)
}

/// Loads the baseline with this label.
///
/// # Errors
///
/// Fails if the baseline does not exist or cannot be read.
pub fn load(place: &SuiteFolder, label: &str) -> Result<kindlm_store::Baseline, Failure> {
    let baselines = Baselines::new(place.state());
    baselines.load(label).map_err(|err| missing(&baselines, err))
}

/// Returns the failure for an error of the baseline store.
///
/// If the label is unknown, the help suggests known labels, or names the command that creates a baseline.
pub fn missing(baselines: &Baselines, err: StoreError) -> Failure {
    let failure = Failure::store(&err);
    let StoreError::NoSuchBaseline { label, .. } = err else { return failure };
    let known = baselines.list().unwrap_or_default();
    if known.is_empty() {
        return failure.with_help("`kindlm baseline set` creates one from the last run");
    }
    failure.with_help(suggest(&label, "baselines", known.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_of_another_suite_is_named_with_what_differs() {
        let suite = |project: &str, name: &str| SuiteInfo {
            project: project.to_owned(),
            name: name.to_owned(),
            ..SuiteInfo::default()
        };
        let mut baseline = kindlm_store::Baseline::default();
        baseline.project = Some("shop".to_owned());
        "orders".clone_into(&mut baseline.suite_name);
        let why = |suite: &SuiteInfo| other_suite("b", &baseline, suite);
        assert_eq!(why(&suite("shop", "orders")), None);
        let start = "the baseline `b` belongs to the suite `orders`";
        let other = format!("{start}, and the run is of `refunds`");
        assert_eq!(why(&suite("shop", "refunds")), Some(other));
        let same_name = format!(
            "{start} of the project `shop`, and the run is of `orders` of the project `bank`"
        );
        assert_eq!(why(&suite("bank", "orders")), Some(same_name));
    }
}
