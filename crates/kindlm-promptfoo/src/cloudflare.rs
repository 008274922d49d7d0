//! `cloudflare-gateway`: models of other vendors behind Cloudflare's AI Gateway.

use kindlm_source::{Key, Kind, Node, Span};

use super::Translator;
use super::build::{entries, node, text};
use super::settings::{Found, Settings, or_else, variable_of};

/// The vendors behind the gateway, with the environment variables of their keys.
const VENDORS: [(&str, &str); 12] = [
    ("openai", "OPENAI_API_KEY"),
    ("anthropic", "ANTHROPIC_API_KEY"),
    ("groq", "GROQ_API_KEY"),
    ("perplexity-ai", "PERPLEXITY_API_KEY"),
    ("google-ai-studio", "GOOGLE_API_KEY"),
    ("mistral", "MISTRAL_API_KEY"),
    ("cohere", "COHERE_API_KEY"),
    ("azure-openai", "AZURE_OPENAI_API_KEY"),
    ("workers-ai", "CLOUDFLARE_API_KEY"),
    ("huggingface", "HUGGINGFACE_API_KEY"),
    ("replicate", "REPLICATE_API_KEY"),
    ("grok", "XAI_API_KEY"),
];

const BASE: &str = "https://gateway.ai.cloudflare.com/v1";

/// The settings of the gateway itself.
const OWN: [&str; 9] = [
    "accountId",
    "accountIdEnvar",
    "apiVersion",
    "cfAigToken",
    "cfAigTokenEnvar",
    "deploymentName",
    "gatewayId",
    "gatewayIdEnvar",
    "resourceName",
];

/// The other settings that promptfoo reads for Anthropic's models behind the gateway.
const ANTHROPIC: [&str; 8] =
    ["apiKey", "apiKeyEnvar", "cost", "headers", "max_tokens", "temperature", "top_k", "top_p"];

/// The settings with an address. They have no effect, so the gateway's token is never sent to another host.
const ADDRESSES: [&str; 4] = ["apiBaseUrl", "apiHost", "baseURL", "baseUrl"];

/// Returns the name of a vendor behind the gateway; `None` for other names.
pub(super) fn find(vendor: &str) -> Option<&'static str> {
    VENDORS.iter().find(|(it, _)| *it == vendor).map(|(it, _)| *it)
}

/// Returns the value of a setting of the gateway; `None` if it is not set.
fn value<'a>(own: &'a [(&str, String)], name: &str) -> Option<&'a str> {
    let value = own.iter().find(|(it, _)| *it == name).map(|(_, it)| it.as_str());
    value.filter(|it| !it.is_empty())
}

impl Translator<'_> {
    /// Translates a model behind the gateway. Returns `None` after an error, which is reported.
    ///
    /// Behind the gateway, all vendors except Anthropic have OpenAI's API.
    pub(super) fn cloudflare_gateway(
        &mut self,
        span: Span,
        (vendor, model): (&'static str, &str),
        config: &[(Key, Node)],
    ) -> Option<Found> {
        let kind = if vendor == "anthropic" { vendor } else { "openai" };
        let mut own: Vec<(&str, String)> = Vec::new();
        let mut rest = Vec::new();
        for (key, value) in config {
            if ADDRESSES.contains(&&*key.name) {
                let message = format!("`config.{}` has no effect on `{model}`", key.name);
                self.warn(key.span, message, Some("requests go to the gateway; remove it"));
            } else if OWN.contains(&&*key.name) {
                let json = || value.to_json().to_string();
                own.push((&key.name, value.text().map_or_else(json, |it| self.with_env(it))));
            } else if kind == "anthropic" && !ANTHROPIC.contains(&&*key.name) {
                self.warn_of_left_out(key, model);
            } else {
                rest.push((key.clone(), value.clone()));
            }
        }
        let mut settings = self.settings(kind, &rest);
        let url = self.gateway_address(span, (vendor, model), &own)?;
        settings.provider.push(("baseUrl", text(span, &url)));
        let key = VENDORS.iter().find(|(it, _)| *it == vendor)?.1;
        or_else(&mut settings.provider, "apiKeyEnv", || text(span, key));
        let mut headers = Vec::new();
        if let Some(variable) = self.gateway_token(span, &own) {
            let token = text(span, &format!("Bearer env:{variable}"));
            headers.push(("cf-aig-authorization".to_owned(), token));
        }
        let key = settings.provider.iter_mut().find(|(it, _)| *it == "apiKeyEnv");
        // Azure reads its key from a header of its own.
        if let Some((_, key)) = key.filter(|_| vendor == "azure-openai") {
            let variable = format!("env:{}", key.text().unwrap_or_default());
            headers.push(("api-key".to_owned(), text(span, &variable)));
            *key = node(span, Kind::Null);
        }
        if !headers.is_empty() {
            let provider = vec![("headers", entries(span, headers))];
            settings.add_server(Settings { provider, ..Settings::default() });
        }
        Some((kind, vendor.to_owned(), model.to_owned(), settings))
    }

    /// Returns the address of a vendor at the gateway. Returns `None` after an error, which is reported.
    fn gateway_address(
        &mut self,
        span: Span,
        (vendor, model): (&str, &str),
        own: &[(&str, String)],
    ) -> Option<String> {
        let part = |name: &str, variable: &str| {
            let named = value(own, &format!("{name}Envar")).and_then(|it| self.env_value(it));
            let set = value(own, name).map(str::to_owned);
            set.or(named).or_else(|| self.env_value(variable))
        };
        let account = part("accountId", "CLOUDFLARE_ACCOUNT_ID");
        let gateway = part("gatewayId", "CLOUDFLARE_GATEWAY_ID");
        let (Some(account), Some(gateway)) = (account, gateway) else {
            let help = "add `config: { accountId: …, gatewayId: … }`, or set `CLOUDFLARE_ACCOUNT_ID` and \
                `CLOUDFLARE_GATEWAY_ID`";
            self.error(span, "the address of this provider is missing", Some(help));
            return None;
        };
        let below = match vendor {
            "mistral" => "/v1".to_owned(),
            "workers-ai" => format!("/{model}"),
            "azure-openai" => {
                let names = value(own, "resourceName").zip(value(own, "deploymentName"));
                let Some((resource, deployment)) = names else {
                    let help = "add `config: { resourceName: …, deploymentName: … }`";
                    self.error(span, "the address of this provider is missing", Some(help));
                    return None;
                };
                let version = value(own, "apiVersion").unwrap_or("2024-12-01-preview");
                format!("/{resource}/{deployment}?api-version={version}")
            }
            _ => String::new(),
        };
        Some(format!("{BASE}/{account}/{gateway}/{vendor}{below}"))
    }

    /// Returns the environment variable of the gateway's token; `None` without a token. Reports a token in the file.
    fn gateway_token(&mut self, span: Span, own: &[(&str, String)]) -> Option<String> {
        if let Some(written) = value(own, "cfAigToken") {
            let variable = variable_of(written).map(str::to_owned);
            if variable.is_none() {
                let help = "put it into the environment variable `CF_AIG_TOKEN`";
                self.error(span, "a key must not be in a file", Some(help));
            }
            return variable;
        }
        let is_set = |name: &str| self.env_value(name).is_some();
        let usual = Some("CF_AIG_TOKEN").filter(|it| is_set(it));
        // The variable that the config names may be unset until the suite runs.
        let named = value(own, "cfAigTokenEnvar").filter(|it| usual.is_none() || is_set(it));
        named.or(usual).map(str::to_owned)
    }
}
