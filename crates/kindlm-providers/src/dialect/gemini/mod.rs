//! The dialect of Google's Gemini API.

mod schema;

use kindlm_types::{
    ActionStatus, Embedding, Event, FinishReason, Media, MediaKind, Message, Problem, Prompt,
    ProviderError, ProviderErrorKind, Reply, Role, Speaker, ToolCall, ToolChoice, Usage,
};
use serde_json::{Map, Value, json};

use crate::dialect::address::{Address, segment};
use crate::dialect::answer::{Reader, counted, non_empty};
use crate::dialect::content::{self, PartForms, Refused};
use crate::dialect::failure::Facts;
use crate::dialect::part::{self, Malformed};
use crate::dialect::{chat, settings};
use crate::{Codec, HeaderValue, HttpRequest, HttpResponse, Method};

/// The settings of a codec of this dialect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// The environment variable of the key.
    pub(crate) key: String,
    pub(crate) base_url: Option<String>,
    pub(crate) body: Map<String, Value>,
    pub(crate) hosted_tools: Vec<Map<String, Value>>,
    pub(crate) system_instruction: Vec<String>,
}

const BASE: &str = "https://generativelanguage.googleapis.com/v1beta";
const EMBEDDING_MODEL: &str = "gemini-embedding-001";
/// The placeholder that Google documents for a missing thought signature. Gemini 3 requires a signature with the first
/// call of a message, but a `ToolCall` cannot store one.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The keys that `body` must not contain. KindLM sets these keys, or relies on their defaults to read the answer.
const TAKEN: [&str; 9] = [
    "contents",
    "systemInstruction",
    "system_instruction",
    "tools",
    "generation_config",
    "generationConfig/maxOutputTokens",
    "generationConfig/max_output_tokens",
    "generationConfig/candidateCount",
    "generationConfig/candidate_count",
];

/// The codec of this dialect.
#[derive(Debug)]
pub(crate) struct Gemini {
    address: Address,
    key: String,
    body: Map<String, Value>,
    hosted: Vec<Map<String, Value>>,
    system: Vec<String>,
}

impl Gemini {
    /// Checks the settings, and returns the codec. Fails with the problems of the settings.
    pub(crate) fn new(options: Options) -> Result<Self, Vec<Problem>> {
        settings::check(Some(&options.key), options.base_url.as_deref())?;
        settings::check_body(&options.body, &TAKEN)?;
        check_hosted(&options.hosted_tools)?;
        let address = Address::new(options.base_url.as_deref().unwrap_or(BASE), "", "/models");
        let (hosted, system) = (options.hosted_tools, options.system_instruction);
        Ok(Self { address, key: options.key, body: options.body, hosted, system })
    }

    fn request(&self, model: &str, verb: &str, body: Value) -> HttpRequest {
        // Google also lists models with a prefix: `models/…` and `tunedModels/…`.
        let (folder, name) = model.split_once('/').unwrap_or(("models", model));
        let url = self.address.at(&format!("/{}/{}:{verb}", segment(folder), segment(name)));
        let key = HeaderValue::FromEnv { prefix: "", variable: self.key.clone() };
        let headers = vec![settings::json_header(), ("x-goog-api-key".to_owned(), key)];
        HttpRequest { method: Method::Post, url, headers, body, ..HttpRequest::default() }
    }

    fn reader(&self) -> Reader<'_> {
        Reader { provider: "gemini", key: Some(&self.key), rule }
    }
}

impl Codec for Gemini {
    fn provider(&self) -> &'static str {
        "gemini"
    }

    fn encode(&self, prompt: &Prompt) -> Result<HttpRequest, ProviderError> {
        let mut body = Map::new();
        chat::put(&mut body, "contents", Some(contents(prompt)?));
        chat::put(&mut body, "generationConfig", Some(generation_config(prompt)));
        chat::put(&mut body, "systemInstruction", system(prompt, &self.system)?);
        let tools = tools(prompt, &self.hosted);
        if !tools.is_empty() {
            chat::put(&mut body, "tools", Some(Value::Array(tools)));
        }
        if !prompt.tools.is_empty() {
            chat::put(&mut body, "toolConfig", prompt.tool_choice.as_ref().map(tool_config));
        }
        settings::add_body(&mut body, &self.body, prompt);
        Ok(self.request(&prompt.model, "generateContent", Value::Object(body)))
    }

    fn decode(&self, prompt: &Prompt, response: &HttpResponse) -> Result<Reply, ProviderError> {
        let answer = self.reader().object(response)?;
        let candidate = &answer["candidates"][0];
        let parts = parts(&candidate["content"], prompt);
        let (text, tool_calls, image) = self.reader().read_part(parts, response)?;
        let image = image.and_then(|it| Media::of_data_url(MediaKind::Image, &it));
        let blocked = non_empty(&answer["promptFeedback"]["blockReason"]);
        if blocked.is_none() {
            self.reader().message_part(candidate, response)?;
        }
        let has_calls = tool_calls.iter().any(|it| it.response.is_none());
        let finish_reason = match blocked {
            Some(_) => FinishReason::ContentFilter,
            None => finish(&candidate["finishReason"], has_calls),
        };
        Ok(Reply {
            events: events(&tool_calls, &text),
            tool_calls,
            usage: usage(&answer["usageMetadata"]),
            finish_reason,
            model: chat::model(&answer["modelVersion"], prompt),
            refusal: blocked.map(|reason| format!("the prompt was blocked: {reason}")),
            images: image.into_iter().collect(),
            ..Reply::text(text)
        })
    }

    fn embedding_model<'m>(&self, model: &'m str) -> &'m str {
        if model.contains("embed") { model } else { EMBEDDING_MODEL }
    }

    fn encode_embedding(&self, model: &str, text: &str) -> Result<HttpRequest, ProviderError> {
        let model = self.embedding_model(model);
        let body =
            json!({"content": {"parts": [{"text": text}]}, "taskType": "SEMANTIC_SIMILARITY"});
        Ok(self.request(model, "embedContent", body))
    }

    fn decode_embedding(&self, response: &HttpResponse) -> Result<Embedding, ProviderError> {
        let answer = self.reader().object(response)?;
        let tokens = &answer["usageMetadata"]["promptTokenCount"];
        self.reader().embedding(&answer["embedding"]["values"], tokens, response)
    }
}

/// Checks that the configuration of the tools that Google runs contains no secret. Fails with the first problem.
pub(crate) fn check_hosted(tools: &[Map<String, Value>]) -> Result<(), Vec<Problem>> {
    let help = "requests are stored, and the key with them: use a tool that needs none";
    let check = |(at, tool)| settings::check_secrets(&format!("/hostedTools/{at}"), tool, help);
    tools.iter().enumerate().try_for_each(check)
}

/// Returns the tools that Google runs and the functions of the test; empty without tools.
pub(crate) fn tools(prompt: &Prompt, hosted: &[Map<String, Value>]) -> Vec<Value> {
    let mut tools: Vec<Value> = hosted.iter().cloned().map(Value::Object).collect();
    if !prompt.tools.is_empty() {
        let declarations: Vec<Value> = prompt.tools.iter().map(schema::declaration).collect();
        tools.push(json!({"functionDeclarations": declarations}));
    }
    tools
}

/// Returns the instructions of the provider and the system messages of the prompt; `None` without both. Fails if a
/// system message has a part that is not text.
pub(crate) fn system(prompt: &Prompt, own: &[String]) -> Result<Option<Value>, ProviderError> {
    let mut parts: Vec<Value> = own.iter().map(|it| json!({"text": it})).collect();
    for message in prompt.messages.iter().filter(|it| it.role == Role::System) {
        content::check_system("gemini", message)?;
        parts.push(json!({"text": message.content}));
    }
    Ok((!parts.is_empty()).then(|| json!({"parts": parts})))
}

/// The encoders of message parts for this API. promptfoo accepts a raw text in OpenAI's format, so such a text is
/// converted to Google's format.
const FORMS: PartForms = PartForms {
    provider: "gemini",
    text: |text| json!({"text": text}),
    media,
    raw: |value| match (value["type"].as_str(), &value["text"]) {
        (Some("text"), Value::String(text)) => json!({"text": text}),
        _ => value.clone(),
    },
};

/// Encodes an image, a sound or a file in Google's format.
fn media(media: &Media) -> Result<Value, Refused> {
    Ok(match (&media.url, &media.media_type) {
        (None, _) => {
            json!({"inlineData": {"mimeType": content::media_type(media)?, "data": content::data(media)?}})
        }
        (Some(url), Some(kind)) => json!({"fileData": {"mimeType": kind, "fileUri": url}}),
        (Some(url), None) => json!({"fileData": {"fileUri": url}}),
    })
}

/// Returns the conversation in Gemini's format, without system messages. Consecutive tool results share one content,
/// because Gemini requires all results of a turn together.
pub(crate) fn contents(prompt: &Prompt) -> Result<Vec<Value>, ProviderError> {
    let mut out: Vec<Value> = Vec::new();
    let mut after_result = false;
    for message in prompt.messages.iter().filter(|it| it.role != Role::System) {
        let is_result = message.role == Role::Tool;
        let open = out
            .last_mut()
            .filter(|_| is_result && after_result)
            .and_then(|it| it["parts"].as_array_mut());
        match (is_result, open) {
            (true, Some(open)) => open.push(result(message)),
            (true, None) => out.push(json!({"role": "function", "parts": [result(message)]})),
            (false, _) => out.push(turn(message, thinks(&prompt.model))?),
        }
        after_result = is_result;
    }
    Ok(out)
}

/// Returns a tool's result as an object, as Gemini requires. Other values are wrapped in `result`.
fn result(message: &Message) -> Value {
    let response = match serde_json::from_str::<Value>(&message.content) {
        Ok(object @ Value::Object(_)) => object,
        Ok(other) => json!({"result": other}),
        Err(_) => json!({"result": message.content}),
    };
    let name = message.tool_name.as_deref().unwrap_or("unknown");
    json!({"functionResponse": {"name": name, "response": response}})
}

fn turn(message: &Message, thinks: bool) -> Result<Value, ProviderError> {
    let role = if message.role == Role::Assistant { "model" } else { "user" };
    let has_text = !message.content.is_empty() || message.tool_calls.is_empty();
    let texts = match message.parts.as_slice() {
        [] if has_text => vec![json!({"text": message.content})],
        [] => Vec::new(),
        _ => FORMS.encode_parts(message)?,
    };
    let calls = message.tool_calls.iter().enumerate().map(|(index, call)| {
        let mut part =
            json!({"functionCall": {"name": call.name, "args": chat::arguments_object(call)}});
        if thinks && index == 0 {
            part["thoughtSignature"] = json!(NO_SIGNATURE);
        }
        part
    });
    Ok(json!({"role": role, "parts": texts.into_iter().chain(calls).collect::<Vec<_>>()}))
}

/// Returns true if the model requires thought signatures: Gemini 3 and later.
fn thinks(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.strip_prefix("gemini-")
        .and_then(|rest| rest.split(['-', '.']).next())
        .and_then(|major| major.parse::<u32>().ok())
        .is_some_and(|major| major >= 3)
}

/// Returns the sampling parameters, and the form of the answer.
pub(crate) fn generation_config(prompt: &Prompt) -> Map<String, Value> {
    let params = &prompt.params;
    let mut config = Map::new();
    chat::put(&mut config, "temperature", params.temperature);
    chat::put(&mut config, "maxOutputTokens", params.max_tokens);
    chat::put(&mut config, "topP", params.top_p);
    chat::put(&mut config, "stopSequences", chat::stop(prompt));
    chat::put(&mut config, "seed", params.seed);
    if let Some(format) = &prompt.response_format {
        chat::put(&mut config, "responseMimeType", Some("application/json"));
        let (key, schema) = schema::place(&format.schema, "responseSchema", "responseJsonSchema");
        chat::put(&mut config, key, Some(schema));
    }
    config
}

/// Encodes the tool choice in Gemini's format.
pub(crate) fn tool_config(choice: &ToolChoice) -> Value {
    let mode = match choice {
        ToolChoice::Auto => "AUTO",
        ToolChoice::Required => "ANY",
        ToolChoice::None => "NONE",
    };
    json!({"functionCallingConfig": {"mode": mode}})
}

/// The keys of parts that hold neither text nor calls: media and annotations.
pub(crate) const SILENT: [&str; 6] =
    ["inlineData", "fileData", "thought", "thoughtSignature", "videoMetadata", "partMetadata"];

/// The text, the calls, and the first image of an answer, as a data URL.
type Parts = (String, Vec<ToolCall>, Option<String>);

/// Returns the text, the calls and the image of the parts of an answer, without thoughts. If the answer has only an
/// image, its data URL is the text. Every call gets a generated id, because Gemini may omit ids. Fails at the first
/// malformed or unsupported part.
fn parts(content: &Value, prompt: &Prompt) -> Result<Parts, Malformed> {
    let mut texts: Vec<&str> = Vec::new();
    let mut image = None;
    let mut calls = Vec::new();
    let before = part::calls_before(prompt);
    let code_id = format!("gemini_code_{}", prompt.messages.len());
    if !content.is_null() && !content.is_object() {
        return Err(Malformed::not_a("an object", "the `content` of the answer", content));
    }
    let parts = match &content["parts"] {
        Value::Null => &[][..],
        Value::Array(parts) => parts,
        other => return Err(Malformed::no_text(other)),
    };
    for written in parts {
        let Value::Object(members) = written else {
            return Err(Malformed::not_a("an object", "a part of the answer", written));
        };
        if add_code_execution(written, &code_id, &mut calls)? {
            continue;
        }
        let call = &written["functionCall"];
        if !call.is_null() {
            let made_up = format!("gemini_call_{}", before + functions(&calls));
            calls.push(part::called(call, "args", &Value::Null, &made_up)?);
        }
        if members.contains_key("text") {
            let text_part = part::text_at(written, "text")?;
            texts.extend(Some(text_part).filter(|_| written["thought"] != true));
        } else if call.is_null()
            && let Some(kind) = members.keys().find(|it| !SILENT.contains(&it.as_str()))
        {
            return Err(Malformed::unsupported_part(kind));
        }
        if written["thought"] != true && image.is_none() {
            image = image_of(&written["inlineData"]);
        }
    }
    let text = match &image {
        Some(image) if texts.concat().is_empty() => image.clone(),
        // In an answer with images, each text part is a paragraph.
        Some(_) => texts.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n\n"),
        None => texts.concat(),
    };
    Ok((text, calls, image))
}

/// The name of a call for code that Google has executed, with its tool `codeExecution`.
const CODE_EXECUTION: &str = "code_execution";

/// The outcome of code without a result.
const NO_OUTCOME: &str = "OUTCOME_UNSPECIFIED";

/// Returns the outcome of executed code; `None` for the other calls.
fn outcome(call: &ToolCall) -> Option<&str> {
    let outcome = call.response.as_ref()?["outcome"].as_str();
    outcome.filter(|_| call.name == CODE_EXECUTION)
}

/// Returns the response of executed code before its result is read. Without a response, the call would count as open.
fn no_result() -> Value {
    json!({"outcome": NO_OUTCOME})
}

/// Returns the number of calls that are not executed code. Only these calls are in the messages of later requests.
pub(crate) fn functions(calls: &[ToolCall]) -> usize {
    calls.iter().filter(|it| outcome(it).is_none()).count()
}

/// Reads a part about executed code. The code becomes a call, and a result becomes the response of the call. Code
/// without an id gets the id `<made_up>_<n>`, where `n` is the number of earlier code parts. A result without an id
/// belongs to the first code without a result.
///
/// Returns false if the part has neither code nor a result. Fails for a result without its code.
pub(crate) fn add_code_execution(
    part: &Value,
    made_up: &str,
    calls: &mut Vec<ToolCall>,
) -> Result<bool, Malformed> {
    let (code, result) = (&part["executableCode"], &part["codeExecutionResult"]);
    if code.is_object() {
        let number = calls.len() - functions(calls);
        let id = non_empty(&code["id"]).map(str::to_owned);
        calls.push(ToolCall {
            id: id.unwrap_or_else(|| format!("{made_up}_{number}")),
            name: CODE_EXECUTION.to_owned(),
            arguments: json!({"language": code["language"], "code": code["code"]}),
            malformed_arguments: None,
            response: Some(no_result()),
        });
        return Ok(true);
    }
    if !result.is_object() {
        return Ok(false);
    }
    let (id, none) = (non_empty(&result["id"]), Some(no_result()));
    let is_its_call = |it: &&mut ToolCall| {
        it.name == CODE_EXECUTION && it.response == none && id.is_none_or(|id| it.id == id)
    };
    let Some(call) = calls.iter_mut().find(is_its_call) else {
        return Err(Malformed::faulty("a `codeExecutionResult` has no `executableCode`"));
    };
    let mut result = result.clone();
    if !result["outcome"].is_string() {
        result["outcome"] = json!(NO_OUTCOME);
    }
    call.response = Some(result);
    Ok(true)
}

/// Returns the events of an answer with executed code; empty for other answers, because their calls and text suffice.
///
/// Code that did not succeed is a failed action. Code without a result has no result event.
pub(crate) fn events(calls: &[ToolCall], text: &str) -> Vec<Event> {
    if functions(calls) == calls.len() {
        return Vec::new();
    }
    let mut events = Event::of_calls(calls);
    let is_code = |id: &str| calls.iter().any(|it| it.id == id && outcome(it).is_some());
    let none = Some(no_result());
    events.retain_mut(|event| {
        let Event::ActionResult { call_id, output, status } = event else { return true };
        if !is_code(call_id) {
            return true;
        }
        let outcome = output.as_ref().and_then(|it| it["outcome"].as_str());
        if outcome != Some("OUTCOME_OK") {
            *status = ActionStatus::Failed;
        }
        *output != none
    });
    if !text.is_empty() {
        events.push(Event::Message { role: Speaker::Assistant, text: text.to_owned() });
    }
    events
}

/// Returns an image as a data URL; `None` for data of another kind.
fn image_of(data: &Value) -> Option<String> {
    let (kind, bytes) = (data["mimeType"].as_str().unwrap_or("image/png"), data["data"].as_str()?);
    kind.starts_with("image/").then(|| format!("data:{kind};base64,{bytes}"))
}

/// Returns the reason why the model stopped. The API has no reason for calls, so a normal end with calls is
/// `ToolCalls`.
fn finish(word: &Value, has_calls: bool) -> FinishReason {
    match word.as_str() {
        None | Some("STOP") if has_calls => FinishReason::ToolCalls,
        Some("STOP") => FinishReason::Stop,
        Some("MAX_TOKENS") => FinishReason::Length,
        Some(
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY",
        ) => FinishReason::ContentFilter,
        other => FinishReason::Other(other.unwrap_or("unknown").to_owned()),
    }
}

/// Returns the token usage. Google bills thoughts as output, and the results of its own tools as input.
fn usage(usage: &Value) -> Usage {
    let [input, candidates, thoughts, total] =
        ["promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount"]
            .map(|key| counted(&usage[key]));
    let tools = counted(&usage["toolUsePromptTokenCount"]).unwrap_or(0);
    let input = input.map(|it| it.saturating_add(tools));
    let output = match (candidates, thoughts) {
        // Gemini omits counts of 0, but not the total.
        (None, None) => total.filter(|it| Some(*it) == input).map(|_| 0),
        (candidates, thoughts) => {
            Some(candidates.unwrap_or(0).saturating_add(thoughts.unwrap_or(0)))
        }
    };
    Usage::counted(input, output, total, counted(&usage["cachedContentTokenCount"]))
}

/// Returns the kind of an error that differs in this API; `None` for any other error.
pub(crate) fn rule(facts: &Facts) -> Option<ProviderErrorKind> {
    let is_key =
        facts.status == 403 || (facts.status == 400 && facts.message_contains(&["api key"]));
    is_key.then_some(ProviderErrorKind::Auth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_hosted_tools_count_as_input() {
        let counts = json!({
            "promptTokenCount": 5, "toolUsePromptTokenCount": 2, "candidatesTokenCount": 7, "totalTokenCount": 14,
        });
        assert_eq!(usage(&counts), Usage::counted(Some(7), Some(7), Some(14), None));
    }

    #[test]
    fn a_result_belongs_to_its_executed_code() {
        let code = |id: &str| json!({"executableCode": {"id": id, "code": "1"}});
        let result =
            |id: &str, output: &str| json!({"codeExecutionResult": {"id": id, "output": output}});
        let mut calls = vec![ToolCall { name: CODE_EXECUTION.to_owned(), ..ToolCall::default() }];
        let parts = [code("a"), code("b"), result("b", "b"), result("a", "a"), code(""), code("")];
        for part in parts.into_iter().chain([result("", "c"), result("", "d"), code("e")]) {
            assert_eq!(add_code_execution(&part, "made_up", &mut calls), Ok(true), "{part}");
        }
        let found: Vec<_> = calls.iter().map(|it| (it.id.as_str(), it.response.as_ref())).collect();
        let done =
            |id: &str, output: &str| json!({"id": id, "output": output, "outcome": NO_OUTCOME});
        let [a, b, c, d] = [done("a", "a"), done("b", "b"), done("", "c"), done("", "d")];
        // A function of the test may have the name of the tool, and the last code has no result.
        assert_eq!(
            found,
            [
                ("", None),
                ("a", Some(&a)),
                ("b", Some(&b)),
                ("made_up_2", Some(&c)),
                ("made_up_3", Some(&d)),
                ("e", Some(&no_result())),
            ]
        );
        for id in ["a", "f"] {
            assert!(add_code_execution(&result(id, "f"), "made_up", &mut calls).is_err(), "{id}");
        }
        assert_eq!(add_code_execution(&json!({"text": "x"}), "made_up", &mut calls), Ok(false));
    }

    #[test]
    fn knows_the_models_that_sign_their_thoughts() {
        for (model, expected) in [
            ("gemini-3-pro-preview", true),
            ("models/gemini-3.1-flash", true),
            ("gemini-2.5-pro", false),
            ("gemini-pro", false),
            ("m-1", false),
        ] {
            assert_eq!(thinks(model), expected, "{model}");
        }
    }
}
