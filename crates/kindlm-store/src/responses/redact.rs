//! Takes secrets out of what is to be kept.

use serde_json::{Map, Value};

/// How the keys of providers begin. The configuration of providers refuses the same.
const KEYS: [&str; 6] = ["sk-", "sk_", "gsk_", "AIza", "xai-", "hf_"];
/// What follows is at least this long, in bytes: `sk-learn` is no key.
const KEY_REST: usize = 16;
/// Shorter secrets would be found in innocent words.
const SHORTEST: usize = 8;
const REDACTED: &str = "[redacted]";

/// Secrets that are known, and the look of those that are not.
#[derive(Default)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    pub(super) fn add(&mut self, secret: &str) {
        let secret = secret.trim();
        if secret.len() >= SHORTEST {
            self.0.push(secret.to_owned());
            // Of two that overlap, the longer one goes first.
            self.0.sort_unstable_by_key(|it| std::cmp::Reverse(it.len()));
        }
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
        let mut result: Option<String> = None;
        for secret in &self.0 {
            let current = result.as_deref().unwrap_or(text);
            if let Some(next) = without(current, secret) {
                result = Some(next);
            }
        }
        without_keys(result.as_deref().unwrap_or(text)).or(result)
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never the secrets.
        write!(f, "Secrets({})", self.0.len())
    }
}

/// Removes a secret wherever it stands for itself, not within a longer word.
fn without(text: &str, secret: &str) -> Option<String> {
    let mut out = String::new();
    let mut done = 0;
    for (start, _) in text.match_indices(secret) {
        let end = start + secret.len();
        let joined = |outer: Option<char>, inner: Option<char>| {
            outer.is_some_and(char::is_alphanumeric) && inner.is_some_and(char::is_alphanumeric)
        };
        let within = joined(text[..start].chars().next_back(), secret.chars().next())
            || joined(text[end..].chars().next(), secret.chars().next_back());
        if !within {
            out.push_str(&text[done..start]);
            out.push_str(REDACTED);
            done = end;
        }
    }
    (done > 0).then(|| out + &text[done..])
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
        for secret in ["hunter2-hunter2", "hunter2-hunter2-long", " s3cr3t-t0k3n\n", "short"] {
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
            ("xhunter2-hunter2 hunter2-hunter22", "xhunter2-hunter2 hunter2-hunter22"),
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
