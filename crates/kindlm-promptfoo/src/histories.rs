//! The variable `_conversation`: the earlier exchanges of a conversation over several tests.
//!
//! A conversation consists of the tests with the same prompt, model and `metadata.conversationId`. The engine executes
//! the tests of a conversation one after another.

use kindlm_source::{Node, Span};
use kindlm_template::is_template;
use serde_json::Value;

use super::Translator;
use super::asserts::compares;
use super::prompts::Prompt;
use super::provider_groups::Group;
use super::test_settings::TestSettings;

/// The variable with the earlier exchanges.
const VARIABLE: &str = "_conversation";

/// The name of the history of all tests, in a config that stores outputs.
const STORED: &str = "stored outputs";

impl Translator<'_> {
    /// Returns the name of the history of a test. If the config stores outputs, all tests have one history. Otherwise
    /// a test has a history if its prompt uses `_conversation`.
    ///
    /// Returns `None` for a test without a history, and after an error, which is reported.
    pub(super) fn history(
        &mut self,
        span: Span,
        said: &TestSettings,
        prompt: &Prompt,
        group: &Group,
    ) -> Option<String> {
        if !self.stored.is_empty() {
            return Some(STORED.to_owned());
        }
        let id = said.metadata.as_ref().and_then(|it| it.get("conversationId"));
        let id = id.map(|it| it.text().map_or_else(|| it.to_json().to_string(), str::to_owned));
        if !is_used_by(prompt) {
            let keeps_context = group.ids.iter().any(|it| it.keeps_context);
            if keeps_context && id.is_some_and(|it| !it.is_empty()) {
                let help = "set `config: { maintainContext: false }`, or put the earlier exchanges into the prompt \
                    with `_conversation`";
                let what = "`metadata.conversationId` of a realtime model";
                self.unsupported(span, what, Some(help));
            }
            return None;
        }
        let is_off = said.written_options.as_ref();
        let is_off = is_off.and_then(|it| it.get("disableConversationVar"));
        let has_filters = self.filters.as_ref().is_some_and(|own| own.are_within(&prompt.node));
        let kind = |it: &Node| it.get("type").and_then(Node::text).map(str::to_owned);
        let problem = if is_off.is_some_and(|it| it.to_json() == Value::Bool(true)) {
            Some(("with `disableConversationVar`", "write a prompt without the variable"))
        } else if group.callbacks.is_some() {
            // Callbacks become a transform, but the history has the output before the transform.
            Some(("beside `functionToolCallbacks`", "use one of them"))
        } else if has_filters {
            Some(("beside `nunjucksFilters`", "use built-in filters in this prompt"))
        } else if said.asserts.iter().filter_map(kind).any(|it| compares(&it)) {
            Some(("in a test that compares outputs", "compare them in a test without the variable"))
        } else if said.asserts.iter().any(is_used_in)
            || said.vars.iter().any(|(_, it)| is_used_in(it))
        {
            let help = "a check in JavaScript finds the exchanges as `context.vars._conversation`";
            Some(("outside of a prompt", help))
        } else {
            None
        };
        if let Some((place, help)) = problem {
            self.unsupported(span, &format!("the variable `{VARIABLE}` {place}"), Some(help));
            return None;
        }
        let id = id.or_else(|| said.conversation.clone());
        Some(id.map_or_else(|| prompt.name.clone(), |id| format!("{} · {id}", prompt.name)))
    }

    /// Reports a prompt that is made before the run and uses `_conversation`. Returns true for other prompts.
    pub(super) fn is_made_without_history(&mut self, span: Span, text: &str) -> bool {
        if !uses(text) {
            return true;
        }
        let help = "write the prompt as a template: `prompts: [file://prompt.json]`";
        let what = format!("the variable `{VARIABLE}` in the result of a prompt function");
        self.unsupported(span, &what, Some(help));
        false
    }
}

/// True if a prompt uses the variable `_conversation`.
pub(super) fn is_used_by(prompt: &Prompt) -> bool {
    prompt.program.is_none() && uses(&prompt.text)
}

/// True if a text is a template that may use the variable `_conversation`.
fn uses(text: &str) -> bool {
    is_template(text) && text.contains(VARIABLE)
}

/// True if a text within a value is a template that may use the variable `_conversation`.
fn is_used_in(node: &Node) -> bool {
    let within = || node.items().iter().chain(node.entries().iter().map(|(_, it)| it));
    node.text().is_some_and(uses) || within().any(is_used_in)
}
