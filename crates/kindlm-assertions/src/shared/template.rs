//! Templates in what checks are told: what makes an `expect` block depend on the variables of its test.

use std::fmt;

pub use kindlm_template::{Variables, is_template};
use serde_json::{Map, Value};

use crate::Setup;

impl Setup<'_> {
    /// True if an `expect` block has a template, so that what it compiles to depends on the variables. Of what is referred
    /// to, all counts, as that is rare.
    pub fn has_templates(&self, expect: &Value) -> bool {
        let refers = |it: &Value| it.get("$ref").is_some();
        // The file that it names is a template.
        let is_prompt = |it: &Value| it.get("rubricPrompt").is_some();
        let is_one = |it: &Value| it.as_str().is_some_and(is_template) || is_prompt(it);
        any(expect, &is_one)
            || expect.get("assert").is_some_and(|it| any(it, &refers))
                && self.assertion_templates.values().any(|it| any(it, &is_one))
    }
}

/// The environment variables that templates may read, for templates that are rendered when a judge is asked.
#[derive(Clone, Default)]
pub(crate) struct Env(Map<String, Value>);

impl Env {
    /// Those of a suite.
    pub(crate) fn of(setup: &Setup<'_>) -> Self {
        Self(setup.env.clone())
    }

    /// What templates may refer to beside these variables.
    pub(crate) fn with(&self, vars: &Map<String, Value>) -> Variables {
        Variables::new(vars, &self.0)
    }
}

/// Without the values, which may be secrets.
impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").finish_non_exhaustive()
    }
}

/// True if something is true of a value, or of one within it.
fn any(value: &Value, test: &impl Fn(&Value) -> bool) -> bool {
    test(value)
        || match value {
            Value::Array(items) => items.iter().any(|it| any(it, test)),
            Value::Object(entries) => entries.values().any(|it| any(it, test)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_marks_make_a_template() {
        let mut setup = Setup::new(&kindlm_types::NoFiles, None);
        let named = json!({"x": {"type": "equals", "value": "{{x}}"}});
        setup.assertion_templates = named.as_object().unwrap().clone();
        for (expect, expected) in [
            (json!({"assert": [{"type": "equals", "value": "{ a }"}]}), false),
            (json!({"output": {"contains": ["x"]}}), false),
            (json!({"output": {"contains": ["{{x}}"]}}), true),
            (json!({"judge": [{"criteria": "Is about x"}]}), false),
            (json!({"judge": [{"criteria": "Is about {{x}}"}]}), true),
            (json!({"assert": [{"type": "equals", "value": ["{{x}}"]}]}), true),
            (json!({"assert": [{"type": "assert-set", "assert": [{"metric": "{#"}]}]}), true),
            (json!({"assert": [{"$ref": "#/assertionTemplates/x"}]}), true),
            (json!({"assert": [{"type": "moderation", "rubricPrompt": "file://a.txt"}]}), true),
        ] {
            assert_eq!(setup.has_templates(&expect), expected, "{expect}");
        }
    }
}
