//! Settings of models at Amazon Bedrock, Vertex AI and Replicate.

use kindlm_source::{Key, Node, Span};

use super::Translator;
use super::build::{list, map, text};
use super::extras::add_to;
use super::settings::{Settings, or_else, variable_of};

/// The variables from which KindLM reads the credentials of AWS, by the setting of promptfoo.
const AWS_VARIABLES: [(&str, &str); 3] = [
    ("accessKeyId", "AWS_ACCESS_KEY_ID"),
    ("secretAccessKey", "AWS_SECRET_ACCESS_KEY"),
    ("sessionToken", "AWS_SESSION_TOKEN"),
];

/// Settings of Bedrock that change nothing in a request to the Converse API.
const INERT_AT_BEDROCK: [&str; 5] =
    ["anthropic_version", "inferenceModelType", "streaming", "stream", "maxRetries"];

/// Returns the provider whose API a model of Vertex AI uses.
pub(super) fn dialect_at_vertex(model: &str) -> &'static str {
    if model.starts_with("claude") {
        "anthropic"
    } else if model.starts_with("gemini") || !model.contains('/') {
        "gemini"
    } else {
        "openai"
    }
}

impl Translator<'_> {
    /// Translates the settings of a model at Bedrock. Accepts the parameter names of all model families and of both
    /// text APIs of Bedrock.
    pub(super) fn bedrock(&mut self, config: &[(Key, Node)]) -> Settings {
        let mut settings = Settings::default();
        let mut guardrail = Vec::new();
        for (key, value) in config {
            match &*key.name {
                "guardrailIdentifier" | "guardrailVersion" => {
                    let value = value.text().map_or_else(
                        || text(value.span, &value.to_json().to_string()),
                        |it| text(value.span, &self.with_env(it)),
                    );
                    let is_id = &*key.name == "guardrailIdentifier";
                    let name = if is_id { "guardrailIdentifier" } else { "guardrailVersion" };
                    guardrail.push((name, value));
                }
                "trace" => guardrail.push(("trace", value.clone())),
                _ => self.bedrock_setting(key, value, &mut settings),
            }
        }
        if guardrail.iter().any(|(name, _)| *name == "guardrailIdentifier") {
            let span = config.first().map_or(Span::new(0, 0), |(key, _)| key.span);
            or_else(&mut guardrail, "guardrailVersion", || text(span, "DRAFT"));
            settings.body.push(("guardrailConfig".to_owned(), map(span, guardrail)));
        }
        let region = ["AWS_BEDROCK_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"];
        if let Some(region) = region.iter().find_map(|it| self.env_value(it)) {
            let span = config.first().map_or(Span::new(0, 0), |(key, _)| key.span);
            or_else(&mut settings.provider, "region", || text(span, &region));
        }
        self.with_body(config, settings)
    }

    fn bedrock_setting(&mut self, key: &Key, value: &Node, settings: &mut Settings) {
        let name = &*key.name;
        let fields = "additionalModelRequestFields";
        match name {
            "region" => settings.provider.push(("region", self.texts_with_env(value))),
            "endpoint" => settings.provider.push(("baseUrl", self.texts_with_env(value))),
            "apiKey" => self.key_of(key, value, settings),
            "accessKeyId" | "secretAccessKey" | "sessionToken" | "profile" => {
                self.aws_credential(key, value);
            }
            // The families of models have different names for one parameter.
            "max_tokens"
            | "maxTokens"
            | "max_gen_len"
            | "max_new_tokens"
            | "maxTokenCount"
            | "max_completion_tokens"
            | "max_tokens_to_sample" => {
                or_else(&mut settings.params, "maxTokens", || value.clone());
            }
            "temperature" => or_else(&mut settings.params, "temperature", || value.clone()),
            "top_p" | "topP" => or_else(&mut settings.params, "topP", || value.clone()),
            "stop" | "stopSequences" | "stop_sequences" => {
                let value = match value.text() {
                    Some(_) => list(value.span, [value.clone()]),
                    None => value.clone(),
                };
                or_else(&mut settings.params, "stopSequences", || value);
            }
            // Amazon's own models nest these settings and their tools in objects.
            "interfaceConfig" | "inferenceConfig" | "textGenerationConfig" | "toolConfig" => {
                for (key, value) in value.entries() {
                    self.bedrock_setting(key, value, settings);
                }
            }
            "cost" => settings.price = super::settings::price(value),
            "tools" => settings.tools = self.bedrock_tools(value),
            "tool_choice" | "toolChoice" => {
                if let Some(choice) = bedrock_choice(value) {
                    let config = map(value.span, [("toolChoice", choice)]);
                    add_to(&mut settings.body, "toolConfig", &config);
                } else {
                    let help = "write `auto`, `any`, or `{ tool: { name: … } }`";
                    self.unsupported(
                        key.span,
                        &format!("this value of `config.{name}`"),
                        Some(help),
                    );
                }
            }
            "thinking" | "reasoningConfig" | "top_k" => {
                if let Some(value) = self.without_templates(key, value) {
                    add_to(&mut settings.body, fields, &map(key.span, [(name, value)]));
                }
            }
            "additionalModelRequestFields" => {
                if let Some(value) = self.without_templates(key, value) {
                    add_to(&mut settings.body, fields, &value);
                }
            }
            "performanceConfig" | "serviceTier" | "additionalModelResponseFieldPaths" => {
                let value = self.without_templates(key, value);
                settings.body.extend(value.map(|it| (name.to_owned(), it)));
            }
            name if INERT_AT_BEDROCK.contains(&name) => {}
            _ => self.extra_setting("bedrock", key, value, settings),
        }
    }

    /// Accepts a credential that names the environment variable from which KindLM reads this credential. Warns of a
    /// `profile`, and reports any other value.
    pub(super) fn aws_credential(&mut self, key: &Key, value: &Node) {
        if &*key.name == "profile" {
            let help = "KindLM reads the credentials from the environment: run `eval \"$(aws configure \
                export-credentials --profile NAME --format env)\"` before";
            self.warn(key.span, "`config.profile` has no effect here".to_owned(), Some(help));
            return;
        }
        let variable = AWS_VARIABLES.iter().find(|(name, _)| *name == &*key.name);
        let variable = variable.map_or("", |(_, it)| it);
        if value.text().and_then(variable_of) != Some(variable) {
            let help =
                format!("remove it, and put the value into the environment variable `{variable}`");
            self.error(
                key.span,
                "KindLM reads the credentials of AWS from the environment",
                Some(&help),
            );
        }
    }

    /// Reads tools in the format of Bedrock, OpenAI or Anthropic. Returns `None` after an error, which is reported.
    fn bedrock_tools(&mut self, node: &Node) -> Option<Node> {
        let node = self.tool_list(node)?;
        let tools = node.items().iter().map(|item| {
            let Some(tool) = item.get("toolSpec") else { return item.clone() };
            let schema = tool.get("inputSchema").and_then(|it| it.get("json"));
            let parts = [
                ("name", tool.get("name")),
                ("description", tool.get("description")),
                ("parameters", schema),
            ];
            map(item.span, parts.into_iter().filter_map(|(name, it)| Some((name, it?.clone()))))
        });
        let tools: Vec<Node> = tools.collect();
        self.tools(&list(node.span, tools))
    }

    /// Translates the settings of a model at Vertex AI. Returns `None` after an error, which is reported.
    pub(super) fn vertex(
        &mut self,
        span: Span,
        model: &str,
        config: &[(Key, Node)],
    ) -> Option<Settings> {
        if model.contains("bison") {
            let help = "Google has retired the PaLM models: use a model of Gemini";
            self.unsupported(span, &format!("`vertex:{model}`"), Some(help));
            return None;
        }
        let (mut own, mut rest) = (Vec::new(), Vec::new());
        for (key, value) in config {
            match &*key.name {
                "projectId" | "project" => own.push(("project", self.texts_with_env(value))),
                "region" | "location" => own.push(("region", self.texts_with_env(value))),
                "vertexai" | "apiVersion" | "publisher" => {}
                "apiHost" => {
                    let host = self.with_env(value.text().unwrap_or_default());
                    let url = format!("https://{}/v1", host.trim_end_matches('/'));
                    own.push(("baseUrl", text(value.span, &url)));
                }
                "expressMode" if value.to_json() == serde_json::Value::Bool(false) => {}
                "apiKey" | "expressMode" | "credentials" | "keyFilename" | "googleAuthOptions" => {
                    let help = "remove it, and put an access token into `GOOGLE_ACCESS_TOKEN`: `export \
                        GOOGLE_ACCESS_TOKEN=\"$(gcloud auth print-access-token)\"`";
                    let what = format!("`config.{}` at Vertex AI", key.name);
                    self.unsupported(key.span, &what, Some(help));
                }
                _ => rest.push((key.clone(), value.clone())),
            }
        }
        let projects = ["VERTEX_PROJECT_ID", "GOOGLE_PROJECT_ID", "GOOGLE_CLOUD_PROJECT"];
        if let Some(project) = projects.iter().find_map(|it| self.env_value(it)) {
            or_else(&mut own, "project", || text(span, &project));
        }
        let regions = ["VERTEX_REGION", "GOOGLE_CLOUD_LOCATION"];
        if let Some(region) = regions.iter().find_map(|it| self.env_value(it)) {
            or_else(&mut own, "region", || text(span, &region));
        }
        if !own.iter().any(|(name, _)| *name == "project") {
            let help = "add `config: { projectId: my-project }`, or set `GOOGLE_CLOUD_PROJECT`";
            self.error(span, "the project of this provider is missing", Some(help));
            return None;
        }
        let rest = match dialect_at_vertex(model) {
            "gemini" => rest,
            dialect => self.read_at_vertex(dialect, model, &rest),
        };
        let mut settings = self.settings(dialect_at_vertex(model), &rest);
        let mut all = std::mem::take(&mut settings.provider);
        if model.starts_with("meta/") {
            let guard = llama_guard(span, config);
            match all.iter_mut().find(|(name, _)| *name == "body") {
                Some((_, body)) => *body = super::build::with(body, "extra_body", guard),
                None => all.push(("body", map(span, [("extra_body", guard)]))),
            }
        }
        let (kept, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(name, _)| {
            matches!(*name, "apiKeyEnv" | "body" | "hostedTools" | "systemInstruction")
        });
        for (name, value) in others {
            self.unsupported(value.span, &format!("the setting `{name}` at Vertex AI"), None);
        }
        settings.provider = kept;
        settings.provider.extend(own);
        Some(settings)
    }

    /// Returns the settings that promptfoo sends to a model of another vendor at Vertex AI. Warns of the others.
    fn read_at_vertex(
        &mut self,
        dialect: &str,
        model: &str,
        config: &[(Key, Node)],
    ) -> Vec<(Key, Node)> {
        const ALL: [&str; 5] =
            ["maxOutputTokens", "topK", "cost", "showThinking", "functionToolCallbacks"];
        let read: &[&str] = match dialect {
            "anthropic" => {
                &["max_tokens", "temperature", "top_p", "topP", "top_k", "thinking", "effort"]
            }
            _ => &["temperature", "topP"],
        };
        let (mut kept, mut ignored) = (Vec::new(), Vec::new());
        for (key, value) in config {
            let name = match &*key.name {
                "topK" => "top_k",
                "anthropicVersion" => "anthropic_version",
                name => name,
            };
            if dialect != "anthropic" && name == "llamaConfig" {
                continue;
            }
            let is_version = dialect == "anthropic" && name == "anthropic_version";
            if dialect == "anthropic" && name == "systemInstruction" {
                let help = "write it as the first message of the prompt, with `role: system`";
                self.unsupported(key.span, "`config.systemInstruction` of Claude", Some(help));
            } else if is_version || read.contains(&&*key.name) || ALL.contains(&&*key.name) {
                let key = Key::new(name, key.span);
                kept.push((key, value.clone()));
            } else {
                ignored.push((key.span, format!("`config.{}`", key.name)));
            }
        }
        if let Some((span, _)) = ignored.first() {
            let names: Vec<&str> = ignored.iter().map(|(_, it)| it.as_str()).collect();
            let have = if names.len() == 1 { "has" } else { "have" };
            let message = format!("{} {have} no effect on `{model}`", names.join(", "));
            self.warn(*span, message, Some("promptfoo does not send it either; remove it"));
        }
        kept
    }

    /// Translates the settings of a model at Replicate. All settings without an equivalent are inputs of the model.
    pub(super) fn replicate(&mut self, config: &[(Key, Node)]) -> Settings {
        let mut settings = Settings::default();
        for (key, value) in config {
            match &*key.name {
                "apiKey" => self.key_of(key, value, &mut settings),
                "apiKeyEnvar" => settings.provider.push(("apiKeyEnv", value.clone())),
                "max_tokens" => settings.params.push(("maxTokens", value.clone())),
                "temperature" => settings.params.push(("temperature", value.clone())),
                "top_p" => settings.params.push(("topP", value.clone())),
                "seed" => settings.params.push(("seed", value.clone())),
                "cost" => settings.price = super::settings::price(value),
                "prompt" => {
                    let parts = ["prefix", "suffix"].into_iter();
                    let parts = parts.filter_map(|it| Some((it, value.get(it)?.clone())));
                    settings.provider.extend(parts);
                }
                name => {
                    if let Some(value) = self.without_templates(key, value) {
                        let name = name.to_owned();
                        let entry = super::build::entries(key.span, [(name, value)]);
                        add_to(&mut settings.body, "input", &entry);
                    }
                }
            }
        }
        self.with_body(config, settings)
    }
}

/// Returns the safety settings that promptfoo sends to every model of Llama at Vertex AI.
fn llama_guard(span: Span, config: &[(Key, Node)]) -> Node {
    let own = config.iter().find(|(key, _)| &*key.name == "llamaConfig");
    let own = own.and_then(|(_, it)| it.get("safetySettings")).map(Node::to_json);
    let said = |name: &str| own.as_ref().and_then(|it| it.get(name)).cloned();
    let settings = serde_json::json!({
        "enabled": said("enabled") != Some(serde_json::Value::Bool(false)),
        "llama_guard_settings": said("llama_guard_settings").unwrap_or_else(|| serde_json::json!({})),
    });
    Node::at(span, &serde_json::json!({"google": {"model_safety_settings": settings}}))
}

/// Converts a tool choice to the format of the Converse API. Returns `None` for an unknown format.
fn bedrock_choice(value: &Node) -> Option<Node> {
    let span = value.span;
    let empty = || map(span, std::iter::empty::<(&str, Node)>());
    let named = |name: &Node| map(span, [("tool", map(span, [("name", name.clone())]))]);
    let kind = value.text().or_else(|| value.get("type").and_then(Node::text));
    match kind {
        Some("auto") => Some(map(span, [("auto", empty())])),
        Some("any" | "required") => Some(map(span, [("any", empty())])),
        Some("tool") => value.get("name").map(named),
        Some("function") => value.get("function").and_then(|it| it.get("name")).map(named),
        Some(_) => None,
        None => {
            ["auto", "any", "tool"].iter().any(|it| value.get(it).is_some()).then(|| value.clone())
        }
    }
}
