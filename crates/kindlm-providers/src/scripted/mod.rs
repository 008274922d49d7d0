//! `scripted`: replies from a file, selected by conditions on the request.

mod request;
mod script;

use kindlm_types::{FinishReason, Problem, ProviderErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub use request::{OneOrMany, ToolResult, When};
pub use script::{Answer, Script};

use crate::{Kind, Meta, Registration};

/// The registration of the provider `scripted`.
pub static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "scripted",
        summary: "Replies from a file, matched on the request: no key, no network, always the same.",
        since: "0.1.0",
        key_variable: None,
        shorthand: false,
        wraps_agent: false,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Special(|config| Config::from_value(config).map(|_| ())),
};

/// The scripted replies: a file, or a list.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ScriptedConfig")]
pub struct Config {
    /// The YAML or JSON file with the replies, relative to the config file.
    #[serde(default)]
    pub file: Option<String>,
    /// The list of replies, instead of a file.
    #[serde(default)]
    pub replies: Option<Vec<ScriptedReply>>,
}

impl Config {
    /// Parses the configuration, or returns all its problems.
    pub fn from_value(config: &Value) -> Result<Self, Vec<Problem>> {
        let read: Self = serde_json::from_value(config.clone())
            .map_err(|err| vec![Problem::new("", err.to_string())])?;
        let problems = match (&read.file, &read.replies) {
            (Some(_), Some(_)) => {
                vec![Problem::key("/replies", "`file` and `replies` exclude each other")]
            }
            (None, None) => vec![
                Problem::new("", "no replies: `file` or `replies` is required")
                    .with_help("give `file: ./replies.yaml`, or a list of `replies`"),
            ],
            (Some(_), None) => Vec::new(),
            (None, Some(replies)) => {
                check(replies).into_iter().map(|it| it.under("/replies")).collect()
            }
        };
        if problems.is_empty() { Ok(read) } else { Err(problems) }
    }
}

/// A scripted reply, and the requests that it answers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptedReply {
    /// The conditions on the request; by default the reply answers every request.
    #[serde(default)]
    pub when: When,
    /// The maximum number of uses in one conversation; then the next matching reply is used. No limit by default.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub times: Option<u32>,
    /// The answer of the model, as text.
    #[serde(default)]
    pub text: Option<String>,
    /// The answer of the model, as JSON. In a reply to a judge, an object without `mark` gets the `mark` of the
    /// judge's question.
    #[serde(default, deserialize_with = "present")]
    pub json: Option<Value>,
    /// The tool calls of the model.
    #[serde(default)]
    pub tool_calls: Vec<ScriptedCall>,
    /// The vector, for an embedding request.
    #[serde(default)]
    pub embedding: Option<Vec<f64>>,
    /// The text of the model's refusal.
    #[serde(default)]
    pub refusal: Option<String>,
    /// The token counts; not reported by default.
    #[serde(default)]
    pub usage: ScriptedUsage,
    /// The finish reason; by default `tool_calls`, `refusal` or `stop`, depending on the reply.
    #[serde(default)]
    pub finish_reason: Option<FinishReason>,
    /// The latency in milliseconds. The runner waits that long, and reports exactly this value.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86_400_000))]
    pub latency_ms: u32,
    /// The error that is returned instead of an answer.
    #[serde(default)]
    pub error: Option<ScriptedError>,
}

/// A tool call in a reply.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptedCall {
    /// The name of the tool.
    pub name: String,
    /// The arguments; `{}` by default.
    #[serde(default, deserialize_with = "present")]
    pub arguments: Option<Value>,
    /// Arguments that are not JSON, to test how the suite handles them.
    #[serde(default)]
    pub malformed_arguments: Option<String>,
    /// The id of the call; by default `call_0`, `call_1` and so on through the conversation.
    #[serde(default)]
    pub id: Option<String>,
}

/// The token counts of a reply.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptedUsage {
    /// The tokens of the prompt; not counted by default.
    #[serde(default)]
    pub input_tokens: Option<u64>,
    /// The tokens of the answer; not counted by default.
    #[serde(default)]
    pub output_tokens: Option<u64>,
    /// All tokens; input plus output by default.
    #[serde(default)]
    pub total_tokens: Option<u64>,
    /// The part of the input tokens that was read from the prompt cache.
    #[serde(default)]
    pub cached_input_tokens: Option<u64>,
}

/// An error instead of an answer.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptedError {
    /// The kind of error; by default the kind that the status implies, or `server`.
    #[serde(default)]
    pub kind: Option<ProviderErrorKind>,
    /// The HTTP status of the error, from 300 to 599; none by default.
    #[serde(default)]
    #[schemars(range(min = 300, max = 599))]
    pub status: Option<u16>,
    /// The error message of the provider.
    #[serde(default)]
    pub message: Option<String>,
    /// True if the request is retried; by default, the status and the kind decide.
    #[serde(default)]
    pub retryable: Option<bool>,
    /// The wait before a retry that the provider requests, in milliseconds.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
}

/// Deserializes a value as present, even if it is `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Returns the problems of parsed replies. The pointers are relative to the list.
fn check(replies: &[ScriptedReply]) -> Vec<Problem> {
    if replies.is_empty() {
        return vec![Problem::new("", "the list of replies is empty")];
    }
    let problems = replies.iter().enumerate().filter_map(|(index, reply)| {
        let problem = check_one(reply)?;
        Some(problem.under(&format!("/{index}")))
    });
    problems.collect()
}

fn check_one(reply: &ScriptedReply) -> Option<Problem> {
    let kinds = [
        ("text", reply.text.is_some()),
        ("json", reply.json.is_some()),
        ("refusal", reply.refusal.is_some()),
        ("toolCalls", !reply.tool_calls.is_empty()),
        ("embedding", reply.embedding.is_some()),
        ("error", reply.error.is_some()),
    ];
    let given: Vec<&str> =
        kinds.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    // Text or JSON may be combined with tool calls. All other kinds exclude each other.
    match given[..] {
        [] => Some(Problem::new("", "the reply is empty").with_help(
            "add one of `text`, `json`, `toolCalls`, `refusal`, `embedding` and `error`",
        )),
        [_] | ["text" | "json", "toolCalls"] => zero_times(reply),
        [first, second, ..] => Some(Problem::key(
            format!("/{second}"),
            format!("`{first}` and `{second}` exclude each other in one reply"),
        )),
    }
}

fn zero_times(reply: &ScriptedReply) -> Option<Problem> {
    (reply.times == Some(0)).then(|| Problem::new("/times", "`times` must be at least 1"))
}
