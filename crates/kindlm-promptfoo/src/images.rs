//! Models that make images: `openai:image`, `xai:image`, `replicate:image` and `fal:image`.
//!
//! Reports have no image data. An output has the address of an image, or its name and digest.

use kindlm_source::{Key, Kind, Node, Span};
use serde_json::{Map, Value, json};

use super::Translator;
use super::build::{entries, map, node, number, text};
use super::extras::add_to;
use super::settings::{Settings, or_else};

/// The image settings of OpenAI's `gpt-image` models.
const GPT: [&str; 5] =
    ["quality", "background", "output_format", "output_compression", "moderation"];
const DALL_E_3: [&str; 2] = ["quality", "style"];

/// The settings of an image at xAI.
const XAI: [&str; 7] = ["aspect_ratio", "quality", "resolution", "image", "images", "mask", "user"];

/// Settings for which promptfoo reports an error at OpenAI.
const REFUSED: [&str; 5] = ["image", "mask", "input_fidelity", "stream", "partial_images"];

/// True for the models whose answers have the data of an image, not its address.
fn answers_with_data(model: &str) -> bool {
    model.starts_with("gpt-image-") || model.starts_with("chatgpt-image-")
}

/// Returns the name of a model of xAI in requests. promptfoo replaces an unknown model by `grok-2-image`, so this
/// function does too.
fn xai_model(model: &str) -> &str {
    match model {
        "grok-imagine-image-2026-03-02" => "grok-imagine-image",
        "grok-imagine-image-quality-latest" | "grok-imagine-image-quality-20260403" => {
            "grok-imagine-image-quality"
        }
        it if it.starts_with("grok-imagine-") => it,
        _ => "grok-2-image",
    }
}

impl Translator<'_> {
    /// Translates a vendor's model that makes images. Returns the type of its provider and the settings.
    pub(super) fn image_model(
        &mut self,
        span: Span,
        (vendor, model): (&str, &str),
        config: &[(Key, Node)],
    ) -> (&'static str, Settings) {
        match vendor {
            "replicate" => {
                self.makes_addresses = true;
                ("replicate", self.replicate_image(span, config))
            }
            "xai" => {
                self.makes_addresses = true;
                ("http", self.xai_image(span, model, config))
            }
            "fal" => {
                self.makes_addresses = true;
                ("http", self.fal_image(span, model, config))
            }
            _ => ("http", self.openai_image(span, model, config)),
        }
    }

    /// Reports a graded check beside a model whose images are addresses. promptfoo errors each test with such a check.
    pub(super) fn refuse_grading_of_images(&mut self, span: Span) {
        let help = "a grader only sees images that are in the answer: use a model such as `openai:image:gpt-image-1`, or \
            put the models into a config of their own";
        self.unsupported(span, "a graded check of the address of an image", Some(help));
    }

    fn openai_image(&mut self, span: Span, model: &str, config: &[(Key, Node)]) -> Settings {
        let set = |name: &str| config.iter().find(|(key, _)| &*key.name == name).map(|(_, it)| it);
        let model = set("model").and_then(Node::text).unwrap_or(model);
        let has_data = answers_with_data(model);
        self.makes_addresses |= !has_data;
        let host = self.env_value("OPENAI_API_HOST").map(|it| format!("https://{it}/v1"));
        let base = ["OPENAI_API_BASE_URL", "OPENAI_BASE_URL"];
        let base = host.or_else(|| base.iter().find_map(|it| self.env_value(it)));
        let mut base = base.unwrap_or_else(|| "https://api.openai.com/v1".to_owned());
        let mut server = Server::new(span, "OPENAI_API_KEY");
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(model));
        body.insert("n".to_owned(), json!(1));
        body.insert("size".to_owned(), json!("1024x1024"));
        if !has_data {
            body.insert("response_format".to_owned(), json!("url"));
        }
        for (key, value) in config {
            let name = &*key.name;
            let is_sent = match name {
                "n" | "size" | "user" => true,
                "response_format" => !has_data,
                _ if has_data => GPT.contains(&name),
                _ => model == "dall-e-3" && DALL_E_3.contains(&name),
            };
            match name {
                "model" => {}
                "operation" if value.text() == Some("generation") => {}
                "operation" => {
                    let help = "promptfoo 0.123 only generates images too; remove it";
                    self.unsupported(key.span, "this `operation`", Some(help));
                }
                "apiBaseUrl" => base = self.with_env(value.text().unwrap_or_default()),
                "apiHost" => {
                    base =
                        format!("https://{}/v1", self.with_env(value.text().unwrap_or_default()));
                }
                "organization" => server.header("OpenAI-Organization", value.clone()),
                _ if self.server_setting(key, value, &mut server) => {}
                _ if REFUSED.contains(&name) => {
                    let help = "promptfoo 0.123 only makes images of a text too; remove it";
                    let what = format!("`config.{name}` of `openai:image`");
                    self.unsupported(key.span, &what, Some(help));
                }
                _ if is_sent => {
                    if let Some(value) = self.without_templates(key, value) {
                        body.insert(name.to_owned(), value.to_json());
                    }
                }
                _ => {
                    let message = format!("`config.{name}` has no effect on `{model}`");
                    self.warn(
                        key.span,
                        message,
                        Some("promptfoo does not send it either; remove it"),
                    );
                }
            }
        }
        let format = body.get("output_format").and_then(Value::as_str).unwrap_or("png");
        let format = if matches!(format, "jpeg" | "webp") { format } else { "png" }.to_owned();
        let is_data = has_data || body.get("response_format") == Some(&json!("b64_json"));
        let url = format!("{}/images/generations", base.trim_end_matches('/'));
        server.settings(&url, &body, &reading("json?.data", is_data.then_some(&*format)))
    }

    fn xai_image(&mut self, span: Span, model: &str, config: &[(Key, Node)]) -> Settings {
        let mut base = "https://api.x.ai/v1".to_owned();
        let mut server = Server::new(span, "XAI_API_KEY");
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(xai_model(model)));
        body.insert("n".to_owned(), json!(1));
        body.insert("response_format".to_owned(), json!("url"));
        for (key, value) in config {
            match &*key.name {
                "region" => {
                    let region = self.with_env(value.text().unwrap_or_default());
                    base = format!("https://{region}.api.x.ai/v1");
                }
                "apiBaseUrl" => base = self.with_env(value.text().unwrap_or_default()),
                _ if self.server_setting(key, value, &mut server) => {}
                name if XAI.contains(&name) || matches!(name, "n" | "response_format") => {
                    if let Some(value) = self.without_templates(key, value) {
                        body.insert(name.to_owned(), value.to_json());
                    }
                }
                name => {
                    let message = format!("`config.{name}` has no effect on `{model}`");
                    self.warn(
                        key.span,
                        message,
                        Some("promptfoo does not send it either; remove it"),
                    );
                }
            }
        }
        let is_edit = ["image", "images", "mask"].iter().any(|it| body.contains_key(*it));
        let endpoint = if is_edit { "edits" } else { "generations" };
        let is_data = body.get("response_format") == Some(&json!("b64_json"));
        let url = format!("{}/images/{endpoint}", base.trim_end_matches('/'));
        server.settings(&url, &body, &reading("json?.data", is_data.then_some("png")))
    }

    /// Translates an image model of fal.ai. All settings except those of the server are inputs of the model.
    fn fal_image(&mut self, span: Span, model: &str, config: &[(Key, Node)]) -> Settings {
        let mut server = Server::new(span, "FAL_KEY");
        let mut body = Map::new();
        for (key, value) in config {
            match &*key.name {
                "client" => {
                    let help = "remove it: KindLM asks `https://fal.run` itself";
                    self.unsupported(key.span, "`config.client` of `fal:image`", Some(help));
                }
                _ if self.server_setting(key, value, &mut server) => {}
                name => {
                    if let Some(value) = self.without_templates(key, value) {
                        body.insert(name.to_owned(), value.to_json());
                    }
                }
            }
        }
        // The key is not a bearer token.
        let variable = server.key.take().and_then(|it| it.text().map(str::to_owned));
        let key = format!("Key {{{{env.{}}}}}", variable.as_deref().unwrap_or("FAL_KEY"));
        server.header("Authorization", text(span, &key));
        let found = "json?.images?.length ? json.images : json?.image ? [json.image] : []";
        server.settings(&format!("https://fal.run/{model}"), &body, &reading(found, None))
    }

    /// Translates a setting of the server: its key and its headers. Returns false for any other setting.
    fn server_setting(&mut self, key: &Key, value: &Node, server: &mut Server) -> bool {
        match &*key.name {
            "apiKeyEnvar" => server.key = Some(value.clone()),
            "apiKey" => {
                let mut settings = Settings::default();
                self.key_of(key, value, &mut settings);
                if let Some((_, name)) = settings.provider.pop() {
                    server.key = Some(name);
                }
            }
            "headers" => {
                for (name, value) in self.own_headers(value) {
                    server.header(&name, value);
                }
            }
            _ => return false,
        }
        true
    }

    /// Translates an image model of Replicate.
    fn replicate_image(&mut self, span: Span, config: &[(Key, Node)]) -> Settings {
        let mut settings = self.replicate(config);
        let yes = || node(span, Kind::Bool(true));
        let body = settings.provider.iter().find(|(name, _)| *name == "body");
        let mut body: Vec<(String, Node)> = body.map_or_else(Vec::new, |(_, it)| {
            it.entries().iter().map(|(key, it)| (key.name.to_string(), it.clone())).collect()
        });
        let input = body.iter().find(|(name, _)| name == "input").map(|(_, it)| it.clone());
        for side in ["width", "height"] {
            if input.as_ref().and_then(|it| it.get(side)).is_none() {
                add_to(&mut body, "input", &map(span, [(side, number(span, 768.0))]));
            }
        }
        settings.provider.retain(|(name, _)| *name != "body");
        settings.provider.push(("body", entries(span, body)));
        settings.provider.push(("image", yes()));
        or_else(&mut settings.provider, "apiKeyEnv", || text(span, "REPLICATE_API_TOKEN"));
        settings.params.push(("omitDefaults", yes()));
        settings
    }
}

/// The settings of an `http` provider that asks for an image.
struct Server {
    span: Span,
    /// The environment variable of the bearer token; `None` without such a token.
    key: Option<Node>,
    headers: Vec<(String, Node)>,
}

impl Server {
    fn new(span: Span, key: &str) -> Self {
        let json = text(span, "application/json");
        Self { span, key: Some(text(span, key)), headers: vec![("Content-Type".to_owned(), json)] }
    }

    fn header(&mut self, name: &str, value: Node) {
        self.headers.retain(|(it, _)| !it.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value));
    }

    fn settings(self, url: &str, body: &Map<String, Value>, reading: &str) -> Settings {
        let span = self.span;
        let rest = Value::Object(body.clone()).to_string();
        let rest = rest.strip_prefix('{').unwrap_or(&rest);
        let comma = if body.is_empty() { "" } else { ", " };
        let body = format!("{{\"prompt\": {{{{ prompt | dump }}}}{comma}{rest}");
        let mut provider = vec![("url", text(span, url))];
        provider.extend(self.key.map(|it| ("apiKeyEnv", it)));
        provider.extend([
            ("headers", entries(span, self.headers)),
            ("body", text(span, &body)),
            ("template", text(span, "jinja")),
            ("transformResponse", text(span, reading)),
        ]);
        Settings { provider, ..Settings::default() }
    }
}

/// Returns the script that reads the images of an answer. `found` is the JavaScript expression of the list of images.
///
/// `data` is the format of the images, if the answer contains their data. If `data` is `None`, the answer has addresses
/// of images.
fn reading(found: &str, data: Option<&str>) -> String {
    let output = match data {
        Some(format) => format!(
            "const made = found.filter(it => it.b64_json).map(it => ({{ data: \"data:image/{format};base64,\" \
             + it.b64_json, mimeType: \"image/{format}\" }}));\n  const output = made[0]?.data;"
        ),
        None => "const made = found.filter(it => it.url).map(it => ({ data: it.url }));\n  const about = \
                 context.prompt.replace(/\\r?\\n|\\r/g, \" \").replace(/\\[/g, \"(\").replace(/\\]/g, \")\");\n  const \
                 short = about.length > 50 ? about.slice(0, 47) + \"...\" : about;\n  const output = made[0] && \
                 `![${short}](${made[0].data})`;"
            .to_owned(),
    };
    format!(
        "(function () {{\n  if (json?.error) return {{ error: json.error.message ?? JSON.stringify(json.error) }};\n  const \
         found = ({found}) ?? [];\n  {output}\n  \
         if (!output) return {{ error: \"the answer has no image\" }};\n  const usage = json.usage;\n  const prompt = \
         usage?.prompt_tokens ?? usage?.input_tokens ?? 0;\n  const completion = usage?.completion_tokens ?? \
         usage?.output_tokens ?? 0;\n  return {{\n    output, images: made, raw: {{ created: json.created, usage }},\n    \
         tokenUsage: usage && {{ prompt, completion, total: usage.total_tokens ?? prompt + completion }},\n  }};\n}})()"
    )
}

/// Returns the prompt of a grader with texts in place of lists of parts.
///
/// A part with the image `{{ output }}` becomes the text `{{ output }}`, because the grader sees the images of an
/// output anyway. A prompt with other parts is unchanged.
pub(super) fn with_texts(prompt: &Node) -> Node {
    let written = prompt.text().and_then(|it| serde_json::from_str::<Value>(it).ok());
    let is_text = written.is_some();
    let mut value = written.unwrap_or_else(|| prompt.to_json());
    let mut is_changed = false;
    for message in value.as_array_mut().into_iter().flatten() {
        let Some(parts) = message.get("content").and_then(Value::as_array) else { continue };
        let texts: Option<Vec<&str>> = parts.iter().map(text_of).collect();
        let Some(texts) = texts else { return prompt.clone() };
        let content = Value::from(texts.join("\n\n"));
        if let Some(message) = message.as_object_mut() {
            message.insert("content".to_owned(), content);
            is_changed = true;
        }
    }
    if !is_changed {
        prompt.clone()
    } else if is_text {
        text(prompt.span, &value.to_string())
    } else {
        Node::at(prompt.span, &value)
    }
}

/// Returns the text of a part; `None` for a part that is neither a text nor the image of the output.
fn text_of(part: &Value) -> Option<&str> {
    match part["type"].as_str()? {
        "text" | "input_text" => part["text"].as_str(),
        "image_url" | "input_image" => {
            let url = part["image_url"]["url"].as_str().or_else(|| part["image_url"].as_str())?;
            matches!(url.trim(), "{{output}}" | "{{ output }}").then_some("{{ output }}")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_known_by_their_names() {
        for (model, expected) in [
            ("gpt-image-1-mini", true),
            ("gpt-image-2.5-flare", true),
            ("chatgpt-image-latest", true),
            ("dall-e-3", false),
        ] {
            assert_eq!(answers_with_data(model), expected, "{model}");
        }
        for (model, expected) in [
            ("grok-imagine-image", "grok-imagine-image"),
            ("grok-imagine-image-quality-latest", "grok-imagine-image-quality"),
            ("grok-image", "grok-2-image"),
        ] {
            assert_eq!(xai_model(model), expected);
        }
    }

    #[test]
    fn parts_of_a_prompt_become_texts() {
        let span = Span::new(0, 0);
        for (content, expected) in [
            (
                json!([
                    {"type": "image_url", "image_url": {"url": "{{output}}"}},
                    {"type": "text", "text": "Judge by {{ rubric }}."},
                ]),
                json!("{{ output }}\n\nJudge by {{ rubric }}."),
            ),
            (
                json!([{"type": "image_url", "image_url": {"url": "{{ image }}"}}]),
                json!([{"type": "image_url", "image_url": {"url": "{{ image }}"}}]),
            ),
            (json!("plain"), json!("plain")),
        ] {
            let prompt = json!([{"role": "user", "content": content}]);
            let expected = json!([{"role": "user", "content": expected}]);
            let of_list = with_texts(&Node::at(span, &prompt)).to_json();
            assert_eq!(of_list, expected);
            let of_text = with_texts(&text(span, &prompt.to_string()));
            assert_eq!(of_text.text(), Some(&*expected.to_string()));
        }
        assert_eq!(
            with_texts(&text(span, "Judge {{ output }}.")).text(),
            Some("Judge {{ output }}.")
        );
    }
}
