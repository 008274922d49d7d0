//! Endpoints of Amazon `SageMaker`: they become `http` providers with signed requests.

use kindlm_source::{Key, Node, Span};
use serde_json::{Map, Value, json};

use super::Translator;
use super::build::{entries, map, text};
use super::settings::Settings;

/// The kinds of models for which promptfoo has a request format. `custom` is the kind of all other models.
const KINDS: [&str; 5] = ["openai", "llama", "huggingface", "jumpstart", "custom"];

impl Translator<'_> {
    /// Translates an endpoint. Returns `None` after an error, which is reported.
    pub(super) fn sagemaker(
        &mut self,
        span: Span,
        (kind, endpoint): (&str, &str),
        config: &[(Key, Node)],
    ) -> Option<Settings> {
        let set = |name: &str| config.iter().find(|(key, _)| &*key.name == name).map(|(_, it)| it);
        let written = set("modelType").and_then(Node::text).filter(|_| kind.is_empty());
        let kind = written.unwrap_or(kind);
        if !KINDS.contains(&kind) {
            let help = "write it into the id: `sagemaker:huggingface:ENDPOINT`; it is `openai`, `llama`, `huggingface`, \
                `jumpstart` or `custom`";
            self.error(
                span,
                format!("the kind of the model of `{endpoint}` is missing"),
                Some(help),
            );
            return None;
        }
        let (mut provider, path) = self.endpoint(span, endpoint, config);
        let number = |name: &str, usual: Value| {
            set(name).map(Node::to_json).filter(Value::is_number).unwrap_or(usual)
        };
        let stop = set("stopSequences").map(Node::to_json);
        let parameters = [
            number("maxTokens", json!(1024)),
            number("temperature", json!(0.7)),
            number("topP", json!(1)),
            stop.filter(|it| it.as_array().is_some_and(|it| !it.is_empty())).unwrap_or_default(),
        ];
        provider.extend([
            ("body", text(span, &body(kind, parameters))),
            ("template", text(span, "jinja")),
            ("transformResponse", text(span, &reading(kind, path.as_deref()))),
        ]);
        Some(Settings { provider, ..Settings::default() })
    }

    /// Translates an endpoint for embeddings. Returns `None` after an error, which is reported.
    pub(super) fn sagemaker_embedding(
        &mut self,
        span: Span,
        endpoint: &str,
        config: &[(Key, Node)],
    ) -> Option<Settings> {
        let (mut provider, path) = self.endpoint(span, endpoint, config);
        let kind = config.iter().find(|(key, _)| &*key.name == "modelType");
        let given = text(span, "{{ prompt }}");
        let kind = kind.and_then(|(_, it)| it.text());
        let body = match kind {
            Some("openai") => map(span, [("input", given), ("model", text(span, "embedding"))]),
            Some("huggingface") => map(span, [("inputs", given)]),
            _ => map(span, [("input", given.clone()), ("text", given.clone()), ("inputs", given)]),
        };
        provider.extend([("body", body), ("template", text(span, "jinja"))]);
        let path = match path {
            Some(path) => {
                let plain = plain_path(&path);
                if plain.is_none() {
                    let help = "write keys and indexes: `json.data[0].embedding`";
                    self.unsupported(span, "this path of `config.responseFormat`", Some(help));
                }
                plain?
            }
            None if kind == Some("huggingface") => String::new(),
            None => "$..['embedding', 'embeddings']".to_owned(),
        };
        provider.push(("embeddingPath", text(span, &path)));
        Some(Settings { provider, ..Settings::default() })
    }

    /// Translates the address and the headers of an endpoint. Also returns the path of the output in an answer; `None`
    /// without a path.
    fn endpoint(
        &mut self,
        span: Span,
        endpoint: &str,
        config: &[(Key, Node)],
    ) -> (Vec<(&'static str, Node)>, Option<String>) {
        let mut url_region = None;
        let mut path = None;
        let mut headers = vec![("Content-Type".to_owned(), text(span, "application/json"))];
        for (key, value) in config {
            match &*key.name {
                "region" => url_region = value.text().map(|it| self.with_env(it)),
                "modelType" | "maxTokens" | "temperature" | "topP" | "stopSequences" => {}
                "accessKeyId" | "secretAccessKey" | "sessionToken" | "profile" => {
                    self.aws_credential(key, value);
                }
                "acceptType" => headers.push(("Accept".to_owned(), value.clone())),
                "contentType" if value.text() == Some("application/json") => {}
                "responseFormat" => {
                    path = value.get("path").and_then(Node::text).map(str::to_owned);
                }
                name => {
                    let help = "write an `https://` provider; its `aws` signs the requests";
                    self.unsupported(
                        key.span,
                        &format!("`config.{name}` of `sagemaker`"),
                        Some(help),
                    );
                }
            }
        }
        let region = url_region
            .or_else(|| self.env_value("AWS_SAGEMAKER_REGION"))
            .or_else(|| self.env_value("AWS_REGION"))
            .unwrap_or_else(|| "us-east-1".to_owned());
        let url = format!(
            "https://runtime.sagemaker.{region}.amazonaws.com/endpoints/{endpoint}/invocations"
        );
        let aws = [("service", text(span, "sagemaker")), ("region", text(span, &region))];
        let provider = vec![
            ("url", text(span, &url)),
            ("aws", map(span, aws)),
            ("headers", entries(span, headers)),
        ];
        (provider, path)
    }
}

/// Converts a path of promptfoo, such as `json.data[0].embedding`, to a path of keys and indexes, such as
/// `data.0.embedding`. Returns `None` for other code.
fn plain_path(path: &str) -> Option<String> {
    let path = path.strip_prefix("$.").or_else(|| path.strip_prefix("json.")).unwrap_or(path);
    let plain = path.strip_prefix("json").unwrap_or(path).replace('[', ".").replace(']', "");
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '.');
    plain.chars().all(is_plain).then(|| plain.trim_start_matches('.').to_owned())
}

/// Returns the template of the body. A prompt that is JSON is inserted as it is.
fn body(kind: &str, [max_tokens, temperature, top_p, stop]: [Value; 4]) -> String {
    let does_sample = temperature.as_f64().is_some_and(|it| it > 0.0);
    let mut rest = Map::new();
    let limit = if kind == "openai" { "max_tokens" } else { "max_new_tokens" };
    rest.insert(limit.to_owned(), max_tokens);
    rest.insert("temperature".to_owned(), temperature);
    rest.insert("top_p".to_owned(), top_p);
    if matches!(kind, "openai" | "llama") && !stop.is_null() {
        rest.insert("stop".to_owned(), stop);
    }
    if matches!(kind, "jumpstart" | "huggingface") {
        rest.insert("do_sample".to_owned(), json!(does_sample));
    }
    if kind == "huggingface" {
        rest.insert("return_full_text".to_owned(), json!(false));
    }
    let rest = Value::Object(rest).to_string();
    let is_list = "prompt is startingwith(\"[\")";
    match kind {
        "openai" => format!(
            "{{% if {is_list} %}}{{\"messages\": {{{{ prompt }}}}{{% else %}}{{\"prompt\": {{{{ prompt | dump }}}}\
             {{% endif %}}, {}",
            rest.strip_prefix('{').unwrap_or(&rest)
        ),
        "llama" => format!(
            "{{\"inputs\": {{% if {is_list} %}}{{{{ prompt }}}}{{% else %}}{{{{ prompt | dump }}}}{{% endif %}}, \
             \"parameters\": {rest}}}"
        ),
        "custom" => format!(
            "{{% if {is_list} or prompt is startingwith(\"{{\") %}}{{{{ prompt }}}}{{% else %}}{{\"prompt\": \
             {{{{ prompt | dump }}}}}}{{% endif %}}"
        ),
        _ => format!("{{\"inputs\": {{{{ prompt | dump }}}}, \"parameters\": {rest}}}"),
    }
}

/// Returns the script that reads the output of an answer. `path` overrides the usual path for this kind of model.
fn reading(kind: &str, path: Option<&str>) -> String {
    if let Some(path) = path {
        return match path.strip_prefix("$.") {
            Some(rest) => format!("json.{rest}"),
            None if path.starts_with("json") => path.to_owned(),
            None => format!("json.{path}"),
        };
    }
    let chat = "json.choices?.[0]?.message?.content || json.choices?.[0]?.text";
    let rest = match kind {
        "openai" => format!("{chat} || json.generation"),
        "llama" => format!("json.generation || {chat}"),
        "huggingface" => "json[0]?.generated_text || json[0]".to_owned(),
        "jumpstart" => return "json.generated_text || json".to_owned(),
        _ => format!("json.output || json.generation || json.response || json.text || {chat}"),
    };
    format!("json.generated_text || {rest} || json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_keys_and_indexes() {
        for (path, expected) in [
            ("json.embedding", Some("embedding")),
            ("$.data[0].embedding", Some("data.0.embedding")),
            ("json[0]", Some("0")),
            ("json.map(it => it)", None),
        ] {
            assert_eq!(plain_path(path).as_deref(), expected, "{path}");
        }
    }
}
