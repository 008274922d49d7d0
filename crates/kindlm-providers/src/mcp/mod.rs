//! `mcp`: calls one tool of an MCP server, over streamable HTTP.

mod arguments;
#[cfg(feature = "mcp")]
mod client;

use std::collections::BTreeMap;

use kindlm_types::{DeclaredEvidence, Problem};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

pub use arguments::arguments;
#[cfg(feature = "mcp")]
pub(crate) use client::McpClient;

use crate::dialect::settings;
use crate::{HeaderValue, Kind, Meta, Registration};

/// The registration of the provider `mcp`.
pub static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "mcp",
        summary: "Calls one tool of an MCP server, over streamable HTTP.",
        since: "0.1.0",
        key_variable: None,
        shorthand: false,
        wraps_agent: true,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<ConfigBlock>(),
    kind: Kind::Special(|config| Config::from_value(config).map(|_| ())),
};

/// The MCP server and the tool that answers.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "McpConfig")]
struct ConfigBlock {
    /// The address of the server's MCP endpoint.
    #[schemars(url)]
    server_url: String,
    /// The name of the tool.
    #[schemars(length(min = 1))]
    tool_name: String,
    /// The headers of every request. A value that starts with `env:` or `Bearer env:` names an environment variable.
    #[serde(default)]
    headers: Map<String, Value>,
    /// The arguments of the tool; by default, the messages, the model and the parameters. They may contain the
    /// placeholders `{{input}}`, `{{system}}`, `{{model}}`, `{{messages}}` and `{{params}}`.
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
    /// True to use the structured content of the result, if it has any, instead of its text.
    #[serde(default)]
    structured: bool,
    /// The kinds of evidence that you declare complete in every answer. Reports show them as declared, not observed.
    #[serde(default)]
    #[expect(dead_code, reason = "`declared` reads it, for every provider")]
    evidence: Option<DeclaredEvidence>,
}

/// A checked configuration of the MCP server and the tool that answers.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The address of the server's MCP endpoint.
    pub server_url: String,
    /// The name of the tool.
    pub tool_name: String,
    /// The headers of every request. Environment variables are named, not resolved.
    pub headers: Vec<(String, HeaderValue)>,
    /// The arguments of the tool; `None` for the messages, the model and the parameters.
    pub arguments: Option<Map<String, Value>>,
    /// True to use the structured content of the result, if it has any, instead of its text.
    pub structured: bool,
}

impl Config {
    /// Parses the configuration, or returns all its problems.
    pub fn from_value(config: &Value) -> Result<Self, Vec<Problem>> {
        let read: ConfigBlock = serde_json::from_value(config.clone())
            .map_err(|err| vec![Problem::new("", err.to_string())])?;
        let mut problems = Vec::new();
        let rest = ["http://", "https://"].iter().find_map(|it| read.server_url.strip_prefix(it));
        if rest.is_none_or(|it| it.is_empty() || it.starts_with('/')) {
            problems.push(
                Problem::new("/serverUrl", format!("`{}` is not a web address", read.server_url))
                    .with_help("give the whole address, such as `http://localhost:8000/mcp`"),
            );
        }
        if read.tool_name.trim().is_empty() {
            problems.push(Problem::new("/toolName", "the tool's name is empty"));
        }
        let headers = resolve_headers(&read.headers, &mut problems);
        problems.extend(settings::service_keys(&headers));
        if let Some(template) = &read.arguments {
            problems
                .extend(arguments::check(template).into_iter().map(|it| it.under("/arguments")));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let ConfigBlock { server_url, tool_name, arguments, structured, .. } = read;
        Ok(Self { server_url, tool_name, headers, arguments, structured })
    }
}

/// Returns the valid headers, and adds the problems of the others to `problems`.
fn resolve_headers(
    headers: &Map<String, Value>,
    problems: &mut Vec<Problem>,
) -> Vec<(String, HeaderValue)> {
    let mut texts = BTreeMap::new();
    for (name, value) in headers {
        if let Value::String(text) = value {
            texts.insert(name.clone(), text.clone());
        } else {
            let message = "a header's value must be a text";
            problems.push(Problem::new(pointer("/headers", name), message));
        }
    }
    settings::headers(Vec::new(), &texts, problems)
}

/// Appends a segment to a JSON pointer.
fn pointer(base: &str, part: &str) -> String {
    format!("{base}/{}", kindlm_types::pointer::segment(part))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with_header(name: &str, value: &str) -> Result<Config, Vec<Problem>> {
        let headers = json!({name: value});
        Config::from_value(
            &json!({"serverUrl": "http://h/mcp", "toolName": "t", "headers": headers}),
        )
    }

    #[test]
    fn wrong_headers_are_problems() {
        let no_variable = "`env:` needs the name of an environment variable";
        for (name, value, expected) in [
            ("X A", "x", "this is not the name of a header"),
            ("X-A", "env:", no_variable),
            ("X-A", "Bearer env:", no_variable),
        ] {
            let problems = with_header(name, value).unwrap_err();
            let found: Vec<_> = problems.iter().map(|it| (&*it.pointer, &*it.message)).collect();
            assert_eq!(found, [(&*format!("/headers/{name}"), expected)], "{value}");
        }
        let config = with_header("X-A", "Bearer env:TOKEN").unwrap();
        let value = HeaderValue::FromEnv { prefix: "Bearer ", variable: "TOKEN".to_owned() };
        assert_eq!(config.headers, [("X-A".to_owned(), value)]);
    }
}
