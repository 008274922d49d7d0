//! The conditions that select a scripted reply.

use std::borrow::Cow;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use kindlm_types::{Message, Prompt, Role};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The conditions on a request; all given conditions must hold. Texts are compared case-sensitively.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct When {
    /// The model of the request, or a list of models.
    #[serde(default)]
    pub model: OneOrMany,
    /// A text in the last user message or in the text to embed. If this is a list, all its texts must occur.
    #[serde(default)]
    pub contains: OneOrMany,
    /// The whole last user message or text to embed, without surrounding white space.
    #[serde(default)]
    pub equals: Option<String>,
    /// A text in the system message. If this is a list, all its texts must occur.
    #[serde(default)]
    pub system_contains: OneOrMany,
    /// A text in any message of the conversation. If this is a list, each of its texts must occur in some message.
    #[serde(default)]
    pub conversation_contains: OneOrMany,
    /// A condition on the tool results since the last user message: true for at least one result, false for none, or
    /// the names of tools that must have results.
    ///
    /// By default any request matches, but a reply with `toolCalls` only matches requests without results.
    #[serde(default)]
    pub tool_result: Option<ToolResult>,
    /// A text in a tool result since the last user message. If this is a list, each of its texts must occur in some
    /// result.
    #[serde(default)]
    pub tool_result_contains: OneOrMany,
}

/// One text, or a list of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OneOrMany(pub Vec<String>);

/// A condition on the tool results since the last user message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolResult {
    /// True if there must be results; false if there must be none.
    Present(bool),
    /// Each of these tools must have a result.
    Of(OneOrMany),
}

/// The parts of a request that the conditions test.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) model: &'a str,
    pub(super) messages: &'a [Message],
    /// The last user message, or the text to embed.
    pub(super) last_user: &'a str,
    /// The tool results since the last user message.
    results: Vec<&'a Message>,
}

impl<'a> Request<'a> {
    /// Returns the view of a chat request.
    pub(super) fn chat(prompt: &'a Prompt) -> Self {
        let messages = &prompt.messages[..];
        let last = messages.iter().rposition(|it| it.role == Role::User);
        let since = last.map_or(messages, |at| &messages[at + 1..]);
        Self {
            model: &prompt.model,
            messages,
            last_user: last.map_or("", |at| &messages[at].content),
            results: since.iter().filter(|it| it.role == Role::Tool).collect(),
        }
    }

    /// Returns the view of an embedding request.
    pub(super) fn embedding(model: &'a str, text: &'a str) -> Self {
        Self { model, messages: &[], last_user: text, results: Vec::new() }
    }

    /// Returns a hash that identifies the conversation. It depends on the model and the messages before the model's
    /// first answer. For an embedding request, it depends on the model and the text.
    pub(super) fn conversation(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.model.hash(&mut hasher);
        if self.messages.is_empty() {
            self.last_user.hash(&mut hasher);
        }
        for message in self.messages.iter().take_while(|it| it.role != Role::Assistant) {
            (message.role, &message.content).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Returns the number of tool calls in the conversation.
    pub(super) fn calls(&self) -> usize {
        self.messages.iter().map(|it| it.tool_calls.len()).sum()
    }

    /// Returns the role and the beginning of the last message, for error messages.
    pub(super) fn last_message(&self) -> String {
        let (who, text) = match self.messages.last() {
            None => ("text to embed", self.last_user),
            Some(it) => match it.role {
                Role::System => ("system", it.content.as_str()),
                Role::User => ("user", it.content.as_str()),
                Role::Assistant => ("assistant", it.content.as_str()),
                Role::Tool => ("tool", it.content.as_str()),
            },
        };
        format!("{who} `{}`", shorten(text, 200))
    }
}

impl When {
    /// Describes the first condition that does not hold; `None` if all hold. `calls_tools` is true if the reply has
    /// tool calls.
    pub(super) fn unmet(&self, request: &Request<'_>, calls_tools: bool) -> Option<String> {
        let Request { model, messages, last_user, results } = request;
        if !self.model.0.is_empty() && !self.model.0.iter().any(|it| it == model) {
            return Some(format!("is for model {}", self.model));
        }
        if let Some(text) = self.equals.as_deref().map(str::trim)
            && last_user.trim() != text
        {
            return Some(format!("user message is not `{}`", shorten(text, 80)));
        }
        let system = messages.iter().filter(|it| it.role == Role::System);
        let system: Vec<&str> = system.map(|it| it.content.as_str()).collect();
        let all: Vec<&str> = messages.iter().map(|it| it.content.as_str()).collect();
        let of_tools: Vec<&str> = results.iter().map(|it| it.content.as_str()).collect();
        for (wanted, texts, place) in [
            (&self.contains, &[*last_user][..], "user message"),
            (&self.system_contains, &system[..], "system message"),
            (&self.conversation_contains, &all[..], "conversation"),
            (&self.tool_result_contains, &of_tools[..], "tool results"),
        ] {
            let missing =
                wanted.0.iter().find(|it| !texts.iter().any(|text| text.contains(it.as_str())));
            if let Some(missing) = missing {
                return Some(format!("`{}` is not in the {place}", shorten(missing, 80)));
            }
        }
        self.unmet_tool_result(results, calls_tools)
    }

    fn unmet_tool_result(&self, results: &[&Message], calls_tools: bool) -> Option<String> {
        match &self.tool_result {
            None if calls_tools && !results.is_empty() => {
                Some("calls tools, and a tool result is already there".to_owned())
            }
            Some(ToolResult::Present(true)) if results.is_empty() => {
                Some("requires a tool result".to_owned())
            }
            Some(ToolResult::Present(false)) if !results.is_empty() => {
                Some("requires that there is no tool result".to_owned())
            }
            Some(ToolResult::Of(tools)) => {
                let missing = tools.0.iter().find(|tool| {
                    !results.iter().any(|it| it.tool_name.as_deref() == Some(tool.as_str()))
                })?;
                Some(format!("requires a result of tool `{missing}`"))
            }
            _ => None,
        }
    }
}

/// Returns at most `most` characters of a text, on one line. An ellipsis marks a cut.
pub(super) fn shorten(text: &str, most: usize) -> String {
    let mut short: String = text.chars().take(most).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short.replace(['\n', '\r'], " ")
}

impl fmt::Display for OneOrMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted: Vec<String> = self.0.iter().map(|it| format!("`{it}`")).collect();
        f.write_str(&quoted.join(" or "))
    }
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(TextsVisitor { allow_bool: false })? {
            ToolResult::Of(texts) => Ok(texts),
            ToolResult::Present(_) => Err(de::Error::custom("expected a text or a list of texts")),
        }
    }
}

impl<'de> Deserialize<'de> for ToolResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextsVisitor { allow_bool: true })
    }
}

/// A deserializer for a text, a list of texts and, if allowed, a boolean. Other types give a clear error.
struct TextsVisitor {
    allow_bool: bool,
}

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = ToolResult;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.allow_bool {
            "`true`, `false`, the name of a tool or a list of names"
        } else {
            "a text or a list of texts"
        })
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ToolResult, E> {
        Ok(ToolResult::Of(OneOrMany(vec![text.to_owned()])))
    }

    fn visit_bool<E: de::Error>(self, present: bool) -> Result<ToolResult, E> {
        if self.allow_bool {
            Ok(ToolResult::Present(present))
        } else {
            Err(E::invalid_type(de::Unexpected::Bool(present), &self))
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ToolResult, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = list.next_element()? {
            texts.push(text);
        }
        Ok(ToolResult::Of(OneOrMany(texts)))
    }
}

impl JsonSchema for OneOrMany {
    fn schema_name() -> Cow<'static, str> {
        "OneOrMany".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "array"], "items": {"type": "string"}})
    }
}

impl JsonSchema for ToolResult {
    fn schema_name() -> Cow<'static, str> {
        "ToolResult".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["boolean", "string", "array"], "items": {"type": "string"}})
    }
}
