//! The evaluation of a rule's `when` condition on an execution.

use std::collections::BTreeMap;

use kindlm_types::script::{ScriptOutcome, ScriptValue};
use kindlm_types::{Answer, Execution, FailureCode, Problem, Question, ecma};
use serde_json::Value;

use super::rule::WhenEntry;
use crate::core::scripting::Transform;
use crate::{Evidence, Setup};

/// A compiled condition under which a rule applies.
#[derive(Debug)]
pub(super) enum When {
    Always,
    /// Each variable must have one of these values.
    Vars(BTreeMap<String, Value>),
    Script {
        /// The script as written, for the reasons of results.
        text: String,
        script: Box<Transform>,
    },
}

/// The result of a condition.
#[derive(Debug)]
pub(super) enum Applies {
    Yes,
    /// The rule does not apply, for this reason.
    No(String),
    /// A script must run first. The question runs it.
    Ask(Box<Question>),
    /// The script gave no valid answer. The fields are the failure code and the reason.
    Unknown(FailureCode, String),
}

/// The highest number of characters of a script, or of its value, in the reason of a result.
const SHOWN: usize = 60;

impl When {
    /// Compiles a condition. The pointers of problems are relative to `when`.
    pub(super) fn new(entry: Option<WhenEntry>, setup: &Setup<'_>) -> Result<Self, Problem> {
        match entry {
            None => Ok(Self::Always),
            Some(WhenEntry::Vars(vars)) => Ok(Self::Vars(vars)),
            Some(WhenEntry::Script(text)) => {
                let script = Box::new(Transform::new(&text, setup)?);
                Ok(Self::Script { text, script })
            }
        }
    }

    pub(super) fn applies(&self, evidence: &Evidence<'_>) -> Applies {
        match self {
            Self::Always => Applies::Yes,
            Self::Vars(vars) => by_vars(vars, evidence.execution),
            Self::Script { text, script } => by_script(text, script, evidence),
        }
    }
}

fn by_vars(vars: &BTreeMap<String, Value>, execution: &Execution) -> Applies {
    for (name, wanted) in vars {
        let found = execution.vars.get(name).unwrap_or(&Value::Null);
        let fits = match wanted {
            Value::Array(values) => values.iter().any(|it| is_same(it, found)),
            value => is_same(value, found),
        };
        if !fits {
            let found = match found {
                Value::Null => "is not set".to_owned(),
                found => format!("is {}", ecma::stringify(found)),
            };
            return Applies::No(format!("`when` does not hold: `{name}` {found}"));
        }
    }
    Applies::Yes
}

/// Returns true if two values are equal, or have the same text.
///
/// Values of a CSV dataset are always texts, but the condition in YAML may have a number or a boolean.
fn is_same(wanted: &Value, found: &Value) -> bool {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(ecma::stringify(value)),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    wanted == found || text(wanted).is_some_and(|it| Some(it) == text(found))
}

fn by_script(text: &str, script: &Transform, evidence: &Evidence<'_>) -> Applies {
    let question = script.question(evidence);
    let broken = |why: String| {
        Applies::Unknown(FailureCode::SCRIPT_ERROR, format!("`when` could not be evaluated: {why}"))
    };
    match evidence.answers.get(&question) {
        None => Applies::Ask(Box::new(question)),
        Some(Err(err)) => match broken(err.to_string()) {
            Applies::Unknown(_, message) => Applies::Unknown(err.failure_code(), message),
            other => other,
        },
        Some(Ok(Answer::Script(answer))) => match &answer.outcome {
            ScriptOutcome::Returned(ScriptValue::Json(Value::Bool(true))) => Applies::Yes,
            ScriptOutcome::Returned(ScriptValue::Json(Value::Bool(false))) => {
                let line = text.trim().lines().next().unwrap_or_default().trim_end();
                let shown: String = line.chars().take(SHOWN).collect();
                let more = if shown.len() < text.trim().len() { "…" } else { "" };
                Applies::No(format!("`when` does not hold: {shown}{more}"))
            }
            ScriptOutcome::Returned(value) => {
                broken(format!("it returned {}, neither true nor false", shown(value)))
            }
            ScriptOutcome::Threw { message, thrown, .. } => {
                broken(format!("it threw: {}", message.as_ref().unwrap_or(thrown)))
            }
        },
        Some(Ok(Answer::Text { .. } | Answer::Vector { .. })) => {
            broken("it was answered by something that is no script".to_owned())
        }
    }
}

fn shown(value: &ScriptValue) -> String {
    match value {
        ScriptValue::Undefined => "undefined".to_owned(),
        ScriptValue::Number(number) => ecma::number(*number),
        ScriptValue::Json(value) => ecma::stringify(value).chars().take(SHOWN).collect(),
        ScriptValue::Opaque { type_name, .. } => format!("a {type_name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn variables_are_compared_by_their_text() {
        let execution = Execution {
            vars: json!({"segment": "smb", "seats": 3, "trial": true, "note": null, "list": [1]})
                .as_object()
                .cloned()
                .unwrap_or_default(),
            ..Execution::default()
        };
        for (when, expected) in [
            (json!({"segment": "smb"}), None),
            (json!({"segment": ["enterprise", "smb"], "seats": 3}), None),
            (json!({"seats": "3", "trial": "true"}), None),
            (json!({"note": null, "nothing": null}), None),
            (json!({"list": [[1], [2]]}), None),
            (json!({"segment": "enterprise"}), Some("`segment` is \"smb\"")),
            (json!({"segment": "SMB"}), Some("`segment` is \"smb\"")),
            (json!({"seats": [1, 2]}), Some("`seats` is 3")),
            (json!({"plan": "pro"}), Some("`plan` is not set")),
            (json!({"list": 1}), Some("`list` is [1]")),
        ] {
            let vars = serde_json::from_value(when.clone()).unwrap();
            let reason = match by_vars(&vars, &execution) {
                Applies::No(reason) => Some(reason),
                Applies::Yes => None,
                other => panic!("{other:?}"),
            };
            let expected = expected.map(|it| format!("`when` does not hold: {it}"));
            assert_eq!(reason, expected, "{when}");
        }
    }
}
