//! The part of a provider's configuration that decides its answers, for stores of answers.

use serde_json::{Map, Value};

use crate::{built_in, configured};

/// Other keys and other limits give the same answers.
const FREE: [&str; 3] = ["apiKeyEnv", "rpm", "tpm"];
/// Judges the answers, and does not decide them.
const EVIDENCE: &str = "evidence";
/// Where the API of a vendor is reached: the same model answers there. The file of a script counts by its content.
const PLACE: [&str; 3] = ["baseUrl", "organization", "file"];

/// What decides the answers of a provider of the suite, beside the content of its files.
#[derive(Clone, Debug, PartialEq)]
pub enum Deciding {
    /// The answers are prepared, and this says which.
    Prepared(Map<String, Value>),
    /// What it is and where: a program, or a server of one's own.
    Setup(Map<String, Value>),
    /// What it says of every request to the API of a vendor, or gives a script.
    Settings(Map<String, Value>),
}

impl Deciding {
    /// What decides the answers of an entry of `providers`. Of a provider that is not of this crate, the whole entry does.
    ///
    /// ```
    /// use kindlm_providers::Deciding;
    /// use serde_json::json;
    ///
    /// let of = |name, config| Deciding::of(name, &config);
    /// assert_eq!(
    ///     of("openai", json!({"apiKeyEnv": "KEY", "baseUrl": "https://here"})),
    ///     of("openai", json!({"apiKeyEnv": "OTHER"})),
    /// );
    /// let here = of("http", json!({"url": "https://here"}));
    /// assert_eq!(of("http", json!({"url": "https://here", "apiKeyEnv": "KEY", "rpm": 60})), here);
    /// assert_eq!(of("http", json!({"url": "https://here", "evidence": {"complete": ["actions"]}})), here);
    /// assert_ne!(of("http", json!({"url": "https://there"})), here);
    /// ```
    pub fn of(name: &str, config: &Value) -> Self {
        let Some((registration, own)) = configured(&built_in(), name, config) else {
            return Self::Settings(without_free(config));
        };
        match registration.meta.id {
            "scripted" => Self::Prepared(without_free(config)),
            "http" | "command" | "mcp" => {
                let mut own = without_free(config);
                own.shift_remove(EVIDENCE);
                Self::Setup(own)
            }
            _ => {
                let mut own = without_free(&own);
                own.retain(|key, value| {
                    !PLACE.contains(&key.as_str()) && key != EVIDENCE && says(value)
                });
                Self::Settings(own)
            }
        }
    }
}

/// A configuration without what gives the same answers whatever it is: which key opens the provider, and how fast it may
/// be asked.
pub fn without_free(config: &Value) -> Map<String, Value> {
    let mut config = config.as_object().cloned().unwrap_or_default();
    config.retain(|key, _| !FREE.contains(&key.as_str()));
    config
}

/// True if a script of the suite makes or reads the answers of an entry of `providers`.
pub fn runs_scripts(name: &str, config: &Value) -> bool {
    let Some((registration, own)) = configured(&built_in(), name, config) else { return false };
    registration.meta.id == "script" || own.get("transformResponse").is_some()
}

/// What is off or empty says nothing.
fn says(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Object(entries) => !entries.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}
