//! `http`: any HTTP API, normally with JSON requests and answers. Form bodies and plain text answers work too.

#[cfg(feature = "http")]
mod ask;
mod calls;
mod path;
mod response;
mod security;
mod session;
mod template;

use std::collections::{BTreeMap, BTreeSet};

use kindlm_template::is_template;
use kindlm_transport::KEY_COMMAND;
use kindlm_types::script::ScriptSource;
use kindlm_types::{
    DeclaredEvidence, Embedding, FinishReason, Message, Problem, Prompt, ProviderError,
    ProviderErrorKind, Reply, Role, Usage, ecma, pointer,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

#[cfg(feature = "http")]
pub(crate) use self::ask::ScriptRead;
use self::calls::CallsPath;
use self::path::Path;
#[cfg(feature = "http")]
pub(crate) use self::security::load as load_security;
use self::security::{SignatureConfig, Statuses, TlsConfig};
use self::session::{Session, SessionConfig};
use self::template::Template;
use crate::dialect::answer::{Reader, counted, excerpt};
use crate::dialect::content::{self, PartForms};
use crate::dialect::failure::Facts;
use crate::dialect::jinja::{self, Filler, Reading, with_query};
use crate::dialect::placeholder::undefined;
use crate::dialect::{chat, part, settings};
use crate::{
    AwsAuth, Codec, HeaderValue, HttpRequest, HttpResponse, Kind, Meta, Method, Registration,
};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "http",
        summary: "Any API that accepts and returns JSON.",
        since: "0.1.0",
        key_variable: None,
        shorthand: false,
        wraps_agent: true,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Http(|config| Ok(Box::new(Http::new(&settings::parse_config(config)?)?))),
};

/// The request to the API, and the paths into its answer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HttpConfig", transform = settings::with_key_command)]
struct Config {
    /// The address of the requests, as a template.
    #[schemars(length(min = 1))]
    url: String,
    /// The HTTP method; `POST` by default.
    #[serde(default)]
    method: Verb,
    /// The headers. A value that starts with `env:` or `Bearer env:` names an environment variable that holds the value
    /// or the token. Other values are templates.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The query parameters of the address; each value is a template.
    #[serde(default)]
    query_params: BTreeMap<String, String>,
    /// The body: JSON with placeholders such as `{{user}}`, as a text or as YAML; a request in OpenAI's format by
    /// default.
    #[serde(default)]
    body: Option<Value>,
    /// The template language of the body: placeholders (`plain`, the default) or Jinja (`jinja`).
    #[serde(default)]
    template: Language,
    /// A script that reads the answer, and replaces all paths: an expression of `json`, `text` and `context`, a
    /// function of these three, or a file (`file://read.js`).
    #[serde(default)]
    #[schemars(length(min = 1))]
    transform_response: Option<String>,
    /// The path of the text; `choices.0.message.content` by default.
    #[serde(default)]
    response_path: Option<String>,
    /// The path of the list of tool calls. A `?` at its end allows answers without the list.
    #[serde(default)]
    tool_calls_path: Option<String>,
    /// The paths of the token counts.
    #[serde(default)]
    usage_paths: UsagePaths,
    /// The path of the vector in the answer to an embedding request. In the body, `{{prompt}}` inserts the text to
    /// embed. An empty path selects the whole answer.
    #[serde(default)]
    embedding_path: Option<String>,
    /// The path of the name of the model that answered; `model` by default.
    #[serde(default)]
    model_id_path: Option<String>,
    /// The name of an environment variable whose value is sent as `Authorization: Bearer`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    api_key_env: Option<String>,
    /// The service and the region of AWS, for a server that requires signed requests. The credentials are in
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, if set, `AWS_SESSION_TOKEN`.
    #[serde(default)]
    aws: Option<AwsConfig>,
    /// The TLS settings: the certificates to trust, and the certificate of the client.
    #[serde(default)]
    tls: Option<TlsConfig>,
    /// The signature of each request. `{{signature}}` and `{{signatureTimestamp}}` insert it into the request.
    #[serde(default)]
    signature: Option<SignatureConfig>,
    /// The request that opens a session before each request. `{{sessionId}}` inserts the id of the session.
    #[serde(default)]
    session: Option<SessionConfig>,
    /// The statuses that are answers: `404` or `200-299`; `200-299` by default. Any other status is an error.
    #[serde(default)]
    #[schemars(length(min = 1))]
    accept_status: Option<Vec<String>>,
    /// The kinds of evidence that you declare complete in every answer. Reports show them as declared, not observed.
    #[serde(default)]
    #[expect(dead_code, reason = "`declared` reads it, for every provider")]
    evidence: Option<DeclaredEvidence>,
}

/// The service and the region of AWS for which requests are signed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HttpAws")]
struct AwsConfig {
    /// The service, such as `sagemaker`, `lambda` or `execute-api`.
    #[schemars(length(min = 1))]
    service: String,
    /// The region, such as `us-east-1`.
    #[schemars(length(min = 1))]
    region: String,
    /// The command line that prints the credentials as JSON, as `aws configure export-credentials` does. It replaces
    /// the credentials of the environment.
    #[serde(default)]
    #[schemars(length(min = 1))]
    credentials_command: Option<String>,
}

/// The template language of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "HttpTemplate")]
enum Language {
    /// JSON with placeholders: `{{user}}`.
    #[default]
    Plain,
    /// Jinja templates in each text of the body.
    Jinja,
}

/// The HTTP method of a request.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(rename = "HttpMethod")]
enum Verb {
    Get,
    #[default]
    Post,
    Put,
    Patch,
    Delete,
}

/// The paths of the token counts.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HttpUsagePaths")]
#[expect(clippy::struct_field_names, reason = "the keys of the configuration")]
struct UsagePaths {
    /// The path of the input tokens; `usage.prompt_tokens` by default.
    #[serde(default)]
    input_tokens: Option<String>,
    /// The path of the output tokens; `usage.completion_tokens` by default.
    #[serde(default)]
    output_tokens: Option<String>,
    /// The path of the total; `usage.total_tokens` by default.
    #[serde(default)]
    total_tokens: Option<String>,
}

#[derive(Debug)]
struct Http {
    url: String,
    method: Method,
    headers: Vec<(String, HeaderValue)>,
    query: Vec<(String, String)>,
    /// The environment variables in the templates.
    variables: BTreeSet<String>,
    key: Option<String>,
    aws: Option<AwsAuth>,
    /// True if requests are signed with a key.
    signs: bool,
    session: Option<Box<Session>>,
    accepted: Statuses,
    body: Option<Body>,
    reading: Option<ScriptSource>,
    text: Path,
    text_path: String,
    tool_calls: Option<CallsPath>,
    usage: [Path; 3],
    embedding: Option<Path>,
    model: Path,
}

/// A body from the configuration.
#[derive(Debug)]
enum Body {
    Plain(Template),
    Jinja(Value),
}

impl CallsPath {
    /// Returns the location of the tool calls. Returns `None` if `responsePath` is set without `toolCallsPath`: such an
    /// answer is not in OpenAI's format.
    fn from_config(config: &Config, parse: impl FnOnce(&str) -> Path) -> Option<Self> {
        let written = match (config.tool_calls_path.as_deref(), &config.response_path) {
            (Some(written), _) => written,
            (None, None) => "choices.0.message.tool_calls?",
            (None, Some(_)) => return None,
        };
        let path = written.strip_suffix('?').unwrap_or(written);
        let is_optional = path != written;
        Some(Self { path: parse(path), written: path.to_owned(), is_optional })
    }
}

/// Reads the body of the requests. Returns `None` if the body is absent or empty, or after a problem.
fn body(config: &Config, templates: &mut Reading, problems: &mut Vec<Problem>) -> Option<Body> {
    let written = config.body.as_ref().filter(|it| !it.is_null() && *it != "")?;
    match config.template {
        Language::Jinja => {
            templates.value("/body", written);
            Some(Body::Jinja(written.clone()))
        }
        Language::Plain => {
            let text = written.as_str().map_or_else(|| written.to_string(), str::to_owned);
            note(Template::parse(&text), "/body", problems).map(Body::Plain)
        }
    }
}

impl Http {
    fn new(config: &Config) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        if !is_template(&config.url) {
            problems.extend(settings::check_url("/url", &config.url));
        }
        let mut templates = Reading::default();
        templates.text("/url", &config.url);
        for (block, texts) in [("headers", &config.headers), ("queryParams", &config.query_params)]
        {
            for (name, text) in texts {
                let name = pointer::segment(name);
                templates.text(&format!("/{block}/{name}"), text);
            }
        }
        let key_env = config.api_key_env.as_deref();
        problems.extend(key_env.and_then(|it| settings::check_variable("/apiKeyEnv", it)));
        problems.extend(check_aws(config));
        problems.extend(security::check(config.tls.as_ref(), config.signature.as_ref()));
        let accepted = security::accepted(config.accept_status.as_deref(), &mut problems);
        let session = config.session.as_ref().map(Session::new).transpose();
        let session = session.unwrap_or_else(|found| {
            problems.extend(found.into_iter().map(|it| it.under("/session")));
            None
        });
        let headers = headers(config, &mut problems);
        let body = body(config, &mut templates, &mut problems);
        problems.append(&mut templates.problems);
        let reading = config
            .transform_response
            .as_deref()
            .and_then(|text| response::source(text).map_err(|problem| problems.push(problem)).ok());
        let mut path = |written: Option<&str>, default: &str, pointer: &str| {
            note(Path::parse(written.unwrap_or(default)), pointer, &mut problems)
                .unwrap_or_default()
        };
        let usage = &config.usage_paths;
        let usage = [
            path(usage.input_tokens.as_deref(), "usage.prompt_tokens", "/usagePaths/inputTokens"),
            path(
                usage.output_tokens.as_deref(),
                "usage.completion_tokens",
                "/usagePaths/outputTokens",
            ),
            path(usage.total_tokens.as_deref(), "usage.total_tokens", "/usagePaths/totalTokens"),
        ];
        let text_path = config.response_path.as_deref().unwrap_or("choices.0.message.content");
        let text = path(Some(text_path), "", "/responsePath");
        let tool_calls = CallsPath::from_config(config, |it| path(Some(it), "", "/toolCallsPath"));
        let model = path(config.model_id_path.as_deref(), "model", "/modelIdPath");
        let embedding = config.embedding_path.as_deref();
        let embedding = embedding.map(|it| path(Some(it), "", "/embeddingPath"));
        if !problems.is_empty() {
            return Err(problems);
        }
        let (url, key, text_path) =
            (config.url.clone(), config.api_key_env.clone(), text_path.to_owned());
        let aws = config.aws.clone();
        Ok(Self {
            aws: aws.map(|AwsConfig { service, region, .. }| AwsAuth::new(service, region, None)),
            signs: config.signature.is_some(),
            session: session.map(Box::new),
            accepted,
            url,
            method: config.method.into(),
            headers,
            query: config.query_params.clone().into_iter().collect(),
            variables: templates.variables,
            key,
            body,
            reading,
            text,
            text_path,
            tool_calls,
            usage,
            embedding,
            model,
        })
    }

    fn request(&self, prompt: &Prompt) -> Result<HttpRequest, String> {
        let filler = Filler::new(prompt, &self.variables, self.signs);
        let query: Vec<(String, String)> = self
            .query
            .iter()
            .map(|(name, text)| Ok((name.clone(), filler.text(text)?)))
            .collect::<Result<_, String>>()?;
        let url = with_query(&filler.text(&self.url)?, &query, &filler.marks);
        let mut headers = Vec::with_capacity(self.headers.len());
        for (name, value) in &self.headers {
            let value = match value {
                HeaderValue::Literal(text) => HeaderValue::Literal(filler.text(text)?),
                other => other.clone(),
            };
            headers.push((name.clone(), value));
        }
        let (body, is_text) = match &self.body {
            _ if matches!(self.method, Method::Get) && self.body.is_none() => (Value::Null, false),
            None => (default_body(prompt)?, false),
            Some(Body::Plain(template)) => (template.render(prompt)?, false),
            Some(Body::Jinja(Value::String(text))) if self.sends_json() => {
                match filler.json_of(text)? {
                    Some(body) => (body, false),
                    None => (filler.text(text)?.into(), true),
                }
            }
            Some(Body::Jinja(Value::String(text))) => (filler.text(text)?.trim().into(), true),
            Some(Body::Jinja(value)) => (filler.json(value)?, false),
        };
        Ok(HttpRequest {
            method: self.method,
            url,
            headers,
            body,
            is_text,
            marks: filler.marks,
            address_key: Some("url"),
            aws: self.aws.clone(),
        })
    }

    /// Returns true if the headers declare JSON as the content type.
    fn sends_json(&self) -> bool {
        self.headers.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("content-type")
                && matches!(value, HeaderValue::Literal(it) if it.contains("json"))
        })
    }

    fn reader(&self) -> Reader<'_> {
        Reader { provider: "http", key: self.key.as_deref(), rule }
    }

    fn read_usage(&self, answer: &Value) -> Usage {
        let [input, output, total] = self.usage.each_ref().map(|path| path.first(answer));
        let [input, output, total] = [input, output, total].map(|it| it.and_then(counted));
        Usage::counted(input, output, total, None)
    }
}

impl Codec for Http {
    fn provider(&self) -> &'static str {
        "http"
    }

    fn encode(&self, prompt: &Prompt) -> Result<HttpRequest, ProviderError> {
        if self.body.is_some() {
            content::texts_or_raw("http", prompt)?;
        } else if matches!(self.method, Method::Get) {
            content::texts_only("http", prompt)?;
        }
        self.request(prompt).map_err(|message| {
            ProviderError::new(ProviderErrorKind::InvalidRequest, "http", message)
        })
    }

    fn session(&self, prompt: &Prompt) -> Result<Option<HttpRequest>, ProviderError> {
        let request = self.session.as_ref().map(|it| it.request(prompt)).transpose();
        request.map_err(|message| {
            ProviderError::new(ProviderErrorKind::InvalidRequest, "http", message)
        })
    }

    fn in_session(
        &self,
        prompt: &Prompt,
        response: &HttpResponse,
    ) -> Result<Prompt, ProviderError> {
        self.session.as_ref().map_or_else(|| Ok(prompt.clone()), |it| it.opened(prompt, response))
    }

    fn reading(&self) -> Option<&ScriptSource> {
        self.reading.as_ref()
    }

    fn encode_embedding(&self, model: &str, text: &str) -> Result<HttpRequest, ProviderError> {
        let failed = |kind, message| ProviderError::new(kind, "http", message);
        if self.embedding.is_none() {
            let message =
                "this provider cannot make embeddings: set its `embeddingPath`".to_owned();
            return Err(failed(ProviderErrorKind::Unsupported, message));
        }
        let prompt = Prompt {
            model: model.to_owned(),
            messages: vec![Message::new(Role::User, text)],
            ..Prompt::default()
        };
        self.request(&prompt).map_err(|message| failed(ProviderErrorKind::InvalidRequest, message))
    }

    fn decode_embedding(&self, response: &HttpResponse) -> Result<Embedding, ProviderError> {
        let answer = self.reader().json(response).map_err(|err| whole(err, response))?;
        let found = self.embedding.as_ref().and_then(|it| it.first(&answer));
        let vector = found.map_or(&Value::Null, single_row);
        let tokens = self.usage[0].first(&answer).unwrap_or(&Value::Null);
        self.reader().embedding(vector, tokens, response)
    }

    fn accept(&self, response: &HttpResponse) -> Result<(), ProviderError> {
        if self.accepted.iter().any(|it| it.contains(&response.status)) {
            return Ok(());
        }
        if (200..300).contains(&response.status) {
            let message = format!("`acceptStatus` does not have the status {}", response.status);
            let err = ProviderError::new(ProviderErrorKind::Server, "http", message);
            return Err(err.with_status(response.status));
        }
        self.reader().json(response).map(|_| ()).map_err(|err| whole(err, response))
    }

    fn decode(&self, prompt: &Prompt, response: &HttpResponse) -> Result<Reply, ProviderError> {
        self.accept(response)?;
        // An accepted status counts as success.
        let accepted = (!(200..300).contains(&response.status)).then(|| {
            let mut accepted = response.clone();
            accepted.status = 200;
            accepted
        });
        let response = accepted.as_ref().unwrap_or(response);
        let answer = match self.reader().json(response) {
            Ok(answer) => answer,
            // An empty path selects the whole answer, and this answer is a text.
            Err(_) if self.text_path.is_empty() && is_text(response) => {
                Value::String(String::from_utf8_lossy(&response.body).into_owned())
            }
            Err(err) => return Err(whole(err, response)),
        };
        let (mut tool_calls, mut results) = (Vec::new(), Vec::new());
        if let Some(path) = &self.tool_calls {
            let reader = self.reader();
            let written = reader.read_part(path.find(&answer), response)?;
            tool_calls = reader.read_part(part::tool_calls(prompt, &written, "call_"), response)?;
            results = reader.read_part(calls::results(&mut tool_calls, &written), response)?;
        }
        let found = self.text.first(&answer);
        let text = match found {
            Some(value) => printed(value),
            None if !tool_calls.is_empty() => String::new(),
            None => {
                let what =
                    format!("`responsePath` `{}` finds nothing in the answer", self.text_path);
                return Err(self.reader().malformed(&what, response));
            }
        };
        let finish_reason = match answer.pointer("/choices/0/finish_reason") {
            Some(Value::String(word)) => chat::finish(Some(word)),
            _ if tool_calls.iter().any(|it| it.response.is_none()) => FinishReason::ToolCalls,
            _ => FinishReason::Stop,
        };
        let model = self.model.first(&answer).map(printed).filter(|it| !it.is_empty());
        Ok(Reply {
            output_json: found.filter(|it| !it.is_string() && !it.is_null()).cloned(),
            events: calls::events(&tool_calls, &results, &text),
            tool_calls,
            usage: self.read_usage(&answer),
            finish_reason,
            model: model.unwrap_or_else(|| prompt.model.clone()),
            ..Reply::text(text)
        })
    }
}

/// Returns the vector of a list with only one vector. Any other value stays unchanged.
fn single_row(vector: &Value) -> &Value {
    match vector.as_array().map(Vec::as_slice) {
        Some([row]) if row.is_array() => row,
        _ => vector,
    }
}

/// Returns the problems of `aws`: a blank `credentialsCommand`, and another setting for the header `Authorization`,
/// which the AWS signature sets.
fn check_aws(config: &Config) -> impl Iterator<Item = Problem> {
    let command = config.aws.as_ref().and_then(|it| it.credentials_command.as_deref());
    let blank = command.and_then(|it| settings::check_command("/aws/credentialsCommand", it));
    let is_set = config.headers.keys().any(|it| it.eq_ignore_ascii_case("authorization"));
    let other = match config.api_key_env.as_deref() {
        _ if is_set => Some("a header `Authorization`"),
        Some(KEY_COMMAND) => Some("`apiKeyCommand`"),
        Some(_) => Some("`apiKeyEnv`"),
        None => None,
    };
    let second = other.filter(|_| config.aws.is_some()).map(|other| {
        let message = format!("a request has either `aws` or {other}: both set `Authorization`");
        Problem::key("/aws", message).with_help("remove one of them")
    });
    blank.into_iter().chain(second)
}

/// Returns the value. For an error, adds a problem at the pointer, and returns `None`.
fn note<T>(read: Result<T, String>, pointer: &str, problems: &mut Vec<Problem>) -> Option<T> {
    read.map_err(|message| problems.push(Problem::new(pointer, message))).ok()
}

/// Returns the headers, and adds their problems to `problems`. `Content-Type`, and `Authorization` for `apiKeyEnv`,
/// come first, unless the user sets them.
fn headers(config: &Config, problems: &mut Vec<Problem>) -> Vec<(String, HeaderValue)> {
    let is_text =
        config.template == Language::Jinja && config.body.as_ref().is_some_and(Value::is_string);
    let content_type = if is_text {
        let form = HeaderValue::Literal("application/x-www-form-urlencoded".to_owned());
        ("Content-Type".to_owned(), form)
    } else {
        settings::json_header()
    };
    let bearer = config.api_key_env.as_deref().map(settings::bearer);
    let own = [content_type].into_iter().chain(bearer).collect();
    let headers = settings::headers(own, &config.headers, problems);
    problems.extend(settings::service_keys(&headers));
    headers
}

/// Returns a request body in OpenAI's format. Tool results keep the ids of their calls.
fn default_body(prompt: &Prompt) -> Result<Value, String> {
    let mut body = Map::new();
    chat::put(&mut body, "model", Some(prompt.model.clone()));
    let messages = chat::messages(prompt, PartForms::chat("http", content::openai));
    chat::put(&mut body, "messages", Some(messages.map_err(|err| err.message)?));
    chat::put(&mut body, "temperature", prompt.params.temperature);
    chat::put(&mut body, "max_tokens", prompt.params.max_tokens);
    chat::put(&mut body, "top_p", prompt.params.top_p);
    chat::put(&mut body, "seed", prompt.params.seed);
    chat::put(&mut body, "stop", chat::stop(prompt));
    if !prompt.tools.is_empty() {
        body.insert("tools".to_owned(), serde_json::json!(prompt.tools));
    }
    Ok(Value::Object(body))
}

/// Returns true for a successful response with a body.
fn is_text(response: &HttpResponse) -> bool {
    (200..300).contains(&response.status) && !response.body.is_empty()
}

/// Returns true if a request may use test variables. One of these conditions is enough:
///
/// - The address, a header or a query parameter is a template.
/// - The body names a test variable.
/// - The configuration has a session, or sets `template: jinja`.
pub(crate) fn wants_vars(config: &Value) -> bool {
    let is_in = |value: &Value| value.as_str().is_some_and(is_template);
    let body = &config["body"];
    let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
    let named = ["headers", "queryParams"].iter().filter_map(|it| config[*it].as_object());
    is_in(&config["url"])
        || named.flat_map(Map::values).any(is_in)
        || config["template"] == "jinja"
        || !config["session"].is_null()
        || !body.is_null() && template::wants_vars(&text)
}

/// Returns the test variables in a request. The problem is reported if no test defines the variable.
pub(crate) fn named_vars(config: &Value) -> Vec<(String, Problem)> {
    let mut found = Vec::new();
    let is_jinja = config["template"] == "jinja";
    for key in ["url", "headers", "queryParams", "body"] {
        let at = format!("/{key}");
        match &config[key] {
            Value::Null => {}
            body if key == "body" && !is_jinja => {
                let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
                let names = template::named_vars(&text);
                found.extend(names.into_iter().map(|name| (at.clone(), name)));
            }
            value => jinja::named_vars(&at, value, &mut found),
        }
    }
    for key in ["url", "headers", "body"] {
        jinja::named_vars(&format!("/session/{key}"), &config["session"][key], &mut found);
    }
    let is_signature =
        |name: &str| !config["signature"].is_null() && jinja::SIGNED.iter().any(|it| it.0 == name);
    let is_session = |name: &str| !config["session"].is_null() && name == session::SESSION_ID;
    found.retain(|(_, name)| !is_signature(name) && !is_session(name));
    found.into_iter().map(|(at, name)| (name.clone(), undefined(&at, &name))).collect()
}

/// Returns a value as text. Texts stay unchanged, `null` is an empty text, and other values become JSON.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        other => ecma::text(other),
    }
}

/// Replaces the message of an error response by an excerpt of its JSON body. An unknown API may have its message
/// anywhere.
fn whole(mut err: ProviderError, response: &HttpResponse) -> ProviderError {
    if err.kind != ProviderErrorKind::MalformedResponse
        && let Ok(value) = serde_json::from_slice::<Value>(&response.body)
        && !value.is_string()
    {
        err.message = excerpt(&ecma::stringify(&value));
    }
    err
}

fn rule(facts: &Facts) -> Option<ProviderErrorKind> {
    (facts.status == 403).then_some(ProviderErrorKind::Auth)
}

impl From<Verb> for Method {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Get => Self::Get,
            Verb::Post => Self::Post,
            Verb::Put => Self::Put,
            Verb::Patch => Self::Patch,
            Verb::Delete => Self::Delete,
        }
    }
}
