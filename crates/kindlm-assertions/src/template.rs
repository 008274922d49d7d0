//! Templates in the values of list entries: what makes an `expect` block depend on the variables of its test.

pub use kindlm_template::{Variables, is_template};
use serde_json::Value;

use crate::Setup;

impl Setup<'_> {
    /// Whether the list form of an `expect` block has a template, so that what it compiles to depends on the
    /// variables. Of what is referred to, all counts, as that is rare.
    pub fn has_templates(&self, expect: &Value) -> bool {
        let is_template_text = |it: &Value| it.as_str().is_some_and(is_template);
        let refers = |it: &Value| it.get("$ref").is_some();
        // The file that it names is a template.
        let is_prompt = |it: &Value| it.get("rubricPrompt").is_some();
        let is_one = |it: &Value| is_template_text(it) || is_prompt(it);
        expect.get("assert").is_some_and(|list| {
            any(list, &is_one)
                || any(list, &refers)
                    && self.assertion_templates.values().any(|it| any(it, &is_one))
        })
    }
}

/// Whether something is true of a value, or of one within it.
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
            (json!({"output": {"contains": ["{{x}}"]}}), false),
            (json!({"assert": [{"type": "equals", "value": ["{{x}}"]}]}), true),
            (json!({"assert": [{"type": "assert-set", "assert": [{"metric": "{#"}]}]}), true),
            (json!({"assert": [{"$ref": "#/assertionTemplates/x"}]}), true),
            (json!({"assert": [{"type": "moderation", "rubricPrompt": "file://a.txt"}]}), true),
        ] {
            assert_eq!(setup.has_templates(&expect), expected, "{expect}");
        }
    }
}
