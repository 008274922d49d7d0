//! Rendered prompts that are a list of messages.

use kindlm_promptfoo::{UnreadableChat, read_chat};
use kindlm_source::{Code, Diagnostic};
use serde_json::{Map, Value};

use super::Builder;
use crate::load::resolve::Prompt;

impl Builder<'_> {
    /// Reports a prompt with `template: chat` that is no valid chat with the variables of the test `name`.
    pub(super) fn check_chat(&mut self, name: &str, prompt: &Prompt, vars: &Map<String, Value>) {
        let (true, [(_, form)], [part]) =
            (prompt.opening.reads_chat, &*prompt.opening.parts, prompt.parts.as_slice())
        else {
            return;
        };
        // A template that cannot be rendered is reported with its variables.
        let Ok(text) = form.fill(vars) else { return };
        if let Err(UnreadableChat { why, help }) = read_chat(&text) {
            let at = part.source.first_line(part.span);
            let message = format!("in the test \"{name}\", {why}");
            let diagnostic =
                Diagnostic::error(Code::INVALID_VALUE, message, &part.source, at).with_help(help);
            self.base.sink.push(diagnostic);
        }
    }
}
