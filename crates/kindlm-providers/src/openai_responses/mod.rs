//! `openai-responses`: the Responses API of OpenAI, and of every compatible server.

mod events;
mod hosted;
mod items;

use std::collections::BTreeMap;

use kindlm_types::{
    FinishReason, Media, MediaKind, Message, Problem, Prompt, ProviderError, ProviderErrorKind,
    Reply, Role, ToolCall, Usage, reasons,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::dialect::address::Address;
use crate::dialect::answer::{Reader, counted, non_empty};
use crate::dialect::content::{self, PartForms, Refused};
use crate::dialect::failure::Facts;
use crate::dialect::part::{self, Malformed};
use crate::dialect::{chat, settings, stream, strict};
use crate::{
    Codec, EnvMark, HeaderValue, HttpRequest, HttpResponse, Kind, Meta, Method, Registration,
};
use hosted::HostedTools;

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "openai-responses",
        summary: "The Responses API of OpenAI, with the tools that OpenAI itself runs.",
        since: "0.1.0",
        key_variable: Some("OPENAI_API_KEY"),
        shorthand: true,
        wraps_agent: false,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Http(|config| Ok(Box::new(Responses::new(settings::parse_config(config)?)?))),
};

/// The settings of the Responses API.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "OpenaiResponsesConfig", transform = settings::with_key_command)]
struct Config {
    /// The name of the environment variable that holds the key; `null` for a server without keys.
    #[schemars(with = "Value", extend("type" = ["string", "null"], "minLength" = 1))]
    api_key_env: Option<String>,
    /// The base address, before `/responses`; `https://api.openai.com/v1` by default.
    #[serde(default)]
    #[schemars(url)]
    base_url: Option<String>,
    /// The organization, sent as `OpenAI-Organization`.
    #[serde(default)]
    organization: Option<String>,
    /// More headers, such as those of a gateway. A value that starts with `env:` or `Bearer env:` names an environment
    /// variable that holds the value or the token.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// True to request the log probabilities of the answer's tokens, which `perplexity` needs. Some models do not
    /// support this.
    #[serde(default)]
    logprobs: bool,
    /// The tools that OpenAI runs itself, as in the API: `[{ type: web_search }]`. The model may call them in
    /// addition to the tools of a test. `{{env.NAME}}` in a text is the value of an environment variable.
    #[serde(default)]
    hosted_tools: Vec<Map<String, Value>>,
    /// True to show all items of an answer in its text, in promptfoo's format: also the calls of functions as JSON, the
    /// summaries of reasoning, and a line for each call of a hosted tool. Scripts also see the whole answer, as
    /// `context.providerResponse.raw`.
    #[serde(default)]
    items_as_text: bool,
    /// True to request a streamed answer, for servers that offer nothing else, and to measure the time to the first token.
    #[serde(default)]
    stream: bool,
    /// Additional keys for the body of requests, as in the API: `reasoning`, `store`, … If KindLM sends an object under
    /// the same key, the two objects are merged.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    body: Map<String, Value>,
}

const BASE: &str = "https://api.openai.com/v1";
const RESPONSES: &str = "/responses";

/// The keys that `body` must not contain. KindLM sets these keys, or relies on their defaults to read the answer.
const TAKEN: [&str; 9] = [
    "model",
    "input",
    "tools",
    "stream",
    "background",
    "conversation",
    "previous_response_id",
    "prompt",
    "max_output_tokens",
];

#[derive(Debug)]
struct Responses {
    address: Address,
    key: Option<String>,
    headers: Vec<(String, HeaderValue)>,
    logprobs: bool,
    hosted: HostedTools,
    items_as_text: bool,
    stream: bool,
    body: Map<String, Value>,
}

impl Responses {
    fn new(config: Config) -> Result<Self, Vec<Problem>> {
        settings::check(config.api_key_env.as_deref(), config.base_url.as_deref())?;
        settings::check_body(&config.body, &TAKEN)?;
        let organization = config.organization.as_deref();
        let own = settings::openai_headers(config.api_key_env.as_deref(), organization);
        let headers = settings::literal_headers(own, &config.headers)?;
        let hosted = HostedTools::new(config.hosted_tools)?;
        Ok(Self {
            address: Address::new(config.base_url.as_deref().unwrap_or(BASE), "", RESPONSES),
            key: config.api_key_env,
            headers,
            logprobs: config.logprobs,
            hosted,
            items_as_text: config.items_as_text,
            stream: config.stream,
            body: config.body,
        })
    }

    fn reader(&self) -> Reader<'_> {
        Reader { provider: "openai-responses", key: self.key.as_deref(), rule }
    }

    /// Returns the tools of the test and the hosted tools, and the placeholders of environment variables in them.
    ///
    /// The tools are `None` if there are none.
    fn tools(&self, prompt: &Prompt) -> Result<(Option<Value>, Vec<EnvMark>), ProviderError> {
        // Without `strict: false`, this API rejects schemas that it cannot enforce, such as those with optional keys.
        let own = prompt.tools.iter().map(|tool| {
            let mut own = Map::new();
            chat::put(&mut own, "type", Some("function"));
            chat::put(&mut own, "name", Some(tool.name.clone()));
            chat::put(&mut own, "description", tool.description.clone());
            chat::put(&mut own, "parameters", tool.parameters.clone());
            chat::put(&mut own, "strict", Some(false));
            Value::Object(own)
        });
        let (hosted, marks) = self.hosted.encoded(prompt).map_err(|message| {
            ProviderError::new(ProviderErrorKind::InvalidRequest, "openai-responses", message)
        })?;
        let all: Vec<Value> = own.chain(hosted).collect();
        Ok(((!all.is_empty()).then(|| Value::Array(all)), marks))
    }

    /// Decodes an answer that is not streamed.
    fn decode_whole(
        &self,
        prompt: &Prompt,
        response: &HttpResponse,
    ) -> Result<Reply, ProviderError> {
        let reader = self.reader();
        let answer = reader.object(response)?;
        let items = reader.message_part(&answer["output"], response)?;
        let found =
            reader.read_part(Found::from_items(items, part::calls_before(prompt)), response)?;
        let finish_reason = reader.read_part(finish(&answer, &found), response)?;
        let is_cut = matches!(finish_reason, FinishReason::Length | FinishReason::ContentFilter);
        if !found.has_message && found.calls.is_empty() && !is_cut {
            return Err(reader.malformed("the answer has no message of the model", response));
        }
        let text = match items {
            // A refusal is the whole text.
            Value::Array(items) if self.items_as_text => {
                found.refusal.clone().unwrap_or_else(|| items::text(items))
            }
            _ => found.text,
        };
        Ok(Reply {
            tool_calls: found.calls,
            usage: usage(&answer["usage"]),
            finish_reason,
            model: chat::model(&answer["model"], prompt),
            refusal: found.refusal,
            log_probs: found.log_probs.filter(|it| !it.is_empty()),
            response: self.items_as_text.then(|| json!({"raw": answer})),
            ..Reply::text(text)
        })
    }
}

impl Codec for Responses {
    fn provider(&self) -> &'static str {
        "openai-responses"
    }

    fn encode(&self, prompt: &Prompt) -> Result<HttpRequest, ProviderError> {
        let params = &prompt.params;
        // Reasoning models reject values of `temperature` and `top_p` other than the default.
        let reasons = reasons(&prompt.model);
        let (tools, marks) = self.tools(prompt)?;
        let mut body = Map::new();
        chat::put(&mut body, "model", Some(prompt.model.clone()));
        chat::put(&mut body, "input", Some(input(&prompt.messages)?));
        chat::put(&mut body, "max_output_tokens", params.max_tokens);
        chat::put(&mut body, "temperature", params.temperature.filter(|_| !reasons));
        chat::put(&mut body, "top_p", params.top_p.filter(|_| !reasons));
        chat::put(&mut body, "tools", tools);
        chat::put(&mut body, "tool_choice", chat::tool_choice(prompt));
        let format = prompt.response_format.as_ref().map(|format| {
            json!({"format": {
                "type": "json_schema",
                "name": chat::schema_name(&format.name),
                "schema": format.schema,
                "strict": strict::is_strict(&format.schema),
            }})
        });
        chat::put(&mut body, "text", format);
        chat::put(&mut body, "stream", self.stream.then_some(true));
        settings::add_body(&mut body, &self.body, prompt);
        if self.logprobs {
            let include = body.entry("include").or_insert_with(|| json!([]));
            let wanted = json!("message.output_text.logprobs");
            if let Some(list) = include.as_array_mut().filter(|it| !it.contains(&wanted)) {
                list.push(wanted);
            }
        }
        Ok(HttpRequest {
            method: Method::Post,
            url: self.address.at(RESPONSES),
            headers: self.headers.clone(),
            body: Value::Object(body),
            marks,
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

/// Returns the conversation as items of this API. A single text message of the user becomes only its text.
///
/// A message with tool calls becomes one item for its text, and one for each call.
fn input(messages: &[Message]) -> Result<Value, ProviderError> {
    if let [message] = messages
        && message.role == Role::User
        && message.parts.is_empty()
    {
        return Ok(Value::String(message.content.clone()));
    }
    let mut items = Vec::new();
    for message in messages {
        if message.role == Role::Tool {
            items.push(json!({
                "type": "function_call_output", "call_id": message.tool_call_id, "output": message.content,
            }));
            continue;
        }
        if !message.content.is_empty() || message.tool_calls.is_empty() {
            let content = match message.parts.as_slice() {
                [] => json!(message.content),
                _ if message.role == Role::Assistant => ANSWERED.encode_parts(message)?.into(),
                _ => FORMS.encode_parts(message)?.into(),
            };
            items.push(json!({"role": message.role.as_str(), "content": content}));
        }
        items.extend(message.tool_calls.iter().map(|call| {
            json!({
                "type": "function_call", "call_id": call.id, "name": call.name,
                "arguments": chat::arguments_text(call),
            })
        }));
    }
    Ok(Value::Array(items))
}

/// The encoders of message parts for this API.
const FORMS: PartForms = PartForms {
    provider: "openai-responses",
    text: |text| json!({"type": "input_text", "text": text}),
    media,
    raw: Value::clone,
};

/// The encoders of the parts of an earlier answer.
const ANSWERED: PartForms =
    PartForms { text: |text| json!({"type": "output_text", "text": text}), ..FORMS };

/// Encodes an image or a file in the format of this API.
fn media(media: &Media) -> Result<Value, Refused> {
    Ok(match (media.kind, media.data()) {
        (MediaKind::Image, _) => {
            json!({"type": "input_image", "image_url": content::address(media)?})
        }
        (MediaKind::File, Some(_)) => json!({
            "type": "input_file", "filename": media.name, "file_data": content::address(media)?,
        }),
        (MediaKind::File, None) => {
            json!({"type": "input_file", "file_url": content::address(media)?})
        }
        (MediaKind::Audio, _) => {
            let known = "images and files; `openai` sends sounds to the chat API";
            return Err(content::unknown_kind(media, known));
        }
    })
}

/// The parts of an answer.
#[derive(Debug, Default)]
struct Found {
    text: String,
    refusal: Option<String>,
    calls: Vec<ToolCall>,
    /// The log probabilities of all texts; `None` if a text has none.
    log_probs: Option<Vec<f64>>,
    has_message: bool,
}

impl Found {
    /// Reads the items of an answer. Fails for a malformed item, and for an item of an unsupported type.
    fn from_items(items: &Value, before: usize) -> Result<Self, Malformed> {
        let Value::Array(items) = items else {
            return Err(Malformed::not_a("a list", "`output`", items));
        };
        let mut found = Self { log_probs: Some(Vec::new()), ..Self::default() };
        for item in items {
            match item["type"].as_str() {
                Some("message") => found.message(&item["content"])?,
                Some("function_call") => {
                    let made_up = format!("call_{}", before + found.calls.len());
                    found.calls.push(part::called(item, "arguments", &item["call_id"], &made_up)?);
                }
                // These items hold no part of the answer, and no call.
                Some("reasoning" | "mcp_list_tools") => {}
                Some("mcp_approval_request") => {
                    return Err(Malformed::unsupported(
                        "the model waits for the approval of an MCP tool: set `require_approval: never` for its server",
                    ));
                }
                Some("mcp_call") => found.calls.push(mcp_call(item)?),
                Some(kind) => match hosted(kind, item) {
                    Some(call) => found.calls.push(call),
                    None => return Err(Malformed::unsupported_part(kind)),
                },
                None => {
                    return Err(Malformed::not_a("a text", "the `type` of an item", &item["type"]));
                }
            }
        }
        Ok(found)
    }

    /// Adds a message. The texts of several messages are separate lines. Fails if the message or a part is malformed.
    fn message(&mut self, content: &Value) -> Result<(), Malformed> {
        let Value::Array(parts) = content else { return Err(Malformed::no_text(content)) };
        self.has_message = true;
        let mut text = String::new();
        for it in parts {
            match it["type"].as_str() {
                Some("output_text") => {
                    text.push_str(part::text_at(it, "text")?);
                    self.add_log_probs(&it["logprobs"]);
                }
                Some("refusal") => {
                    let refusal = part::text_at(it, "refusal")?;
                    self.refusal.get_or_insert_default().push_str(refusal);
                }
                Some(kind) => return Err(Malformed::unsupported_part(kind)),
                None => {
                    return Err(Malformed::not_a("a text", "the `type` of a part", &it["type"]));
                }
            }
        }
        if !self.text.is_empty() && !text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&text);
        Ok(())
    }

    fn add_log_probs(&mut self, tokens: &Value) {
        let tokens = tokens.as_array().filter(|it| !it.is_empty());
        let new: Option<Vec<f64>> =
            tokens.and_then(|it| it.iter().map(|token| token["logprob"].as_f64()).collect());
        self.log_probs = self.log_probs.take().zip(new).map(|(mut all, new)| {
            all.extend(new);
            all
        });
    }
}

/// The item types for calls of tools that only xAI runs. `custom_tool_call` is a search in the posts of X.
const XAI: [&str; 5] = [
    "code_execution_call",
    "custom_tool_call",
    "view_image_call",
    "view_x_video_call",
    "x_search_call",
];

/// Returns the call of a tool that xAI ran. Its arguments are a text, which may be JSON.
fn xai_call(kind: &str, item: &Value) -> ToolCall {
    let written = ["arguments", "input"].into_iter().find_map(|it| non_empty(&item[it]));
    let arguments = written.map_or_else(
        || json!({}),
        |it| serde_json::from_str(it).unwrap_or_else(|_| json!({"input": it})),
    );
    let name = non_empty(&item["name"]).unwrap_or_else(|| kind.trim_end_matches("_call"));
    ToolCall {
        id: non_empty(&item["id"]).unwrap_or(kind).to_owned(),
        name: name.to_owned(),
        arguments,
        malformed_arguments: None,
        response: Some(json!({"status": item["status"]})),
    }
}

/// Returns the call of a tool that the API ran, with its response. Returns `None` for an unknown type.
///
/// Images are left out of responses, because they are large and no check reads them.
fn hosted(kind: &str, item: &Value) -> Option<ToolCall> {
    if XAI.contains(&kind) {
        return Some(xai_call(kind, item));
    }
    let (name, arguments, result) = match kind {
        "web_search_call" => ("web_search", item["action"].clone(), Value::Null),
        "file_search_call" => {
            ("file_search", json!({"queries": item["queries"]}), item["results"].clone())
        }
        "code_interpreter_call" => {
            ("code_interpreter", json!({"code": item["code"]}), item["outputs"].clone())
        }
        "image_generation_call" => ("image_generation", json!({}), Value::Null),
        _ => return None,
    };
    let response = if result.is_null() { json!({"status": item["status"]}) } else { result };
    Some(ToolCall {
        id: non_empty(&item["id"]).unwrap_or(kind).to_owned(),
        name: name.to_owned(),
        arguments,
        malformed_arguments: None,
        response: Some(response),
    })
}

/// Returns the call of a tool of an MCP server, with its response. Fails if the call has no name.
fn mcp_call(item: &Value) -> Result<ToolCall, Malformed> {
    let call = part::called(item, "arguments", &item["id"], "mcp_call")?;
    let error = non_empty(&item["error"]).map(|error| json!({"error": error}));
    Ok(ToolCall { response: Some(error.unwrap_or_else(|| item["output"].clone())), ..call })
}

/// Returns the reason why the model stopped. Fails if the answer is not finished.
fn finish(answer: &Value, found: &Found) -> Result<FinishReason, Malformed> {
    if found.refusal.is_some() {
        return Ok(FinishReason::Refusal);
    }
    Ok(match (answer["status"].as_str(), answer["incomplete_details"]["reason"].as_str()) {
        (Some("completed"), _) if found.calls.iter().any(|it| it.response.is_none()) => {
            FinishReason::ToolCalls
        }
        (Some("completed"), _) => FinishReason::Stop,
        (Some("incomplete"), Some("max_output_tokens")) => FinishReason::Length,
        (Some("incomplete"), Some("content_filter")) => FinishReason::ContentFilter,
        (Some("incomplete"), reason) => {
            FinishReason::Other(reason.unwrap_or("incomplete").to_owned())
        }
        (Some(status @ ("queued" | "in_progress" | "cancelled" | "failed")), _) => {
            return Err(Malformed::unsupported(format!("the answer has the status `{status}`")));
        }
        (other, _) => FinishReason::Other(other.unwrap_or("unknown").to_owned()),
    })
}

fn usage(usage: &Value) -> Usage {
    let [input, output, total] =
        ["input_tokens", "output_tokens", "total_tokens"].map(|key| counted(&usage[key]));
    let cached = counted(&usage["input_tokens_details"]["cached_tokens"]);
    Usage::counted(input, output, total, cached)
}

fn rule(facts: &Facts) -> Option<ProviderErrorKind> {
    // An answer with the status `failed` has its error in a response with the status 200.
    if facts.is("rate_limit_exceeded") {
        return Some(ProviderErrorKind::RateLimited);
    }
    facts.is("invalid_prompt").then_some(ProviderErrorKind::ContentFilter)
}
