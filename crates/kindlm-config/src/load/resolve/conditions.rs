//! Conditions of rules (`when`) that depend on the variables of tests.

use std::collections::BTreeMap;

use kindlm_source::{Code, Diagnostic, Piece};
use kindlm_types::{MemberPart, nearest, pointer};
use serde_json::{Map, Value};

use super::{Resolved, script};
use crate::load::text;

/// The conditions of all rules, by the id of the rule and the variable's name.
#[derive(Debug, Default)]
pub(in crate::load) struct Conditions(BTreeMap<(String, String), Condition>);

/// A condition of a rule on one variable.
#[derive(Debug)]
struct Condition {
    /// The warning if no test with the rule has the variable.
    warning: Diagnostic,
    /// True if some test has the rule.
    is_used: bool,
    /// True if a test with the rule has the variable.
    is_met: bool,
    /// A similar variable name in a test with the rule, for the "did you mean" help.
    near: Option<String>,
}

impl Resolved<'_> {
    /// Collects the conditions of the rules in a list. `at` is the pointer to the list.
    pub(in crate::load) fn note_conditions(&mut self, piece: Piece<'_>, at: &str, rules: &[Value]) {
        for (index, rule) in rules.iter().enumerate() {
            if rule.get("when").is_some() {
                self.note_variables(piece, &format!("{at}/{index}/when"), rule);
            }
        }
    }

    pub(in crate::load) fn note_variables(&mut self, piece: Piece<'_>, at: &str, rule: &Value) {
        let id = text(rule, "id").unwrap_or_default();
        let is_script = rule.get("when").is_some_and(Value::is_string);
        for name in awaited(rule) {
            let key = (id.to_owned(), name.clone());
            if self.conditions.0.contains_key(&key) {
                continue;
            }
            let (message, at, place) = if is_script {
                let message = format!(
                    "`when` of the rule `{id}` reads a variable `{name}`, which no test with the rule has"
                );
                (message, at.to_owned(), MemberPart::Value)
            } else {
                let message = format!(
                    "the rule `{id}` never applies: no test with it has a variable `{name}`"
                );
                (message, format!("{at}/{}", pointer::segment(&name)), MemberPart::Key)
            };
            let warning = piece.error(Code::MISSING_VARIABLE, &at, place, message).into_warning();
            let condition = Condition { warning, is_used: false, is_met: false, near: None };
            self.conditions.0.insert(key, condition);
        }
    }

    /// Records that a test with these variables has these rules.
    pub(in crate::load) fn meet(&mut self, rules: &[Value], vars: &Map<String, Value>) {
        for rule in rules {
            for name in awaited(rule) {
                let key = (text(rule, "id").unwrap_or_default().to_owned(), name.clone());
                let Some(condition) = self.conditions.0.get_mut(&key) else { continue };
                condition.is_used = true;
                condition.is_met |= vars.contains_key(&name);
                if !condition.is_met && condition.near.is_none() {
                    condition.near =
                        nearest(&name, vars.keys().map(String::as_str)).map(str::to_owned);
                }
            }
        }
    }

    /// Warns of rules whose variable is absent in all tests that have the rule.
    pub(in crate::load) fn report_conditions(&mut self) {
        for ((_, name), condition) in std::mem::take(&mut self.conditions).0 {
            if !condition.is_used || condition.is_met {
                continue;
            }
            let help = match condition.near {
                Some(near) => format!("a test has `{near}`: did you mean that?"),
                None => format!("give its tests `vars: {{ {name}: … }}`"),
            };
            self.sink.push(condition.warning.with_help(help));
        }
    }
}

/// Returns the variables that a test probably needs for the condition of a rule to hold.
///
/// For a mapping, these are the variables whose absence does not satisfy the condition. For a script, these are the
/// variables that the script reads by name.
fn awaited(rule: &Value) -> Vec<String> {
    match rule.get("when") {
        Some(Value::Object(vars)) => {
            vars.iter().filter(|(_, it)| !fits_nothing(it)).map(|(name, _)| name.clone()).collect()
        }
        Some(Value::String(code)) => script::variables(code),
        _ => Vec::new(),
    }
}

/// Returns true if a condition also holds for tests without the variable.
fn fits_nothing(wanted: &Value) -> bool {
    wanted.is_null() || wanted.as_array().is_some_and(|it| it.iter().any(Value::is_null))
}
