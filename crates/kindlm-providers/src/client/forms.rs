//! Selection of the structured-output form that a model accepts: a schema, a tool, or none (instructions alone).

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use kindlm_types::{FinishReason, Prompt, ProviderError, Reply, ToolCall, ToolChoice, ToolSpec};

use crate::StructuredOutput;
use crate::dialect::chat;
use crate::form::FormChoice;

/// The form that each model needs, as learned from the provider's error responses.
#[derive(Debug, Default)]
pub(crate) struct Forms(Mutex<HashMap<String, StructuredOutput>>);

impl Forms {
    /// Returns the form for a model: the fixed form, the learned form, or a schema.
    pub(crate) fn for_model(&self, choice: FormChoice, model: &str) -> StructuredOutput {
        match choice {
            FormChoice::Fixed(form) => form,
            FormChoice::Automatic => {
                let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                known.get(model).copied().unwrap_or(StructuredOutput::Schema)
            }
        }
    }

    /// Records that a model needs this form. Does nothing if this form, or a later one in the order schema, tool, none,
    /// is already recorded. Returns true if the form was recorded.
    pub(crate) fn learn(&self, model: &str, form: StructuredOutput) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = known.get(model).is_none_or(|it| *it < form);
        if is_news {
            known.insert(model.to_owned(), form);
        }
        is_news
    }
}

/// Applies a structured-output form to a prompt and to its reply.
pub(crate) trait InForm: Sized {
    /// Returns the prompt, changed so that it requests the answer in this form.
    fn asked(self, prompt: &Prompt) -> Cow<'_, Prompt>;

    /// Returns the reply as if the prompt had requested a schema. For the tool form, the arguments of the answer tool
    /// become the reply's text.
    fn read_reply(self, prompt: &Prompt, reply: Reply) -> Reply;

    /// Returns the form to try next, if the error shows that the server does not support this form. Returns `None` for
    /// any other error, and for the last form.
    fn after(self, err: &ProviderError) -> Option<Self>;
}

impl InForm for StructuredOutput {
    fn asked(self, prompt: &Prompt) -> Cow<'_, Prompt> {
        let Some(format) = prompt.response_format.as_ref().filter(|_| self != Self::Schema) else {
            return Cow::Borrowed(prompt);
        };
        let mut prompt = Prompt { response_format: None, ..prompt.clone() };
        if self == Self::Tool {
            prompt.tools.push(ToolSpec {
                name: chat::schema_name(&format.name),
                description: Some("Gives the answer.".to_owned()),
                parameters: Some(format.schema.clone()),
            });
            prompt.tool_choice = Some(ToolChoice::Required);
        }
        Cow::Owned(prompt)
    }

    fn read_reply(self, prompt: &Prompt, mut reply: Reply) -> Reply {
        let Some(format) = prompt.response_format.as_ref().filter(|_| self == Self::Tool) else {
            return reply;
        };
        let wanted = chat::schema_name(&format.name);
        let (answers, others): (Vec<ToolCall>, Vec<ToolCall>) =
            reply.tool_calls.into_iter().partition(|call| call.name == wanted);
        reply.tool_calls = others;
        if !answers.is_empty() {
            reply.text = chat::answers(&answers);
            if reply.tool_calls.is_empty() && reply.finish_reason == FinishReason::ToolCalls {
                reply.finish_reason = FinishReason::Stop;
            }
        }
        reply
    }

    fn after(self, err: &ProviderError) -> Option<Self> {
        if !matches!(err.status, Some(400 | 404 | 422)) {
            return None;
        }
        let message = err.message.to_lowercase();
        let names = |words: &[&str]| words.iter().any(|it| message.contains(it));
        match self {
            // For a schema, the request to Bedrock forces a tool call. Some models of Bedrock reject a forced call.
            Self::Schema => names(&[
                "response_format",
                "response format",
                "json_schema",
                "toolchoice",
                "tool use",
            ])
            .then_some(Self::Tool),
            Self::Tool => names(&["tool", "function call"]).then_some(Self::None),
            Self::None => None,
        }
    }
}
