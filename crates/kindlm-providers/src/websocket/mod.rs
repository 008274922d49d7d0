//! `websocket`: a server that is asked with one message over a websocket.

#[cfg(feature = "websocket")]
mod ask;

use std::collections::{BTreeMap, BTreeSet};

use kindlm_template::is_template;
use kindlm_types::{DeclaredEvidence, Problem, Prompt, ProviderError, ProviderErrorKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::dialect::address::web_address;
use crate::dialect::code::{body, is_function, trimmed};
use crate::dialect::jinja::{self, Filler, Reading};
use crate::dialect::placeholder::undefined;
use crate::dialect::settings;
use crate::{HeaderValue, HttpRequest, Kind, Meta, Method, Registration};

#[cfg(feature = "websocket")]
pub(crate) use ask::ask;

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "websocket",
        summary: "A server that is asked with one message over a websocket.",
        since: "0.1.0",
        key_variable: None,
        shorthand: false,
        wraps_agent: true,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Special(|config| WebSocket::from_config(config).map(|_| ())),
};

/// The message to the server, and the scripts that read the server's messages.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WebsocketConfig")]
struct Config {
    /// The address, as a template. It begins with `ws://` or `wss://`.
    #[schemars(length(min = 1))]
    url: String,
    /// The headers of the handshake. A value that starts with `env:` or `Bearer env:` names an environment variable that
    /// holds the value or the token. Other values are templates.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The message, as a template.
    #[schemars(length(min = 1))]
    message: String,
    /// A script that reads the first message of the server: an expression of `data`, or a function of `data`. `data`
    /// is the parsed message if it is JSON, or else its text.
    #[serde(default)]
    #[schemars(length(min = 1))]
    transform_response: Option<String>,
    /// A script that reads each message of the server: a function of `accumulator`, `event` and `context`, which
    /// returns the new accumulator, and true when the answer is complete.
    #[serde(default)]
    #[schemars(length(min = 1))]
    stream_response: Option<String>,
    /// The kinds of evidence that you declare complete in every answer. Reports show them as declared, not observed.
    #[serde(default)]
    #[expect(dead_code, reason = "`declared` reads it, for every provider")]
    evidence: Option<DeclaredEvidence>,
}

/// A checked configuration.
#[derive(Debug)]
pub(crate) struct WebSocket {
    url: String,
    headers: Vec<(String, HeaderValue)>,
    message: String,
    /// The environment variables in the templates.
    variables: BTreeSet<String>,
    #[cfg_attr(not(feature = "websocket"), expect(dead_code, reason = "only `ask` reads it"))]
    reading: Script,
}

/// The script that reads the messages of the server, as the body of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    /// A function of `data`, for the first message.
    First(String),
    /// A function of `accumulator`, `event` and `context`, for each message.
    Each(String),
}

impl WebSocket {
    /// Parses a configuration, or returns all its problems.
    pub(crate) fn from_config(config: &Value) -> Result<Self, Vec<Problem>> {
        let config: Config = settings::parse_config(config)?;
        let mut problems = Vec::new();
        if !config.url.starts_with("{{") {
            problems.extend(check_url(&config.url));
        }
        let mut templates = Reading::default();
        templates.text("/url", &config.url);
        templates.text("/message", &config.message);
        for (name, text) in &config.headers {
            let name = kindlm_types::pointer::segment(name);
            templates.text(&format!("/headers/{name}"), text);
        }
        problems.append(&mut templates.problems);
        let headers = settings::headers(Vec::new(), &config.headers, &mut problems);
        problems.extend(settings::service_keys(&headers));
        let reading = match (&config.transform_response, &config.stream_response) {
            (Some(_), Some(_)) => {
                let message = "an answer is read by `transformResponse` or by `streamResponse`";
                let problem = Problem::key("/streamResponse", message);
                problems.push(problem.with_help("remove one of them"));
                Script::First(String::new())
            }
            (None, Some(code)) => Script::Each(each(code)),
            (Some(code), None) => Script::First(first(code)),
            (None, None) => Script::First("return { output: data }".to_owned()),
        };
        if !problems.is_empty() {
            return Err(problems);
        }
        let Config { url, message, .. } = config;
        Ok(Self { url, headers, message, variables: templates.variables, reading })
    }

    /// Returns the request for a websocket; its body is the message. Fails if a template cannot be rendered.
    #[cfg_attr(not(feature = "websocket"), expect(dead_code, reason = "only `ask` calls it"))]
    pub(crate) fn request(&self, prompt: &Prompt) -> Result<HttpRequest, ProviderError> {
        let filler = Filler::new(prompt, &self.variables, false);
        let text = |template: &str| {
            filler.text(template).map_err(|message| {
                ProviderError::new(ProviderErrorKind::InvalidRequest, "websocket", message)
            })
        };
        let mut headers = Vec::with_capacity(self.headers.len());
        for (name, value) in &self.headers {
            let value = match value {
                HeaderValue::Literal(written) => HeaderValue::Literal(text(written)?),
                other => other.clone(),
            };
            headers.push((name.clone(), value));
        }
        let (url, message) = (text(&self.url)?, text(&self.message)?);
        Ok(HttpRequest {
            method: Method::Get,
            url: web_address(&url),
            headers,
            body: message.into(),
            is_text: true,
            marks: filler.marks,
            address_key: Some("url"),
            aws: None,
        })
    }
}

/// Returns the problem with an address; `None` if the address is valid.
fn check_url(url: &str) -> Option<Problem> {
    let is_socket = url.starts_with("ws://") || url.starts_with("wss://");
    if !is_socket {
        let problem = Problem::new("/url", "this is not the address of a websocket");
        return Some(
            problem.with_help("write the whole address, such as `wss://example.com/chat`"),
        );
    }
    if is_template(url) { None } else { settings::check_url("/url", &web_address(url)) }
}

/// Returns the code that reads the first message.
fn first(code: &str) -> String {
    let code = trimmed(code);
    let call = if is_function(code) { "(data)" } else { "" };
    format!("return ({code}){call}")
}

/// Returns the code that reads each message.
fn each(code: &str) -> String {
    let code = trimmed(code);
    match body(code, &["accumulator", "event", "context"]) {
        call if is_function(code) => call,
        body => format!("const data = event;\n{body}"),
    }
}

/// Returns the test variables in the templates. The problem is reported if no test defines the variable.
pub(crate) fn named_vars(config: &Value) -> Vec<(String, Problem)> {
    let mut found = Vec::new();
    for key in ["url", "headers", "message"] {
        jinja::named_vars(&format!("/{key}"), &config[key], &mut found);
    }
    found.into_iter().map(|(at, name)| (name.clone(), undefined(&at, &name))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refuses_addresses_of_other_protocols() {
        for (url, expected) in [
            ("ws://localhost:4000", true),
            ("wss://a.example/{{x}}", true),
            ("{{env.URL}}/chat", true),
            ("https://a.example", false),
            ("ws://user:pass@a.example", false),
        ] {
            let read = WebSocket::from_config(&json!({"url": url, "message": "a"}));
            assert_eq!(read.is_ok(), expected, "{url}");
        }
    }

    #[test]
    fn scripts_are_functions_bodies_or_expressions() {
        for (code, expected) in [
            ("(a, e) => [e, true]", "return ((a, e) => [e, true])(accumulator, event, context)"),
            ("[data.data, true]", "const data = event;\nreturn ([data.data, true])"),
            ("[data.returned, 1]", "const data = event;\nreturn ([data.returned, 1])"),
            ("return [data, true];", "const data = event;\nreturn [data, true]"),
        ] {
            assert_eq!(each(code), expected);
        }
        assert_eq!(first("data.output;"), "return (data.output)");
        assert_eq!(first("data => data.a"), "return (data => data.a)(data)");
    }

    #[test]
    fn an_answer_has_one_reader() {
        let both = json!({"url": "ws://a", "message": "a", "transformResponse": "data", "streamResponse": "x"});
        assert_eq!(WebSocket::from_config(&both).unwrap_err()[0].pointer, "/streamResponse");
    }

    #[test]
    fn test_variables_are_named_with_their_places() {
        let config = json!({
            "url": "wss://a.example/{{session}}",
            "message": "{{promt}} {{prompt}} {{env.KEY}}",
            "headers": {"x-team": "{{taem}}{{ lang | default('de') }}", "Authorization": "env:TOKEN"},
            "transformResponse": "`${data}{{code}}`",
        });
        let found = named_vars(&config);
        let mut found: Vec<(&str, &str, Option<&str>)> = found
            .iter()
            .map(|(name, it)| (name.as_str(), it.pointer.as_str(), it.help.as_deref()))
            .collect();
        found.sort_unstable();
        let expected = [
            ("promt", "/message", Some("did you mean `prompt`?")),
            ("session", "/url", Some("give the tests `vars: { session: … }`, or remove it")),
            ("taem", "/headers/x-team", Some("give the tests `vars: { taem: … }`, or remove it")),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_message_is_the_body_of_the_request() {
        let config = json!({
            "url": "wss://a.example/{{lang}}", "message": "{\"q\": {{prompt | dump}}, \"k\": \"{{env.KEY}}\"}",
            "headers": {"Authorization": "env:TOKEN"},
        });
        let read = WebSocket::from_config(&config).unwrap();
        let prompt = json!({
            "model": "m", "messages": [{"role": "user", "content": "say \"hi\""}], "vars": {"lang": "de"},
        });
        let request = read.request(&serde_json::from_value(prompt).unwrap()).unwrap();
        assert_eq!(request.url, "https://a.example/de");
        let mark = &request.marks[0].mark;
        assert_eq!(request.body, format!("{{\"q\": \"say \\\"hi\\\"\", \"k\": \"{mark}\"}}"));
    }
}
