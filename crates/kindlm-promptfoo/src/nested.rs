//! Variables whose texts refer to other variables.

use std::collections::BTreeSet;

use kindlm_source::{Kind, Node};
use kindlm_template::{Variables, environment, is_template, read_names};
use serde_json::{Map, Value};

use super::Translator;
use super::vars::Vars;
use super::vars::values;

/// The maximum number of levels of variables that refer to each other.
const DEPTH: usize = 5;

impl Translator<'_> {
    /// Fills in references between variables, in the two steps of promptfoo.
    ///
    /// Plain names are replaced first, up to [`DEPTH`] levels deep. Then the remaining templates are rendered. A text
    /// with an unknown name stays unchanged.
    pub(super) fn with_each_other(&mut self, vars: &Vars) -> Vars {
        let mut vars = with_names(vars);
        let given = values(&vars);
        for index in 0..vars.len() {
            let Some((_, node)) = vars.get(index) else { continue };
            let Some(text) = node.text().filter(|it| is_template(it)).map(str::to_owned) else {
                continue;
            };
            if let Some(rendered) = self.rendered_variable(&node.clone(), &text, &given)
                && let Some((_, node)) = vars.get_mut(index)
            {
                node.kind = Kind::Text(rendered.as_str().into());
            }
        }
        vars
    }

    fn rendered_variable(
        &mut self,
        node: &Node,
        text: &str,
        given: &Map<String, Value>,
    ) -> Option<String> {
        // Custom filters are applied when the whole test is rendered.
        if self.filters.as_ref().is_some_and(|own| own.are_in(text)) {
            return None;
        }
        let undeclared = match read_names(text) {
            Ok(read) => read.undeclared,
            // The text may only look like a template, so a syntax error is ignored. An unknown filter or test is
            // reported, because such a text is meant as a template.
            Err(fault) => {
                if fault.range.is_some() {
                    let message = format!("the template cannot be read: {}", fault.message);
                    self.error(node.span, message, fault.help.as_deref());
                }
                return None;
            }
        };
        let names: BTreeSet<&str> = undeclared.iter().map(String::as_str).collect();
        if !names.iter().all(|it| *it == "env" || given.contains_key(*it)) {
            return None;
        }
        let value = |name: &str| {
            let own = self.own_env.get(name).cloned();
            own.unwrap_or_else(|| (self.inputs.env)(name).into())
        };
        let env = environment(text).map(|name| (name.to_owned(), value(name)));
        let rendered = Variables::new(given, &env.collect()).render(text);
        rendered.map_err(|why| self.error(node.span, why, None)).ok()
    }
}

/// Replaces plain names of other variables, such as `{{name}}`, by their values.
fn with_names(vars: &Vars) -> Vars {
    let is_open =
        |vars: &Vars| vars.iter().any(|(_, it)| it.text().is_some_and(|it| it.contains("{{")));
    let mut vars = vars.clone();
    for _ in 0..DEPTH {
        if !is_open(&vars) {
            break;
        }
        let before = vars.clone();
        for (key, node) in &mut vars {
            let Some(written) = node.text() else { continue };
            let mut put = written.to_owned();
            for (other, value) in before.iter().filter(|(it, _)| it.name != key.name) {
                let value = match &value.kind {
                    Kind::Text(text) => text.to_string(),
                    _ => value.to_json().to_string(),
                };
                for mark in [format!("{{{{{}}}}}", other.name), format!("{{{{ {} }}}}", other.name)]
                {
                    put = put.replace(&mark, &value);
                }
            }
            if put != written {
                node.kind = Kind::Text(put.as_str().into());
            }
        }
    }
    vars
}
