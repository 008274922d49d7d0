//! Rendered prompts that are a list of messages.

use std::borrow::Cow;

use kindlm_promptfoo::{UnreadableChat, read_chat};
use kindlm_source::{Code, Diagnostic};
use serde_json::{Map, Value};

use super::Builder;
use crate::load::resolve::{ContentForm, Prompt};

impl Builder<'_> {
    /// Reports a prompt with `template: chat` whose rendered text is not a valid chat. `name` is the test's name.
    pub(super) fn check_chat(&mut self, name: &str, prompt: &Prompt, vars: &Map<String, Value>) {
        let (true, [(_, ContentForm::Text(form))], [part]) =
            (prompt.opening.reads_chat, &*prompt.opening.parts, prompt.parts.as_slice())
        else {
            return;
        };
        // The check of the variables reports templates that cannot be rendered.
        let inserted = self.base.media.inserted(vars);
        let Ok(text) = form.fill(&inserted) else { return };
        let (why, help) = match read_chat(&text) {
            Err(UnreadableChat { why, help, .. }) => (why, help),
            // Without this error, the data of the file would be sent and recorded as a text.
            Ok(None)
                if matches!(inserted, Cow::Owned(_))
                    && form.fill(vars).is_ok_and(|it| it != text) =>
            {
                (
                    "a variable is a file that is not text, but the prompt is no chat".to_owned(),
                    "write `messages`, with the file as a part: `image: \"{{ name }}\"`",
                )
            }
            Ok(_) => return,
        };
        let at = part.source.first_line(part.span);
        let message = format!("in the test \"{name}\", {why}");
        let diagnostic = Diagnostic::error(Code::INVALID_VALUE, message, &part.source, at);
        self.base.sink.push(diagnostic.with_help(help));
    }
}
