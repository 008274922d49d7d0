//! Reads a provider's configuration, and checks its key variables and addresses.

use kindlm_types::{Problem, Prompt};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::HeaderValue;

/// Parses a configuration that has passed its schema.
pub(crate) fn read<T: DeserializeOwned>(config: &Value) -> Result<T, Vec<Problem>> {
    serde_json::from_value(config.clone()).map_err(|err| vec![Problem::new("", err.to_string())])
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

/// Checks that the additional keys of a body are none that KindLM sets itself, or needs to read the answer.
pub(crate) fn check_body(body: &Map<String, Value>, taken: &[&str]) -> Result<(), Vec<Problem>> {
    let Some(key) = taken.iter().find(|it| body.contains_key(**it)) else { return Ok(()) };
    let help = match *key {
        "max_tokens" | "max_completion_tokens" => {
            "give the model `params: { maxTokens: … }`: budgets use it"
        }
        "n" => "one answer is read; ask again with `repeat`",
        _ => "it is set elsewhere in the suite: by the model, its prompt and the tools of the test",
    };
    let problem = Problem::key(format!("/body/{key}"), format!("`{key}` is not allowed here"));
    Err(vec![problem.with_help(help)])
}

/// Adds the additional keys of the configuration to the body of a request. Objects in both are merged.
///
/// A judge's request keeps its own keys, because its answer must have their form.
pub(crate) fn add_body(body: &mut Map<String, Value>, more: &Map<String, Value>, prompt: &Prompt) {
    for (key, value) in more {
        match (body.get_mut(key), value) {
            (Some(Value::Object(own)), Value::Object(more)) => add_body(own, more, prompt),
            (Some(_), _) if prompt.response_format.is_some() => {}
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
