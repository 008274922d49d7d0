//! Refuses a budget that cannot be enforced because a price is unknown.

use kindlm_engine::{Model, Plan, RunOptions, Suite, budget_usd};
use kindlm_types::Question;

use crate::judge_setup::full;
use crate::{Failure, keys};

/// Refuses a run with a budget if the price of a judge is unknown.
///
/// With `asks_models`, a model under test with an unknown price is refused too.
pub(crate) fn check(
    suite: &Suite,
    plan: &Plan,
    options: &RunOptions,
    asks_models: bool,
) -> Result<(), Failure> {
    if budget_usd(suite, options).is_none() {
        return Ok(());
    }
    refuse(&unpriced(suite, plan, asks_models))
}

/// Refuses a calibration with a budget if the price of a judge is unknown.
///
/// `allow_unpriced` permits such a calibration.
pub(crate) fn check_judges<'m>(
    judges: impl IntoIterator<Item = &'m Model>,
    budget_usd: Option<f64>,
    allow_unpriced: bool,
) -> Result<(), Failure> {
    if budget_usd.is_none() || allow_unpriced {
        return Ok(());
    }
    let unpriced: Vec<&Model> = judges.into_iter().filter(|it| it.price.is_none()).collect();
    refuse(&unpriced)
}

fn refuse(unpriced: &[&Model]) -> Result<(), Failure> {
    let Some(names) = names(unpriced) else { return Ok(()) };
    Err(Failure::input(format!("cannot enforce the budget: no price known for {names}")).with_help(
        "add `price: { input: …, output: … }` to the model or agent in the suite, in US dollars per million tokens, \
         or pass `--allow-unpriced` to leave its requests out of the count",
    ))
}

/// Returns the comma-separated names of the models and judges that the plan asks and that have no price.
///
/// Returns `None` if all of them have a price.
pub(crate) fn unpriced_names(suite: &Suite, plan: &Plan) -> Option<String> {
    names(&unpriced(suite, plan, true))
}

fn names(models: &[&Model]) -> Option<String> {
    let name = |it: &&Model| match full(it) {
        full if full == it.id => format!("`{full}`"),
        full => format!("`{}` ({full})", it.id),
    };
    let names = models.iter().map(name);
    Some(names.collect::<Vec<_>>().join(", ")).filter(|it| !it.is_empty())
}

/// Returns the judges that the plan asks and that have no price.
///
/// With `asks_models`, the models under test without a price are included.
fn unpriced<'s>(suite: &'s Suite, plan: &Plan, asks_models: bool) -> Vec<&'s Model> {
    let mut found: Vec<&Model> = Vec::new();
    let mut look = |model: &'s Model| {
        if model.price.is_none() && found.iter().all(|it| it.id != model.id) {
            found.push(model);
        }
    };
    let mut last = None;
    let mut is_recorded = false;
    for unit in &plan.units {
        let Some(case) = suite.cases.get(unit.case) else { continue };
        // The plan lists all units of a case in succession, so this reads the body of each case once.
        let is_first = last.replace(unit.case) != Some(unit.case);
        if is_first && asks_models {
            // Recorded outputs need no request.
            is_recorded = case.body.body().is_ok_and(|it| it.recorded.is_some());
        }
        let model = unit.model.filter(|_| asks_models && !is_recorded);
        if let Some(model) = model.and_then(|it| suite.models.get(it)) {
            look(model);
        }
        if is_first {
            let asked = keys::questions(suite, case).into_iter();
            // Skip embedding questions without a model. They are listed here with the default judge, but the provider's
            // default embedding model may answer them, at another price.
            let is_priced = |it: &Question| match it {
                Question::Judge(_) => true,
                Question::Embedding(it) => it.model.is_some(),
                Question::Script(_) => false,
            };
            asked.filter(|(it, _)| is_priced(it)).for_each(|(_, it)| look(it));
        }
    }
    found
}
