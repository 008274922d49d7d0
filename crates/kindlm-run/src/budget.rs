//! Whether a budget can be kept at all: only where prices are known.

use kindlm_engine::{Model, Plan, RunOptions, Suite, budget_usd};
use kindlm_types::Question;

use crate::{Failure, keys};

/// Refuses a run with a budget of which somebody's price is not known: of a judge or, if they are asked, of a model under
/// test.
pub fn check(
    suite: &Suite,
    plan: &Plan,
    options: &RunOptions,
    asks_models: bool,
) -> Result<(), Failure> {
    if budget_usd(suite, options).is_none() {
        return Ok(());
    }
    let Some(names) = names(&unpriced(suite, plan, asks_models)) else { return Ok(()) };
    Err(Failure::input(format!("the budget cannot be kept: nobody knows the price of {names}"))
    .with_help(
        "add `price: { input: …, output: … }` to the model or agent, in US dollars for a million tokens, or give \
         `--allow-unpriced`: then its requests are not counted",
    ))
}

/// The models without a price, in words; `None` if there are none.
pub fn unpriced_names(suite: &Suite, plan: &Plan) -> Option<String> {
    names(&unpriced(suite, plan, true))
}

fn names(models: &[&Model]) -> Option<String> {
    let names = models.iter().map(|it| format!("`{}` ({}:{})", it.id, it.provider, it.name));
    Some(names.collect::<Vec<_>>().join(", ")).filter(|it| !it.is_empty())
}

/// The models without a price that the plan asks, as those under test and as judges.
fn unpriced<'s>(suite: &'s Suite, plan: &Plan, asks_models: bool) -> Vec<&'s Model> {
    let mut found: Vec<&Model> = Vec::new();
    let mut look = |model: &'s Model| {
        if model.price.is_none() && found.iter().all(|it| it.id != model.id) {
            found.push(model);
        }
    };
    let mut last = None;
    for unit in &plan.units {
        let model = unit.model.filter(|_| asks_models);
        if let Some(model) = model.and_then(|it| suite.models.get(it)) {
            look(model);
        }
        // The repeats of a case on all its models follow each other.
        if last.replace(unit.case) != Some(unit.case)
            && let Some(case) = suite.cases.get(unit.case)
        {
            let asked = keys::questions(suite, case).into_iter();
            // Embeddings are not counted.
            asked.filter(|(it, _)| matches!(it, Question::Judge(_))).for_each(|(_, it)| look(it));
        }
    }
    found
}
