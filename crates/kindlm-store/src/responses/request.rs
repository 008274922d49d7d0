//! The canonical form of a request. Its digest names the file of the answer.

use std::collections::HashMap;

use kindlm_redact::Secrets;
use kindlm_types::{Prompt, ecma};
use serde_json::{Map, Value, json};

use crate::digest::sha256;

/// A request in its canonical form.
///
/// Keys are sorted, secrets are masked, and the ids of tool calls are `call_1`, `call_2` and so on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) value: Value,
    pub(super) digest: String,
}

/// The provider configuration that affects the answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Setup {
    /// The digest of the provider's setup, if it is set.
    pub(super) digest: Option<String>,
    /// The configured settings of chat requests.
    pub(super) settings: Map<String, Value>,
    /// The digests of the provider's files, by path.
    pub(super) files: Map<String, Value>,
    /// True if the provider wraps an agent. The request does not contain this flag.
    pub(super) wraps_agent: bool,
}

impl Request {
    /// Creates the canonical request for a reply.
    ///
    /// `setup` is the provider configuration that affects the reply.
    pub(super) fn completion(
        provider: &str,
        setup: Option<&Setup>,
        prompt: &Prompt,
        secrets: &Secrets,
    ) -> Result<Self, serde_json::Error> {
        let mut value = serde_json::to_value(prompt)?;
        number_tool_calls(&mut value);
        if let (Value::Object(map), Some(setup)) = (&mut value, setup)
            && !setup.settings.is_empty()
        {
            map.insert("settings".to_owned(), setup.settings.clone().into());
        }
        Ok(Self::new(provider, setup, value, secrets))
    }

    /// Creates the canonical request for an embedding vector.
    pub(super) fn embedding(
        provider: &str,
        setup: Option<&Setup>,
        model: &str,
        text: &str,
        secrets: &Secrets,
    ) -> Self {
        Self::new(provider, setup, json!({ "model": model, "text": text }), secrets)
    }

    fn new(provider: &str, setup: Option<&Setup>, mut value: Value, secrets: &Secrets) -> Self {
        if let Value::Object(map) = &mut value {
            map.insert("provider".to_owned(), provider.into());
            // Without a digest, add no key, so that older recordings are still found.
            if let Some(digest) = setup.and_then(|it| it.digest.as_deref()) {
                map.insert("setup".to_owned(), digest.into());
            }
            if let Some(setup) = setup.filter(|it| !it.files.is_empty()) {
                map.insert("files".to_owned(), setup.files.clone().into());
            }
        }
        secrets.redact_request(&mut value);
        value.sort_all_objects();
        let digest = digest(&value);
        Self { value, digest }
    }

    /// Returns the provider and the model of the request; empty texts if missing.
    pub(super) fn addressee(&self) -> (&str, &str) {
        addressee(&self.value)
    }
}

/// Returns the provider and the model of a canonical request.
///
/// A missing value is an empty text.
pub(super) fn addressee(request: &Value) -> (&str, &str) {
    let text = |key: &str| request.get(key).and_then(Value::as_str).unwrap_or_default();
    (text("provider"), text("model"))
}

/// Returns the digest of a request with sorted keys.
///
/// Different spellings of a number give the same digest.
pub(super) fn digest(request: &Value) -> String {
    sha256(&ecma::stringify(request))
}

/// Replaces the ids of tool calls by `call_1`, `call_2` and so on.
///
/// Providers generate new ids for each answer.
fn number_tool_calls(prompt: &mut Value) {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut number = |id: &mut Value| {
        if let Value::String(id) = id
            && !id.is_empty()
        {
            let next = numbers.len() + 1;
            let number = *numbers.entry(std::mem::take(id)).or_insert(next);
            *id = format!("call_{number}");
        }
    };
    let messages = prompt.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten() {
        let calls = message.get_mut("toolCalls").and_then(Value::as_array_mut);
        calls.into_iter().flatten().filter_map(|call| call.get_mut("id")).for_each(&mut number);
        message.get_mut("toolCallId").into_iter().for_each(&mut number);
    }
}
