//! A warning about prompts that are longer than the context window of a model.

use kindlm_providers::pricing::max_input;
use kindlm_source::{Code, Piece};
use kindlm_types::MemberPart;
use serde_json::Value;

use super::Builder;
use super::body::SubjectForm;
use super::messages::opening_messages;
use crate::written::TestEntry;

/// The number of bytes below which a prompt fits into the context window of every known chat model.
const SHORT: usize = 4096;

impl Builder<'_> {
    /// Records a test if a model judges its own answers, or if the prompt is too long for a model's context window.
    pub(super) fn note_models(
        &mut self,
        (piece, at): (Piece<'_>, &str),
        entry: &TestEntry,
        (subject, models): (&SubjectForm, &[String]),
        asks_judge: bool,
    ) {
        if asks_judge {
            self.note_self_judged(piece, at, &entry.name, models);
        }
        self.note_too_long((piece, at), entry, subject, models);
    }

    /// Records a test whose prompt has more words than a model's context window has tokens.
    ///
    /// Tokens do not span words, so such a prompt certainly has too many tokens. Other prompts may have too many tokens
    /// as well.
    fn note_too_long(
        &mut self,
        (piece, at): (Piece<'_>, &str),
        entry: &TestEntry,
        subject: &SubjectForm,
        models: &[String],
    ) {
        let SubjectForm::Prompt(opening) = subject else { return };
        // Skip short prompts without rendering them. The size is an estimate, because a template may repeat a variable.
        let bytes = opening.size() + entry.vars.values().map(size).sum::<usize>();
        if bytes < SHORT {
            return;
        }
        let window = |id: &String| {
            let model = self.base.suite.models.iter().find(|it| it.id == *id)?;
            Some((max_input(&model.provider, &model.name)?, id.clone()))
        };
        let Some((window, model)) = models.iter().filter_map(window).min() else { return };
        if bytes as u64 <= window {
            return;
        }
        let rendered = opening_messages(opening, &entry.vars, &self.base.media);
        let Ok((messages, _)) = rendered else { return };
        let words: usize = messages.iter().map(|it| it.content.split_whitespace().count()).sum();
        if words as u64 <= window {
            return;
        }
        self.too_long.1 += 1;
        if self.too_long.0.is_none() {
            let message = format!(
                "the prompt of the test `{}` has {words} words, and `{model}` reads at most {window} \
                 tokens",
                entry.name
            );
            let help =
                "a word is one token or more: shorten the prompt, or use a model that reads more";
            let diagnostic = piece
                .error(Code::INVALID_VALUE, &format!("{at}/prompt"), MemberPart::Value, message)
                .with_help(help);
            self.too_long.0 = Some(diagnostic.into_warning());
        }
    }

    /// Reports all tests with too long prompts, as one warning.
    pub(super) fn report_too_long(&mut self) {
        let Some(mut first) = self.too_long.0.take() else { return };
        if self.too_long.1 > 1 {
            let others = self.too_long.1 - 1;
            first.message = format!("{}; the same holds for {others} more", first.message);
        }
        self.base.sink.push(first);
    }
}

/// Returns the number of bytes of the texts in a value.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(entries) => entries.values().map(size).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
