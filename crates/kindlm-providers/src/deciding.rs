//! The part of a provider's configuration that determines its answers. Response stores use it as a key.

use kindlm_transport::KEY_COMMAND;
use serde_json::{Map, Value};

use crate::{built_in, configured};

/// The keys for credentials, rate limits and the vendor's prompt cache, which do not change answers.
const FREE: [&str; 6] =
    ["apiKeyEnv", KEY_COMMAND, CREDENTIALS_COMMAND, "rpm", "tpm", "promptCache"];
/// The key of the command that prints credentials. The `aws` block of `http` also has this key.
const CREDENTIALS_COMMAND: &str = "credentialsCommand";
/// The key of the declared evidence. The evidence changes the evaluation of answers, but not the answers.
const EVIDENCE: &str = "evidence";
/// The keys of a vendor's address, region, project and organization, and of a script's file. These settings do not
/// change the answers of a vendor's model. A script is identified by its content, not by its path.
const PLACE: [&str; 5] = ["baseUrl", "region", "project", "organization", "file"];

/// The configuration that determines the answers of a provider. The content of its files is not included.
#[derive(Clone, Debug, PartialEq)]
pub enum Deciding {
    /// The configuration of `scripted`, without credentials, rate limits and `promptCache`. It identifies the prepared
    /// answers.
    Prepared(Map<String, Value>),
    /// The configuration of `http`, `command`, `mcp` or `websocket`, without credentials, rate limits, `promptCache`
    /// and declared evidence. It identifies the server or program.
    Setup(Map<String, Value>),
    /// The settings of any other provider: a vendor's API, `script`, `echo`, or a provider outside this crate.
    Settings(Map<String, Value>),
}

impl Deciding {
    /// Returns the determining part of an entry of `providers`. For a provider outside this crate, that is the whole
    /// entry except credentials, rate limits and `promptCache`.
    ///
    /// ```
    /// use kindlm_providers::Deciding;
    /// use serde_json::json;
    ///
    /// let deciding = |name, config| Deciding::from_config(name, &config);
    /// assert_eq!(
    ///     deciding("openai", json!({"apiKeyEnv": "KEY", "baseUrl": "https://here"})),
    ///     deciding("openai", json!({"apiKeyEnv": "OTHER"})),
    /// );
    /// let here = deciding("http", json!({"url": "https://here"}));
    /// assert_eq!(deciding("http", json!({"url": "https://here", "apiKeyEnv": "KEY", "rpm": 60})), here);
    /// assert_eq!(deciding("http", json!({"url": "https://here", "evidence": {"complete": ["actions"]}})), here);
    /// assert_eq!(deciding("http", json!({"url": "https://here", "apiKeyCommand": "print-key"})), here);
    /// assert_ne!(deciding("http", json!({"url": "https://there"})), here);
    /// ```
    pub fn from_config(name: &str, config: &Value) -> Self {
        let Some((registration, own)) = configured(&built_in(), name, config) else {
            return Self::Settings(without_free(config));
        };
        match registration.meta.id {
            "scripted" => Self::Prepared(without_free(config)),
            "http" | "command" | "mcp" | "websocket" => {
                let mut own = without_free(config);
                own.shift_remove(EVIDENCE);
                Self::Setup(own)
            }
            _ => {
                let mut own = without_free(&own);
                own.retain(|key, value| {
                    !PLACE.contains(&key.as_str()) && key != EVIDENCE && is_set(value)
                });
                Self::Settings(own)
            }
        }
    }
}

/// Returns a configuration without the keys that do not change answers. These keys hold credentials, rate limits and
/// the use of the vendor's prompt cache.
pub fn without_free(config: &Value) -> Map<String, Value> {
    let mut config = config.as_object().cloned().unwrap_or_default();
    config.retain(|key, _| !FREE.contains(&key.as_str()));
    if let Some(Value::Object(aws)) = config.get_mut("aws") {
        aws.shift_remove(CREDENTIALS_COMMAND);
    }
    config
}

/// Returns true if a script of the suite produces or reads a provider's answers. `config` is the provider's entry in
/// `providers`.
pub fn runs_scripts(name: &str, config: &Value) -> bool {
    let Some((registration, own)) = configured(&built_in(), name, config) else { return false };
    registration.meta.id == "script"
        || registration.meta.id == "websocket"
        || own.get("transformResponse").is_some()
        || own.get("answerCalls").is_some()
}

/// Returns false for `null`, `false`, and empty objects and lists. These values mean the same as an absent key.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Object(entries) => !entries.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}
