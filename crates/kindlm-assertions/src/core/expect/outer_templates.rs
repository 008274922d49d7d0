//! The templates of a check that `Compiler::value` does not render.
//!
//! Such templates are texts in prompts for judges, and all texts of a [`Build::Plain`] assertion outside of
//! [`AS_WRITTEN`].

use serde_json::Value;

use super::Compiler;
use super::value::fill_in;
use crate::Build;

/// The places of templates in prompts for judges.
const TEXTS: [&str; 3] = ["/criteria", "/rubric", "/value/goal"];

/// The key of the rules of a check.
///
/// The texts of a rule are rendered when the judge is asked, because several tests share the rules.
const RULES: &str = "assertions";
const OF_RULES: [&str; 2] = ["instruction", "criteria"];

/// The parts of a check that are not templates: schemas, file names, commands.
const AS_WRITTEN: [&str; 6] =
    ["schema", "schemaFile", "argsSchema", "argsSchemaResolved", "run", "report"];

impl Compiler<'_> {
    /// Renders the templates that this module describes, except templates in rules, and reports missing variables.
    pub(super) fn render_outer(&mut self, build: Build, config: &mut Value, at: &str) {
        if let (Build::Plain(_), Some(map)) = (build, config.as_object_mut()) {
            let texts = map.iter_mut().filter(|(key, _)| !AS_WRITTEN.contains(&key.as_str()));
            for (key, text) in texts {
                self.fill(text, &format!("{at}/{key}"));
            }
            return;
        }
        for pointer in TEXTS {
            let Some(text) = config.pointer_mut(pointer) else { continue };
            self.fill(text, &format!("{at}{pointer}"));
        }
        let rules = config.get(RULES).and_then(Value::as_array).into_iter().flatten();
        for (index, rule) in rules.enumerate() {
            for key in OF_RULES {
                let Some(text) = rule.get(key) else { continue };
                self.report_missing(text, &format!("{at}/{RULES}/{index}/{key}"));
            }
        }
    }

    fn fill(&mut self, text: &mut Value, at: &str) {
        self.report_missing(text, at);
        let filled = fill_in(text, at, self.variables());
        self.problems.extend(filled.err());
    }
}
