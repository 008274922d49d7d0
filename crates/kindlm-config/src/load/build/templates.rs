//! Checks that are written once, under `assertionTemplates`, and what is wrong with those that no test refers to.

use std::collections::HashSet;

use kindlm_source::Piece;
use kindlm_types::Problem;
use serde_json::{Value, json};

use super::Builder;
use crate::load::resolve::TEMPLATES;
use crate::load::text;

/// The names of templates that tests refer to: what is wrong with these is told where that is.
#[derive(Debug, Default)]
pub(super) struct Used(HashSet<String>);

impl Builder<'_> {
    /// Notes to which templates the checks of a block refer.
    pub(super) fn note_referred(&mut self, expect: &Value) {
        for entry in expect.get("assert").and_then(Value::as_array).into_iter().flatten() {
            let name = text(entry, "$ref").and_then(|it| it.strip_prefix("#/"));
            let name = name.and_then(|it| it.strip_prefix(TEMPLATES)?.strip_prefix('/'));
            self.used_templates.0.extend(name.map(str::to_owned));
            self.note_referred(entry);
        }
    }

    /// Reports what is wrong with templates that no test refers to. What they are filled with is not known.
    pub(super) fn check_unused_templates(&mut self, piece: Piece<'_>) {
        for (name, template) in self.base.setup.assertion_templates.clone() {
            // What is no object is told with the rest of the document.
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

    /// True if a problem is about a value with variables in it.
    fn is_filled(&self, template: &Value, problem: &Problem) -> bool {
        let key = problem.pointer.split('/').nth(1).unwrap_or_default();
        let value = template.get(key).cloned().unwrap_or_default();
        self.base.setup.has_templates(&json!({"assert": [value]}))
    }
}
