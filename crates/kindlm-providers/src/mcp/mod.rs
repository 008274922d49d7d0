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
    schema: |it| it.reference::<Config>(),
    kind: Kind::Special(|config| Config::from_value(config).map(|_| ())),
};

/// The MCP server and the tool that answers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "McpConfig")]
pub struct Config {
    /// The address of the server's MCP endpoint.
    #[schemars(url)]
    pub server_url: String,
    /// The name of the tool.
    #[schemars(length(min = 1))]
    pub tool_name: String,
    /// The headers of every request. A value that starts with `env:` or `Bearer env:` names an environment variable.
    #[serde(default)]
    pub headers: Map<String, Value>,
    /// The arguments of the tool; by default, the messages, the model and the parameters. They may contain the
    /// placeholders `{{input}}`, `{{system}}`, `{{model}}`, `{{messages}}` and `{{params}}`.
    #[serde(default)]
    pub arguments: Option<Map<String, Value>>,
    /// True to use the structured content of the result, if it has any, instead of its text.
    #[serde(default)]
    pub structured: bool,
    /// The kinds of evidence that you declare complete in every answer. Reports show them as declared, not observed.
    #[serde(default)]
    pub evidence: Option<DeclaredEvidence>,
}

impl Config {
    /// Parses the configuration, or returns all its problems.
    pub fn from_value(config: &Value) -> Result<Self, Vec<Problem>> {
        let read: Self = serde_json::from_value(config.clone())
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
        read.checked_headers(&mut problems);
        if let Some(template) = &read.arguments {
            problems
                .extend(arguments::check(template).into_iter().map(|it| it.under("/arguments")));
        }
        if problems.is_empty() { Ok(read) } else { Err(problems) }
    }

    /// Returns the headers. Environment variables are named, not resolved.
    pub fn headers(&self) -> Vec<(String, HeaderValue)> {
        self.checked_headers(&mut Vec::new())
    }

    /// Returns the valid headers, and adds the problems of the others to `problems`.
    fn checked_headers(&self, problems: &mut Vec<Problem>) -> Vec<(String, HeaderValue)> {
        let mut texts = BTreeMap::new();
        for (name, value) in &self.headers {
            if let Value::String(text) = value {
                texts.insert(name.clone(), text.clone());
            } else {
                let message = "a header's value must be a text";
                problems.push(Problem::new(pointer("/headers", name), message));
            }
        }
        settings::headers(Vec::new(), &texts, problems)
    }
}

/// Appends a segment to a JSON pointer.
fn pointer(base: &str, part: &str) -> String {
    format!("{base}/{}", kindlm_types::pointer::segment(part))
}
