//! Providers: who answers, as models and their providers.

use super::Translator;
use super::build::{key, list, map, text, unique};
use super::provider::{Provider, Runtime, read};
use crate::source::Span;
use crate::tree::{Key, Kind, Node};

/// The models of a config.
#[derive(Default)]
pub(super) struct Providers {
    configs: Vec<(String, Node)>,
    models: Vec<Node>,
    groups: Vec<Group>,
}

/// Models that are sent the same, in the same way.
#[derive(Default)]
pub(super) struct Group {
    /// References to them.
    pub(super) models: Vec<Node>,
    /// Of each, its id here and the one that it was written with.
    pub(super) ids: Vec<(String, String)>,
    /// The only prompts that they are sent.
    pub(super) prompts: Option<Vec<String>>,
    pub(super) tools: Option<Node>,
    pub(super) transform: Option<Node>,
}

impl Providers {
    pub(super) fn configs(&self) -> impl Iterator<Item = (String, Node)> + '_ {
        self.configs.iter().cloned()
    }

    pub(super) fn models(&self) -> impl Iterator<Item = Node> + '_ {
        self.models.iter().cloned()
    }

    pub(super) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The key of a provider with this configuration; equal ones share it.
    fn config(&mut self, kind: &str, name: &str, node: Node) -> String {
        let json = node.to_json();
        let same = self.configs.iter().find(|(it, known)| {
            (it == name || it.starts_with(&format!("{name} ("))) && known.to_json() == json
        });
        if let Some((known, _)) = same {
            return known.clone();
        }
        let chosen = unique(name, |it| self.configs.iter().any(|(known, _)| known == it));
        let node = if chosen == kind { node } else { typed(&node, kind) };
        self.configs.push((chosen.clone(), node));
        chosen
    }

    fn add(&mut self, id: &str, written: &str, entry: Node, how: Group) {
        let span = entry.span;
        self.models.push(entry);
        let same = |it: &Group| {
            let json = |node: &Option<Node>| node.as_ref().map(Node::to_json);
            it.prompts == how.prompts
                && json(&it.tools) == json(&how.tools)
                && json(&it.transform) == json(&how.transform)
        };
        let index = self.groups.iter().position(same).unwrap_or_else(|| {
            self.groups.push(how);
            self.groups.len() - 1
        });
        if let Some(group) = self.groups.get_mut(index) {
            group.models.push(text(span, id));
            group.ids.push((id.to_owned(), written.to_owned()));
        }
    }
}

/// A configuration that says whose it is.
fn typed(node: &Node, kind: &str) -> Node {
    let mut entries = vec![(key(node.span, "type"), text(node.span, kind))];
    entries.extend(node.entries().iter().cloned());
    Node { kind: Kind::Mapping(entries.into()), ..node.clone() }
}

/// What an entry of `providers` says.
struct Entry<'n> {
    id: String,
    span: Span,
    label: Option<String>,
    config: &'n [(Key, Node)],
    group: Group,
}

/// The parts of a model and of its provider that a `config` gives.
#[derive(Default)]
struct Settings {
    params: Vec<(&'static str, Node)>,
    provider: Vec<(&'static str, Node)>,
    tools: Option<Node>,
}

impl Translator<'_> {
    pub(super) fn providers(&mut self, root: &Node) -> Providers {
        let mut providers = Providers::default();
        let Some(node) = root.get("providers").or_else(|| root.get("targets")) else {
            self.error(
                root.span,
                "no provider says who answers",
                Some("add `providers: [openai:gpt-4o]`"),
            );
            return providers;
        };
        let one = [node.clone()];
        let items = if let Kind::List(items) = &node.kind { &items[..] } else { &one[..] };
        for item in items {
            if let Some(entry) = self.entry(item) {
                self.provider(&mut providers, entry);
            } else {
                let help =
                    "name it, such as `openai:gpt-4o`, or give an object with `id` and `config`";
                self.error(item.span, "expected a provider", Some(help));
            }
        }
        providers
    }

    fn entry<'n>(&mut self, item: &'n Node) -> Option<Entry<'n>> {
        let plain = |id: &str| Entry {
            id: id.to_owned(),
            span: item.span,
            label: None,
            config: &[],
            group: Group::default(),
        };
        if let Some(id) = item.text() {
            return Some(plain(id));
        }
        // `- openai:gpt-4o: { config: … }`
        let (id, said) = match (item.get("id"), item.entries()) {
            (Some(id), _) => (id.text()?.to_owned(), item),
            (None, [(key, said)]) => (key.name.to_string(), said),
            (None, _) => return None,
        };
        let mut entry = plain(&id);
        for (key, value) in said.entries() {
            match &*key.name {
                "id" => {}
                "label" => entry.label = value.text().map(str::to_owned),
                "config" => entry.config = value.entries(),
                "prompts" => {
                    let names = value.items().iter().filter_map(Node::text).map(str::to_owned);
                    entry.group.prompts = Some(names.collect());
                }
                "transform" => entry.group.transform = Some(value.clone()),
                name => self.unsupported(key.span, &format!("`{name}` of a provider"), None),
            }
        }
        Some(entry)
    }

    fn provider(&mut self, providers: &mut Providers, entry: Entry<'_>) {
        let span = entry.span;
        let provider = read(&entry.id);
        let (kind, name, model, settings) = match &provider {
            Provider::Known { kind, model } => {
                let mut settings = self.settings(entry.config);
                let key = kindlm_providers::find(kind).and_then(|it| it.meta.key_variable);
                if *kind != "echo" {
                    // promptfoo's default, which is not ours.
                    let cold = || super::build::number(span, 0.0);
                    or_else(&mut settings.params, "temperature", cold);
                }
                if let Some(key) = key {
                    or_else(&mut settings.provider, "apiKeyEnv", || text(span, key));
                }
                (*kind, *kind, (*model).to_owned(), settings)
            }
            Provider::Compatible { name, base_url, key, model } => {
                let mut settings = self.settings(entry.config);
                or_else(&mut settings.provider, "baseUrl", || text(span, base_url));
                or_else(&mut settings.provider, "apiKeyEnv", || text(span, key));
                ("openai", *name, (*model).to_owned(), settings)
            }
            Provider::Http(url) => {
                let Some(settings) = self.http(span, url, entry.config) else { return };
                ("http", "http", "http".to_owned(), settings)
            }
            Provider::Exec(command) => {
                let settings = self.command(span, command, entry.config);
                ("command", "exec", (*command).to_owned(), settings)
            }
            Provider::Script { runtime, path, function } => {
                let command = command_of(*runtime, path, *function);
                let settings = self.command(span, &command, entry.config);
                ("command", "script", (*path).to_owned(), settings)
            }
            Provider::Unknown(what) => {
                let help = "supported are openai, anthropic, google, mistral, cohere, ollama, openrouter, groq, echo, http(s), exec and file://";
                self.unsupported(span, what, Some(help));
                return;
            }
        };
        let key = providers.config(kind, name, map(span, settings.provider));
        let taken = |it: &str| {
            providers.models.iter().any(|known| known.get("id").and_then(Node::text) == Some(it))
        };
        let id = unique(entry.label.as_deref().unwrap_or(&entry.id), taken);
        let mut model = vec![
            ("id", text(span, &id)),
            ("provider", text(span, &key)),
            ("model", text(span, &model)),
        ];
        if !settings.params.is_empty() {
            model.push(("params", map(span, settings.params)));
        }
        let how = Group { tools: settings.tools, ..entry.group };
        providers.add(&id, &entry.id, map(span, model), how);
    }

    fn settings(&mut self, config: &[(Key, Node)]) -> Settings {
        let mut settings = Settings::default();
        for (key, value) in config {
            let name = &*key.name;
            match name {
                "temperature" | "seed" => {
                    let name = if name == "seed" { "seed" } else { "temperature" };
                    settings.params.push((name, value.clone()));
                }
                "max_tokens" | "max_completion_tokens" | "maxOutputTokens" | "num_predict" => {
                    settings.params.push(("maxTokens", value.clone()));
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
                "apiKey" => {
                    if let Some(name) = value.text().and_then(variable_of) {
                        settings.provider.push(("apiKeyEnv", text(value.span, name)));
                    } else {
                        let help =
                            "put it into an environment variable, and name that with `apiKeyEnvar`";
                        self.error(key.span, "a key does not belong into a file", Some(help));
                    }
                }
                "apiBaseUrl" | "baseUrl" => settings.provider.push(("baseUrl", value.clone())),
                "apiHost" => {
                    let url = format!("https://{}/v1", value.text().unwrap_or_default());
                    settings.provider.push(("baseUrl", text(value.span, &url)));
                }
                "organization" => settings.provider.push(("organization", value.clone())),
                "tools" => settings.tools = self.tools(value),
                name => {
                    let help = "what every provider takes: temperature, max_tokens, top_p, stop, seed, tools";
                    self.unsupported(key.span, &format!("`config.{name}`"), Some(help));
                }
            }
        }
        settings
    }

    /// Tools as OpenAI or Anthropic write them.
    fn tools(&mut self, node: &Node) -> Option<Node> {
        let file = node.text().and_then(super::files::path).map(str::to_owned);
        let node = match &file {
            Some(file) => &self.document_of(node.span, file)?,
            None => node,
        };
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
            if function.get("name").and_then(Node::text).is_none() {
                self.unsupported(item.span, "a tool that is not a function", None);
                continue;
            }
            tools.push(map(item.span, entry));
        }
        Some(list(node.span, tools))
    }

    fn command(&mut self, span: Span, command: &str, config: &[(Key, Node)]) -> Settings {
        if let Some((key, _)) = config.first() {
            let help = "give the program its settings in its command line or in the environment";
            self.unsupported(key.span, "`config` of a provider that is a program", Some(help));
        }
        let provider = vec![("command", text(span, command)), ("input", text(span, "argument"))];
        Settings { provider, ..Settings::default() }
    }

    fn http(&mut self, span: Span, url: &str, config: &[(Key, Node)]) -> Option<Settings> {
        let mut provider = Vec::new();
        if !url.is_empty() {
            provider.push(("url", text(span, url)));
        }
        for (key, value) in config {
            match &*key.name {
                "url" => provider.push(("url", value.clone())),
                "method" => provider.push(("method", value.clone())),
                "headers" => provider.push(("headers", headers(value))),
                "body" => provider.push(("body", body(value))),
                "transformResponse" | "responseParser" => {
                    if let Some(path) = value.text().and_then(path_of) {
                        provider.push(("responsePath", text(value.span, &path)));
                    } else {
                        let help = "a path is supported: `json.choices[0].message.content`";
                        self.unsupported(value.span, "this `transformResponse`", Some(help));
                    }
                }
                name => self.unsupported(
                    key.span,
                    &format!("`config.{name}` of an http provider"),
                    None,
                ),
            }
        }
        if !provider.iter().any(|(name, _)| *name == "url") {
            self.error(span, "the http provider has no `url`", Some("add `config: { url: … }`"));
            return None;
        }
        Some(Settings { provider, ..Settings::default() })
    }
}

/// Headers; `Bearer {{env.NAME}}` stays out of the file as it does here, by the name of the variable.
fn headers(node: &Node) -> Node {
    let entries = node.entries().iter().map(|(key, value)| {
        let value = match value.text().and_then(variable_of) {
            Some(name) => text(value.span, &format!("env:{name}")),
            None => value.clone(),
        };
        (key.name.to_string(), value)
    });
    super::build::entries(node.span, entries)
}

fn or_else(
    entries: &mut Vec<(&'static str, Node)>,
    name: &'static str,
    make: impl FnOnce() -> Node,
) {
    if !entries.iter().any(|(it, _)| *it == name) {
        entries.push((name, make()));
    }
}

/// The variable of `{{env.NAME}}`, if a text is just that.
fn variable_of(text: &str) -> Option<&str> {
    let inside = text.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim();
    let name = inside.strip_prefix("env.")?;
    name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_').then_some(name)
}

/// The path of `json.a.b[0]`, as `a.b.0`.
fn path_of(text: &str) -> Option<String> {
    let rest = text.trim().strip_prefix("json")?;
    let path = rest.replace('[', ".").replace([']', '\'', '"'], "");
    let path = path.trim_start_matches('.');
    let is_plain = path.chars().all(|it| it.is_alphanumeric() || matches!(it, '.' | '_' | '-'));
    (is_plain && !path.is_empty() && (rest.starts_with('.') || rest.starts_with('[')))
        .then(|| path.to_owned())
}

/// The body as a template of text.
fn body(node: &Node) -> Node {
    match &node.kind {
        Kind::Text(_) => node.clone(),
        _ => text(node.span, &node.to_json().to_string()),
    }
}

/// The command line that runs a provider in a file.
///
/// The prompt and promptfoo's two further arguments (options and context, as JSON) come as arguments.
fn command_of(runtime: Runtime, path: &str, function: Option<&str>) -> String {
    let quoted = |it: &str| format!("'{}'", it.replace('\'', r"'\''"));
    match runtime {
        Runtime::Node => {
            let script = include_str!("provider.mjs");
            let name = function.unwrap_or("default");
            format!(
                "node --input-type=module -e {} -- {} {}",
                quoted(script),
                quoted(path),
                quoted(name)
            )
        }
        Runtime::Python => {
            let script = include_str!("provider.py");
            let name = function.unwrap_or("call_api");
            format!("python3 -c {} {} {}", quoted(script), quoted(path), quoted(name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_variables_and_paths() {
        for (text, expected) in [
            ("{{env.KEY}}", Some("KEY")),
            ("{{ env.KEY_2 }}", Some("KEY_2")),
            ("sk-123", None),
            ("{{env.A}}{{env.B}}", None),
        ] {
            assert_eq!(variable_of(text), expected, "{text}");
        }
        for (text, expected) in [
            ("json.choices[0].message.content", Some("choices.0.message.content")),
            ("json['a'].b", Some("a.b")),
            ("json", None),
            ("text", None),
            ("json.map(it => it)", None),
        ] {
            assert_eq!(path_of(text).as_deref(), expected, "{text}");
        }
    }
}
