//! References to `assertionTemplates`, and checks of unused templates.

use std::collections::HashSet;

use kindlm_source::Piece;
use kindlm_types::Problem;
use serde_json::{Value, json};

use super::Builder;
use crate::load::resolve::TEMPLATES;
use crate::load::text;

/// The names of the `assertionTemplates` that tests refer to. Problems of these templates are reported at the
/// references.
#[derive(Debug, Default)]
pub(super) struct Used(HashSet<String>);

impl Builder<'_> {
    /// Records the templates that the checks of a block refer to.
    pub(super) fn note_referred(&mut self, expect: &Value) {
        for entry in expect.get("assert").and_then(Value::as_array).into_iter().flatten() {
            let name = text(entry, "$ref").and_then(|it| it.strip_prefix("#/"));
            let name = name.and_then(|it| it.strip_prefix(TEMPLATES)?.strip_prefix('/'));
            self.used_templates.0.extend(name.map(str::to_owned));
            self.note_referred(entry);
        }
    }

    /// Reports problems of unused templates.
    ///
    /// Problems of values with variables are skipped, because the variables have no values here.
    pub(super) fn check_unused_templates(&mut self, piece: Piece<'_>) {
        for (name, template) in self.base.setup.assertion_templates.clone() {
            // The second pass reports a template that is not an object.
            if self.used_templates.0.contains(&name) || !template.is_object() {
                continue;
            }
            let (_, problems) =
                kindlm_assertions::compile(&json!({"assert": [template]}), &self.base.setup);
            for mut problem in problems {
                problem.pointer = problem.pointer.replacen("/assert/0", "", 1);
                if !self.is_filled(&template, &problem) {
                    self.base.report_check(
                        piece,
                        problem.under(&format!(
                            "/{TEMPLATES}/{}",
                            kindlm_types::pointer::segment(&name)
                        )),
                    );
                }
            }
        }
    }

    /// Returns true if the problem concerns a value that contains variables.
    fn is_filled(&self, template: &Value, problem: &Problem) -> bool {
        let key = problem.pointer.split('/').nth(1).unwrap_or_default();
        let value = template.get(key).cloned().unwrap_or_default();
        self.base.setup.has_templates(&json!({"assert": [value]}))
    }
}
