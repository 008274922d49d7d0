//! `bedrock`: the Converse API of Amazon Bedrock, and its embedding models.

mod parts;

use kindlm_transport::KEY_COMMAND;
use kindlm_types::{
    Embedding, FinishReason, Message, Problem, Prompt, ProviderError, ProviderErrorKind, Reply,
    Role, ToolCall, ToolChoice, Usage,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::StructuredOutput;
use crate::dialect::address::{Address, segment};
use crate::dialect::answer::{Reader, counted};
use crate::dialect::failure::Facts;
use crate::dialect::part::{self, Malformed};
use crate::dialect::{chat, content, settings};
use crate::form::FormChoice;
use crate::{AwsAuth, Codec, HttpRequest, HttpResponse, Kind, Meta, Method, Registration};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "bedrock",
        summary: "Every model of Amazon Bedrock, by its Converse API.",
        since: "0.1.0",
        // AWS needs several variables instead of one key; see `AwsAuth`.
        key_variable: None,
        shorthand: true,
        wraps_agent: false,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Http(|config| Ok(Box::new(Bedrock::new(settings::parse_config(config)?)?))),
};

/// The settings of Amazon Bedrock.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "BedrockConfig", transform = settings::with_key_command)]
struct Config {
    /// The name of the environment variable that holds an API key of Bedrock, which replaces the credentials of AWS.
    /// `AWS_BEARER_TOKEN_BEDROCK` by default, if it is set.
    #[serde(default)]
    #[schemars(length(min = 1))]
    api_key_env: Option<String>,
    /// The command line that prints credentials of AWS as JSON, as `aws configure export-credentials` does. It replaces
    /// the credentials of the environment.
    #[serde(default)]
    #[schemars(length(min = 1))]
    credentials_command: Option<String>,
    /// The region of AWS; `us-east-1` by default.
    #[serde(default)]
    #[schemars(length(min = 1))]
    region: Option<String>,
    /// The base address, before `/model`; the address of the region by default.
    #[serde(default)]
    #[schemars(url)]
    base_url: Option<String>,
    /// Additional keys for the body of chat requests, as in the API. If KindLM sends an object under the same key, the
    /// two objects are merged.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    body: Map<String, Value>,
    /// The form in which judges request JSON: `schema` (a tool that the model must call), `tool` (the model must call
    /// any tool, for models that reject the choice of a tool) or `none` (instructions alone). By default, KindLM
    /// starts with `schema`, and uses the next form when the model rejects one.
    #[serde(default)]
    structured_output: Option<StructuredOutput>,
}

const REGION: &str = "us-east-1";
const KEY: &str = "AWS_BEARER_TOKEN_BEDROCK";
const EMBEDDING_MODEL: &str = "amazon.titan-embed-text-v2:0";

/// The keys that `body` must not contain. KindLM sets these keys, or relies on their defaults to read the answer.
const TAKEN: [&str; 5] =
    ["modelId", "messages", "system", "toolConfig/tools", "inferenceConfig/maxTokens"];

#[derive(Debug)]
struct Bedrock {
    address: Address,
    auth: AwsAuth,
    body: Map<String, Value>,
    form: FormChoice,
}

impl Bedrock {
    fn new(config: Config) -> Result<Self, Vec<Problem>> {
        settings::check(config.api_key_env.as_deref(), config.base_url.as_deref())?;
        settings::check_body(&config.body, &TAKEN)?;
        if let Some(line) = &config.credentials_command {
            if let Some(problem) = settings::check_command("/credentialsCommand", line) {
                return Err(vec![problem]);
            }
            if let Some(key) = &config.api_key_env {
                let other = if key == KEY_COMMAND { KEY_COMMAND } else { "apiKeyEnv" };
                return Err(vec![settings::either("credentialsCommand", other)]);
            }
        }
        let region = config.region.unwrap_or_else(|| REGION.to_owned());
        settings::check_name("/region", &region)?;
        let usual = format!("https://bedrock-runtime.{region}.amazonaws.com");
        let address = Address::new(config.base_url.as_deref().unwrap_or(&usual), "", "/model");
        let usual = config.credentials_command.is_none().then(|| KEY.to_owned());
        let key = config.api_key_env.or(usual);
        Ok(Self {
            address,
            auth: AwsAuth::new("bedrock", region, key),
            body: config.body,
            form: config.structured_output.map_or(FormChoice::Automatic, FormChoice::Fixed),
        })
    }

    fn request(&self, model: &str, verb: &str, body: Value) -> HttpRequest {
        // The signature covers the path, in which AWS escapes colons too.
        let model = segment(model).replace(':', "%3A");
        HttpRequest {
            method: Method::Post,
            url: self.address.at(&format!("/model/{model}/{verb}")),
            headers: vec![settings::json_header()],
            body,
            aws: Some(self.auth.clone()),
            ..HttpRequest::default()
        }
    }

    /// Returns the reader of answers. Its `key` is `None`, because the transport's own error names the variables of the
    /// credentials.
    fn reader() -> Reader<'static> {
        Reader { provider: "bedrock", key: None, rule }
    }
}

impl Codec for Bedrock {
    fn provider(&self) -> &'static str {
        "bedrock"
    }

    fn form(&self, _model: &str) -> FormChoice {
        self.form
    }

    fn encode(&self, prompt: &Prompt) -> Result<HttpRequest, ProviderError> {
        let systems = prompt.messages.iter().filter(|it| it.role == Role::System);
        systems.into_iter().try_for_each(|it| content::check_system("bedrock", it))?;
        let mut body = Map::new();
        chat::put(&mut body, "messages", Some(messages(prompt)?));
        chat::put(&mut body, "system", system(prompt));
        chat::put(&mut body, "inferenceConfig", inference_config(prompt));
        chat::put(&mut body, "toolConfig", tool_config(prompt)?);
        settings::add_body(&mut body, &self.body, prompt);
        // The configured `body` may have `toolConfig/toolChoice`, which the API rejects in a request without tools.
        if body.get("toolConfig").is_some_and(|it| it["tools"].is_null()) {
            body.shift_remove("toolConfig");
        }
        Ok(self.request(&prompt.model, "converse", Value::Object(body)))
    }

    fn decode(&self, prompt: &Prompt, response: &HttpResponse) -> Result<Reply, ProviderError> {
        let reader = Self::reader();
        let answer = reader.object(response)?;
        let message = reader.message_part(&answer["output"]["message"], response)?;
        let (mut text, mut tool_calls) =
            reader.read_part(blocks(&message["content"], part::calls_before(prompt)), response)?;
        let mut finish_reason = finish(&answer["stopReason"]);
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
        Ok(Reply {
            tool_calls,
            usage: usage(&answer["usage"]),
            finish_reason,
            // The API does not report the model.
            model: prompt.model.clone(),
            ..Reply::text(text)
        })
    }

    fn embedding_model<'m>(&self, model: &'m str) -> &'m str {
        if model.contains("embed") { model } else { EMBEDDING_MODEL }
    }

    fn encode_embedding(&self, model: &str, text: &str) -> Result<HttpRequest, ProviderError> {
        let model = self.embedding_model(model);
        let body = if model.contains("cohere.") {
            json!({"texts": [text], "input_type": "clustering", "embedding_types": ["float"]})
        } else {
            json!({"inputText": text})
        };
        Ok(self.request(model, "invoke", body))
    }

    fn decode_embedding(&self, response: &HttpResponse) -> Result<Embedding, ProviderError> {
        let answer = Self::reader().object(response)?;
        let vectors = [&answer["embedding"], &answer["embeddings"]["float"][0]];
        let vector = vectors.into_iter().find(|it| !it.is_null()).unwrap_or(&Value::Null);
        // Titan models also report the token count in the body.
        let header = response.header("x-amzn-bedrock-input-token-count").map(Value::from);
        let tokens = header.as_ref().unwrap_or(&answer["inputTextTokenCount"]);
        Self::reader().embedding(vector, tokens, response)
    }
}

/// Returns the system messages; `None` without system messages.
fn system(prompt: &Prompt) -> Option<Value> {
    let system = prompt.messages.iter().filter(|it| it.role == Role::System);
    let parts: Vec<Value> = system.map(|it| json!({"text": it.content})).collect();
    (!parts.is_empty()).then(|| Value::Array(parts))
}

/// Returns the conversation without system messages. Consecutive messages of one role become one message, because the
/// API requires that the roles alternate.
fn messages(prompt: &Prompt) -> Result<Vec<Value>, ProviderError> {
    let mut out: Vec<Value> = Vec::new();
    for message in prompt.messages.iter().filter(|it| it.role != Role::System) {
        let role = if message.role == Role::Assistant { "assistant" } else { "user" };
        let blocks = content(message)?;
        let open = out.last_mut().filter(|it| it["role"] == role);
        match open.and_then(|it| it["content"].as_array_mut()) {
            Some(open) => open.extend(blocks),
            None => out.push(json!({"role": role, "content": blocks})),
        }
    }
    Ok(out)
}

/// Returns the blocks of a message. The API rejects an empty text beside calls.
fn content(message: &Message) -> Result<Vec<Value>, ProviderError> {
    if message.role == Role::Tool {
        return Ok(vec![json!({"toolResult": {
            "toolUseId": message.tool_call_id,
            "content": [{"text": message.content}],
        }})]);
    }
    if !message.parts.is_empty() {
        return parts::blocks(message);
    }
    let has_text = !message.content.is_empty() || message.tool_calls.is_empty();
    let text = has_text.then(|| json!({"text": message.content}));
    let calls = message.tool_calls.iter().map(|call| {
        let input = chat::arguments_object(call);
        json!({"toolUse": {"toolUseId": call.id, "name": call.name, "input": input}})
    });
    Ok(text.into_iter().chain(calls).collect())
}

/// Returns the sampling parameters; `None` without parameters.
fn inference_config(prompt: &Prompt) -> Option<Value> {
    let params = &prompt.params;
    let mut config = Map::new();
    chat::put(&mut config, "maxTokens", params.max_tokens);
    chat::put(&mut config, "temperature", params.temperature);
    chat::put(&mut config, "topP", params.top_p);
    chat::put(&mut config, "stopSequences", chat::stop(prompt));
    (!config.is_empty()).then_some(Value::Object(config))
}

/// Returns the name of the tool whose input is the structured answer. Returns `None` if the prompt requests free text.
fn answer_tool(prompt: &Prompt) -> Option<String> {
    prompt.response_format.as_ref().map(|format| chat::schema_name(&format.name))
}

/// Returns the tools and the choice among them; `None` without tools. Fails for `toolChoice: none` after a tool call,
/// because the API requires the tools of earlier calls.
fn tool_config(prompt: &Prompt) -> Result<Option<Value>, ProviderError> {
    let forbidden = prompt.tool_choice == Some(ToolChoice::None);
    let spec = |name: &str, description: &str, schema: Value| json!({"toolSpec": {"name": name, "description": description, "inputSchema": {"json": schema}}});
    let empty = || json!({"type": "object", "properties": {}});
    let mut tools: Vec<Value> = prompt
        .tools
        .iter()
        .filter(|_| !forbidden)
        .map(|tool| {
            // The API rejects an empty description.
            let description = tool.description.as_deref().filter(|it| !it.is_empty());
            let schema = tool.parameters.clone().unwrap_or_else(empty);
            spec(&tool.name, description.unwrap_or(&tool.name), schema)
        })
        .collect();
    if forbidden && part::calls_before(prompt) > 0 {
        return Err(ProviderError::new(
            ProviderErrorKind::Unsupported,
            "bedrock",
            "`toolChoice: none` after a tool call is unsupported: Converse needs the tools of a conversation with calls",
        ));
    }
    let choice = match (answer_tool(prompt), tools.is_empty(), &prompt.tool_choice) {
        (Some(name), true, _) => Some(json!({"tool": {"name": name}})),
        (Some(_), false, _) | (None, false, Some(ToolChoice::Required)) => Some(json!({"any": {}})),
        (None, false, Some(ToolChoice::Auto)) => Some(json!({"auto": {}})),
        _ => None,
    };
    if let (Some(name), Some(format)) = (answer_tool(prompt), &prompt.response_format) {
        tools.push(spec(&name, "Gives the answer.", format.schema.clone()));
    }
    if tools.is_empty() {
        return Ok(None);
    }
    let mut config = Map::new();
    chat::put(&mut config, "tools", Some(tools));
    chat::put(&mut config, "toolChoice", choice);
    Ok(Some(Value::Object(config)))
}

/// The blocks that hold neither text of the answer nor calls. `citationsContent` is not in the list, because its text
/// belongs to the answer.
const SILENT: [&str; 5] = ["reasoningContent", "image", "video", "audio", "document"];

/// Returns the text and the tool calls of content blocks. Fails at the first malformed or unsupported block.
fn blocks(content: &Value, before: usize) -> Result<(String, Vec<ToolCall>), Malformed> {
    let mut text = String::new();
    let mut calls = Vec::new();
    for block in content.as_array().ok_or_else(|| Malformed::no_text(content))? {
        let Value::Object(members) = block else {
            return Err(Malformed::not_a("an object", "a block of the answer", block));
        };
        if members.contains_key("text") {
            text.push_str(part::text_at(block, "text")?);
        } else if let Some(call) = members.get("toolUse") {
            let made_up = format!("call_{}", before + calls.len());
            calls.push(part::called(call, "input", &call["toolUseId"], &made_up)?);
        } else if let Some(cited) = members.get("citationsContent") {
            for part in cited["content"].as_array().into_iter().flatten() {
                text.push_str(part::text_at(part, "text")?);
            }
        } else if let Some(kind) = members.keys().find(|it| !SILENT.contains(&it.as_str())) {
            return Err(Malformed::unsupported_part(kind));
        }
    }
    Ok((text, calls))
}

fn finish(word: &Value) -> FinishReason {
    match word.as_str() {
        Some("end_turn") => FinishReason::Stop,
        Some("max_tokens") => FinishReason::Length,
        Some("tool_use") => FinishReason::ToolCalls,
        Some("guardrail_intervened" | "content_filtered") => FinishReason::ContentFilter,
        other => FinishReason::Other(other.unwrap_or("unknown").to_owned()),
    }
}

/// Returns the token usage. At Bedrock, `inputTokens` does not include cache reads and cache writes.
fn usage(usage: &Value) -> Usage {
    let cached = counted(&usage["cacheReadInputTokens"]);
    let written = counted(&usage["cacheWriteInputTokens"]);
    let apart = cached.unwrap_or(0).saturating_add(written.unwrap_or(0));
    let input = counted(&usage["inputTokens"]).map(|it| it.saturating_add(apart));
    let usage = Usage::counted(input, counted(&usage["outputTokens"]), None, cached);
    usage.with_cache_writes(written)
}

fn rule(facts: &Facts) -> Option<ProviderErrorKind> {
    match facts.status {
        // The credentials are unknown, expired or without permission. The permission may be missing for one model only.
        403 => Some(ProviderErrorKind::Auth),
        400 if facts
            .message_contains(&["model identifier is invalid", "model id is not valid"]) =>
        {
            Some(ProviderErrorKind::ModelNotFound)
        }
        400 if facts.message_contains(&["input is too long", "too many input tokens"]) => {
            Some(ProviderErrorKind::ContextLength)
        }
        // The model itself failed.
        424 => Some(ProviderErrorKind::Server),
        _ => None,
    }
}
