//! What judges are told beside a `value`: criteria, rubrics and rules are templates, as values are.

use serde_json::Value;

use super::Compiler;
use super::value::fill_in;

/// Where texts stand that judges are told.
const TEXTS: [&str; 3] = ["/criteria", "/rubric", "/value/goal"];

/// The key of rules, and what of each a judge is told. They are rendered when the judge is asked, as tests share them.
const RULES: &str = "assertions";
const OF_RULES: [&str; 2] = ["instruction", "criteria"];

impl Compiler<'_> {
    /// Renders what a judge is told, and tells the variables in it that have no value.
    pub(super) fn told(&mut self, config: &mut Value, at: &str) {
        for pointer in TEXTS {
            let Some(text) = config.pointer_mut(pointer) else { continue };
            let at = format!("{at}{pointer}");
            self.tell_missing(text, &at);
            let filled = fill_in(text, &at, self.variables());
            self.problems.extend(filled.err());
        }
        let rules = config.get(RULES).and_then(Value::as_array).into_iter().flatten();
        for (index, rule) in rules.enumerate() {
            for key in OF_RULES {
                let Some(told) = rule.get(key) else { continue };
                self.tell_missing(told, &format!("{at}/{RULES}/{index}/{key}"));
            }
        }
    }
}
