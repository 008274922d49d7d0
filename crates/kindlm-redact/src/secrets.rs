//! Masks secrets in texts and in JSON: known values, keys of services, and pairs such as `password=…`.

use std::fmt;
use std::ops::Range;

use serde_json::{Map, Value};

use crate::known::KnownSecrets;
use crate::learned::LearnedSecrets;
use crate::look::{keys, pairs, password_of_address};
use crate::{REDACTED, SHORTEST};

/// A set of secret values. The debug output does not contain the values.
#[derive(Clone, Default)]
pub struct Secrets {
    known: KnownSecrets,
    /// The values that become known later; `None` if the set gets no such values.
    learned: Option<LearnedSecrets>,
}

/// The rules that decide which texts are secrets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// Known values, service keys, and pairs.
    All,
    /// Known values and service keys.
    Values,
}

impl Secrets {
    /// Creates a set, and adds each of these values with [`Secrets::add`].
    pub fn new(values: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut secrets = Self::default();
        values.into_iter().for_each(|it| secrets.add(it.as_ref()));
        secrets
    }

    /// Also masks the values that are added to `learned`, now or later.
    #[must_use]
    pub fn with_learned(mut self, learned: &LearnedSecrets) -> Self {
        self.learned = Some(learned.clone());
        self
    }

    /// Adds a value to the secrets of [`with_learned`](Self::with_learned), which other sets may share. Does nothing
    /// without such secrets.
    pub fn learn(&self, value: &str) {
        if let Some(learned) = &self.learned {
            learned.add(value);
        }
    }

    /// Adds a value and each of its lines, without surrounding white space.
    ///
    /// If the value is a JSON object, its secret settings are added too. Texts with fewer than [`SHORTEST`] bytes are
    /// not added.
    pub fn add(&mut self, value: &str) {
        self.known.add(value);
    }

    /// Adds the password of a URL, if the URL has a password.
    ///
    /// An example is `postgres://user:password@host`.
    pub fn add_password_of(&mut self, address: &str) {
        if let Some(password) = password_of_address(address) {
            self.add(password);
        }
    }

    /// Adds all values of another set. If this set has no [learned secrets](Self::with_learned), it shares those of the
    /// other set.
    pub fn extend(&mut self, other: &Self) {
        self.known.extend(&other.known);
        if self.learned.is_none() {
            self.learned.clone_from(&other.learned);
        }
    }

    /// Returns true if the set has no values, and can get none later.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty() && self.learned.is_none()
    }

    /// Returns the text with all secrets masked; `None` if the text has no secrets.
    pub fn redact(&self, text: &str) -> Option<String> {
        self.masked(text, Rules::All)
    }

    /// Masks all secrets in a text; returns true if the text has secrets.
    pub fn redact_text(&self, text: &mut String) -> bool {
        let redacted = self.redact(text);
        let found = redacted.is_some();
        if let Some(redacted) = redacted {
            *text = redacted;
        }
        found
    }

    /// Masks all secrets in a JSON value; returns true if the value has secrets.
    ///
    /// Object keys are masked too.
    pub fn redact_value(&self, value: &mut Value) -> bool {
        self.value(value, Rules::All)
    }

    /// Masks all secrets in a JSON object; returns true if the object has secrets.
    ///
    /// Keys are masked too.
    pub fn redact_map(&self, map: &mut Map<String, Value>) -> bool {
        self.map(map, Rules::All)
    }

    /// Masks known values and service keys, but not pairs such as `password=…`.
    ///
    /// Pairs stay unmasked, so that two requests that differ only in a pair stay different. Returns true if a secret
    /// was masked.
    pub fn redact_request(&self, value: &mut Value) -> bool {
        self.value(value, Rules::Values)
    }

    fn value(&self, value: &mut Value, rules: Rules) -> bool {
        match value {
            Value::String(text) => {
                let masked = self.masked(text, rules);
                let found = masked.is_some();
                if let Some(masked) = masked {
                    *text = masked;
                }
                found
            }
            Value::Array(items) => {
                items.iter_mut().fold(false, |found, item| self.value(item, rules) | found)
            }
            Value::Object(map) => self.map(map, rules),
            Value::Number(number) if self.has_number() => {
                let masked = self.masked(&number.to_string(), rules);
                let found = masked.is_some();
                if let Some(masked) = masked {
                    *value = masked.into();
                }
                found
            }
            Value::Number(_) | Value::Bool(_) | Value::Null => false,
        }
    }

    fn map(&self, map: &mut Map<String, Value>, rules: Rules) -> bool {
        let mut found = map.values_mut().fold(false, |found, it| self.value(it, rules) | found);
        if map.keys().any(|key| self.masked(key, rules).is_some()) {
            let old = std::mem::take(map);
            map.extend(
                old.into_iter().map(|(key, it)| (self.masked(&key, rules).unwrap_or(key), it)),
            );
            found = true;
        }
        if rules == Rules::All {
            // In `{"password": "…"}`, the key shows that the whole value is a secret.
            for (name, value) in map.iter_mut() {
                if let Value::String(text) = value
                    && !text.contains(REDACTED)
                    && !pairs(&format!("{name}={text}")).is_empty()
                {
                    REDACTED.clone_into(text);
                    found = true;
                }
            }
        }
        found
    }

    fn masked(&self, text: &str, rules: Rules) -> Option<String> {
        if text.len() < SHORTEST {
            return None;
        }
        let mut places = self.known.places(text);
        if let Some(learned) = &self.learned {
            places.extend(learned.with_known(|it| it.places(text)));
        }
        places.extend(keys(text));
        if rules == Rules::All {
            places.extend(pairs(text));
        }
        (!places.is_empty()).then(|| replace(text, places))
    }

    fn has_number(&self) -> bool {
        let learned = self.learned.as_ref();
        self.known.has_number() || learned.is_some_and(|it| it.with_known(KnownSecrets::has_number))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Print only the number of forms, never the values.
        write!(f, "Secrets({})", self.known.len())
    }
}

/// Returns the text with these ranges masked.
fn replace(text: &str, mut places: Vec<Range<usize>>) -> String {
    places.sort_unstable_by_key(|it| (it.start, std::cmp::Reverse(it.end)));
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for place in places {
        // The range of a decoded text may begin or end inside a character, so mask the whole character.
        let start = text.floor_char_boundary(place.start);
        let end = text.ceil_char_boundary(place.end);
        if end <= done {
            continue;
        }
        if start >= done {
            out.push_str(&text[done..start]);
            out.push_str(REDACTED);
        }
        done = end;
    }
    out.push_str(&text[done..]);
    out
}

#[cfg(test)]
mod tests {
    use data_encoding::{BASE64, BASE64URL, HEXLOWER};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const KEY: &str = "sk-CANARY7-q9Zx/T+w3vLm=Kd";

    fn redact(values: &[&str], text: &str) -> String {
        let secrets = Secrets::new(values);
        let once = secrets.redact(text).unwrap_or_else(|| text.to_owned());
        assert_eq!(secrets.redact(&once), None, "{once}: what is redacted stays as it is");
        once
    }

    #[test]
    fn values_are_masked_and_nothing_else() {
        let values =
            ["hunter2-hunter2", "hunter2-hunter2-long", " s3cr3t-t0k3n\n", "with\"quote", "short"];
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
            ("hunter2-hunter2-long HUNTER2-hunter2", "[redacted] [redacted]"),
            ("Bearer%20hunter2-hunter2!", "Bearer%20[redacted]!"),
            (r#"{"a":"with\"quote"} with"quote"#, r#"{"a":"[redacted]"} [redacted]"#),
            ("s3cr3t-t0k3n!", "[redacted]!"),
            ("short is not secret", "short is not secret"),
            ("the password=hunter22hunter", "the password=[redacted]"),
        ] {
            assert_eq!(redact(&values, text), expected);
        }
    }

    /// Covers the forms in which a server, a model or a program may repeat a key.
    #[test]
    fn a_key_is_found_in_every_form() {
        let hex = HEXLOWER.encode(KEY.as_bytes());
        let colons: Vec<String> = KEY.bytes().map(|it| format!("{it:02x}")).collect();
        let each = |form: fn(u8) -> String| KEY.bytes().map(form).collect::<String>();
        let percent = each(|it| format!("%{it:02X}"));
        let json = each(|it| format!("\\u{it:04x}"));
        let mut forms = vec![
            KEY.to_owned(),
            KEY.to_uppercase(),
            KEY.to_lowercase(),
            hex.to_uppercase(),
            hex,
            percent.to_lowercase(),
            percent.replace('%', "%25"),
            percent,
            json.replace('\\', "\\\\"),
            json,
            each(|it| format!("&#{it};")),
            each(|it| format!("&#x{it:x};")),
            each(|it| format!("\\x{it:02x}")),
            KEY.replace('/', "\\/"),
            KEY.replace('/', "%2F").replace('+', "%2B").replace('=', "%3D"),
            KEY.replace('A', "\u{200b}A"),
            colons.join(":"),
        ];
        for around in ["", "user:", "Bearer ", "a", "ab", "abc", "{\"key\":\""] {
            for behind in ["", "\n", "x", "xy", "\"}"] {
                let text = format!("{around}{KEY}{behind}");
                forms.push(BASE64.encode(text.as_bytes()));
                forms.push(BASE64URL.encode(text.as_bytes()));
            }
        }
        for form in forms {
            let got = redact(&[KEY], &format!("before \"{form}\" behind"));
            assert_eq!(got, "before \"[redacted]\" behind", "{form}");
        }
    }

    #[test]
    fn a_long_value_that_repeats_itself_is_masked() {
        // With the automaton for short values, this would take minutes.
        let value = "a".repeat(20_000);
        assert_eq!(redact(&[&value], &format!("the key {value}.")), "the key [redacted].");
    }

    #[test]
    fn wrapped_base64_of_a_long_value_is_masked() {
        let key = "k3y-".repeat(31);
        for before in ["", "user:", "ab"] {
            let encoded = BASE64.encode(format!("{before}{key}\n").as_bytes());
            let lines: Vec<&str> =
                encoded.as_bytes().chunks(76).map(|it| str::from_utf8(it).unwrap()).collect();
            let got = redact(&[&key], &format!("begin\n{}\nend of it", lines.join("\n")));
            assert_eq!(got, "begin\n[redacted]\nend of it");
            let hex = HEXLOWER.encode(key.as_bytes()).replace("6b", "6b ");
            assert_eq!(
                redact(&[&key], &format!("is {hex}\nend of it")),
                "is [redacted]\nend of it"
            );
            let json = serde_json::to_string(&lines.join("\r\n")).unwrap();
            assert_eq!(redact(&[&key], &json), "\"[redacted]\"");
        }
    }

    #[test]
    fn each_line_and_each_part_is_secret() {
        let pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----";
        let account = r#"{"type": "service_account", "private_key": "abc\nhkiG9w0BAQEF-2"}"#;
        for (value, text, expected) in [
            (pem, "it has hkiG9w0BAQEFAASC in it", "it has [redacted] in it"),
            (pem, "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----"),
            (account, "the type service_account", "the type service_account"),
            (account, "hkiG9w0BAQEF-2", "[redacted]"),
            ("first-line-1\nsecond-line-2", "first-line-1", "[redacted]"),
        ] {
            assert_eq!(redact(&[value], text), expected);
        }
        let mut secrets = Secrets::default();
        secrets.add_password_of("postgres://user:s3cr3tpw@db.example.com:5432/shop");
        assert_eq!(secrets.redact("it is S3CR3TPW"), Some("it is [redacted]".to_owned()));
        assert_eq!(secrets.redact("db.example.com"), None);
        for (address, expected) in [
            ("postgres://user:s3cr/t+pw=x@db.example.com/shop", Some("it is [redacted]")),
            ("https://host:8080/s3cr/t+pw=x@b", None),
            ("https://host/a:s3cr/t+pw=x@b", None),
        ] {
            let mut secrets = Secrets::default();
            secrets.add_password_of(address);
            assert_eq!(secrets.redact("it is s3cr/t+pw=x").as_deref(), expected, "{address}");
        }
    }

    #[test]
    fn keys_and_numbers_of_json_are_masked_too() {
        let secrets = Secrets::new(["s3cr3t-t0k3n", "1234567"]);
        let mut value = json!({"a": ["s3cr3t-t0k3n", 1, {"s3cr3t-t0k3n": 1_234_567}], "b": null, "password": "abc12345"});
        assert!(secrets.redact_value(&mut value));
        assert_eq!(
            value,
            json!({"a": ["[redacted]", 1, {"[redacted]": "[redacted]"}], "b": null, "password": "[redacted]"})
        );
        assert!(!secrets.redact_value(&mut value));
        assert!(!format!("{secrets:?}").contains("s3cr3t"));
    }

    #[test]
    fn requests_that_differ_in_a_pair_stay_different() {
        let mut request =
            json!({"prompt": "is password=hunter22hunter strong?", "key": "s3cr3t-t0k3n"});
        assert!(Secrets::new(["s3cr3t-t0k3n"]).redact_request(&mut request));
        assert_eq!(
            request,
            json!({"prompt": "is password=hunter22hunter strong?", "key": "[redacted]"})
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_secret_in_any_text_is_masked(text in ".{0,80}", secret in ".{6,20}") {
            let secrets = Secrets::new([&secret]);
            secrets.redact(&text);
            let planted = format!("{text}{secret}{text}");
            let masked = secrets.redact(&planted);
            if secret.trim().len() >= SHORTEST {
                prop_assert!(masked.is_some_and(|it| it.contains(REDACTED)));
            }
        }
    }
}
