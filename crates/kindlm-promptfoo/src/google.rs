//! Settings of Google's models: tools, instructions, images, and the filter Model Armor.

use kindlm_source::{Key, Kind, Node, Span};
use serde_json::{Value, json};

use super::Translator;
use super::build::{entries, list, map, text};
use super::settings::{Settings, variable_of};

/// The variables of the project, in the order in which promptfoo reads them for images.
const PROJECTS: [&str; 2] = ["GOOGLE_CLOUD_PROJECT", "GOOGLE_PROJECT_ID"];

/// The variables of the key, in the order in which promptfoo reads them for images.
const KEYS: [&str; 3] = ["GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"];

/// True if a model of Gemini makes images.
pub(super) fn makes_images(model: &str) -> bool {
    model.starts_with("gemini") && model.contains("-image")
}

impl Translator<'_> {
    /// Divides the tools into functions, which are tools of the tests, and tools that Google runs, such as
    /// `google_search`.
    pub(super) fn google_tools(&mut self, key: &Key, value: &Node, settings: &mut Settings) {
        let Some(value) = self.in_place(value) else { return };
        let (mut functions, mut hosted) = (Vec::new(), Vec::new());
        // promptfoo also accepts one tool without a list.
        let only = std::slice::from_ref(&value);
        let items = if matches!(value.kind, Kind::Mapping(_)) { only } else { value.items() };
        for item in items {
            let declared = ["functionDeclarations", "function_declarations"]
                .into_iter()
                .find_map(|it| item.get(it));
            match declared {
                Some(declared) => functions.extend(declared.items().iter().cloned()),
                None if item.get("name").is_some() || item.get("function").is_some() => {
                    functions.push(item.clone());
                }
                None => hosted.push(item.clone()),
            }
        }
        if !functions.is_empty() {
            settings.tools = self.tools(&list(value.span, functions));
        }
        let hosted = (!hosted.is_empty()).then(|| list(value.span, hosted));
        let hosted = hosted.and_then(|it| self.without_templates(key, &it));
        settings.provider.extend(hosted.map(|it| ("hostedTools", it)));
    }

    /// Translates the system instruction: a text, a file, or parts.
    pub(super) fn system_instruction(&mut self, key: &Key, value: &Node, settings: &mut Settings) {
        let file = value.text().and_then(super::files::path).map(str::to_owned);
        let value = match file {
            Some(file)
                if matches!(super::files::extension(&file).as_str(), "json" | "yaml" | "yml") =>
            {
                self.document_of(value.span, &file)
            }
            Some(file) => self.content(value.span, &file).map(|it| text(value.span, &it)),
            None => Some(value.clone()),
        };
        let Some(value) = value.and_then(|it| self.without_templates(key, &it)) else { return };
        let parts = match (value.text(), value.get("parts")) {
            (Some(_), _) => vec![value],
            (None, Some(parts)) => {
                let parts = if parts.items().is_empty() {
                    vec![parts.clone()]
                } else {
                    parts.items().to_vec()
                };
                parts.iter().filter_map(|it| it.get("text").cloned()).collect()
            }
            (None, None) => Vec::new(),
        };
        if parts.is_empty() {
            let help = "write a text, or `{ parts: [{ text: … }] }`";
            return self.error(key.span, "these instructions have no text", Some(help));
        }
        settings.provider.push(("systemInstruction", list(key.span, parts)));
    }

    /// Translates the filter Model Armor of Vertex AI.
    pub(super) fn model_armor(&mut self, key: &Key, value: &Node, settings: &mut Settings) {
        let Some(value) = self.without_templates(key, value) else { return };
        let names = [
            ("promptTemplate", "prompt_template_name"),
            ("responseTemplate", "response_template_name"),
        ];
        let parts = names.into_iter().filter_map(|(from, to)| Some((to, value.get(from)?.clone())));
        let parts: Vec<_> = parts.collect();
        if !parts.is_empty() {
            settings.body.push(("model_armor_config".to_owned(), map(key.span, parts)));
        }
    }

    /// Returns the config of a model that makes images, with the image settings that promptfoo sends.
    pub(super) fn gemini_images(
        &mut self,
        span: Span,
        (model, is_vertex): (&str, bool),
        config: &[(Key, Node)],
    ) -> Vec<(Key, Node)> {
        let (mut rest, mut image) = (Vec::new(), Vec::new());
        for (key, value) in config {
            match &*key.name {
                // Models of Gemini 3 are only at the global address, so the region has no effect.
                "region" if is_vertex && model.starts_with("gemini-3") => {}
                "imageAspectRatio" => image.push(("aspectRatio", value.clone())),
                "imageSize" if model.starts_with("gemini-3") => {
                    image.push(("imageSize", value.clone()));
                }
                "imageSize" => {
                    let message = format!("`config.imageSize` has no effect on `{model}`");
                    self.warn(
                        key.span,
                        message,
                        Some("promptfoo does not send it either; remove it"),
                    );
                }
                _ => rest.push((key.clone(), value.clone())),
            }
        }
        let own = rest.iter().position(|(key, _)| &*key.name == "generationConfig");
        let own = own.map_or_else(|| entries(span, []), |at| rest.remove(at).1);
        let usual = ["TEXT", "IMAGE"].map(|it| text(span, it));
        let usual = map(span, [("responseModalities", list(span, usual))]);
        let merged = super::vars::merged(usual.entries(), own.entries());
        let mut all = super::extras::mapping(span, merged);
        if !image.is_empty() {
            let old = all.get("imageConfig").map(Node::entries).unwrap_or_default().to_vec();
            let image = super::vars::merged(&old, map(span, image).entries());
            all = super::build::with(&all, "imageConfig", super::extras::mapping(span, image));
        }
        rest.push((super::build::key(span, "generationConfig"), all));
        if is_vertex && !rest.iter().any(|(key, _)| &*key.name == "region") {
            let usual = || self.env_value("GOOGLE_LOCATION");
            let region =
                if model.starts_with("gemini-3") { Some("global".to_owned()) } else { usual() };
            let region = region.unwrap_or_else(|| "us-central1".to_owned());
            rest.push((super::build::key(span, "region"), text(span, &region)));
        }
        rest
    }

    /// True if promptfoo asks Vertex AI for images, because a project is set.
    pub(super) fn has_project(&self, config: &[(Key, Node)]) -> bool {
        config.iter().any(|(key, _)| &*key.name == "projectId")
            || PROJECTS.iter().any(|it| self.env_value(it).is_some())
    }

    /// Translates a model of Imagen, which has a separate API.
    pub(super) fn imagen(&mut self, span: Span, model: &str, config: &[(Key, Node)]) -> Settings {
        let set = |name: &str| config.iter().find(|(key, _)| &*key.name == name).map(|(_, it)| it);
        let model =
            if model.starts_with("imagen-") { model.to_owned() } else { format!("imagen-{model}") };
        let usual = |name: &str, usual: Value| set(name).map_or(usual, Node::to_json);
        let mut parameters = json!({
            "sampleCount": usual("n", json!(1)),
            "aspectRatio": usual("aspectRatio", json!("1:1")),
            "personGeneration": usual("personGeneration", json!("allow_all")),
            "safetySetting": "block_low_and_above",
        });
        let project = set("projectId").and_then(Node::text).map(|it| self.with_env(it));
        let project = project.or_else(|| PROJECTS.iter().find_map(|it| self.env_value(it)));
        self.check_imagen(config, project.is_some());
        let (url, name, value) = if let Some(project) = project {
            parameters["safetySetting"] = usual("safetyFilterLevel", json!("block_some"));
            let marks = set("addWatermark").map(Node::to_json) != Some(json!(false));
            parameters["addWatermark"] = json!(marks);
            if let Some(seed) = set("seed").filter(|_| !marks) {
                parameters["seed"] = seed.to_json();
            }
            let region = set("region").and_then(Node::text).map(|it| self.with_env(it));
            let region = region.or_else(|| self.env_value("GOOGLE_LOCATION"));
            let region = region.unwrap_or_else(|| "us-central1".to_owned());
            let url = format!(
                "https://{region}-aiplatform.googleapis.com/v1/projects/{project}/locations/{region}/publishers/google/\
                     models/{model}:predict"
            );
            (url, "Authorization", "Bearer {{env.GOOGLE_ACCESS_TOKEN}}".to_owned())
        } else {
            let url =
                format!("https://generativelanguage.googleapis.com/v1beta/models/{model}:predict");
            let own = set("apiKey").and_then(Node::text).and_then(variable_of);
            let known = || KEYS.into_iter().find(|it| self.env_value(it).is_some());
            let key = own.or_else(known).unwrap_or(KEYS[2]);
            (url, "x-goog-api-key", format!("{{{{env.{key}}}}}"))
        };
        let mut headers = vec![
            ("Content-Type".to_owned(), text(span, "application/json")),
            (name.to_owned(), text(span, &value)),
        ];
        for (key, value) in set("headers").map(Node::entries).unwrap_or_default() {
            headers.push((key.name.to_string(), self.texts_with_env(value)));
        }
        let body = format!(
            "{{\"instances\": [{{\"prompt\": {{{{ prompt | trim | dump }}}}}}], \"parameters\": {parameters}}}"
        );
        let provider = vec![
            ("url", text(span, &url)),
            ("headers", entries(span, headers)),
            ("body", text(span, &body)),
            ("template", text(span, "jinja")),
            ("transformResponse", text(span, &images_of(&model))),
        ];
        Settings { provider, ..Settings::default() }
    }

    /// Reports the settings of a model of Imagen that have no effect, or no counterpart.
    fn check_imagen(&mut self, config: &[(Key, Node)], is_vertex: bool) {
        for (key, value) in config {
            match &*key.name {
                "n" | "aspectRatio" | "personGeneration" | "projectId" | "region" | "headers"
                | "cost" => {}
                "safetyFilterLevel" | "addWatermark" | "seed" if is_vertex => {}
                "safetyFilterLevel" if value.text() == Some("block_low_and_above") => {}
                "safetyFilterLevel" | "addWatermark" | "seed" => {
                    let message =
                        format!("`config.{}` has no effect at Google AI Studio", key.name);
                    self.warn(
                        key.span,
                        message,
                        Some("promptfoo does not send it either; remove it"),
                    );
                }
                "apiKey" if is_vertex => {
                    let message = "`config.apiKey` has no effect at Vertex AI".to_owned();
                    self.warn(
                        key.span,
                        message,
                        Some("promptfoo does not send it either; remove it"),
                    );
                }
                "apiKey" => self.key_of(key, value, &mut Settings::default()),
                name => {
                    let help = "remove it; promptfoo ignores it too";
                    self.unsupported(
                        key.span,
                        &format!("`config.{name}` of an Imagen model"),
                        Some(help),
                    );
                }
            }
        }
    }
}

/// Returns the script that reads the images of an answer. The first image is the output, as a data URL. The cost is
/// in US dollars, for all images.
fn images_of(model: &str) -> String {
    let price = match model {
        it if it.contains("ultra") => 0.06,
        it if it.contains("fast") => 0.02,
        _ => 0.04,
    };
    format!(
        "(json) => {{\n  const images = (json?.predictions ?? []).map((it) => it.image ?? it).filter((it) => \
         it.bytesBase64Encoded);\n  if (images.length === 0) return {{ error: 'no image was made' }};\n  const [first] = \
         images;\n  return {{ output: `data:${{first.mimeType || 'image/png'}};base64,${{first.bytesBase64Encoded}}`, cost: \
         {price} * images.length }};\n}}"
    )
}
