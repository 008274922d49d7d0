//! Services that answer with more than a model: knowledge bases of Bedrock, and agents of Azure AI Foundry. They become
//! `http` providers.

use kindlm_source::{Key, Node, Span};
use serde_json::{Map, Value, json};

use super::Translator;
use super::build::{map, text};
use super::settings::{Found, Settings, variable_of};
use super::vendors::json_header;

/// A script that reads the answer of a knowledge base, with its citations as metadata.
const KNOWLEDGE: &str =
    "({ output: json.output?.text ?? \"\", metadata: { citations: json.citations ?? [] } })";

/// A script that reads the answer of an agent: the texts of its messages, each on its own line. An answer without
/// output, a failed answer, and a call of a function are errors.
const AGENT: &str = r#"(json) => {
  const items = json.output;
  if (json.error) return { error: json.error.message ?? String(json.error) };
  if (json.status === "failed") return { error: json.incomplete_details?.reason ?? "the response failed" };
  if (!Array.isArray(items) || items.length === 0) return { error: "the response has no output" };
  const call = items.find((it) => it?.type === "function_call");
  if (call) return { error: `the agent called the function ${call.name}, which needs an answer` };
  const parts = (it) => (it.content ?? []).map((part) => part.text ?? part.refusal ?? "").join("");
  const finish = json.incomplete_details?.reason === "max_output_tokens" ? "length" : "content_filter";
  return {
    output: items.filter((it) => it?.type === "message").map(parts).filter((it) => it).join("\n"),
    ...(json.status === "incomplete" ? { finishReason: finish } : {}),
    tokenUsage: {
      prompt: json.usage?.input_tokens, completion: json.usage?.output_tokens, total: json.usage?.total_tokens,
    },
    metadata: { responseId: json.id },
  };
}"#;

/// The input of an agent, as a template. A prompt that is a JSON list is the whole input; any other prompt becomes
/// one user message.
const INPUT: &str = r#"{% if (prompt | trim | first) == "[" and (prompt | trim | last) == "]" and "{" in prompt %}{{ prompt | load | dump }}{% else %}[{"type": "message", "role": "user", "content": {{ prompt | dump }}}]{% endif %}"#;

/// The settings for the maximum number of output tokens. The first setting that has a value counts.
const MAXIMUMS: [&str; 3] = ["max_output_tokens", "max_completion_tokens", "max_tokens"];

/// The prefixes of inference profiles: a region in front of the name of a model.
const PROFILES: [&str; 6] = ["us.", "eu.", "apac.", "global.", "jp.", "au."];

impl Translator<'_> {
    /// Translates a model of Bedrock that answers with a knowledge base. Returns `None` after an error, which is
    /// reported.
    pub(super) fn knowledge_base(
        &mut self,
        span: Span,
        model: &str,
        config: &[(Key, Node)],
    ) -> Option<Found> {
        let mut settings = Settings::default();
        let (mut base, mut arn, mut region) = (None, None, None);
        let mut inference = Map::new();
        let mut results = None;
        let mut top_k = None;
        for (key, value) in config {
            let said = || value.text().map(|it| self.with_env(it));
            match &*key.name {
                "knowledgeBaseId" => base = said(),
                "modelArn" => arn = said(),
                "region" => region = said(),
                "apiKey" => self.key_of(key, value, &mut settings),
                "max_tokens" => drop(inference.insert("maxTokens".to_owned(), value.to_json())),
                "temperature" => drop(inference.insert("temperature".to_owned(), value.to_json())),
                "top_p" => drop(inference.insert("topP".to_owned(), value.to_json())),
                "top_k" => top_k = Some(value.to_json()),
                "numberOfResults" => results = Some(value.to_json()),
                "cost" => settings.price = super::settings::price(value),
                "accessKeyId" | "secretAccessKey" | "sessionToken" | "profile" => {
                    self.aws_credential(key, value);
                }
                name => {
                    let message = format!("`config.{name}` has no effect on a knowledge base");
                    let help = "promptfoo does not send it either; remove it";
                    self.warn(key.span, message, Some(help));
                }
            }
        }
        let names = ["AWS_BEDROCK_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"];
        let region = region.or_else(|| names.iter().find_map(|it| self.env_value(it)));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let Some(base) = base else {
            let help = "add `config: { knowledgeBaseId: … }`";
            self.error(span, "the id of the knowledge base is missing", Some(help));
            return None;
        };
        let model = Some(model).filter(|it| !it.is_empty() && *it != "default");
        let Some(arn) = arn.or_else(|| model.map(|it| arn_of(it, &region))) else {
            let help = "write it into the id, `bedrock:kb:MODEL`, or add `config: { modelArn: … }`";
            self.error(span, "the model of the knowledge base is missing", Some(help));
            return None;
        };
        self.drop_sampling(span, &arn, &mut inference, &mut top_k);
        let generation = generation_of(&arn, &inference, top_k.as_ref());
        let mut knowledge = json!({"knowledgeBaseId": base, "modelArn": arn});
        if !generation.is_empty() {
            knowledge["generationConfiguration"] = Value::Object(generation);
        }
        if let Some(count) = results {
            knowledge["retrievalConfiguration"] =
                json!({"vectorSearchConfiguration": {"numberOfResults": count}});
        }
        let how = json!({"type": "KNOWLEDGE_BASE", "knowledgeBaseConfiguration": knowledge});
        let body = format!(
            "{{\"input\": {{\"text\": {{{{ prompt | dump }}}}}}, \"retrieveAndGenerateConfiguration\": {how}}}"
        );
        let url =
            format!("https://bedrock-agent-runtime.{region}.amazonaws.com/retrieveAndGenerate");
        let aws = [("service", text(span, "bedrock")), ("region", text(span, &region))];
        // A request has either a key or a signature.
        let auth = settings.provider.pop().unwrap_or_else(|| ("aws", map(span, aws)));
        settings.provider = vec![
            ("url", text(span, &url)),
            auth,
            ("headers", json_header(span)),
            ("body", text(span, &body)),
            ("template", text(span, "jinja")),
            ("transformResponse", text(span, KNOWLEDGE)),
        ];
        Some(("http", "bedrock-kb".to_owned(), arn, settings))
    }

    /// Removes the sampling parameters that promptfoo does not send to a model, with a warning for each.
    fn drop_sampling(
        &mut self,
        span: Span,
        arn: &str,
        inference: &mut Map<String, Value>,
        top_k: &mut Option<Value>,
    ) {
        for name in dropped_by_promptfoo(arn, inference.contains_key("topP")) {
            let was_set = match *name {
                "top_k" => top_k.take().is_some(),
                "top_p" => inference.remove("topP").is_some(),
                name => inference.remove(name).is_some(),
            };
            if was_set {
                let message = format!("`config.{name}` has no effect on `{arn}`");
                self.warn(span, message, Some("promptfoo does not send it either; remove it"));
            }
        }
    }

    /// Translates an agent of Azure AI Foundry. KindLM asks the agent with one request to the Responses API. Returns
    /// `None` after an error, which is reported.
    pub(super) fn foundry_agent(
        &mut self,
        span: Span,
        agent: &str,
        config: &[(Key, Node)],
    ) -> Option<Found> {
        let mut settings = Settings::default();
        let mut project = self.env_value("AZURE_AI_PROJECT_URL");
        let mut token = "AZURE_ACCESS_TOKEN".to_owned();
        let mut body = Map::new();
        for (key, value) in config {
            match &*key.name {
                "projectUrl" => project = value.text().map(|it| self.with_env(it)),
                "apiKey" => match value.text().and_then(variable_of) {
                    Some(name) => name.clone_into(&mut token),
                    None => self.key_of(key, value, &mut Settings::default()),
                },
                "instructions" | "metadata" | "temperature" | "top_p" => {
                    let value = self.without_templates(key, value);
                    body.extend(value.map(|it| (key.name.to_string(), it.to_json())));
                }
                name if MAXIMUMS.contains(&name) => {}
                "modelName" => drop(body.insert("model".to_owned(), value.to_json())),
                "cost" => settings.price = super::settings::price(value),
                "tools"
                | "tool_choice"
                | "functionToolCallbacks"
                | "response_format"
                | "passthrough"
                | "reasoning_effort"
                | "verbosity" => {
                    let help = "set it in the agent itself, and remove it here";
                    let what = format!("`config.{}` of an agent of Foundry", key.name);
                    self.unsupported(key.span, &what, Some(help));
                }
                name => {
                    let message = format!("`config.{name}` has no effect on an agent of Foundry");
                    let help = "promptfoo does not send it either; remove it";
                    self.warn(key.span, message, Some(help));
                }
            }
        }
        let find = |name: &&str| config.iter().find(|(key, _)| &*key.name == *name);
        if let Some((_, value)) = MAXIMUMS.iter().find_map(find) {
            body.insert("max_output_tokens".to_owned(), value.to_json());
        }
        let Some(project) = project else {
            let help = "add `config: { projectUrl: 'RESOURCE.services.ai.azure.com/api/projects/PROJECT' }`";
            self.error(span, "the address of the project is missing", Some(help));
            return None;
        };
        let host = project.trim_start_matches("https://").trim_end_matches('/');
        let reference = json!({"name": agent, "type": "agent_reference"});
        body.insert("agent_reference".to_owned(), reference);
        let rest = Value::Object(body).to_string();
        let body = format!("{{\"input\": {INPUT}, {}", rest.trim_start_matches('{'));
        settings.provider = vec![
            ("url", text(span, &format!("https://{host}/openai/v1/responses"))),
            ("apiKeyEnv", text(span, &token)),
            ("headers", json_header(span)),
            ("body", text(span, &body)),
            ("template", text(span, "jinja")),
            ("transformResponse", text(span, AGENT)),
        ];
        Some(("http", "foundry-agent".to_owned(), agent.to_owned(), settings))
    }
}

/// Returns the sampling parameters that promptfoo does not send to a model: some models of Claude refuse them.
fn dropped_by_promptfoo(arn: &str, has_top_p: bool) -> &'static [&'static str] {
    let Some((_, version)) = arn.split_once("claude-") else { return &[] };
    let words = || version.split(|it: char| !it.is_ascii_alphanumeric());
    let mut numbers = words().skip_while(|it| it.starts_with(|c: char| c.is_ascii_alphabetic()));
    let is_named = version.starts_with(|it: char| it.is_ascii_alphabetic());
    let mut next = || numbers.next().and_then(|it| it.parse::<u32>().ok());
    match (words().next(), next(), next()) {
        (_, Some(5..=99), _) if is_named => &["temperature", "top_p", "top_k"],
        (Some("opus"), Some(4), Some(7 | 8)) => &["temperature", "top_p", "top_k"],
        (Some("sonnet"), Some(4), Some(5 | 6)) | (Some("haiku"), Some(4), Some(5)) if has_top_p => {
            &["temperature"]
        }
        _ => &[],
    }
}

/// Returns the settings of the generation; empty without settings.
fn generation_of(
    arn: &str,
    inference: &Map<String, Value>,
    top_k: Option<&Value>,
) -> Map<String, Value> {
    let mut generation = Map::new();
    if !inference.is_empty() {
        let inference = json!({"textInferenceConfig": inference});
        generation.insert("inferenceConfig".to_owned(), inference);
    }
    if let Some(top_k) = top_k {
        let fields = if arn.contains("amazon.nova-") {
            json!({"inferenceConfig": {"topK": top_k}})
        } else if arn.contains("cohere.command-r") {
            json!({"k": top_k})
        } else {
            json!({"top_k": top_k})
        };
        generation.insert("additionalModelRequestFields".to_owned(), fields);
    }
    generation
}

/// Returns the ARN of a model. An inference profile and an ARN stay as they are.
fn arn_of(model: &str, region: &str) -> String {
    if model.starts_with("arn:") || PROFILES.iter().any(|it| model.starts_with(it)) {
        return model.to_owned();
    }
    format!("arn:aws:bedrock:{region}::foundation-model/{model}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_models_of_claude_get_no_sampling_parameters() {
        const ALL: &[&str] = &["temperature", "top_p", "top_k"];
        const ONE: &[&str] = &["temperature"];
        const NONE: &[&str] = &[];
        for (model, has_top_p, expected) in [
            ("us.anthropic.claude-sonnet-5", false, ALL),
            ("anthropic.claude-haiku-5-5", true, ALL),
            ("anthropic.claude-opus-4-7-v1:0", false, ALL),
            ("anthropic.claude-sonnet-4-5-20250929-v1:0", true, ONE),
            ("anthropic.claude-sonnet-4-5-20250929-v1:0", false, NONE),
            ("anthropic.claude-opus-4-5-20251101-v1:0", true, NONE),
            ("anthropic.claude-3-7-sonnet-20250219-v1:0", true, NONE),
            ("anthropic.claude-v2:1", true, NONE),
            ("amazon.nova-lite-v1:0", true, NONE),
        ] {
            assert_eq!(dropped_by_promptfoo(model, has_top_p), expected, "{model}");
        }
    }

    #[test]
    fn models_of_knowledge_bases_have_arns() {
        for (model, expected) in [
            ("us.anthropic.claude-sonnet-5", "us.anthropic.claude-sonnet-5"),
            ("arn:aws:bedrock:eu-west-1:1:x/y", "arn:aws:bedrock:eu-west-1:1:x/y"),
            ("amazon.nova-lite-v1:0", "arn:aws:bedrock:r::foundation-model/amazon.nova-lite-v1:0"),
        ] {
            assert_eq!(arn_of(model, "r"), expected);
        }
    }
}
