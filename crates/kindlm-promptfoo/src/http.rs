//! `http` providers, whose requests are defined in the config.

use kindlm_source::{Key, Kind, Node, Span};

use super::Translator;
use super::build::{entries, text};
use super::files::path;
use super::http_more::{Constants, MORE, path_of, with_constants};
use super::settings::{Settings, variable_of};

/// The help for keys that cannot be translated.
const HELP: [(&str, &str); 2] = [
    ("transformRequest", "write the content as `body`, with templates"),
    ("multipart", "call the API with a provider in a file, `file://upload.js`"),
];

impl Translator<'_> {
    pub(super) fn http(
        &mut self,
        span: Span,
        url: &str,
        config: &[(Key, Node)],
    ) -> Option<Settings> {
        let config = self.without_raw_request(url, config.to_vec())?;
        let config = &self.without_env_defaults(&config);
        let mut provider = Vec::new();
        let (mut headers, mut query) = (Vec::new(), Vec::new());
        let mut constants = Constants::new();
        if !matches!(url, "http" | "https") {
            provider.push(("url", text(span, &self.with_env(url))));
        }
        for (key, value) in config {
            match &*key.name {
                "url" => {
                    provider.retain(|(name, _)| *name != "url");
                    provider.push(("url", self.texts_with_env(value)));
                }
                "method" => {
                    let method = value.text().map(str::to_uppercase);
                    let method = method.map_or_else(|| value.clone(), |it| text(value.span, &it));
                    provider.push(("method", method));
                }
                "headers" => headers.extend(self.pairs(value).into_iter().map(|(name, value)| {
                    // With the notation `env:NAME`, the error message for an unset variable names the header.
                    let alone = value.text().and_then(variable_of).map(|it| format!("env:{it}"));
                    (name, alone.map_or(value.clone(), |it| text(value.span, &it)))
                })),
                "queryParams" => query.extend(self.pairs(value)),
                "auth" => self.auth(value, &mut headers, &mut query),
                "body" => {
                    let body = self.body(value)?;
                    provider.push(("body", body));
                    provider.push(("template", text(value.span, "jinja")));
                }
                "transformResponse" | "responseParser" => {
                    provider.push(self.response(value)?);
                }
                name if MORE.contains(&name) => {
                    self.http_more(key, value, &mut provider, &mut constants);
                }
                "maxRetries" => {
                    let what = "`maxRetries` has no effect here: KindLM decides which requests are retried";
                    self.warn(key.span, what.to_owned(), None);
                }
                name => {
                    let help = HELP.iter().find(|(it, _)| *it == name).map(|(_, help)| *help);
                    let what = format!("`config.{name}` of an http provider");
                    self.unsupported(key.span, &what, help);
                }
            }
        }
        for (_, body) in provider.iter_mut().filter(|(name, _)| *name == "body") {
            *body = with_constants(body, &constants);
        }
        if !provider.iter().any(|(name, _)| *name == "url") {
            self.error(span, "the http provider has no `url`", Some("add `config: { url: … }`"));
            return None;
        }
        // The default method is GET in promptfoo, but not in KindLM.
        if !provider.iter().any(|(name, _)| *name == "method") {
            if provider.iter().any(|(name, _)| *name == "body") {
                let message = "without a `method`, promptfoo sends this as GET, without its body";
                self.warn(span, message.to_owned(), Some("add `method: POST`"));
                provider.retain(|(name, _)| !matches!(*name, "body" | "template"));
            }
            provider.push(("method", text(span, "GET")));
        }
        self.check_keys(headers.iter().chain(&query));
        if !headers.is_empty() {
            provider.push(("headers", entries(span, headers)));
        }
        if !query.is_empty() {
            provider.push(("queryParams", entries(span, query)));
        }
        let is_read =
            |(name, _): &(&str, Node)| matches!(*name, "responsePath" | "transformResponse");
        if !provider.iter().any(is_read) {
            // An empty path selects the whole answer, as a value.
            provider.push(("responsePath", text(span, "")));
        }
        Some(Settings { provider, ..Settings::default() })
    }

    /// Reports keys that are written in headers or query parameters.
    fn check_keys<'n>(&mut self, entries: impl Iterator<Item = &'n (String, Node)>) {
        for (name, value) in entries {
            let written = value.text().unwrap_or_default();
            if kindlm_redact::mask_keys(written) != written {
                let help = format!(
                    "put it into an environment variable, and write `{name}: '{{{{env.NAME}}}}'`"
                );
                self.error(value.span, "a key must not be in a file", Some(&help));
            }
        }
    }

    /// Resolves the defaults in texts such as `{{ env.REGION | default('eu') }}`. An unset variable becomes its default. A
    /// set variable becomes `{{env.REGION}}`, and its value is inserted when the request is sent. Scripts stay unchanged.
    fn without_env_defaults(&self, config: &[(Key, Node)]) -> Vec<(Key, Node)> {
        let replaced = |(key, value): &(Key, Node)| {
            let is_code = matches!(&*key.name, "transformResponse" | "responseParser");
            let value = if is_code { value.clone() } else { self.with_env_defaults(value) };
            (key.clone(), value)
        };
        config.iter().map(replaced).collect()
    }

    pub(super) fn with_env_defaults(&self, node: &Node) -> Node {
        let kind = match &node.kind {
            Kind::Text(text) => {
                let is_set = |name: &str| self.env_value(name).is_some();
                Kind::Text(env_defaults(text, is_set).as_str().into())
            }
            Kind::List(items) => Kind::List(
                items.iter().map(|it| self.with_env_defaults(it)).collect::<Vec<_>>().into(),
            ),
            Kind::Mapping(entries) => Kind::Mapping(self.without_env_defaults(entries).into()),
            other => other.clone(),
        };
        Node { kind, ..node.clone() }
    }

    /// Returns the entries of a mapping as texts. Values that are not texts become JSON.
    ///
    /// The variables of the `env` block are filled in.
    pub(super) fn pairs(&self, node: &Node) -> Vec<(String, Node)> {
        let pair = |(key, value): &(Key, Node)| {
            let value = match &value.kind {
                Kind::Text(_) => self.texts_with_env(value),
                _ => text(value.span, &value.to_json().to_string()),
            };
            (key.name.to_string(), value)
        };
        node.entries().iter().map(pair).collect()
    }

    /// Returns the request body from the config or from a file.
    ///
    /// Returns `None` after an error.
    pub(super) fn body(&mut self, node: &Node) -> Option<Node> {
        let Some(file) = node.text().and_then(path).map(str::to_owned) else {
            return Some(self.all_with_env(node));
        };
        let content = self.content(node.span, &file)?;
        Some(match self.parse(node.span, &file, &content) {
            Some(value) if value.is_object() || value.is_array() => Node::at(node.span, &value),
            _ => text(node.span, &content),
        })
    }

    /// Fills in the variables of the `env` block in all texts of a value.
    pub(super) fn all_with_env(&self, node: &Node) -> Node {
        let kind = match &node.kind {
            Kind::Text(text) => Kind::Text(self.with_env(text).as_str().into()),
            Kind::List(items) => {
                Kind::List(items.iter().map(|it| self.all_with_env(it)).collect::<Vec<_>>().into())
            }
            Kind::Mapping(pairs) => Kind::Mapping(
                pairs
                    .iter()
                    .map(|(key, it)| (key.clone(), self.all_with_env(it)))
                    .collect::<Vec<_>>()
                    .into(),
            ),
            other => other.clone(),
        };
        Node { kind, ..node.clone() }
    }

    /// Translates `auth` into a header or a query parameter. Reports unsupported kinds of `auth`.
    fn auth(
        &mut self,
        node: &Node,
        headers: &mut Vec<(String, Node)>,
        query: &mut Vec<(String, Node)>,
    ) {
        let text_at = |key: &str| node.get(key).and_then(Node::text).map(|it| self.with_env(it));
        match (text_at("type").as_deref(), text_at("token"), text_at("keyName"), text_at("value")) {
            (Some("bearer"), Some(token), ..) => {
                let value = text(node.span, &format!("Bearer {token}"));
                headers.push(("Authorization".to_owned(), value));
            }
            (Some("api_key"), _, Some(name), Some(value)) => {
                let value = text(node.span, &value);
                match text_at("placement").as_deref() {
                    Some("query") => query.push((name, value)),
                    _ => headers.push((name, value)),
                }
            }
            _ => {
                let help = "supported are `bearer` and `api_key`; any other is a header: `headers: { Authorization: \"{{env.MY_AUTH}}\" }`";
                self.unsupported(node.span, "this `auth`", Some(help));
            }
        }
    }

    /// Translates the code that extracts the output.
    ///
    /// The result is a `responsePath` or a `transformResponse`. Returns `None` after an error, which is reported.
    fn response(&mut self, node: &Node) -> Option<(&'static str, Node)> {
        let Some(code) = node.text().filter(|it| !it.trim().is_empty()) else {
            let help = "an expression of `json`, `text` and `context`, or `file://` and a script";
            self.unsupported(node.span, "this `transformResponse`", Some(help));
            return None;
        };
        if let Some(path) = path_of(code) {
            return Some(("responsePath", text(node.span, &path)));
        }
        if let Some(named) = path(code) {
            let (file, _) = super::programs::split(named);
            let file = file.trim_start_matches("./").to_owned();
            self.content(node.span, &file)?;
        }
        Some(("transformResponse", node.clone()))
    }
}

/// Replaces each `{{ env.NAME | default('text') }}` by `{{env.NAME}}` or by the text.
fn env_defaults(text: &str, is_set: impl Fn(&str) -> bool) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some((before, (inside, after))) =
        rest.split_once("{{").and_then(|(before, it)| Some((before, it.split_once("}}")?)))
    {
        replaced.push_str(before);
        match env_default(inside) {
            Some((name, _)) if is_set(name) => replaced.push_str(&["{{env.", name, "}}"].concat()),
            Some((_, default)) => replaced.push_str(default),
            None => replaced.push_str(&["{{", inside, "}}"].concat()),
        }
        rest = after;
    }
    replaced + rest
}

/// Returns the name and the default of `env.NAME | default('text')`; `None` for any other expression.
fn env_default(inside: &str) -> Option<(&str, &str)> {
    let (name, filter) = inside.trim().strip_prefix("env.")?.split_once('|')?;
    let name = name.trim();
    let default = filter.trim().strip_prefix("default(")?.strip_suffix(')')?.trim();
    let quote = default.chars().next().filter(|it| matches!(it, '"' | '\''))?;
    let default = default.strip_prefix(quote)?.strip_suffix(quote)?;
    let is_name = name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    (is_name && !default.contains([quote, '\\', '{'])).then_some((name, default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_of_the_environment_are_inserted() {
        for (text, expected) in [
            (
                "a.{{ env.NONE | default(\"eu\") }}.b/{{ env.SET | default('x') }}",
                "a.eu.b/{{env.SET}}",
            ),
            (
                "{{env.NONE}} {{ x }} {{ env.NONE | upper }}",
                "{{env.NONE}} {{ x }} {{ env.NONE | upper }}",
            ),
            ("{{ env.NONE | default(y) }} {{", "{{ env.NONE | default(y) }} {{"),
        ] {
            assert_eq!(env_defaults(text, |it| it == "SET"), expected, "{text}");
        }
    }
}
