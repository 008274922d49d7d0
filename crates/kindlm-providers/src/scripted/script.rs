//! A list of scripted replies, with counts of their uses.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kindlm_types::ask::with_mark;
use kindlm_types::{
    Files, FinishReason, Problem, Prompt, ProviderError, ProviderErrorKind as Kind, Reply,
    ToolCall, Usage,
};
use serde::Deserialize;

use super::request::Request;
use super::{Config, ScriptedError, ScriptedReply, check};

/// The maximum number of unmatched replies that an error explains.
const MOST_EXPLAINED: usize = 8;

/// An ordered list of replies; the first match that is not used up answers a request.
///
/// The uses of a reply with `times` are counted for each conversation, even if requests run concurrently. A
/// conversation is identified by its model and its opening messages. The opening messages come before the first answer
/// of the model. Conversations with the same opening share the counts.
#[derive(Debug)]
pub struct Script {
    /// The source of the replies, for error messages.
    source: String,
    replies: Vec<ScriptedReply>,
    /// The number of uses of replies with `times`, by conversation and index.
    given: Mutex<HashMap<(u64, usize), u32>>,
}

/// A scripted answer with its latency.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Answer<T> {
    /// The answer, or the scripted error.
    pub result: Result<T, ProviderError>,
    /// The time that the caller waits before it uses the result.
    pub latency: Duration,
}

/// The document of a replies file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    replies: Vec<ScriptedReply>,
}

impl Script {
    /// Loads the replies of a configuration, from its list or from its file.
    ///
    /// Fails if the file cannot be read or parsed, or with all problems of its replies.
    pub fn load(config: &Config, files: &dyn Files) -> Result<Self, Vec<Problem>> {
        if let Some(replies) = &config.replies {
            return Ok(Self::new("`replies`", replies.clone()));
        }
        let file = config.file.as_deref().unwrap_or_default();
        let bad = |message: String| vec![Problem::new("/file", message)];
        let text = files.read_file(file).map_err(|err| bad(err.to_string()))?;
        let replies = parse(file, &text).map_err(|err| bad(format!("`{file}`: {err}")))?;
        let problems = check(&replies);
        if problems.is_empty() {
            return Ok(Self::new(format!("`{file}`"), replies));
        }
        let place = |it: &Problem| {
            if it.pointer.is_empty() { String::new() } else { format!(" at `{}`", it.pointer) }
        };
        Err(problems
            .into_iter()
            .map(|it| Problem {
                help: it.help.clone(),
                ..Problem::new("/file", format!("`{file}`{}: {}", place(&it), it.message))
            })
            .collect())
    }

    /// Creates a script of these replies. `source` describes their origin in error messages.
    pub fn new(source: impl Into<String>, replies: Vec<ScriptedReply>) -> Self {
        Self { source: source.into(), replies, given: Mutex::default() }
    }

    /// Returns the reply to a prompt, or the scripted error. If no reply matches, the result is an error.
    pub fn reply(&self, provider: &str, prompt: &Prompt) -> Answer<Reply> {
        let request = Request::chat(prompt);
        let chosen = self.choose(provider, &request, |it| it.embedding.is_none());
        answer(provider, chosen, |it| as_reply(it, &request))
    }

    /// Returns the scripted embedding of a text, or the scripted error. If no reply matches, the result is an error.
    pub fn embedding(&self, provider: &str, model: &str, text: &str) -> Answer<Vec<f64>> {
        let request = Request::embedding(model, text);
        let chosen = self.choose(provider, &request, |it| it.embedding.is_some());
        answer(provider, chosen, |it| it.embedding.clone().unwrap_or_default())
    }

    /// Selects the first matching reply that is not used up, and counts the use of a reply with `times`. Fails if no
    /// reply is left.
    fn choose(
        &self,
        provider: &str,
        request: &Request<'_>,
        of_kind: impl Fn(&ScriptedReply) -> bool,
    ) -> Result<&ScriptedReply, ProviderError> {
        let conversation = request.conversation();
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reasons = Vec::new();
        for (index, reply) in self.replies.iter().enumerate().filter(|(_, it)| of_kind(it)) {
            if let Some(reason) = reply.when.unmet(request, !reply.tool_calls.is_empty()) {
                reasons.push((index, reason));
                continue;
            }
            let Some(times) = reply.times else { return Ok(reply) };
            let count = given.entry((conversation, index)).or_default();
            if *count < times {
                *count += 1;
                return Ok(reply);
            }
            reasons.push((index, format!("used up (`times: {times}`)")));
        }
        Err(self.nothing_fits(provider, request, &reasons))
    }

    fn nothing_fits(
        &self,
        provider: &str,
        request: &Request<'_>,
        reasons: &[(usize, String)],
    ) -> ProviderError {
        let mut message = format!(
            "no reply in {} matches this request to `{}`; its last message: {}",
            self.source,
            request.model,
            request.last_message(),
        );
        for (index, reason) in reasons.iter().take(MOST_EXPLAINED) {
            let _ = write!(message, "; reply {}: {reason}", index + 1);
        }
        if reasons.len() > MOST_EXPLAINED {
            let _ = write!(message, "; and {} more", reasons.len() - MOST_EXPLAINED);
        }
        if reasons.is_empty() {
            message.push_str("; the script has no reply of this kind");
        }
        message.push_str("; add a reply with a matching `when`, or one without `when` at the end");
        ProviderError::new(Kind::InvalidRequest, provider, message)
    }
}

/// Parses a list of replies, or a mapping with a list `replies`. Fails for any other text.
fn parse(file: &str, text: &str) -> Result<Vec<ScriptedReply>, String> {
    let is_json = file.rsplit('.').next().is_some_and(|it| it.eq_ignore_ascii_case("json"));
    // The shape of the document decides which parse error is reported.
    match (shape(is_json, text)?, is_json) {
        (Shape::Nothing, _) => Err("the file is empty; a list of replies is expected".to_owned()),
        (Shape::List, true) => serde_json::from_str(text).map_err(|err| err.to_string()),
        (Shape::List, false) => serde_yaml::from_str(text).map_err(|err| err.to_string()),
        (Shape::Other, true) => {
            serde_json::from_str(text).map(|it: Document| it.replies).map_err(|err| err.to_string())
        }
        (Shape::Other, false) => {
            serde_yaml::from_str(text).map(|it: Document| it.replies).map_err(|err| err.to_string())
        }
    }
}

/// The top-level shape of a document.
enum Shape {
    Nothing,
    List,
    Other,
}

fn shape(is_json: bool, text: &str) -> Result<Shape, String> {
    if text.trim().is_empty() {
        return Ok(Shape::Nothing);
    }
    let is_list = if is_json {
        serde_json::from_str::<serde_json::Value>(text).map_err(|err| err.to_string())?.is_array()
    } else {
        let value: serde_yaml::Value = serde_yaml::from_str(text).map_err(|err| err.to_string())?;
        if value.is_null() {
            return Ok(Shape::Nothing);
        }
        value.is_sequence()
    };
    Ok(if is_list { Shape::List } else { Shape::Other })
}

fn answer<T>(
    provider: &str,
    chosen: Result<&ScriptedReply, ProviderError>,
    read: impl FnOnce(&ScriptedReply) -> T,
) -> Answer<T> {
    match chosen {
        Err(err) => Answer { result: Err(err), latency: Duration::ZERO },
        Ok(reply) => Answer {
            latency: Duration::from_millis(reply.latency_ms.into()),
            result: match &reply.error {
                Some(error) => Err(as_error(provider, error)),
                None => Ok(read(reply)),
            },
        },
    }
}

fn as_reply(reply: &ScriptedReply, request: &Request<'_>) -> Reply {
    let before = request.calls();
    let tool_calls: Vec<ToolCall> = reply
        .tool_calls
        .iter()
        .enumerate()
        .map(|(index, call)| ToolCall {
            id: call.id.clone().unwrap_or_else(|| format!("call_{}", before + index)),
            name: call.name.clone(),
            arguments: match (&call.arguments, &call.malformed_arguments) {
                (Some(arguments), _) => arguments.clone(),
                (None, Some(_)) => serde_json::Value::Null,
                (None, None) => serde_json::json!({}),
            },
            malformed_arguments: call.malformed_arguments.clone(),
            response: None,
        })
        .collect();
    let finish_reason = reply.finish_reason.clone().unwrap_or(match () {
        () if !tool_calls.is_empty() => FinishReason::ToolCalls,
        () if reply.refusal.is_some() => FinishReason::Refusal,
        () => FinishReason::Stop,
    });
    // A reply to a judge's question needs the mark of that question.
    let json = || Some(with_mark(&reply.json.as_ref()?.to_string(), request.last_user));
    let text = reply.text.clone().or_else(json);
    Reply {
        tool_calls,
        finish_reason,
        usage: Usage::counted(
            reply.usage.input_tokens,
            reply.usage.output_tokens,
            reply.usage.total_tokens,
            reply.usage.cached_input_tokens,
        ),
        model: request.model.to_owned(),
        refusal: reply.refusal.clone(),
        latency_ms: f64::from(reply.latency_ms),
        ..Reply::text(text.unwrap_or_default())
    }
}

fn as_error(provider: &str, error: &ScriptedError) -> ProviderError {
    let kind = error.kind.unwrap_or(match error.status {
        Some(401 | 403) => Kind::Auth,
        Some(404) => Kind::ModelNotFound,
        Some(408) => Kind::Timeout,
        Some(429) => Kind::RateLimited,
        Some(503 | 529) => Kind::Overloaded,
        Some(300..=499) => Kind::InvalidRequest,
        _ => Kind::Server,
    });
    let message = error.message.clone().unwrap_or_else(|| match error.status {
        Some(status) => format!("the script answers with status {status}"),
        None => "the script fails this request".to_owned(),
    });
    let by_kind = matches!(
        kind,
        Kind::Timeout | Kind::RateLimited | Kind::Overloaded | Kind::Server | Kind::Connection
    );
    ProviderError {
        status: error.status,
        retryable: error.retryable.unwrap_or(by_kind || error.status == Some(409)),
        retry_after: error.retry_after_ms.map(Duration::from_millis),
        ..ProviderError::new(kind, provider, message)
    }
}
