//! Digests that detect changes, and are equal on all machines.

use std::fmt;

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A digest of texts, numbers and JSON values. The result is a [`Fingerprint`].
///
/// The order of keys in an object does not matter; any other order does.
///
/// ```
/// use kindlm_engine::Digest;
/// use serde_json::json;
///
/// let of = |value| Digest::default().value(&value).finish();
/// assert_eq!(of(json!({ "a": 1, "b": [2] })), of(json!({ "b": [2], "a": 1 })));
/// assert_ne!(of(json!([1, 2])), of(json!([2, 1])));
/// assert_eq!(of(json!(null)).to_string().len(), 32);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Digest(Sha256);

/// The result of a [`Digest`], displayed in lower-case hex.
///
/// A fingerprint is the first 128 bits of a SHA-256 digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// Returns the 16 bytes. Any prefix of these bytes is also a digest.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&HEXLOWER.encode(&self.0))
    }
}

impl Digest {
    /// Adds a text. Adding two texts differs from adding their concatenation.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.add(text);
        self
    }

    /// Adds a number, as 8 bytes in little-endian order.
    #[must_use]
    pub fn number(mut self, number: u64) -> Self {
        self.0.update(number.to_le_bytes());
        self
    }

    /// Adds a JSON value. The order of the keys of an object does not matter.
    #[must_use]
    pub fn value(mut self, value: &Value) -> Self {
        self.add_value(value);
        self
    }

    /// Adds the result of another digest.
    #[must_use]
    pub fn fingerprint(mut self, part: Fingerprint) -> Self {
        self.0.update(part.0);
        self
    }

    /// Returns the digest of everything that was added.
    pub fn finish(self) -> Fingerprint {
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(self.0.finalize()).for_each(|(to, from)| *to = from);
        Fingerprint(bytes)
    }

    fn add(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text);
    }

    /// Adds a JSON value: a letter for the type, and then the content.
    ///
    /// The letter ensures that different values never have the same bytes.
    fn add_value(&mut self, value: &Value) {
        match value {
            Value::Null => self.0.update("n"),
            Value::Bool(true) => self.0.update("t"),
            Value::Bool(false) => self.0.update("f"),
            Value::Number(number) => {
                self.0.update("#");
                self.add(&number.to_string());
            }
            Value::String(text) => {
                self.0.update("s");
                self.add(text);
            }
            Value::Array(items) => {
                self.0.update("a");
                self.0.update((items.len() as u64).to_le_bytes());
                for item in items {
                    self.add_value(item);
                }
            }
            Value::Object(entries) => {
                self.0.update("o");
                self.0.update((entries.len() as u64).to_le_bytes());
                let mut sorted: Vec<(&String, &Value)> = entries.iter().collect();
                sorted.sort_unstable_by_key(|(key, _)| *key);
                for (key, value) in sorted {
                    self.add(key);
                    self.add_value(value);
                }
            }
        }
    }
}
