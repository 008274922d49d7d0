//! Settings that have another form in requests of `openai:responses` than in requests of `openai:chat`.

use kindlm_source::{Key, Kind, Node};

use super::Translator;
use super::build::{list, map, node, text};
use super::extras::add_to;
use super::settings::{PARSED, Settings};

/// Keys of the API that `openai:chat` does not have.
const BODY: [&str; 4] = ["include", "instructions", "max_tool_calls", "truncation"];

/// Keys that are errors, because they would need more than one request.
const REFUSED: [&str; 3] = ["background", "previous_response_id", "webhook_url"];

impl Translator<'_> {
    /// Translates a setting. Returns false if the setting has the form of `openai:chat`, which the caller translates.
    pub(super) fn responses_setting(
        &mut self,
        key: &Key,
        value: &Node,
        settings: &mut Settings,
    ) -> bool {
        match &*key.name {
            "tools" => self.responses_tools(key, value, settings),
            "tool_choice" => {
                let name = value.get("function").and_then(|it| it.get("name"));
                let value = name.map_or_else(
                    || value.clone(),
                    |it| {
                        map(value.span, [("type", text(it.span, "function")), ("name", it.clone())])
                    },
                );
                settings.body.push(("tool_choice".to_owned(), value));
            }
            "response_format" => self.responses_format(value, settings),
            "verbosity" => self.add_part(("text", "verbosity"), key, value, settings),
            "reasoning_effort" => self.add_part(("reasoning", "effort"), key, value, settings),
            "reasoning" => {
                if let Some(value) = self.without_templates(key, value) {
                    add_to(&mut settings.body, "reasoning", &value);
                }
            }
            name if BODY.contains(&name) => {
                let value = self.without_templates(key, value);
                settings.body.extend(value.map(|it| (name.to_owned(), it)));
            }
            name if REFUSED.contains(&name) => {
                if value.to_json() != serde_json::Value::Bool(false) {
                    let help = "each test is one request with its whole answer; remove it";
                    self.unsupported(
                        key.span,
                        &format!("`{name}` of `openai:responses`"),
                        Some(help),
                    );
                }
            }
            _ => return false,
        }
        true
    }

    /// Sets a key of an object in the body.
    fn add_part(
        &mut self,
        (object, name): (&str, &str),
        key: &Key,
        value: &Node,
        settings: &mut Settings,
    ) {
        if let Some(value) = self.without_templates(key, value) {
            add_to(&mut settings.body, object, &map(value.span, [(name, value.clone())]));
        }
    }

    /// Divides the tools into functions, which are tools of the tests, and tools that OpenAI runs.
    fn responses_tools(&mut self, key: &Key, value: &Node, settings: &mut Settings) {
        let Some(value) = self.tool_list(value) else { return };
        let is_function = |it: &Node| {
            it.get("function").is_some() || it.get("type").and_then(Node::text) == Some("function")
        };
        let (functions, hosted): (Vec<Node>, Vec<Node>) =
            value.items().iter().cloned().partition(is_function);
        if !functions.is_empty() {
            settings.tools = self.tools(&list(value.span, functions));
        }
        let hosted = (!hosted.is_empty()).then(|| list(value.span, hosted));
        let hosted = hosted.and_then(|it| {
            let it = self.texts_with_env(&it);
            // The values of environment variables are inserted when the request is sent.
            if only_names_env(&it) { Some(it) } else { self.without_templates(key, &it) }
        });
        settings.provider.extend(hosted.map(|it| ("hostedTools", it)));
    }

    /// Translates the format of the answer, from the config or from a file. promptfoo replaces an unknown type by
    /// `text`, so this method does too.
    fn responses_format(&mut self, value: &Node, settings: &mut Settings) {
        let Some(value) = self.in_place(value) else { return };
        let span = value.span;
        let kind = value.get("type").and_then(Node::text).unwrap_or("text");
        if kind != "json_schema" {
            let kind = if kind == "json_object" { kind } else { "text" };
            let format = map(span, [("type", text(span, kind))]);
            add_to(&mut settings.body, "text", &map(span, [("format", format)]));
            return;
        }
        settings.transform = Some(text(span, PARSED));
        let inner = value.get("json_schema");
        let find = |key: &str| value.get(key).or_else(|| inner.and_then(|it| it.get(key)));
        let named = inner.and_then(|it| it.get("name")).or_else(|| value.get("name"));
        let schema = match find("schema").map(|it| self.in_place(it)) {
            Some(Some(schema)) => schema,
            Some(None) => return,
            None => node(span, Kind::Null),
        };
        let format = [
            ("type", text(span, kind)),
            ("name", named.cloned().unwrap_or_else(|| text(span, "response_schema"))),
            ("schema", schema),
            ("strict", node(span, Kind::Bool(true))),
        ];
        add_to(&mut settings.body, "text", &map(span, [("format", map(span, format))]));
    }
}

/// Returns true if all templates in a value are names of environment variables, such as `{{ env.NAME }}`.
fn only_names_env(value: &Node) -> bool {
    match value.text() {
        Some(text) if kindlm_template::is_template(text) => kindlm_template::read_names(text)
            .is_ok_and(|it| {
                it.entangled.is_empty() && it.undeclared.iter().all(|name| name == "env")
            }),
        Some(_) => true,
        None => {
            let mut items = value.items().iter().chain(value.entries().iter().map(|(_, it)| it));
            items.all(only_names_env)
        }
    }
}
