//! The plan of a run: test cases × models × repeats.

use std::collections::{HashMap, HashSet};

use kindlm_types::{Outcome, ShardInfo, SkippedCase, suggest};

use crate::until::Ending;
use crate::{CaseKind, Comparison, Filter, Pattern, RunOptions, Suite, TestCase};

/// The position of a shard's plan in the plan of the whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// The number of the shard, and the number of shards.
    pub shard: ShardInfo,
    /// The positions in the whole plan, for each case × model of this shard.
    pub cases: Vec<u64>,
    /// The positions among all skipped cases, for each skipped case of this shard.
    pub skipped: Vec<u64>,
    /// The models of the whole plan, as indices into [`Suite::models`].
    pub models: Vec<usize>,
}

/// One planned execution. A unit is small and has no texts, so that a plan may have a million units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Unit {
    /// The index into [`Suite::cases`].
    pub case: usize,
    /// The index into [`Suite::models`]; `None` for a command or a transcript.
    pub model: Option<usize>,
    /// The index of the repeat, from 0.
    pub repeat: u32,
}

impl Unit {
    /// Creates the execution of a case from the indices of the case, the model and the repeat.
    pub const fn new(case: usize, model: Option<usize>, repeat: u32) -> Self {
        Self { case, model, repeat }
    }

    /// Returns the model id for reports; empty if the unit does not belong to the suite.
    pub fn target(self, suite: &Suite) -> &str {
        match self.model {
            Some(model) => suite.models.get(model).map(|it| it.id.as_str()),
            None => suite.cases.get(self.case).and_then(|it| it.kind.alone()),
        }
        .unwrap_or_default()
    }
}

/// The executions of a run, in the order of the report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The executions: by case, then by model, then by repeat.
    pub units: Vec<Unit>,
    /// The selected cases that are not run, with the reasons.
    pub skipped: Vec<SkippedCase>,
    /// The number of test cases that the filter excludes.
    pub deselected: usize,
    /// True if the filter excludes a test case, or a model of a test case.
    pub is_selection: bool,
    /// True if the options set the number of repeats, so that no case ends its repeats early.
    pub fixed_repeats: bool,
    /// The position in the whole plan, if this is the plan of a shard.
    pub part: Option<Part>,
}

impl Plan {
    /// Returns the rule that ends the repeats of a case early; `None` if their number is fixed.
    ///
    /// If a case is compared with other cases or has a history, its repeats never end early.
    pub(crate) fn ending(&self, case: &TestCase, max: usize) -> Option<Ending> {
        let depends = case.compared.is_some() || case.history.is_some();
        let until = case.until.filter(|_| !self.fixed_repeats && !depends)?;
        Some(Ending::new(until, max, case.pass_rate_min))
    }

    /// Returns true if a rule may end the repeats of a case early.
    pub fn may_end_early(&self, suite: &Suite) -> bool {
        let cases = self.units.iter().filter_map(|it| suite.cases.get(it.case));
        cases.into_iter().any(|it| self.ending(it, it.repeat as usize).is_some())
    }

    /// Returns true if each case runs on one model and has no cluster in the suite.
    pub(crate) fn cases_are_independent(&self, suite: &Suite) -> bool {
        let has_cluster =
            |it: &Unit| suite.cases.get(it.case).is_none_or(|it| it.cluster.is_some());
        let are_of_one_test =
            |pair: &[Unit]| matches!(pair, [a, b] if a.case == b.case && a.model != b.model);
        !self.units.iter().any(has_cluster) && !self.units.windows(2).any(are_of_one_test)
    }

    /// Returns the executions that are still needed, in the order of the plan.
    ///
    /// `outcome` returns the outcome of an execution that is done. If the rule of a case has ended its repeats, the
    /// remaining repeats are not needed. Otherwise, all remaining repeats are returned, because any of them may be
    /// needed.
    pub fn open_units(
        &self,
        suite: &Suite,
        outcome: impl Fn(&Unit) -> Option<Outcome>,
    ) -> Vec<Unit> {
        let mut open = Vec::new();
        for repeats in
            self.units.chunk_by(|one, next| (one.case, one.model) == (next.case, next.model))
        {
            let outcomes: Vec<Option<Outcome>> = repeats.iter().map(&outcome).collect();
            let done: Vec<Outcome> = outcomes.iter().map_while(|it| *it).collect();
            // If a repeat before a done repeat is missing, the rule cannot decide yet.
            let has_gap = outcomes.iter().skip(done.len()).any(Option::is_some);
            let case = repeats
                .first()
                .and_then(|it| suite.cases.get(it.case))
                .filter(|_| !has_gap && repeats.len() > 1);
            let ending = case.and_then(|it| self.ending(it, repeats.len()));
            if ending.is_some_and(|it| it.next(&done, 1) == 0) {
                continue;
            }
            let missing = repeats.iter().zip(&outcomes).filter(|(_, it)| it.is_none());
            open.extend(missing.map(|(unit, _)| *unit));
        }
        open
    }
}

/// The reason why a plan is invalid or empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No test case has the tag.
    #[error("no test case has the tag `{tag}`: {help}")]
    UnknownTag {
        /// The tag of the filter.
        tag: String,
        /// The advice for the user: a similar name, or all known names.
        help: String,
    },
    /// The suite does not have the model.
    #[error("model `{model}` is not configured: {help}")]
    UnknownModel {
        /// The model of the filter.
        model: String,
        /// The advice for the user: a similar name, or all known names.
        help: String,
    },
    /// A test case names a model that the suite does not have.
    #[error("test case `{case}` names the model `{model}`, which is not configured: {help}")]
    UnknownModelOfCase {
        /// The name of the test case.
        case: String,
        /// The model that the test case names.
        model: String,
        /// The advice for the user: a similar name, or all known names.
        help: String,
    },
    /// No test case has a matching name.
    #[error("no test case matches `{pattern}`: {help}")]
    NoSuchTest {
        /// The pattern of the filter.
        pattern: String,
        /// The advice for the user: a similar name, or the number of test cases.
        help: String,
    },
    /// Each criterion of the filter selects some cases, but no case meets all criteria.
    #[error(
        "no test case is selected: each of {parts} selects some, but none is selected by all; ask for less at once"
    )]
    NothingSelected {
        /// The criteria of the filter.
        parts: String,
    },
}

/// Plans a run of the suite.
///
/// Skipped cases are listed if they are selected.
///
/// Fails in these cases, so that a typo does not give an empty run that passes:
///
/// - the filter has an unknown tag, model or test name, except an unknown tag in `without_tags`;
/// - the filter selects no case;
/// - a case names a model that the suite does not have.
pub fn plan(suite: &Suite, options: &RunOptions) -> Result<Plan, PlanError> {
    check(suite, &options.filter)?;
    let ids: HashMap<&str, usize> =
        suite.models.iter().enumerate().rev().map(|(i, model)| (model.id.as_str(), i)).collect();
    let selection = Selection::new(suite, &options.filter);
    let mut plan = Plan { fixed_repeats: options.repeat.is_some(), ..Plan::default() };
    for (index, case) in suite.cases.iter().enumerate() {
        let targets = targets(suite, case, &ids, &options.filter, &selection)?;
        if !options.filter.selects(case, &selection) || targets.as_ref().is_some_and(Vec::is_empty)
        {
            plan.deselected += 1;
            plan.is_selection = true;
        } else if let Some(reason) = skip_reason(case, targets.is_none()) {
            plan.skipped.push(SkippedCase {
                case: case.name.clone(),
                tags: case.tags.to_vec(),
                reason,
                plan_index: None,
            });
        } else {
            let repeats = options.repeat.unwrap_or(case.repeat).max(1);
            let listed = |targets: &Vec<Target>| targets.iter().map(|it| it.1 as usize).sum();
            let planned: usize = targets.as_ref().map_or(0, listed);
            plan.is_selection |= case.kind == CaseKind::Prompt && planned < case.models.len();
            for (model, times) in targets.into_iter().flatten() {
                plan.units.extend((0..repeats.saturating_mul(times)).map(|repeat| Unit {
                    case: index,
                    model,
                    repeat,
                }));
            }
        }
    }
    if plan.units.is_empty() && plan.skipped.is_empty() && plan.deselected > 0 {
        return Err(PlanError::NothingSelected { parts: options.filter.parts() });
    }
    Ok(plan)
}

/// The index of a model of a case, and the number of times that the case lists this model. The index is `None` for a
/// command or a transcript.
///
/// A model that is listed twice runs twice as many repeats.
type Target = (Option<usize>, u32);

/// Returns the selected models of a case; `None` if a prompt case names no models.
fn targets(
    suite: &Suite,
    case: &TestCase,
    ids: &HashMap<&str, usize>,
    filter: &Filter,
    selection: &Selection<'_>,
) -> Result<Option<Vec<Target>>, PlanError> {
    let mut targets: Vec<Target> = Vec::new();
    match case.kind {
        CaseKind::Command | CaseKind::Transcript => {
            if filter.selects_model(case, case.kind.alone().unwrap_or_default(), selection) {
                targets.push((None, 1));
            }
        }
        CaseKind::Prompt if case.models.is_empty() => return Ok(None),
        CaseKind::Prompt => {
            for id in case.models.iter() {
                let Some(&model) = ids.get(id.as_str()) else {
                    return Err(PlanError::UnknownModelOfCase {
                        case: case.name.clone(),
                        model: id.clone(),
                        help: suggest_model(suite, id),
                    });
                };
                if !filter.selects_model(case, id, selection) {
                    continue;
                }
                match targets.iter_mut().find(|(known, _)| *known == Some(model)) {
                    Some((_, times)) => *times += 1,
                    None => targets.push((Some(model), 1)),
                }
            }
        }
    }
    Ok(Some(targets))
}

fn skip_reason(case: &TestCase, without_models: bool) -> Option<String> {
    let no_models = || without_models.then(|| "it names no model to run on".to_owned());
    case.skip.as_deref().map(str::to_owned).or_else(no_models)
}

fn check(suite: &Suite, filter: &Filter) -> Result<(), PlanError> {
    // `without_tags` is not checked, because an unknown tag in it does not exclude any case.
    for tag in &filter.tags {
        if !suite.cases.iter().any(|case| case.tags.contains(tag)) {
            let mut tags: Vec<&str> =
                suite.cases.iter().flat_map(|case| &*case.tags).map(String::as_str).collect();
            tags.sort_unstable();
            tags.dedup();
            let help = suggest(tag, "tags", tags.iter().copied());
            return Err(PlanError::UnknownTag { tag: tag.clone(), help });
        }
    }
    for model in &filter.models {
        let known = suite.models.iter().any(|it| it.id == *model)
            || suite.cases.iter().any(|it| it.kind.alone() == Some(model));
        if !known {
            let help = suggest_model(suite, model);
            return Err(PlanError::UnknownModel { model: model.clone(), help });
        }
    }
    for pattern in &filter.tests {
        if !suite.cases.iter().any(|case| pattern.is_match(&case.name)) {
            let names = suite.cases.iter().map(|case| case.name.as_str());
            let help = match kindlm_types::nearest(pattern.as_str(), names) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("the suite has {} test cases", suite.cases.len()),
            };
            return Err(PlanError::NoSuchTest { pattern: pattern.as_str().to_owned(), help });
        }
    }
    Ok(())
}

fn suggest_model(suite: &Suite, id: &str) -> String {
    suggest(id, "configured models", suite.models.iter().map(|it| it.id.as_str()))
}

/// The parts of a suite that a filter needs to select test cases: comparison groups, histories and names.
struct Selection<'s> {
    /// The comparison groups with a case that `Filter::only` selects. All members of these groups are run.
    rivals: HashSet<&'s Comparison>,
    /// The histories with a case that `Filter::only` selects. All members run, because each depends on the earlier ones.
    histories: HashSet<&'s str>,
    /// The names of test cases that equal a pattern of `Filter::tests`. Such a pattern selects no other names.
    names: HashSet<&'s str>,
}

impl<'s> Selection<'s> {
    fn new(suite: &'s Suite, filter: &Filter) -> Self {
        let is_only =
            |it: &&TestCase| filter.only.as_ref().is_some_and(|only| only.has_case(&it.name));
        let equals_pattern =
            |name: &&str| filter.tests.iter().any(|pattern| pattern.as_str() == *name);
        let cases = suite.cases.iter();
        Self {
            rivals: cases.clone().filter(is_only).filter_map(|it| it.compared.as_ref()).collect(),
            histories: cases
                .clone()
                .filter(is_only)
                .filter_map(|it| it.history.as_deref())
                .collect(),
            names: cases.map(|it| &*it.name).filter(equals_pattern).collect(),
        }
    }

    /// Returns true if `Filter::only` selects a case of the same comparison group or history.
    fn is_beside_selected(&self, case: &TestCase) -> bool {
        case.compared.as_ref().is_some_and(|it| self.rivals.contains(it))
            || case.history.as_deref().is_some_and(|it| self.histories.contains(it))
    }

    fn is_match(&self, pattern: &Pattern, name: &str) -> bool {
        if self.names.contains(pattern.as_str()) {
            pattern.as_str() == name
        } else {
            pattern.is_match(name)
        }
    }
}

impl Filter {
    fn selects(&self, case: &TestCase, selection: &Selection<'_>) -> bool {
        let has_any = |tags: &[String]| case.tags.iter().any(|tag| tags.contains(tag));
        (self.tags.is_empty() || has_any(&self.tags))
            && !has_any(&self.without_tags)
            && (self.tests.is_empty()
                || self.tests.iter().any(|it| selection.is_match(it, &case.name)))
            && self
                .only
                .as_ref()
                .is_none_or(|it| it.has_case(&case.name) || selection.is_beside_selected(case))
    }

    fn selects_model(&self, case: &TestCase, id: &str, selection: &Selection<'_>) -> bool {
        (self.models.is_empty() || self.models.iter().any(|it| it == id))
            && self
                .only
                .as_ref()
                .is_none_or(|it| it.contains(&case.name, id) || selection.is_beside_selected(case))
    }

    fn parts(&self) -> String {
        let mut parts = Vec::new();
        if !self.tags.is_empty() {
            parts.push(format!("the tags `{}`", self.tags.join("`, `")));
        }
        if !self.without_tags.is_empty() {
            parts.push(format!("the tags `!{}`", self.without_tags.join("`, `!")));
        }
        if !self.tests.is_empty() {
            let tests: Vec<&str> = self.tests.iter().map(Pattern::as_str).collect();
            parts.push(format!("the test names `{}`", tests.join("`, `")));
        }
        if !self.models.is_empty() {
            parts.push(format!("the models `{}`", self.models.join("`, `")));
        }
        if self.only.is_some() {
            parts.push("the selection by an earlier run".to_owned());
        }
        parts.join(" and ")
    }
}
