//! Takes secrets out of what is to be kept.

use serde_json::{Map, Value};

/// How the keys of providers begin. The configuration of providers refuses the same.
const KEYS: [&str; 6] = ["sk-", "sk_", "gsk_", "AIza", "xai-", "hf_"];
/// What follows is at least this long, in bytes: `sk-learn` is no key.
const KEY_REST: usize = 16;
/// Shorter secrets, in bytes, would be found in innocent words.
const SHORTEST: usize = 6;
const REDACTED: &str = "[redacted]";

/// Secrets that are known, and the look of those that are not.
#[derive(Default)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    pub(super) fn add(&mut self, secret: &str) {
        // A key that was read from a file often ends with its line break, which is not sent.
        let secret = secret.trim();
        if secret.len() < SHORTEST {
            return;
        }
        // The same in JSON that was made into a text.
        let quoted = Value::from(secret).to_string();
        for secret in [secret, quoted.trim_matches('"')] {
            if !self.0.iter().any(|it| it == secret) {
                self.0.push(secret.to_owned());
            }
        }
        // Of two that overlap, the longer one goes first.
        self.0.sort_unstable_by_key(|it| std::cmp::Reverse(it.len()));
    }

    /// Removes secrets from all texts of a value; says whether there were any.
    pub(super) fn redact(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.redacted(text) {
                Some(redacted) => {
                    *text = redacted;
                    true
                }
                None => false,
            },
            Value::Array(items) => {
                items.iter_mut().fold(false, |found, item| self.redact(item) | found)
            }
            Value::Object(map) => self.redact_map(map),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    fn redact_map(&self, map: &mut Map<String, Value>) -> bool {
        let mut found = map.values_mut().fold(false, |found, it| self.redact(it) | found);
        if map.keys().any(|key| self.redacted(key).is_some()) {
            let old = std::mem::take(map);
            map.extend(old.into_iter().map(|(key, it)| (self.redacted(&key).unwrap_or(key), it)));
            found = true;
        }
        found
    }

    /// The text without secrets; `None` if it has none.
    fn redacted(&self, text: &str) -> Option<String> {
        let known = self.0.iter().filter(|it| text.contains(it.as_str())).fold(None, |done, it| {
            Some(done.as_deref().unwrap_or(text).replace(it.as_str(), REDACTED))
        });
        without_keys(known.as_deref().unwrap_or(text)).or(known)
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never the secrets.
        write!(f, "Secrets({})", self.0.len())
    }
}

/// Removes what looks like a key, up to its beginning: whoever checks for leaked keys still finds one.
fn without_keys(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut done = 0;
    for (word_start, word) in words(text) {
        let Some(prefix) = KEYS.iter().find(|it| word.starts_with(**it)) else { continue };
        let rest = &word[prefix.len()..];
        // Names in `sk-kebab-case` are long too, but plain.
        let random = rest.bytes().any(|it| it.is_ascii_digit() || it.is_ascii_uppercase());
        if rest.len() >= KEY_REST && random {
            out.push_str(&text[done..word_start + prefix.len()]);
            out.push_str(REDACTED);
            done = word_start + word.len();
        }
    }
    (done > 0).then(|| out + &text[done..])
}

/// The runs of letters, digits, `-` and `_`, and where they begin.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let between = |it: char| !(it.is_ascii_alphanumeric() || matches!(it, '-' | '_'));
    let mut next = 0;
    text.split_inclusive(between).map(move |piece| {
        let start = next;
        next += piece.len();
        (start, piece.trim_end_matches(between))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redact(text: &str) -> String {
        let mut secrets = Secrets::default();
        for secret in
            ["hunter2-hunter2", "hunter2-hunter2-long", " s3cr3t-t0k3n\n", "with\"quote", "short"]
        {
            secrets.add(secret);
        }
        let once = secrets.redacted(text).unwrap_or_else(|| text.to_owned());
        assert_eq!(secrets.redacted(&once), None, "what is redacted stays as it is");
        once
    }

    #[test]
    fn removes_secrets_and_nothing_else() {
        for (text, expected) in [
            ("", ""),
            ("nothing here", "nothing here"),
            ("key: sk-proj-AbCdEf0123456789xyz.", "key: sk-[redacted]."),
            ("AIzaSyA1234567890abcdefg", "AIza[redacted]"),
            ("hf_AbCdEfGhIjKlMnOpQrStUv, gsk_0123456789abcdef", "hf_[redacted], gsk_[redacted]"),
            ("\"sk_live_0123456789abcdef\"", "\"sk_[redacted]\""),
            ("xai-0123456789abcdefé", "xai-[redacted]é"),
            (
                "sk-learn and sk-some-long-name-in-kebab-case",
                "sk-learn and sk-some-long-name-in-kebab-case",
            ),
            ("task-0123456789abcdefgh", "task-0123456789abcdefgh"),
            ("sk-short123", "sk-short123"),
            ("Bearer hunter2-hunter2", "Bearer [redacted]"),
            ("hunter2-hunter2-long hunter2-hunter2", "[redacted] [redacted]"),
            ("Bearer%20hunter2-hunter2!", "Bearer%20[redacted]!"),
            (r#"{"a":"with\"quote"} with"quote"#, r#"{"a":"[redacted]"} [redacted]"#),
            ("s3cr3t-t0k3n!", "[redacted]!"),
            ("short is not secret", "short is not secret"),
        ] {
            assert_eq!(redact(text), expected);
        }
    }

    #[test]
    fn looks_into_every_corner_of_a_value() {
        let mut secrets = Secrets::default();
        secrets.add("s3cr3t-t0k3n");
        let mut value = json!({"a": ["s3cr3t-t0k3n", 1, {"s3cr3t-t0k3n": "x"}], "b": null});
        assert!(secrets.redact(&mut value));
        assert_eq!(value, json!({"a": ["[redacted]", 1, {"[redacted]": "x"}], "b": null}));
        assert!(!secrets.redact(&mut value));
        assert!(!format!("{secrets:?}").contains("s3cr3t"));
    }
}
