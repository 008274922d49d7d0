//! Reads a provider's configuration, and checks its key variables and addresses.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kindlm_transport::KEY_COMMAND;
use kindlm_types::{Problem, Prompt, pointer};
use schemars::Schema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::HeaderValue;

/// The setting that names the environment variable of a key.
const KEY_VARIABLE: &str = "apiKeyEnv";

/// Parses a configuration that has passed its schema, or returns the problem. For a key that a command prints,
/// `apiKeyEnv` becomes [`KEY_COMMAND`], which only the transport resolves.
pub(crate) fn parse_config<T: DeserializeOwned>(config: &Value) -> Result<T, Vec<Problem>> {
    let mut config = config.clone();
    if let Some(settings) = config.as_object_mut()
        && let Some(command) = settings.shift_remove(KEY_COMMAND)
    {
        let line = command.as_str().unwrap_or_default();
        if let Some(problem) = check_command(&format!("/{KEY_COMMAND}"), line) {
            return Err(vec![problem]);
        }
        if settings.insert(KEY_VARIABLE.to_owned(), json!(KEY_COMMAND)).is_some() {
            return Err(vec![either(KEY_COMMAND, KEY_VARIABLE)]);
        }
    }
    serde_json::from_value(config).map_err(|err| vec![Problem::new("", err.to_string())])
}

/// Adds [`KEY_COMMAND`] to the schema of a configuration with `apiKeyEnv`. If `apiKeyEnv` was required, one of the two
/// is required.
pub(crate) fn with_key_command(schema: &mut Schema) {
    let Some(schema) = schema.as_object_mut() else { return };
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let at = properties.keys().position(|it| it == KEY_VARIABLE).map_or(0, |it| it + 1);
        let command = json!({
            "type": "string",
            "minLength": 1,
            "description": "The command line that prints the key, instead of a variable: the key alone, or JSON with a \
                            token and its expiration. It runs before the first request, and again for a new key.",
        });
        properties.shift_insert(at, KEY_COMMAND.to_owned(), command);
    }
    let Some(Value::Array(required)) = schema.get_mut("required") else { return };
    let Some(at) = required.iter().position(|it| it == KEY_VARIABLE) else { return };
    required.remove(at);
    if required.is_empty() {
        schema.shift_remove("required");
    }
    schema.insert("if".to_owned(), json!({"not": {"required": [KEY_COMMAND]}}));
    schema.insert("then".to_owned(), json!({"required": [KEY_VARIABLE]}));
}

/// Returns the problem of a command line that is blank; `None` for any other.
pub(crate) fn check_command(pointer: &str, line: &str) -> Option<Problem> {
    line.trim().is_empty().then(|| Problem::new(pointer, "the command line is empty"))
}

/// Returns the problem of two settings that exclude each other.
pub(crate) fn either(key: &str, other: &str) -> Problem {
    let message = format!("a provider has either `{key}` or `{other}`");
    Problem::key(format!("/{key}"), message).with_help("remove one of them")
}

/// Returns the problem with the name of a key variable. Returns `None` if the name is valid. The message omits the
/// name, which may be a key.
pub(crate) fn check_variable(pointer: &str, name: &str) -> Option<Problem> {
    let mut chars = name.chars();
    let named = chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|it| it.is_ascii_alphanumeric() || it == '_');
    let is_key = kindlm_redact::looks_like_key(name);
    (!named || is_key).then(|| {
        Problem::new(pointer, "this is not the name of an environment variable").with_help(
            "write the name, such as `OPENAI_API_KEY`; put the key into that variable, never into the file",
        )
    })
}

/// Returns the problem with an address; `None` if the address is valid.
pub(crate) fn check_url(pointer: &str, url: &str) -> Option<Problem> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let problem = match host {
        None => "this is not a web address",
        Some("") => "this address has no host",
        Some(host) if host.contains('@') => "this address carries a user name or a password",
        Some(_) if url.chars().any(|it| it.is_whitespace() || it.is_control()) => {
            "this address contains white space"
        }
        Some(_) => return None,
    };
    let help = if problem.contains("password") {
        "remove it, and put the secret into an environment variable"
    } else {
        "write the whole address, such as `https://example.com/v1`"
    };
    Some(Problem::new(pointer, problem).with_help(help))
}

/// Checks a name that becomes a part of the address, such as a region. Fails for an unsafe character.
pub(crate) fn check_name(pointer: &str, name: &str) -> Result<(), Vec<Problem>> {
    let is_good = |it: char| it.is_ascii_alphanumeric() || "-_.:".contains(it);
    if !name.is_empty() && name.chars().all(is_good) {
        return Ok(());
    }
    let problem = Problem::new(pointer, format!("`{name}` cannot be a part of the address"));
    Err(vec![problem.with_help("write letters, digits and hyphens, such as `us-east-1`")])
}

/// Checks a key variable and a base address, if they are set. Fails with all their problems.
pub(crate) fn check(api_key_env: Option<&str>, base_url: Option<&str>) -> Result<(), Vec<Problem>> {
    let problems: Vec<Problem> = [
        api_key_env.and_then(|name| check_variable("/apiKeyEnv", name)),
        base_url.and_then(|url| check_url("/baseUrl", url)),
    ]
    .into_iter()
    .flatten()
    .collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Returns the headers of a provider and of a configuration, and adds their problems to `problems`. A header of the
/// configuration replaces that of the provider. A value that starts with `env:` or `Bearer env:` names an environment
/// variable. The message of a problem with that name omits the name, because it may be a key.
pub(crate) fn headers(
    mut found: Vec<(String, HeaderValue)>,
    headers: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> Vec<(String, HeaderValue)> {
    found.retain(|(own, _)| !headers.keys().any(|it| it.eq_ignore_ascii_case(own)));
    for (name, value) in headers {
        let pointer = format!("/headers/{}", pointer::segment(name));
        let is_token = |it: char| it.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(it);
        if name.is_empty() || !name.chars().all(is_token) {
            problems.push(Problem::key(&pointer, "this is not the name of a header"));
        } else if value.chars().any(|it| it.is_control() && it != '\t') {
            problems.push(Problem::new(&pointer, "the value of a header is one line of text"));
        }
        let bearer = value.strip_prefix("Bearer ").filter(|it| it.starts_with("env:"));
        let prefix = if bearer.is_some() { "Bearer " } else { "" };
        let value = match bearer.unwrap_or(value).strip_prefix("env:").map(str::trim) {
            Some("") => {
                let problem =
                    Problem::new(&pointer, "`env:` needs the name of an environment variable");
                problems
                    .push(problem.with_help("write it after the colon, such as `env:MY_TOKEN`"));
                continue;
            }
            Some(variable) => {
                if let Some(problem) = check_variable(&pointer, variable) {
                    problems.push(problem);
                    continue;
                }
                HeaderValue::FromEnv { prefix, variable: variable.to_owned() }
            }
            None => HeaderValue::Literal(value.clone()),
        };
        found.push((name.clone(), value));
    }
    found
}

/// Returns the headers of a vendor and of a configuration. Fails with their problems. A secret in the file is a
/// problem.
pub(crate) fn literal_headers(
    own: Vec<(String, HeaderValue)>,
    written: &BTreeMap<String, String>,
) -> Result<Vec<(String, HeaderValue)>, Vec<Problem>> {
    let mut problems = Vec::new();
    let headers = headers(own, written, &mut problems);
    problems.extend(headers.iter().filter_map(literal_secret));
    if problems.is_empty() { Ok(headers) } else { Err(problems) }
}

/// Returns the headers of OpenAI's API.
pub(crate) fn openai_headers(
    key: Option<&str>,
    organization: Option<&str>,
) -> Vec<(String, HeaderValue)> {
    let mut headers = vec![json_header()];
    headers.extend(key.map(bearer));
    if let Some(organization) = organization.filter(|it| !it.is_empty()) {
        let value = HeaderValue::Literal(organization.to_owned());
        headers.push(("OpenAI-Organization".to_owned(), value));
    }
    headers
}

/// Returns the problem of a header whose name denotes a secret, if the config file contains the secret itself.
fn literal_secret((name, value): &(String, HeaderValue)) -> Option<Problem> {
    let is_literal = matches!(value, HeaderValue::Literal(text) if !text.is_empty());
    // The first header names a key that Portkey stores. The second header identifies a conversation. Neither is a
    // secret.
    let is_name = ["x-portkey-virtual-key", "x-openclaw-session-key"]
        .iter()
        .any(|it| name.eq_ignore_ascii_case(it));
    let is_secret = kindlm_redact::is_secret_header(name) && !is_name;
    (is_literal && is_secret).then(|| key_in_header(name))
}

/// Returns the problems of the headers whose values contain a key of a well-known service.
///
/// Use this function for providers whose headers may be plain tokens of a test server, or templates.
pub(crate) fn service_keys(headers: &[(String, HeaderValue)]) -> impl Iterator<Item = Problem> {
    let has_key = |value: &HeaderValue| match value {
        HeaderValue::Literal(text) => matches!(kindlm_redact::mask_keys(text), Cow::Owned(_)),
        HeaderValue::Secret(_) | HeaderValue::FromEnv { .. } => false,
    };
    headers.iter().filter(move |(_, value)| has_key(value)).map(|(name, _)| key_in_header(name))
}

fn key_in_header(name: &str) -> Problem {
    let pointer = format!("/headers/{}", pointer::segment(name));
    let help = "write `env:NAME`, and put the value into that environment variable";
    Problem::new(pointer, "a key must not be in a file").with_help(help)
}

/// Checks the additional keys of a body.
///
/// `taken` lists the paths that KindLM sets itself, or needs to read the answer, such as `options/num_predict`. An API
/// key in the body would be stored with the requests, so it is a problem at every level.
pub(crate) fn check_body(body: &Map<String, Value>, taken: &[&str]) -> Result<(), Vec<Problem>> {
    check_object("/body", body, taken)
}

/// Checks the additional keys of an object of a request, as [`check_body`] does. `at` is the pointer of the object.
pub(crate) fn check_object(
    at: &str,
    body: &Map<String, Value>,
    taken: &[&str],
) -> Result<(), Vec<Problem>> {
    let has = |path: &&&str| {
        let (first, rest) =
            path.split_once('/').map_or((**path, None), |(it, rest)| (it, Some(rest)));
        let value = body.get(first);
        rest.map_or(value, |rest| value?.pointer(&format!("/{rest}"))).is_some()
    };
    if let Some(path) = taken.iter().find(has) {
        let key = path.rsplit('/').next().unwrap_or(path);
        let help = match key {
            "max_tokens"
            | "max_completion_tokens"
            | "maxOutputTokens"
            | "max_output_tokens"
            | "num_predict" => "give the model `params: { maxTokens: … }`: budgets use it",
            "n" | "candidateCount" | "candidate_count" => {
                "one answer is read; ask again with `repeat`"
            }
            "stream" => {
                "remove it; `openai`, the servers with its API, `openai-responses` and `anthropic` have the setting `stream`"
            }
            "background" | "conversation" | "previous_response_id" => {
                "remove it: each request is sent whole, and its whole answer is read"
            }
            "generation_config" => "write it as `generationConfig`",
            _ => {
                "it is set elsewhere in the suite: by the model, its prompt and the tools of the test"
            }
        };
        let problem = Problem::key(format!("{at}/{path}"), format!("`{key}` is not allowed here"));
        return Err(vec![problem.with_help(help)]);
    }
    check_secrets(
        at,
        body,
        "requests get their key from the environment variable in `apiKeyEnv`; remove it here",
    )
}

/// Checks that an object has no secret at any level. `pointer` is the pointer of the object. Fails with the pointer of
/// the first secret.
pub(crate) fn check_secrets(
    pointer: &str,
    object: &Map<String, Value>,
    help: &str,
) -> Result<(), Vec<Problem>> {
    match object.iter().find_map(|(name, value)| secret_in(pointer, name, value)) {
        Some(found) => {
            Err(vec![Problem::new(found, "a key must not be in a file").with_help(help)])
        }
        None => Ok(()),
    }
}

/// Returns the pointer of the first secret in a value, which is the entry `name` of the object at `parent`. Returns
/// `None` if the value has no secret.
///
/// A secret is a text whose name denotes a secret, or a text that looks like a key. So a property `password` of a
/// schema, which is an object, is no secret.
fn secret_in(parent: &str, name: &str, value: &Value) -> Option<String> {
    let at = format!("{parent}/{}", kindlm_types::pointer::segment(name));
    let is_key = |text: &str| kindlm_redact::Secrets::default().redact(text).is_some();
    match value {
        Value::String(text) => {
            let is_secret = kindlm_redact::is_telling_name(name) || is_key(text);
            (is_secret && !text.is_empty()).then_some(at)
        }
        // The name of a list applies to its texts: `"token": ["abc"]` holds a secret.
        Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| match item {
            Value::String(_) => secret_in(parent, name, item).map(|_| format!("{at}/{index}")),
            other => secret_in(&at, &index.to_string(), other),
        }),
        Value::Object(members) => {
            members.iter().find_map(|(name, value)| secret_in(&at, name, value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// The objects of settings in a body. Unlike a schema, they are also merged in a judge's request.
const GROUPS: [&str; 3] = ["generationConfig", "options", "output_config"];

/// The keys that request a form of the answer. A judge's request sets its own form.
const FORMS: [&str; 8] = [
    "response_format",
    "format",
    "responseSchema",
    "responseJsonSchema",
    "responseMimeType",
    "response_schema",
    "response_json_schema",
    "response_mime_type",
];

/// Adds the additional keys of the configuration to the body of a request. Objects in both are merged.
///
/// A judge's request keeps its own keys, because they determine the form of the judge's answer.
pub(crate) fn add_body(body: &mut Map<String, Value>, more: &Map<String, Value>, prompt: &Prompt) {
    let is_judge = prompt.response_format.is_some();
    let more = more.iter().filter(|(key, _)| !is_judge || !FORMS.contains(&key.as_str()));
    for (key, value) in more {
        match (body.get_mut(key), value) {
            (Some(Value::Object(own)), Value::Object(more))
                if !is_judge || GROUPS.contains(&key.as_str()) =>
            {
                add_body(own, more, prompt);
            }
            (Some(_), _) if is_judge => {}
            _ => {
                body.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Returns the content-type header of a JSON request.
pub(crate) fn json_header() -> (String, HeaderValue) {
    ("Content-Type".to_owned(), HeaderValue::Literal("application/json".to_owned()))
}

/// Returns the `Authorization` header with this variable's key as `Bearer` token.
pub(crate) fn bearer(variable: &str) -> (String, HeaderValue) {
    let value = HeaderValue::FromEnv { prefix: "Bearer ", variable: variable.to_owned() };
    ("Authorization".to_owned(), value)
}

#[cfg(test)]
mod tests {
    use kindlm_types::ResponseFormat;
    use serde_json::json;

    use super::*;

    #[test]
    fn refuses_a_key_in_place_of_a_name_and_does_not_repeat_it() {
        for key in ["sk-proj-abc", "AIzaSyABCDEF", "gsk_123", "", "a b", "1A"] {
            let problem = check_variable("/apiKeyEnv", key).expect("a problem");
            assert!(key.is_empty() || !format!("{problem:?}").contains(key), "{problem:?}");
        }
        for name in ["OPENAI_API_KEY", "K", "_x1"] {
            assert_eq!(check_variable("/apiKeyEnv", name), None, "{name}");
        }
    }

    #[test]
    fn a_header_names_a_variable_and_holds_no_key() {
        for (value, expected) in [
            ("env:TOKEN", Some(("", "TOKEN"))),
            ("env: TOKEN ", Some(("", "TOKEN"))),
            ("Bearer env:TOKEN", Some(("Bearer ", "TOKEN"))),
            ("env:", None),
            ("env: ", None),
            ("Bearer env:my-real-token", None),
            ("env:sk-proj-abc", None),
        ] {
            let written = BTreeMap::from([("authorization".to_owned(), value.to_owned())]);
            let mut problems = Vec::new();
            let found = headers(Vec::new(), &written, &mut problems);
            let from_env = |(prefix, variable): (&'static str, &str)| {
                let value = HeaderValue::FromEnv { prefix, variable: variable.to_owned() };
                ("authorization".to_owned(), value)
            };
            assert_eq!(found, expected.map(from_env).into_iter().collect::<Vec<_>>(), "{value}");
            assert_eq!(problems.is_empty(), expected.is_some(), "{value}: {problems:?}");
            let told = format!("{problems:?}");
            assert!(!told.contains("my-real") && !told.contains("sk-proj"), "{told}");
        }
    }

    #[test]
    fn refuses_bodies_with_keys_and_limits_at_every_level() {
        let taken = ["max_tokens", "options/num_predict", "generationConfig/maxOutputTokens"];
        for (body, expected) in [
            (json!({"max_tokens": 1}), "/body/max_tokens"),
            (json!({"options": {"num_predict": 1}}), "/body/options/num_predict"),
            (
                json!({"generationConfig": {"maxOutputTokens": 1}}),
                "/body/generationConfig/maxOutputTokens",
            ),
            (json!({"api_key": "abc"}), "/body/api_key"),
            (json!({"a": {"b": [{"apiKey": "abc"}]}}), "/body/a/b/0/apiKey"),
            (json!({"a": {"passwords": ["", "abc"]}}), "/body/a/passwords/1"),
            (json!({"a": {"note": "sk-proj-abcDEF0123456789"}}), "/body/a/note"),
        ] {
            let problems = check_body(body.as_object().unwrap(), &taken).unwrap_err();
            assert_eq!(problems[0].pointer, expected, "{body}");
            assert!(!format!("{problems:?}").contains("abc"), "{problems:?}");
        }
        let schema =
            json!({"properties": {"password": {"type": "string"}}, "required": ["password"]});
        for body in [
            json!({"options": {"num_ctx": 1}, "num_predict": 1}),
            json!({"response_format": {"json_schema": {"schema": schema}}}),
            json!({"prompt_cache_key": "support", "metadata": {"api_key": ""}, "options": [1]}),
        ] {
            assert_eq!(check_body(body.as_object().unwrap(), &taken), Ok(()), "{body}");
        }
    }

    #[test]
    fn a_judge_keeps_the_form_of_its_answer() {
        let own = json!({"format": {"type": "object"}, "options": {"seed": 1}});
        let more = json!({
            "format": {"properties": {"a": {}}}, "response_format": {"type": "json_object"},
            "options": {"seed": 2, "top_k": 3}, "think": true,
        });
        for (is_judge, expected) in [
            (
                true,
                json!({"format": {"type": "object"}, "options": {"seed": 1, "top_k": 3}, "think": true}),
            ),
            (
                false,
                json!({
                    "format": {"type": "object", "properties": {"a": {}}}, "options": {"seed": 2, "top_k": 3},
                    "response_format": {"type": "json_object"}, "think": true,
                }),
            ),
        ] {
            let format = ResponseFormat::new("n", json!({}));
            let prompt =
                Prompt { response_format: is_judge.then_some(format), ..Prompt::default() };
            let mut body = own.as_object().unwrap().clone();
            add_body(&mut body, more.as_object().unwrap(), &prompt);
            assert_eq!(Value::Object(body), expected);
        }
    }

    #[test]
    fn refuses_invalid_addresses() {
        for url in
            ["", "x", "/v1", "ftp://h", "http://", "http:///v1", "http://u:p@h", "http://h/a b"]
        {
            assert!(check_url("/url", url).is_some(), "{url}");
        }
        for url in ["http://h", "https://x.y/z?a=b", "http://localhost:11434", "http://h/a@b"] {
            assert_eq!(check_url("/url", url), None, "{url}");
        }
    }
}
