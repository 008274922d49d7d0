//! The dialect of Anthropic's Messages API.

mod events;
mod hosted;

use std::collections::BTreeMap;

use kindlm_types::{
    FinishReason, Media, MediaKind, Message, Problem, Prompt, ProviderError, ProviderErrorKind,
    Reply, Role, ToolCall, ToolChoice, Usage,
};
use serde_json::{Map, Value, json};

use crate::dialect::address::Address;
use crate::dialect::answer::{Reader, counted};
use crate::dialect::content::{self, PartForms, Refused};
use crate::dialect::failure::Facts;
use crate::dialect::part::{self, Malformed};
use crate::dialect::{chat, settings, stream};
use crate::{Codec, HeaderValue, HttpRequest, HttpResponse, Method};

/// The settings of a codec of this dialect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// The environment variable of the key.
    pub(crate) key: String,
    pub(crate) base_url: Option<String>,
    /// Additional headers. A value that starts with `env:` or `Bearer env:` names an environment variable.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Map<String, Value>,
    /// The tools that Anthropic runs, as the API expects them.
    pub(crate) hosted_tools: Vec<Map<String, Value>>,
    /// True to request streamed answers.
    pub(crate) stream: bool,
    /// True to mark the tools and the system messages for the prompt cache.
    pub(crate) prompt_cache: bool,
}

const BASE: &str = "https://api.anthropic.com";
const MESSAGES: &str = "/messages";
const VERSION: &str = "2023-06-01";
/// The output limit if the prompt sets no `maxTokens`. The API requires a limit.
const MAX_TOKENS: u32 = 1024;

/// The length in tokens of the shortest prompt that Anthropic caches. Some models need longer prompts.
const CACHED: usize = 1024;
/// The estimated number of characters in a token.
const CHARACTERS: usize = 4;

/// The keys that `body` must not contain. KindLM sets these keys, or relies on their defaults to read the answer.
const TAKEN: [&str; 6] = ["model", "messages", "system", "tools", "stream", "max_tokens"];

/// The codec of this dialect.
#[derive(Debug)]
pub(crate) struct Anthropic {
    address: Address,
    key: String,
    headers: Vec<(String, HeaderValue)>,
    body: Map<String, Value>,
    hosted: Vec<Map<String, Value>>,
    stream: bool,
    prompt_cache: bool,
}

impl Anthropic {
    /// Checks the settings, and returns the codec. Fails with the problems of the settings.
    pub(crate) fn new(options: Options) -> Result<Self, Vec<Problem>> {
        settings::check(Some(&options.key), options.base_url.as_deref())?;
        settings::check_body(&options.body, &TAKEN)?;
        hosted::check(&options.hosted_tools)?;
        let address = Address::new(options.base_url.as_deref().unwrap_or(BASE), "/v1", MESSAGES);
        let key = HeaderValue::FromEnv { prefix: "", variable: options.key.clone() };
        let mut own = vec![
            settings::json_header(),
            ("x-api-key".to_owned(), key),
            ("anthropic-version".to_owned(), HeaderValue::Literal(VERSION.to_owned())),
        ];
        let betas = hosted::betas(&options.hosted_tools);
        own.extend(betas.map(|it| ("anthropic-beta".to_owned(), HeaderValue::Literal(it))));
        let headers = settings::literal_headers(own, &options.headers)?;
        let Options { key, body, hosted_tools: hosted, stream, prompt_cache, .. } = options;
        Ok(Self { address, key, headers, body, hosted, stream, prompt_cache })
    }

    fn reader(&self) -> Reader<'_> {
        Reader { provider: "anthropic", key: Some(&self.key), rule }
    }

    /// Decodes an answer that is not streamed.
    fn decode_whole(
        &self,
        prompt: &Prompt,
        response: &HttpResponse,
    ) -> Result<Reply, ProviderError> {
        let reader = self.reader();
        let answer = reader.object(response)?;
        let content = reader.message_part(&answer["content"], response)?;
        let (mut text, mut tool_calls) = reader
            .read_part(blocks(content, part::calls_before(prompt), &self.hosted), response)?;
        let mut finish_reason = finish(&answer["stop_reason"]);
        if let Some(wanted) = answer_tool(prompt) {
            // The arguments of the answer tool are the structured answer, so its call does not count as a tool call.
            let (answers, others): (Vec<ToolCall>, Vec<ToolCall>) =
                tool_calls.into_iter().partition(|call| call.name == wanted);
            tool_calls = others;
            if !answers.is_empty() {
                text = chat::answers(&answers);
                if tool_calls.is_empty() && finish_reason == FinishReason::ToolCalls {
                    finish_reason = FinishReason::Stop;
                }
            }
        }
        let refusal = (finish_reason == FinishReason::Refusal)
            .then(|| if text.is_empty() { "the model refused".to_owned() } else { text.clone() });
        Ok(Reply {
            tool_calls,
            usage: usage(&answer["usage"]),
            finish_reason,
            model: chat::model(&answer["model"], prompt),
            refusal,
            ..Reply::text(text)
        })
    }
}

impl Codec for Anthropic {
    fn provider(&self) -> &'static str {
        "anthropic"
    }

    fn encode(&self, prompt: &Prompt) -> Result<HttpRequest, ProviderError> {
        let params = &prompt.params;
        let mut body = Map::new();
        chat::put(&mut body, "model", Some(prompt.model.clone()));
        chat::put(&mut body, "max_tokens", Some(params.max_tokens.unwrap_or(MAX_TOKENS)));
        let mut messages = messages(prompt)?;
        mark_shared(prompt, &mut messages);
        chat::put(&mut body, "messages", Some(messages));
        let systems = prompt.messages.iter().filter(|it| it.role == Role::System);
        systems.into_iter().try_for_each(|it| content::check_system("anthropic", it))?;
        chat::put(&mut body, "system", system(prompt));
        chat::put(&mut body, "temperature", params.temperature);
        chat::put(&mut body, "top_p", params.top_p);
        chat::put(&mut body, "stop_sequences", chat::stop(prompt));
        chat::put(&mut body, "tools", tools(prompt, &self.hosted));
        chat::put(&mut body, "tool_choice", tool_choice(prompt));
        chat::put(&mut body, "stream", self.stream.then_some(true));
        if self.prompt_cache {
            mark_beginning(&mut body);
        }
        settings::add_body(&mut body, &self.body, prompt);
        Ok(HttpRequest {
            method: Method::Post,
            url: self.address.at(MESSAGES),
            headers: self.headers.clone(),
            body: Value::Object(body),
            ..HttpRequest::default()
        })
    }

    fn decode(&self, prompt: &Prompt, response: &HttpResponse) -> Result<Reply, ProviderError> {
        if !self.stream {
            return self.decode_whole(prompt, response);
        }
        stream::decode::<events::Events>(&self.reader(), response, |whole| {
            self.decode_whole(prompt, whole)
        })
    }
}

/// Returns the system messages as one text; `None` without system messages. The API takes them outside of the
/// conversation.
fn system(prompt: &Prompt) -> Option<String> {
    let texts: Vec<&str> = prompt
        .messages
        .iter()
        .filter(|it| it.role == Role::System)
        .map(|it| it.content.as_str())
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// Returns the conversation in Anthropic's format, without system messages. Consecutive tool results share one message,
/// because separate messages teach the model to stop calling tools in parallel.
fn messages(prompt: &Prompt) -> Result<Vec<Value>, ProviderError> {
    let mut out: Vec<Value> = Vec::new();
    let mut after_result = false;
    for message in prompt.messages.iter().filter(|it| it.role != Role::System) {
        let is_result = message.role == Role::Tool;
        let result = is_result.then(|| {
            json!({"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content})
        });
        let open =
            out.last_mut().filter(|_| after_result).and_then(|it| it["content"].as_array_mut());
        match (result, open) {
            (Some(result), Some(open)) => open.push(result),
            (Some(result), None) => out.push(json!({"role": "user", "content": [result]})),
            (None, _) => out.push(turn(message)?),
        }
        after_result = is_result;
    }
    Ok(out)
}

/// The encoders of message parts for this API.
const FORMS: PartForms = PartForms {
    provider: "anthropic",
    text: |text| json!({"type": "text", "text": text}),
    media,
    raw,
};

/// Encodes an image or a document in Anthropic's format.
fn media(media: &Media) -> Result<Value, Refused> {
    let kind = match media.kind {
        MediaKind::Image => "image",
        MediaKind::File => "document",
        MediaKind::Audio => return Err(content::unknown_kind(media, "images and PDF files")),
    };
    if let Some(url) = &media.url {
        return Ok(json!({"type": kind, "source": {"type": "url", "url": url}}));
    }
    let (data, media_type) = (content::data(media)?, content::media_type(media)?);
    if media.kind == MediaKind::File && media_type != "application/pdf" {
        let why = "this API takes PDF files alone; write a text into the prompt";
        return Err(Refused(why.to_owned()));
    }
    Ok(json!({"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}}))
}

/// Returns a raw part. promptfoo accepts a `data:` URL in the `data` of an image, so such a URL is replaced by its
/// data.
fn raw(value: &Value) -> Value {
    let mut value = value.clone();
    let source = &value["source"];
    let data = source["data"].as_str().and_then(|it| it.strip_prefix("data:"));
    let parts = data.and_then(|it| it.split_once(";base64,"));
    let is_image = value["type"] == "image" && source["type"] == "base64";
    if let Some((media_type, data)) = parts.filter(|_| is_image) {
        let (media_type, data) = (json!(media_type), json!(data));
        if source["media_type"].is_null() {
            value["source"]["media_type"] = media_type;
        }
        value["source"]["data"] = data;
    }
    value
}

/// Sets cache marks after the tools and after the system messages. Anthropic caches everything before a mark, in the
/// order tools, system, conversation.
fn mark_beginning(body: &mut Map<String, Value>) {
    if let Some(last) = body.get_mut("tools").and_then(|it| it.as_array_mut()?.last_mut()) {
        last["cache_control"] = json!({"type": "ephemeral"});
    }
    // The API rejects a mark on a blank text.
    let text = body.get("system").and_then(Value::as_str).filter(|it| !it.trim().is_empty());
    if let Some(text) = text {
        let marked =
            json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]);
        body.insert("system".to_owned(), marked);
    }
}

/// Sets a cache mark in the last message, if it is a user message. The mark stands after the first `prompt.shared`
/// bytes, which several prompts share. Anthropic caches everything before the mark. Sets no mark if the system messages
/// and the shared bytes are too short to be cached, or if no text follows the shared bytes.
fn mark_shared(prompt: &Prompt, messages: &mut [Value]) {
    let system = system(prompt).map_or(0, |it| it.chars().count());
    let last = prompt.messages.last();
    let last = last.filter(|it| it.role == Role::User && it.parts.is_empty());
    let parts = last.and_then(|it| it.content.split_at_checked(prompt.shared));
    let (Some((shared, rest)), Some(written)) = (parts, messages.last_mut()) else { return };
    let is_long = (system + shared.chars().count()) / CHARACTERS >= CACHED;
    if is_long && !shared.is_empty() && !rest.is_empty() {
        written["content"] = json!([
            {"type": "text", "text": shared, "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": rest},
        ]);
    }
}

fn turn(message: &Message) -> Result<Value, ProviderError> {
    if message.parts.is_empty() && message.tool_calls.is_empty() {
        return Ok(Value::Object(chat::role_and_content(message)));
    }
    let parts = match message.parts.as_slice() {
        [] if message.content.is_empty() => Vec::new(),
        [] => vec![json!({"type": "text", "text": message.content})],
        _ => FORMS.encode_parts(message)?,
    };
    let calls = message.tool_calls.iter().map(|call| {
        json!({"type": "tool_use", "id": call.id, "name": call.name, "input": chat::arguments_object(call)})
    });
    let content: Vec<Value> = parts.into_iter().chain(calls).collect();
    Ok(json!({"role": message.role.as_str(), "content": content}))
}

/// Returns the name of the tool whose input is the structured answer. Returns `None` if the prompt requests free text.
fn answer_tool(prompt: &Prompt) -> Option<String> {
    prompt.response_format.as_ref().map(|format| chat::schema_name(&format.name))
}

/// Returns the tools of the test, the answer tool, and the tools of the API; `None` without tools.
fn tools(prompt: &Prompt, hosted: &[Map<String, Value>]) -> Option<Value> {
    let mut tools: Vec<Value> = prompt
        .tools
        .iter()
        .map(|tool| {
            json!({
                "name": tool.name,
                "description": tool.description.as_deref().unwrap_or_default(),
                "input_schema": tool.parameters.clone().unwrap_or_else(|| json!({"type": "object", "properties": {}})),
            })
        })
        .collect();
    if let (Some(name), Some(format)) = (answer_tool(prompt), &prompt.response_format) {
        tools.push(json!({"name": name, "description": "Gives the answer.", "input_schema": format.schema}));
    }
    tools.extend(hosted.iter().cloned().map(Value::Object));
    (!tools.is_empty()).then(|| Value::Array(tools))
}

fn tool_choice(prompt: &Prompt) -> Option<Value> {
    match (answer_tool(prompt), prompt.tools.is_empty(), &prompt.tool_choice) {
        (Some(name), true, _) | (Some(name), false, Some(ToolChoice::None)) => {
            Some(json!({"type": "tool", "name": name, "disable_parallel_tool_use": true}))
        }
        // The model must call a tool. If the prompt requests structured output, the answer tool is among the tools.
        (Some(_), false, _) | (None, false, Some(ToolChoice::Required)) => {
            Some(json!({"type": "any"}))
        }
        (None, false, Some(ToolChoice::Auto)) => Some(json!({"type": "auto"})),
        (None, false, Some(ToolChoice::None)) => Some(json!({"type": "none"})),
        (None, true, _) | (None, false, None) => None,
    }
}

/// Returns the text and the tool calls of content blocks. Known blocks without text and calls, such as thinking, are
/// skipped. Fails at the first malformed or unsupported block.
///
/// Blocks about tools that Anthropic ran are supported if the provider has such tools.
fn blocks(
    content: &Value,
    before: usize,
    hosted: &[Map<String, Value>],
) -> Result<(String, Vec<ToolCall>), Malformed> {
    let mut text = String::new();
    let mut calls = Vec::new();
    for block in content.as_array().ok_or_else(|| Malformed::no_text(content))? {
        match block["type"].as_str() {
            Some("text") => text.push_str(part::text_at(block, "text")?),
            Some("tool_use") => {
                let made_up = format!("call_{}", before + calls.len());
                calls.push(part::called(block, "input", &block["id"], &made_up)?);
            }
            Some(kind) if part::is_silent(kind) => {}
            Some(_) if !hosted.is_empty() && hosted::read_block(block, &mut calls)? => {}
            Some(kind) => return Err(Malformed::unsupported_part(kind)),
            None if block.is_object() => {
                return Err(Malformed::not_a("a text", "the `type` of a block", &block["type"]));
            }
            None => return Err(Malformed::not_a("an object", "a block of the answer", block)),
        }
    }
    Ok((text, calls))
}

fn finish(word: &Value) -> FinishReason {
    match word.as_str() {
        Some("end_turn") => FinishReason::Stop,
        Some("max_tokens") => FinishReason::Length,
        Some("tool_use") => FinishReason::ToolCalls,
        Some("refusal") => FinishReason::Refusal,
        other => FinishReason::Other(other.unwrap_or("unknown").to_owned()),
    }
}

/// Returns the token usage. At Anthropic, `input_tokens` does not include cache reads and cache writes.
fn usage(usage: &Value) -> Usage {
    let cached = counted(&usage["cache_read_input_tokens"]);
    let written = counted(&usage["cache_creation_input_tokens"]);
    let apart = cached.unwrap_or(0).saturating_add(written.unwrap_or(0));
    let input = counted(&usage["input_tokens"]).map(|it| it.saturating_add(apart));
    let usage = Usage::counted(input, counted(&usage["output_tokens"]), None, cached);
    usage.with_cache_writes(written)
}

fn rule(facts: &Facts) -> Option<ProviderErrorKind> {
    facts.is("overloaded_error").then_some(ProviderErrorKind::Overloaded)
}
