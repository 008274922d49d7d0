//! The `config` of providers: what becomes of each key.

use super::Translator;
use super::build::{entries, list, map, number, text};
use crate::source::Span;
use crate::tree::{Key, Kind, Node};

/// The parts of a model and of its provider that a `config` gives.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) params: Vec<(&'static str, Node)>,
    pub(super) provider: Vec<(&'static str, Node)>,
    pub(super) tools: Option<Node>,
    pub(super) transform: Option<Node>,
    pub(super) price: Option<Node>,
    pub(super) body: Vec<(String, Node)>,
}

/// Keys that OpenAI's API has in the body of a request, under the same name.
const BODY: [&str; 19] = [
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "metadata",
    "modalities",
    "parallel_tool_calls",
    "prediction",
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

/// Makes structured output of a text that is JSON, as promptfoo does where a schema was asked for; a refusal stays text.
const PARSED: &str = "(() => { try { return JSON.parse(output) } catch { return output } })()";

pub(super) fn or_else(
    entries: &mut Vec<(&'static str, Node)>,
    name: &'static str,
    make: impl FnOnce() -> Node,
) {
    if !entries.iter().any(|(it, _)| *it == name) {
        entries.push((name, make()));
    }
}

impl Translator<'_> {
    /// What the `config` of a vendor's API says; `kind` is the provider here, or `azure`.
    pub(super) fn settings(&mut self, kind: &str, config: &[(Key, Node)]) -> Settings {
        let mut settings = Settings::default();
        let is_openai = matches!(kind, "openai" | "azure");
        for (key, value) in config {
            match &*key.name {
                "temperature" => settings.params.push(("temperature", value.clone())),
                "seed" => settings.params.push(("seed", value.clone())),
                "max_tokens"
                | "max_completion_tokens"
                | "maxOutputTokens"
                | "num_predict"
                | "max_output_tokens" => settings.params.push(("maxTokens", value.clone())),
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
                    let what = format!("`{}` has no effect here: the API `v1` is asked", key.name);
                    self.warn(key.span, what, None);
                }
                "organization" if kind == "openai" => {
                    settings.provider.push(("organization", value.clone()));
                }
                "logprobs" if is_openai => settings.provider.push(("logprobs", value.clone())),
                "tools" => settings.tools = self.tools(value),
                "cost" => settings.price = price(value),
                "response_format" if is_openai => self.response_format(value, &mut settings),
                "passthrough" if is_openai => {
                    let own = value.entries().iter();
                    settings.body.extend(own.map(|(key, it)| (key.name.to_string(), it.clone())));
                }
                name if is_openai && BODY.contains(&name) => {
                    settings.body.push((name.to_owned(), value.clone()));
                }
                name => {
                    let help = if is_openai {
                        "what the API has under this name may stand in `config.passthrough`"
                    } else {
                        "what every provider takes: temperature, max_tokens, top_p, stop, seed, tools"
                    };
                    self.unsupported(key.span, &format!("`config.{name}`"), Some(help));
                }
            }
        }
        if !settings.body.is_empty() {
            let span = config.first().map_or(Span::new(0, 0), |(key, _)| key.span);
            let body = std::mem::take(&mut settings.body);
            settings.provider.push(("body", entries(span, body)));
        }
        settings
    }

    /// The form of the answer, in place or in a file. An answer with a schema is a value to the checks, as in
    /// promptfoo.
    fn response_format(&mut self, node: &Node, settings: &mut Settings) {
        let file = node.text().and_then(super::files::path).map(str::to_owned);
        let node = match file {
            Some(file) => match self.document_of(node.span, &file) {
                Some(node) => node,
                None => return,
            },
            None => node.clone(),
        };
        if node.get("type").and_then(Node::text) == Some("json_schema") {
            settings.transform = Some(text(node.span, PARSED));
        }
        let inner = node.get("schema").and_then(Node::text).and_then(super::files::path);
        let node = match inner.map(str::to_owned) {
            Some(file) => match self.document_of(node.span, &file) {
                Some(schema) => super::cases::with(&node, "schema", schema),
                None => return,
            },
            None => node,
        };
        settings.body.push(("response_format".to_owned(), node));
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

    pub(super) fn http(
        &mut self,
        span: Span,
        url: &str,
        config: &[(Key, Node)],
    ) -> Option<Settings> {
        let mut provider = Vec::new();
        let mut transform = None;
        if !url.is_empty() {
            provider.push(("url", text(span, url)));
        }
        for (key, value) in config {
            match &*key.name {
                "url" => provider.push(("url", self.texts_with_env(value))),
                "method" => provider.push(("method", value.clone())),
                "headers" => provider.push(("headers", headers(value))),
                "body" => {
                    let body = self.http_body(value);
                    provider.push(("body", body));
                }
                "transformResponse" | "responseParser" => {
                    if let Some(path) = value.text().and_then(path_of) {
                        provider.push(("responsePath", text(value.span, &path)));
                    } else if let Some(code) = value.text().and_then(transform_of) {
                        transform = Some(text(value.span, &code));
                    } else {
                        let help = "a path is supported (`json.choices[0].message.content`), or an expression of `json` or `text`";
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
        let Some((_, url)) = provider.iter().find(|(name, _)| *name == "url") else {
            self.error(span, "the http provider has no `url`", Some("add `config: { url: … }`"));
            return None;
        };
        if url.text().is_some_and(|it| it.contains("{{")) {
            let help = "the body may have variables: `{{prompt}}`, `{{model}}`";
            self.unsupported(url.span, "a variable in the URL of an http provider", Some(help));
            return None;
        }
        if !provider.iter().any(|(name, _)| *name == "responsePath") {
            // The whole answer, as a value.
            provider.push(("responsePath", text(span, "")));
            transform = transform.or_else(|| Some(text(span, PARSED)));
        }
        Some(Settings { provider, transform, ..Settings::default() })
    }
}

impl Translator<'_> {
    /// The body as a template of text: `{{ prompt }}` is `{{prompt}}`, and what else stands in braces is told.
    fn http_body(&mut self, node: &Node) -> Node {
        let written = match &node.kind {
            Kind::Text(text) => text.to_string(),
            _ => node.to_json().to_string(),
        };
        let written = self.with_env(&written);
        let mut body = String::with_capacity(written.len());
        let mut rest = written.as_str();
        while let Some((before, name, behind)) = placeholder(rest) {
            body.push_str(before);
            let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
            if name.is_empty() || !name.chars().all(is_name) {
                let what = format!("`{{{{{name}}}}}` in the body of an http provider");
                let help = "`{{prompt}}` and the names of variables are filled in, nothing else";
                self.unsupported(node.span, &what, Some(help));
            }
            body.push_str("{{");
            body.push_str(name);
            body.push_str("}}");
            rest = behind;
        }
        body.push_str(rest);
        text(node.span, &body)
    }
}

/// The first `{{ name }}` of a text: what is before it, its name, and what is behind it.
fn placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (name, behind) = rest.split_once("}}")?;
    Some((before, name.trim(), behind))
}

/// promptfoo's price of a token, in dollars, as a price of a million.
fn price(node: &Node) -> Option<Node> {
    let million = number(node.span, node.to_json().as_f64()? * 1e6);
    Some(map(node.span, [("input", million.clone()), ("output", million)]))
}

/// Headers; `Bearer {{env.NAME}}` stays out of the file as it does here, by the name of the variable.
fn headers(node: &Node) -> Node {
    let headers = node.entries().iter().map(|(key, value)| {
        let value = match value.text().and_then(variable_of) {
            Some(name) => text(value.span, &format!("env:{name}")),
            None => value.clone(),
        };
        (key.name.to_string(), value)
    });
    entries(node.span, headers)
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

/// An expression of `json` and `text`, or a function of them, as a transform of the whole answer.
fn transform_of(code: &str) -> Option<String> {
    let code = code.trim();
    if code.is_empty() || code.starts_with("file://") {
        return None;
    }
    let call = if code.contains("=>") || code.starts_with("function") {
        format!("({code})(json, text)")
    } else {
        format!("({code})")
    };
    let parse = "(() => { try { return JSON.parse(output) } catch { return output } })()";
    Some(format!("((json, text) => {call})(typeof output === 'string' ? {parse} : output, output)"))
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
