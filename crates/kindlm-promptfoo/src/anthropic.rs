//! Settings of Anthropic's models: their tools, and the format of the answer.

use kindlm_source::{Key, Node};

use super::Translator;
use super::build::{list, map, text, with};
use super::extras::add_to;
use super::settings::{PARSED, Settings, undated};

/// The type prefixes of the tools that Anthropic runs itself. Anthropic does not answer the calls of its other tools.
const RUN_BY_ANTHROPIC: [&str; 4] =
    ["web_search_", "web_fetch_", "code_execution_", "tool_search_"];

impl Translator<'_> {
    /// Divides tools into functions, which are tools of the tests, and tools with a `type` of the API.
    pub(super) fn anthropic_tools(&mut self, key: &Key, value: &Node, settings: &mut Settings) {
        let Some(value) = self.tool_list(value) else { return };
        let (mut functions, mut hosted) = (Vec::new(), Vec::new());
        for item in value.items() {
            let kind = item.get("type").and_then(Node::text);
            let Some((kind, name)) = kind.and_then(|it| Some((it, undated(it)?))) else {
                functions.push(item.clone());
                continue;
            };
            settings.calls |= !RUN_BY_ANTHROPIC.iter().any(|it| kind.starts_with(it));
            let is_named = item.get("name").is_some();
            hosted.push(if is_named {
                item.clone()
            } else {
                with(item, "name", text(item.span, name))
            });
        }
        if !functions.is_empty() {
            settings.tools = self.tools(&list(value.span, functions));
        }
        let hosted = (!hosted.is_empty()).then(|| list(value.span, hosted));
        let hosted = hosted.and_then(|it| self.without_templates(key, &it));
        settings.provider.extend(hosted.map(|it| ("hostedTools", it)));
    }

    /// Translates the format of the answer, from the config or from a file. For the type `json_schema`, checks get the
    /// answer as a JSON value.
    pub(super) fn output_format(&mut self, key: &Key, value: &Node, settings: &mut Settings) {
        let Some(format) = self.in_place(value) else { return };
        let format = match format.get("schema").map(|it| self.in_place(it)) {
            Some(Some(schema)) => with(&format, "schema", schema),
            Some(None) => return,
            None => format,
        };
        if format.get("type").and_then(Node::text) == Some("json_schema") {
            settings.transform = Some(text(format.span, PARSED));
        }
        if let Some(format) = self.without_templates(key, &format) {
            add_to(&mut settings.body, "output_config", &map(key.span, [("format", format)]));
        }
    }
}
