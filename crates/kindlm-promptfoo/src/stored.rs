//! `options.storeOutputAs`: outputs that are variables of later tests.
//!
//! In a config with this option, all tests have one history. promptfoo keeps one output for each name, no matter
//! which prompt and provider it comes from. So only one prompt and one provider are supported.

use kindlm_source::{Node, Span};
use kindlm_template::is_template;

use super::Translator;
use super::build::{key, text, with};
use super::cases::Groups;
use super::media::uses;
use super::prompts::{Prompt, Prompts};
use super::test_settings::TestSettings;
use super::vars::Vars;

impl Translator<'_> {
    /// Notes the variables of stored outputs. If the config is not supported, reports the first test that stores its
    /// output.
    pub(super) fn note_stored(
        &mut self,
        written: &[(Span, TestSettings)],
        groups: &[Groups],
        prompts: &Prompts,
    ) {
        let storing = |it: &&(Span, TestSettings)| it.1.stores.is_some();
        let Some((span, _)) = written.iter().find(storing) else { return };
        let models = |groups: &Groups| groups.iter().map(|(_, models)| models.len()).sum::<usize>();
        let has_transform = |groups: &Groups| groups.iter().any(|(it, _)| it.transform.is_some());
        let has_callbacks = |groups: &Groups| groups.iter().any(|(it, _)| it.callbacks.is_some());
        let problem = if prompts.len() > 1 || groups.iter().any(|it| models(it) > 1) {
            Some(("with several prompts or providers", "name one prompt and one provider"))
        } else if prompts.iter().any(super::histories::is_used_by) {
            Some(("beside the variable `_conversation`", "use one of them"))
        } else if groups.iter().any(has_transform)
            || written.iter().any(|it| it.1.transform.is_some())
        {
            Some(("beside `transform`", "remove one of them"))
        } else if groups.iter().any(has_callbacks) {
            Some(("beside `functionToolCallbacks`", "remove one of them"))
        } else {
            None
        };
        if let Some((what, help)) = problem {
            self.unsupported(*span, &format!("`options.storeOutputAs` {what}"), Some(help));
            return;
        }
        let names = written.iter().filter_map(|(_, it)| it.stores.as_ref().and_then(Node::text));
        for name in names {
            if !self.stored.iter().any(|it| it == name) {
                self.stored.push(name.to_owned());
            }
        }
        for (span, said) in written {
            if said.asserts.iter().any(|it| uses_any(it, &self.stored)) {
                let help = "a check in JavaScript finds it as `context.vars`";
                self.unsupported(*span, "a stored output in a check", Some(help));
            }
        }
    }

    /// Adds the variables of stored outputs, which are empty until a test stores its output.
    pub(super) fn with_stored_names(&self, span: Span, mut vars: Vars) -> Vars {
        for name in &self.stored {
            if !vars.iter().any(|(key, _)| &*key.name == name.as_str()) {
                vars.push((key(span, name), text(span, "")));
            }
        }
        vars
    }

    /// Adds a version of a prompt for a test whose variables use stored outputs, and returns its name. This version has
    /// the texts of these variables in place of the variables.
    ///
    /// Without such variables, `name` is returned unchanged. Returns `None` after an error, which is reported.
    pub(super) fn with_stored(
        &mut self,
        span: Span,
        name: &str,
        prompt: &Prompt,
        vars: &Vars,
    ) -> Option<String> {
        // promptfoo replaces the name of an output only after a test has stored this output.
        let using = vars.iter().filter(|(_, it)| uses_any(it, &self.stored_before));
        let using: Vec<(String, String)> = using
            .map(|(key, it)| (key.name.to_string(), it.text().unwrap_or_default().to_owned()))
            .collect();
        if using.is_empty() {
            return Some(name.to_owned());
        }
        let mut made = self.embraced.iter().chain(&self.made.prompts);
        let node = made.find(|(it, _)| it == name).map_or(&prompt.node, |(_, node)| node).clone();
        let is_text = node.get("template").and_then(Node::text) == Some("jinja");
        let user = node.get("user").and_then(Node::text).filter(|_| is_text);
        let filled = user.map(|user| {
            using.iter().fold(user.to_owned(), |user, (variable, value)| {
                let marks = [format!("{{{{{variable}}}}}"), format!("{{{{ {variable} }}}}")];
                marks.iter().fold(user, |user, mark| user.replace(mark, value))
            })
        });
        let Some(filled) = filled.filter(|it| !using.iter().any(|(name, _)| uses(it, name))) else {
            let help = "write the stored output into the prompt itself";
            self.unsupported(span, "this use of a variable with a stored output", Some(help));
            return None;
        };
        let node = with(&node, "user", text(span, &filled));
        // The name differs from that of the prompt, which other tests send unchanged.
        Some(self.add_made(&format!("{name} · stored"), node))
    }
}

/// True if a text within a value is a template that uses one of these variables.
fn uses_any(node: &Node, names: &[String]) -> bool {
    let within = || node.items().iter().chain(node.entries().iter().map(|(_, it)| it));
    let is_used = |text: &str| is_template(text) && names.iter().any(|it| uses(text, it));
    node.text().is_some_and(is_used) || within().any(|it| uses_any(it, names))
}
