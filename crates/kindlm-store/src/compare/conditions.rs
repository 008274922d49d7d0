//! The conditions of results that differ between two runs.

use std::collections::{BTreeMap, BTreeSet};

use kindlm_types::{Condition, ConditionChange};

use crate::{Baseline, Conditions};

/// Returns the conditions that differ; empty if one of the baselines does not record conditions.
pub(super) fn differences(before: &Baseline, after: &Baseline) -> Vec<ConditionChange> {
    match (&before.conditions, &after.conditions) {
        (Some(then), Some(now)) => then.changes(now),
        _ => Vec::new(),
    }
}

impl Conditions {
    /// Returns the conditions that differ in `after`: the version of KindLM, judges, models, prompts and rules.
    pub fn changes(&self, after: &Self) -> Vec<ConditionChange> {
        changes(self, after)
    }
}

fn changes(then: &Conditions, now: &Conditions) -> Vec<ConditionChange> {
    let mut found = Vec::new();
    let mut compare = |condition, name: Option<&str>, before: Option<String>, after| {
        if before != after {
            let name = name.map(str::to_owned);
            found.push(ConditionChange { condition, name, before, after });
        }
    };
    compare(Condition::Version, None, Some(then.kindlm.clone()), Some(now.kindlm.clone()));
    let judges = |it: &BTreeSet<String>| {
        let judges = it.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        Some(judges).filter(|it| !it.is_empty())
    };
    compare(Condition::Judges, None, judges(&then.judges), judges(&now.judges));
    let none = BTreeMap::new();
    // Files of earlier versions record no prompts. Compare prompts only if both runs record prompts.
    let prompts = then.prompts.as_ref().zip(now.prompts.as_ref());
    let prompts = prompts.unwrap_or((&none, &none));
    for (condition, (then, now)) in [
        (Condition::Model, (&then.models, &now.models)),
        (Condition::Prompt, prompts),
        (Condition::Rules, (&then.rules, &now.rules)),
    ] {
        let names: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
        for name in names {
            compare(condition, Some(name), then.get(name).cloned(), now.get(name).cloned());
        }
    }
    found
}

/// Describes the sets of rules that differ; `None` if no set differs.
pub(super) fn rules(differences: &[ConditionChange]) -> Option<String> {
    let of_rules = differences.iter().filter(|it| it.condition == Condition::Rules);
    let described = of_rules.map(|it| {
        let value = |it: &Option<String>| it.clone().unwrap_or_else(|| "none".to_owned());
        let name = it.name.as_deref().unwrap_or_default();
        format!("rules `{name}`: {} → {}", value(&it.before), value(&it.after))
    });
    let described = described.collect::<Vec<_>>().join("; ");
    Some(described).filter(|it| !it.is_empty())
}
