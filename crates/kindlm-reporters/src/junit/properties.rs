//! The properties of models and cases.

use std::fmt::Write as _;

use kindlm_types::{AnyReport, CaseResult, ModelTotals, Outcome};

use crate::amount::{number, reported};
use crate::plain::one_line;

/// Returns the properties of the test suite of a model.
pub(super) fn of_model(report: &AnyReport<'_>, of: &ModelTotals) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    if let Some(model) = report.models.iter().find(|it| it.id == of.model) {
        all.extend([("provider", model.provider.clone()), ("model", model.name.clone())]);
    }
    let totals = &of.totals;
    all.push(("held", totals.held().to_string()));
    if of.flaky.total > 0 {
        all.push(("flaky", of.flaky.to_string()));
    }
    all.extend(totals.cost.usd().map(|it| ("cost_usd", number(it))));
    all.extend(reported(totals.tokens).map(|it| ("tokens", it.to_string())));
    all.extend(of.latency_ms.map(|it| ("latency_p50_ms", number(it.p50))));
    all
}

/// Returns the properties of a case; empty for a skipped case.
pub(super) fn of_case(case: &CaseResult) -> Vec<(&'static str, String)> {
    if case.outcome == Outcome::Skipped {
        return Vec::new();
    }
    let mut all = Vec::new();
    all.extend(case.cost.usd().map(|it| ("cost_usd", number(it))));
    all.extend(reported(case.total_tokens).map(|it| ("tokens", it.to_string())));
    let counts = case.repeat_counts();
    if counts.executed() > 1 {
        all.push(("repeats_held", format!("{} of {}", counts.held(), counts.executed())));
    }
    if !case.tags.is_empty() {
        all.push(("tags", case.tags.join(", ")));
    }
    all
}

/// Writes properties as lines of `system-out`: `[[PROPERTY|name=value]]`.
///
/// The schemas of JUnit XML do not allow `properties` in a test case. Programs that read JUnit XML accept this form
/// instead.
pub(super) fn printed(properties: &[(&'static str, String)]) -> String {
    let mut text = String::new();
    for (name, value) in properties {
        // A value must not end the property.
        let value = one_line(value).replace("]]", "] ]");
        let _ = writeln!(text, "[[PROPERTY|{name}={value}]]");
    }
    text.trim_end().to_owned()
}
