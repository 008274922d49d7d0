//! A request in its canonical form, by which its answer is found again.

use std::collections::HashMap;

use kindlm_redact::Secrets;
use kindlm_types::{Prompt, ecma};
use serde_json::{Map, Value, json};

use crate::digest::sha256;

/// A request in its canonical form: keys sorted, without secrets, ids of tool calls in the order of appearance.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) value: Value,
    pub(super) digest: String,
}

/// The configuration that a provider's answers depend on, beside the request.
#[derive(Clone, Debug, Default)]
pub(super) struct Setup {
    /// Of its whole configuration.
    pub(super) digest: Option<String>,
    /// The settings for chat requests in its configuration.
    pub(super) settings: Map<String, Value>,
    /// The digests of its files.
    pub(super) files: Map<String, Value>,
    /// True if any agent may be behind the provider. It is no part of a request.
    pub(super) wraps_agent: bool,
}

impl Request {
    /// The request for an answer; `setup` is the configuration that the answer depends on.
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

    /// The request for a vector.
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
            // An absent value adds nothing to the digest, so that older recordings are still found.
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

    /// The provider and the model of the request.
    pub(super) fn addressee(&self) -> (&str, &str) {
        addressee(&self.value)
    }
}

/// The provider and the model of a canonical request.
pub(super) fn addressee(request: &Value) -> (&str, &str) {
    let text = |key: &str| request.get(key).and_then(Value::as_str).unwrap_or_default();
    (text("provider"), text("model"))
}

/// The digest of a request whose keys are sorted; numbers are the same however they were written.
pub(super) fn digest(request: &Value) -> String {
    sha256(&ecma::stringify(request))
}

/// Replaces the ids of tool calls by numbers: they are made up by the provider, anew for each answer.
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
