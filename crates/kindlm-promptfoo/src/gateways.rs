//! promptfoo's settings for servers with an API compatible to OpenAI's.
//!
//! KindLM's table of servers has the addresses and keys.

use kindlm_providers::servers;
use kindlm_source::{Key, Kind, Node, Span};

use super::Translator;
use super::build::{node, text};
use super::settings::{Settings, or_else};

/// A server with an API compatible to OpenAI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Server {
    /// The prefix of its ids in promptfoo.
    pub(super) name: &'static str,
    /// The base URL; empty if only the settings have it.
    base_url: &'static str,
    /// The environment variable of the key.
    key: &'static str,
    /// True if the server accepts requests without a key. Then the variable need not be set.
    is_open: bool,
}

/// The servers that have another name in promptfoo than in KindLM.
const RENAMED: [(&str, &str); 5] = [
    ("alibaba", "dashscope"),
    ("alicloud", "dashscope"),
    ("aliyun", "dashscope"),
    ("hf", "huggingface"),
    ("togetherai", "together"),
];

fn renamed(name: &str) -> Option<&'static (&'static str, &'static str)> {
    RENAMED.iter().find(|(it, _)| *it == name)
}

/// Returns KindLM's name of a server. Any other name is unchanged.
pub(super) fn name_in_kindlm(name: &str) -> &str {
    renamed(name).map_or(name, |it| it.1)
}

/// Returns the server with this prefix of ids; `None` for an unknown prefix.
pub(super) fn find(name: &str) -> Option<Server> {
    let row = servers::find(name_in_kindlm(name))?;
    let name = renamed(name).map_or(row.name, |it| it.0);
    Some(Server { name, base_url: row.base_url, key: row.key, is_open: row.is_open })
}

impl Translator<'_> {
    /// Splits a `config`. Returns the settings of the model, and the translated settings of the server itself.
    /// Returns `None` after an error, which is reported.
    pub(super) fn server_config(
        &mut self,
        span: Span,
        (server, model): (Server, &str),
        config: &[(Key, Node)],
    ) -> Option<(Vec<(Key, Node)>, Settings)> {
        let mut rest = Vec::with_capacity(config.len());
        let mut own: Vec<(&str, String)> = Vec::new();
        for (key, value) in config {
            let name =
                OWN.iter().find(|(it, names)| *it == server.name && names.contains(&&*key.name));
            let is_portkey = server.name == "portkey" && key.name.starts_with("portkey");
            if name.is_some() || is_portkey {
                let value = value
                    .text()
                    .map_or_else(|| value.to_json().to_string(), |it| self.with_env(it));
                own.push((&key.name, value));
            } else {
                rest.push((key.clone(), value.clone()));
            }
        }
        let mut settings = Settings::default();
        let is_url = |it: &str| matches!(it, "apiBaseUrl" | "baseURL" | "apiHost");
        let has_url = rest.iter().any(|(key, _)| is_url(&key.name));
        if !has_url {
            let Some(url) = self.address_of(server, model, &own) else {
                let help =
                    ADDRESSES.iter().find(|(it, _)| *it == server.name).map(|(_, help)| *help);
                self.error(span, "the address of this provider is missing", help);
                return None;
            };
            settings.provider.push(("baseUrl", text(span, &url)));
        }
        if server.name == "portkey" {
            self.portkey(span, model, &own, &mut settings);
        } else if server.name == "openclaw" {
            self.openclaw(span, model, &own, &mut settings);
        } else if server.is_open && self.env_value(server.key).is_none() {
            settings.provider.push(("apiKeyEnv", node(span, Kind::Null)));
        } else {
            settings.provider.push(("apiKeyEnv", text(span, server.key)));
        }
        Some((rest, settings))
    }

    /// Returns the base URL of a server, from its settings, the environment, or the table. Returns `None` if there is
    /// no base URL.
    fn address_of(&self, server: Server, model: &str, own: &[(&str, String)]) -> Option<String> {
        let set = |name: &str| own.iter().find(|(it, _)| *it == name).map(|(_, it)| it.clone());
        let trimmed = |it: String| it.trim_end_matches('/').to_owned();
        let env = |name: &str| self.env_value(name);
        match server.name {
            "xai" => {
                let region = set("region").map(|it| format!("https://{it}.api.x.ai/v1"));
                Some(region.unwrap_or_else(|| server.base_url.to_owned()))
            }
            "cloudflare-ai" => {
                let named = set("accountIdEnvar").and_then(|it| env(&it));
                let account =
                    set("accountId").or(named).or_else(|| env("CLOUDFLARE_ACCOUNT_ID"))?;
                Some(format!("https://api.cloudflare.com/client/v4/accounts/{account}/ai/v1"))
            }
            "databricks" => {
                let host = set("workspaceUrl").or_else(|| env("DATABRICKS_WORKSPACE_URL"))?;
                Some(format!("{}/serving-endpoints", trimmed(host)))
            }
            "docker" => {
                let host = env("DOCKER_MODEL_RUNNER_BASE_URL").map(trimmed);
                Some(
                    host.map_or_else(
                        || server.base_url.to_owned(),
                        |it| format!("{it}/engines/v1"),
                    ),
                )
            }
            "envoy" => {
                let url = trimmed(set("apiBaseUrl").or_else(|| env("ENVOY_API_BASE_URL"))?);
                Some(if url.ends_with("/v1") { url } else { format!("{url}/v1") })
            }
            "f5" => {
                Some(format!("{}/{}", trimmed(set("apiBaseUrl")?), model.trim_start_matches('/')))
            }
            "helicone" => {
                let host =
                    trimmed(set("baseUrl").unwrap_or_else(|| "http://localhost:8080".to_owned()));
                Some(match set("router") {
                    Some(router) => format!("{host}/router/{router}"),
                    None => format!("{host}/ai"),
                })
            }
            "huggingface" | "hf" => {
                let url = trimmed(set("apiEndpoint").unwrap_or_else(|| server.base_url.to_owned()));
                Some(url.trim_end_matches("/chat/completions").to_owned())
            }
            "localai" => {
                Some(env("LOCALAI_BASE_URL").unwrap_or_else(|| server.base_url.to_owned()))
            }
            "mlflow-gateway" => {
                let host = set("gatewayUrl").or_else(|| env("MLFLOW_GATEWAY_URL"))?;
                Some(format!("{}/gateway/mlflow/v1", trimmed(host)))
            }
            "nvidia" => {
                Some(env("NVIDIA_API_BASE_URL").unwrap_or_else(|| server.base_url.to_owned()))
            }
            "openclaw" => Some(self.openclaw_address(own)),
            "portkey" => {
                let url = env("PORTKEY_API_BASE_URL").or_else(|| set("portkeyApiBaseUrl"));
                Some(url.unwrap_or_else(|| server.base_url.to_owned()))
            }
            _ => Some(server.base_url.to_owned()).filter(|it| !it.is_empty()),
        }
    }

    /// Adds the headers of Portkey, and the key of the vendor behind it.
    fn portkey(
        &mut self,
        span: Span,
        model: &str,
        own: &[(&str, String)],
        settings: &mut Settings,
    ) {
        let key = |value: &str| match super::settings::variable_of(value) {
            Some(variable) => format!("env:{variable}"),
            None => value.to_owned(),
        };
        let mut headers: Vec<(String, Node)> = Vec::new();
        let mut has_key = false;
        for (name, value) in own {
            let Some(rest) = name.strip_prefix("portkey").filter(|it| *it != "ApiBaseUrl") else {
                continue;
            };
            if rest == "ApiKey" {
                has_key = true;
                if super::settings::variable_of(value).is_none() {
                    let help = "put it into the environment variable `PORTKEY_API_KEY`";
                    self.error(span, "a key must not be in a file", Some(help));
                }
            }
            let header = format!("x-portkey-{}", kebab(rest));
            headers.push((header, text(span, &key(value))));
        }
        if !has_key {
            headers.push(("x-portkey-api-key".to_owned(), text(span, "env:PORTKEY_API_KEY")));
        }
        settings.provider.push(("headers", super::build::entries(span, headers)));
        let is_managed = model.starts_with('@')
            || own.iter().any(|(name, value)| match *name {
                "portkeyVirtualKey" => true,
                "portkeyProvider" => value.starts_with('@'),
                _ => false,
            });
        let vendor = "OPENAI_API_KEY";
        let sends_key = !is_managed && self.env_value(vendor).is_some();
        let key = if sends_key { text(span, vendor) } else { node(span, Kind::Null) };
        or_else(&mut settings.provider, "apiKeyEnv", || key);
    }

    /// Translates `headers` of a vendor's API. Returns `None` after an error, which is reported.
    pub(super) fn headers(&mut self, key: &Key, value: &Node) -> Option<Node> {
        let mut headers = Vec::new();
        for (name, value) in value.entries() {
            let written = self.with_env(value.text().unwrap_or_default());
            let bearer = written.strip_prefix("Bearer ");
            let scheme = if bearer.is_some() { "Bearer " } else { "" };
            let variable = super::settings::variable_of(bearer.unwrap_or(&written));
            if variable.is_none() && kindlm_template::is_template(&written) {
                let help = "write the value itself, `{{env.NAME}}` or `Bearer {{env.NAME}}`";
                self.unsupported(key.span, "a template in `config.headers`", Some(help));
                return None;
            }
            if variable.is_none() && kindlm_redact::is_secret_header(&name.name) {
                let help = "write `{{env.NAME}}`, and put the value into that environment variable";
                self.error(name.span, "a key must not be in a file", Some(help));
                return None;
            }
            let value = variable.map_or(written.clone(), |it| format!("{scheme}env:{it}"));
            headers.push((name.name.to_string(), text(key.span, &value)));
        }
        Some(super::build::entries(key.span, headers))
    }
}

/// The settings that are about the server, not about the model.
const OWN: [(&str, &[&str]); 10] = [
    ("cloudflare-ai", &["accountId", "accountIdEnvar"]),
    ("databricks", &["workspaceUrl", "isPayPerToken"]),
    ("envoy", &["apiBaseUrl"]),
    ("f5", &["apiBaseUrl"]),
    ("helicone", &["baseUrl", "model", "router"]),
    ("hf", &["apiEndpoint", "chatCompletion", "inferenceProvider"]),
    ("huggingface", &["apiEndpoint", "chatCompletion", "inferenceProvider"]),
    ("mlflow-gateway", &["gatewayUrl"]),
    ("openclaw", &OPENCLAW),
    ("xai", &["region"]),
];

/// The settings of an agent of `OpenClaw` that are no settings of a model.
const OPENCLAW: [&str; 10] = [
    "gateway_url",
    "auth_token",
    "auth_password",
    "session_key",
    "backend_model",
    "model_override",
    "message_channel",
    "account_id",
    "scopes",
    "timeoutMs",
];

/// The help for servers without a default address, by the name of the server.
const ADDRESSES: [(&str, &str); 5] = [
    ("cloudflare-ai", "add `config: { accountId: … }`, or set `CLOUDFLARE_ACCOUNT_ID`"),
    ("databricks", "add `config: { workspaceUrl: … }`, or set `DATABRICKS_WORKSPACE_URL`"),
    ("envoy", "add `config: { apiBaseUrl: … }`, or set `ENVOY_API_BASE_URL`"),
    ("f5", "add `config: { apiBaseUrl: … }`"),
    ("mlflow-gateway", "add `config: { gatewayUrl: … }`, or set `MLFLOW_GATEWAY_URL`"),
];

/// Converts a name to the form of header names: `VirtualKey` to `virtual-key`.
fn kebab(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_an_address_or_advice() {
        let names = servers::all().map(|it| it.name).chain(RENAMED.map(|(it, _)| it));
        for name in names {
            let server = find(name).unwrap();
            let has_advice = ADDRESSES.iter().any(|(it, _)| *it == name);
            assert_eq!(server.base_url.is_empty(), has_advice, "{name}");
            assert_eq!(server.name, name);
        }
    }

    #[test]
    fn names_are_written_as_in_headers() {
        for (name, expected) in
            [("VirtualKey", "virtual-key"), ("Config", "config"), ("ApiKey", "api-key")]
        {
            assert_eq!(kebab(name), expected);
        }
    }
}
