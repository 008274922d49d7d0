//! `quiverai`: models that draw SVG from a text, or from an image.

use kindlm_source::{Key, Node, Span};
use serde_json::{Map, Value, json};

use super::Translator;
use super::build::text;
use super::settings::{Found, Settings, or_else};
use super::vendors::json_header;

/// The settings that promptfoo sends to all models, to models that generate, and to models that vectorize.
const SHARED: [&str; 4] = ["max_output_tokens", "presence_penalty", "temperature", "top_p"];
const GENERATION: [&str; 3] = ["instructions", "n", "references"];
const VECTORS: [&str; 2] = ["auto_crop", "target_size"];

/// The image of a prompt, as a template: JSON, an address, a `data:` URL, or base64.
///
/// JSON may have the image in `image`.
const IMAGE: &str = r#"{% set it = prompt | trim %}{% if it.startsWith("{") %}{% set whole = it | load %}{% set own = whole if whole.url or whole.base64 else whole.image %}{% if own.url %}{"url": {{ own.url | dump }}}{% else %}{"base64": {{ own.base64 | dump }}}{% endif %}{% elif it.startsWith("http://") or it.startsWith("https://") %}{"url": {{ it | dump }}}{% elif it.startsWith("data:image/") %}{"base64": {{ it.split(",")[1] | dump }}}{% else %}{"base64": {{ it | dump }}}{% endif %}"#;

/// Reads the answer: all drawings, with an empty line between them.
const READING: &str = r#"(json) => {
  const { id, credits, usage } = json;
  const output = (json.data ?? []).map((it) => it.svg).filter((it) => it).join("\n\n");
  if (!output) return { error: "the answer has no SVG" };
  return {
    output,
    tokenUsage: {
      prompt: usage?.input_tokens ?? 0, completion: usage?.output_tokens ?? 0, total: usage?.total_tokens ?? 0,
    },
    metadata: { ...(id ? { responseId: id } : {}), ...(typeof credits === "number" ? { credits } : {}) },
  };
}"#;

/// Returns the address or the data of an image in the config. promptfoo prefers the address. With neither, promptfoo
/// reports an error for each test.
fn image_of(image: &Value) -> Option<Value> {
    let text = |name: &str| image[name].as_str().filter(|it| !it.trim().is_empty());
    ["url", "base64"].into_iter().find_map(|name| Some(json!({name: text(name)?})))
}

impl Translator<'_> {
    /// Translates a model of `QuiverAI`. promptfoo streams the answer; the end of this stream is the answer that KindLM
    /// gets.
    pub(super) fn quiverai(&mut self, span: Span, id: &str, config: &[(Key, Node)]) -> Found {
        let (mode, model) = id.split_once(':').unwrap_or((id, ""));
        let (mode, model) = match mode {
            "vectorize" | "generate" | "chat" => (mode, model),
            _ => ("generate", id),
        };
        let model = if model.is_empty() { "arrow-1.1" } else { model };
        let is_generation = mode != "vectorize";
        let own: &[&str] = if is_generation { &GENERATION } else { &VECTORS };
        let mut settings = Settings::default();
        let mut base = "https://api.quiver.ai/v1".to_owned();
        let mut body = Map::new();
        for (key, value) in config {
            match &*key.name {
                "apiBaseUrl" => base = self.with_env(value.text().unwrap_or_default()),
                "apiKey" => self.key_of(key, value, &mut settings),
                "apiKeyEnvar" => settings.provider.push(("apiKeyEnv", value.clone())),
                "stream" => {}
                "image" if !is_generation => {
                    let Some(value) = self.without_templates(key, value) else { continue };
                    if let Some(image) = image_of(&value.to_json()) {
                        body.insert("image".to_owned(), image);
                    } else {
                        let help = "write `image: { url: … }` or `image: { base64: … }`";
                        self.error(value.span, "`config.image` has no image", Some(help));
                    }
                }
                name if SHARED.contains(&name) || own.contains(&name) => {
                    if let Some(value) = self.without_templates(key, value) {
                        body.insert(name.to_owned(), value.to_json());
                    }
                }
                _ => self.warn_of_left_out(key, model),
            }
        }
        let references = body.get_mut("references").and_then(Value::as_array_mut);
        for it in references.into_iter().flatten().filter(|it| it.is_string()) {
            *it = json!({"url": it});
        }
        let (endpoint, input) = if is_generation {
            ("generations", "\"prompt\": {{ prompt | dump }}".to_owned())
        } else {
            let image =
                body.shift_remove("image").map_or_else(|| IMAGE.to_owned(), |it| it.to_string());
            ("vectorizations", format!("\"image\": {image}"))
        };
        body.insert("model".to_owned(), json!(model));
        body.insert("stream".to_owned(), json!(false));
        let rest = Value::Object(body).to_string();
        let body = format!("{{{input}, {}", rest.strip_prefix('{').unwrap_or(&rest));
        let url = format!("{}/svgs/{endpoint}", base.trim_end_matches('/'));
        or_else(&mut settings.provider, "apiKeyEnv", || text(span, "QUIVERAI_API_KEY"));
        settings.provider.extend([
            ("url", text(span, &url)),
            ("headers", json_header(span)),
            ("body", text(span, &body)),
            ("template", text(span, "jinja")),
            ("transformResponse", text(span, READING)),
        ]);
        ("http", "quiverai".to_owned(), model.to_owned(), settings)
    }
}

#[cfg(test)]
mod tests {
    use kindlm_template::Variables;

    use super::*;

    #[test]
    fn images_of_configs_have_an_address_or_data() {
        for (image, expected) in [
            (json!({"url": "u", "base64": "b"}), Some(json!({"url": "u"}))),
            (json!({"url": " ", "base64": "b"}), Some(json!({"base64": "b"}))),
            (json!({"url": ""}), None),
            (json!("u"), None),
        ] {
            assert_eq!(image_of(&image), expected, "{image}");
        }
    }

    #[test]
    fn images_of_prompts_have_an_address_or_data() {
        let base64 = json!({"base64": "ab"});
        let url = json!({"url": "https://a.example/b.png"});
        for (prompt, expected) in [
            (r#"{"url": "https://a.example/b.png"}"#, &url),
            (r#"{"image": {"url": "https://a.example/b.png"}}"#, &url),
            (r#"{"image": {"base64": "ab"}}"#, &base64),
            (" https://a.example/b.png ", &url),
            ("data:image/png;base64,ab", &base64),
            ("ab", &base64),
        ] {
            let vars = Map::from_iter([("prompt".to_owned(), json!(prompt))]);
            let image = Variables::new(&vars, &Map::new()).render(IMAGE).unwrap();
            let image: Value = serde_json::from_str(&image).unwrap();
            assert_eq!(&image, expected, "{prompt}");
        }
    }
}
