//! Translation of the `config` of providers, key by key.

use kindlm_source::{Key, Kind, Node, Span};

use super::Translator;
use super::build::{entries, list, map, node, number, text};
use kindlm_schema::faults_of_parameters;

/// A provider as the suite has it: its type, its name, the name of the model, and the settings.
pub(super) type Found = (&'static str, String, String, Settings);

/// The translated settings of a model and of its provider.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) params: Vec<(&'static str, Node)>,
    pub(super) provider: Vec<(&'static str, Node)>,
    pub(super) tools: Option<Node>,
    /// True if the model may call functions that are not tools of the test.
    pub(super) calls: bool,
    pub(super) transform: Option<Node>,
    pub(super) price: Option<Node>,
    pub(super) body: Vec<(String, Node)>,
    /// The settings that are not known to exist in the API, with their source locations.
    pub(super) unknown: Vec<(Span, String)>,
    /// All limits on output tokens. [`maximum`](Translator::maximum) selects the limit that is sent.
    pub(super) maximums: Vec<(Key, Node)>,
}

/// Keys that OpenAI's API accepts in the body of a request under the same name.
const BODY: [&str; 23] = [
    "frequency_penalty",
    "function_call",
    "presence_penalty",
    "logit_bias",
    "metadata",
    "modalities",
    "parallel_tool_calls",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "reasoning_effort",
    "repetition_penalty",
    "safety_identifier",
    "service_tier",
    "store",
    "tool_choice",
    "top_k",
    "user",
    "verbosity",
    "web_search_options",
    "top_logprobs",
];

/// The keys that limit the number of output tokens.
pub(super) const MAXIMUMS: [&str; 5] =
    ["max_tokens", "max_completion_tokens", "maxOutputTokens", "max_output_tokens", "num_predict"];

/// True if a key is a setting of a model, which changes the request.
pub(super) fn is_setting(name: &str) -> bool {
    const MORE: [&str; 19] = [
        "apiKey",
        "apiBaseUrl",
        "apiHost",
        "apiKeyEnvar",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tokens",
        "maxOutputTokens",
        "functions",
        "logprobs",
        "passthrough",
        "response_format",
        "response_schema",
        "seed",
        "stop",
        "temperature",
        "tools",
        "top_p",
        "topP",
    ];
    BODY.contains(&name) || MORE.contains(&name)
}

/// A transform that parses output that is JSON.
///
/// promptfoo parses answers with a schema. Output that is not JSON, such as a refusal, stays text.
pub(super) const PARSED: &str =
    "(() => { try { return JSON.parse(output) } catch { return output } })()";

pub(super) fn or_else(
    entries: &mut Vec<(&'static str, Node)>,
    name: &'static str,
    make: impl FnOnce() -> Node,
) {
    if !entries.iter().any(|(it, _)| *it == name) {
        entries.push((name, make()));
    }
}

impl Settings {
    /// Adds the settings of a server that the user has not set.
    pub(super) fn add_server(&mut self, server: Self) {
        for (name, value) in server.provider {
            match self.provider.iter_mut().find(|(it, _)| *it == name) {
                // Merge the headers. The user's headers override those of the server.
                Some((_, it)) if name == "headers" => {
                    let all = super::vars::merged(value.entries(), it.entries());
                    it.kind = Kind::Mapping(all.into());
                }
                Some(_) => {}
                None => self.provider.push((name, value)),
            }
        }
    }

    /// Returns the entries of a part of the body, without its token limits. The token limits are added to `maximums`.
    ///
    /// These limits take precedence over limits outside of the part. `stream: false` is left out, because answers are
    /// not streamed by default.
    pub(super) fn without_maximums(&mut self, name: &str, part: &Node) -> Vec<(Key, Node)> {
        let mut rest = Vec::new();
        for (key, value) in part.entries() {
            if MAXIMUMS.contains(&&*key.name) {
                let name = format!("{name}.{}", key.name);
                let key = Key::new(name, key.span);
                self.maximums.insert(0, (key, value.clone()));
            } else if &*key.name != "stream" || value.to_json() != serde_json::Value::Bool(false) {
                rest.push((key.clone(), value.clone()));
            }
        }
        rest
    }
}

impl Translator<'_> {
    /// Sets the token limit that promptfoo sends to a model.
    ///
    /// `names` are the keys that promptfoo reads for this model; the first key that is set counts. If none of these
    /// keys is set, a warning names each token limit that promptfoo ignores.
    pub(super) fn maximum(&mut self, model: &str, names: &[&str], settings: &mut Settings) {
        let last = |key: &Key| key.name.rsplit('.').next().unwrap_or_default().to_owned();
        let maximums = std::mem::take(&mut settings.maximums);
        // A key with a dot is a token limit inside a part that promptfoo sends unchanged. It overrides the other token
        // limits. For models without `max_tokens`, promptfoo removes this key from the part.
        let is_sent = |key: &Key| {
            key.name.contains('.') && (last(key) != "max_tokens" || names.contains(&"max_tokens"))
        };
        let read = maximums.iter().find(|(key, _)| is_sent(key)).or_else(|| {
            names.iter().find_map(|name| maximums.iter().find(|(key, _)| last(key) == *name))
        });
        if let Some((_, value)) = read {
            settings.params.push(("maxTokens", value.clone()));
            return;
        }
        for (key, _) in &maximums {
            let message = format!("`config.{}` has no effect on `{model}`", key.name);
            let name = names.first().copied().unwrap_or_default();
            let help = format!("promptfoo ignores it too; write `{name}`");
            self.warn(key.span, message, Some(&help));
        }
    }

    /// Translates the `config` of a vendor's API. `kind` is the KindLM provider, or `azure`.
    pub(super) fn settings(&mut self, kind: &str, config: &[(Key, Node)]) -> Settings {
        let is_responses = kind == "openai-responses";
        let mut settings = if is_responses { usual_settings(config) } else { Settings::default() };
        let is_openai = is_responses || matches!(kind, "openai" | "azure");
        for (key, value) in config {
            if is_responses && self.responses_setting(key, value, &mut settings) {
                continue;
            }
            match &*key.name {
                "temperature" => settings.params.push(("temperature", value.clone())),
                "seed" => settings.params.push(("seed", value.clone())),
                name if MAXIMUMS.contains(&name) => {
                    settings.maximums.push((key.clone(), value.clone()));
                }
                "top_p" | "topP" => settings.params.push(("topP", value.clone())),
                "stop" | "stopSequences" | "stop_sequences" => {
                    let value = match value.text() {
                        Some(_) => list(value.span, [value.clone()]),
                        None => value.clone(),
                    };
                    settings.params.push(("stopSequences", value));
                }
                "apiKeyEnvar" => settings.provider.push(("apiKeyEnv", value.clone())),
                "apiKey" => self.key_of(key, value, &mut settings),
                "apiBaseUrl" | "baseUrl" | "baseURL" => {
                    settings.provider.push(("baseUrl", self.texts_with_env(value)));
                }
                "apiHost" => {
                    let host = self.with_env(value.text().unwrap_or_default());
                    let below = if kind == "azure" { "openai/v1" } else { "v1" };
                    let url = format!("https://{}/{below}", host.trim_end_matches('/'));
                    settings.provider.push(("baseUrl", text(value.span, &url)));
                }
                "apiVersion" | "deployment_id" if kind == "azure" => {
                    let what =
                        format!("`{}` has no effect here: KindLM uses the API `v1`", key.name);
                    self.warn(key.span, what, None);
                }
                "organization" if is_openai && kind != "azure" => {
                    settings.provider.push(("organization", value.clone()));
                }
                "logprobs" if is_openai => settings.provider.push(("logprobs", value.clone())),
                "systemInstruction" if kind == "gemini" => {
                    self.system_instruction(key, value, &mut settings);
                }
                // promptfoo reads this key for no model of Google.
                "mediaConfig" if kind == "gemini" => {
                    let message = "`config.mediaConfig` has no effect".to_owned();
                    self.warn(key.span, message, Some("promptfoo ignores it too; remove it"));
                }
                "modelArmor" if kind == "gemini" => self.model_armor(key, value, &mut settings),
                "tools" if kind == "gemini" => self.google_tools(key, value, &mut settings),
                "output_format" if kind == "anthropic" => {
                    self.output_format(key, value, &mut settings);
                }
                "tools" if kind == "anthropic" => self.anthropic_tools(key, value, &mut settings),
                "tools" => settings.tools = self.tools(value),
                "cost" => settings.price = price(value),
                "response_format" if is_openai => self.response_format(value, &mut settings),
                "functions" if is_openai => {
                    let functions = self.functions(value);
                    settings.body.extend(functions.map(|it| ("functions".to_owned(), it)));
                    settings.calls = true;
                }
                "passthrough" if is_openai => self.passthrough(key, value, &mut settings),
                name if is_openai && BODY.contains(&name) => {
                    let value = self.without_templates(key, value);
                    settings.body.extend(value.map(|it| (name.to_owned(), it)));
                }
                "omitDefaults" if is_openai => {}
                "headers" if matches!(kind, "openai" | "openai-responses" | "anthropic") => {
                    let headers = self.headers(key, value);
                    settings.provider.extend(headers.map(|it| ("headers", it)));
                }
                _ => self.extra_setting(kind, key, value, &mut settings),
            }
        }
        self.with_body(config, settings)
    }

    /// Makes the collected body a setting of the provider, and warns of unknown settings.
    pub(super) fn with_body(&mut self, config: &[(Key, Node)], mut settings: Settings) -> Settings {
        self.warn_of_unknown(&mut settings);
        if !settings.body.is_empty() {
            let span = config.first().map_or(Span::new(0, 0), |(key, _)| key.span);
            let body = std::mem::take(&mut settings.body);
            settings.provider.push(("body", entries(span, body)));
        }
        settings
    }

    /// Translates `apiKey`, which must name a variable.
    pub(super) fn key_of(&mut self, key: &Key, value: &Node, settings: &mut Settings) {
        if let Some(name) = value.text().and_then(variable_of) {
            settings.provider.push(("apiKeyEnv", text(value.span, name)));
        } else {
            let help = "put it into an environment variable, and name that with `apiKeyEnvar`";
            self.error(key.span, "a key must not be in a file", Some(help));
        }
    }

    /// Adds the entries of `passthrough` to the body, except token limits. Token limits are added to `maximums`.
    fn passthrough(&mut self, key: &Key, value: &Node, settings: &mut Settings) {
        let Some(value) = self.without_templates(key, value) else { return };
        settings.calls |= value.get("functions").is_some();
        let own = settings.without_maximums("passthrough", &value);
        settings.body.extend(own.into_iter().map(|(key, it)| (key.name.to_string(), it)));
    }

    /// Fills in the variables of the `env` block in a setting. If a template remains, reports it and returns `None`.
    pub(super) fn without_templates(&mut self, key: &Key, value: &Node) -> Option<Node> {
        let value = self.texts_with_env(value);
        let Some(span) = template_in(&value) else { return Some(value) };
        let help = "write the value itself: this setting is the same in every test";
        self.unsupported(span, &format!("a template in `config.{}`", key.name), Some(help));
        None
    }

    /// Translates the format of the answer, from the config or from a file.
    ///
    /// For a format with a schema, a transform parses the answer, so that the checks get a JSON value.
    fn response_format(&mut self, node: &Node, settings: &mut Settings) {
        let Some(node) = self.in_place(node) else { return };
        if node.get("type").and_then(Node::text) == Some("json_schema") {
            settings.transform = Some(text(node.span, PARSED));
        }
        let node = match node.get("schema").map(|it| self.in_place(it)) {
            Some(Some(schema)) => super::build::with(&node, "schema", schema),
            Some(None) => return,
            None => node,
        };
        settings.body.push(("response_format".to_owned(), node));
    }

    /// Returns the content of the file that a value names, or the value itself.
    ///
    /// Returns `None` if the file cannot be read.
    pub(super) fn in_place(&mut self, node: &Node) -> Option<Node> {
        match node.text().and_then(super::files::path).map(str::to_owned) {
            Some(file) => self.document_of(node.span, &file),
            None => Some(node.clone()),
        }
    }

    /// Returns the list of tools in a setting, or in the file that the setting names.
    ///
    /// Returns `None` after an error, which is reported.
    pub(super) fn tool_list(&mut self, node: &Node) -> Option<Node> {
        let tools = self.in_place(node)?;
        if !matches!(tools.kind, Kind::List(_) | Kind::Null) {
            let help = "write each tool as an item, such as `tools: [{ name: … }]`, or name a file with such a list";
            self.error(tools.span, "expected a list of tools", Some(help));
            return None;
        }
        Some(tools)
    }

    /// Reads and checks `functions`, the older form of tools in OpenAI's API.
    ///
    /// Returns `None` after an error, which is reported.
    fn functions(&mut self, node: &Node) -> Option<Node> {
        let functions = self.in_place(node)?;
        let help = "write a list of functions, each with a `name` and `parameters`, or `file://` and a file of JSON or YAML";
        if functions.text().is_some_and(kindlm_template::is_template) {
            self.error(node.span, "the functions of a provider cannot be a template", Some(help));
            return None;
        }
        if functions.items().is_empty() {
            let message = "the list of functions is empty, which the API rejects";
            self.error(node.span, message, Some("list one, or remove `functions`"));
            return None;
        }
        for item in functions.items() {
            if item.get("name").and_then(Node::text).is_none() {
                self.error(item.span, "a function has no `name`", Some(help));
                continue;
            }
            let Some(parameters) = item.get("parameters") else { continue };
            for fault in faults_of_parameters(&parameters.to_json()) {
                let mut parameters = parameters.clone();
                let span = parameters.at_mut(&fault.pointer).map_or(item.span, |it| it.span);
                if fault.pointer.is_empty() {
                    self.error(span, fault.message, None);
                } else {
                    self.warn(
                        span,
                        fault.message,
                        Some("correct it: it has no effect on the model"),
                    );
                }
            }
        }
        Some(functions)
    }

    /// Translates tools in the format of OpenAI or Anthropic. Reports tools that are not functions. Returns `None`
    /// after an error in the whole list, which is reported.
    pub(super) fn tools(&mut self, node: &Node) -> Option<Node> {
        let node = &self.tool_list(node)?;
        let mut tools = Vec::new();
        for item in node.items() {
            let function = item.get("function").unwrap_or(item);
            let mut entry = Vec::new();
            for (from, to) in [
                ("name", "name"),
                ("description", "description"),
                ("parameters", "parameters"),
                ("input_schema", "parameters"),
            ] {
                if let Some(value) = function.get(from) {
                    entry.push((to, value.clone()));
                }
            }
            let kind = item.get("type").and_then(Node::text).unwrap_or_default();
            if undated(kind).is_some() {
                let what = format!("the tool `{kind}` of Anthropic's API at this vendor");
                self.unsupported(item.span, &what, Some("name the model as `anthropic:…`"));
                continue;
            }
            if function.get("name").and_then(Node::text).is_none() {
                let help = "write `name`, `description` and `parameters`, or `{ type: function, function: { … } }`";
                self.unsupported(item.span, "a tool that is not a function", Some(help));
                continue;
            }
            tools.push(map(item.span, entry));
        }
        Some(list(node.span, tools))
    }
}

/// Returns the type of a tool of Anthropic's API without its date; `None` for other types, such as `function`.
pub(super) fn undated(kind: &str) -> Option<&str> {
    let (name, date) = kind.rsplit_once('_')?;
    (date.len() == 8 && date.bytes().all(|it| it.is_ascii_digit())).then_some(name)
}

/// Returns the settings that promptfoo always sends to `openai:responses`. `itemsAsText` gives the checks all items of
/// an answer as text, as in promptfoo.
fn usual_settings(config: &[(Key, Node)]) -> Settings {
    let span = config.first().map_or(Span::new(0, 0), |(key, _)| key.span);
    let format = map(span, [("type", text(span, "text"))]);
    Settings {
        provider: vec![("itemsAsText", node(span, Kind::Bool(true)))],
        body: vec![("text".to_owned(), map(span, [("format", format)]))],
        ..Settings::default()
    }
}

/// Returns the source location of the first template in a value; `None` without a template.
fn template_in(value: &Node) -> Option<Span> {
    if value.text().is_some_and(kindlm_template::is_template) {
        return Some(value.span);
    }
    let items = value.items().iter();
    items.chain(value.entries().iter().map(|(_, it)| it)).find_map(template_in)
}

/// Converts promptfoo's price per token to US dollars per million tokens.
///
/// Returns `None` if the value is not a number.
pub(super) fn price(node: &Node) -> Option<Node> {
    let million = number(node.span, node.to_json().as_f64()? * 1e6);
    Some(map(node.span, [("input", million.clone()), ("output", million)]))
}

/// Returns the variable's name if a text is exactly `{{env.NAME}}`.
///
/// Returns `None` for other texts.
pub(super) fn variable_of(text: &str) -> Option<&str> {
    let inside = text.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim();
    let name = inside.strip_prefix("env.")?;
    name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_').then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_variables() {
        for (text, expected) in [
            ("{{env.KEY}}", Some("KEY")),
            ("{{ env.KEY_2 }}", Some("KEY_2")),
            ("sk-123", None),
            ("{{env.A}}{{env.B}}", None),
        ] {
            assert_eq!(variable_of(text), expected, "{text}");
        }
    }
}
