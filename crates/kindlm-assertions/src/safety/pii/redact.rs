//! Masks personal data in texts: [`Redactor`].

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::detectors::{Detector, DetectorName};
use crate::shared::pattern::PatternError;

/// Replaces personal data with its kind: `[e-mail address]`. All detectors of the check `pii` are used.
#[derive(Debug)]
pub struct Redactor {
    detectors: Vec<Detector>,
}

impl Redactor {
    /// Compiles the detectors.
    ///
    /// # Errors
    ///
    /// Fails if the pattern of a detector is invalid, which is a bug.
    pub fn new() -> Result<Self, PatternError> {
        let detectors =
            DetectorName::ALL.into_iter().map(Detector::new).collect::<Result<_, _>>()?;
        Ok(Self { detectors })
    }

    /// Returns the text with each match replaced by the name of its detector. Overlapping matches become one
    /// replacement, with the name of the first match.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut found: Vec<(Range<usize>, &'static str)> = Vec::new();
        for detector in &self.detectors {
            detector.find(text, |hit| {
                // Every match is a slice of `text`, so its address gives its offset.
                let start = hit.as_ptr() as usize - text.as_ptr() as usize;
                found.push((start..start + hit.len(), detector.name()));
            });
        }
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        found.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
        let mut redacted = String::with_capacity(text.len());
        let mut end = 0;
        for (range, name) in found {
            if range.start >= end {
                redacted.push_str(&text[end..range.start]);
                redacted.push('[');
                redacted.push_str(name);
                redacted.push(']');
            }
            end = end.max(range.end);
        }
        redacted.push_str(&text[end..]);
        Cow::Owned(redacted)
    }

    /// Replaces the matches in all texts, numbers and keys of a JSON value. A number with a match becomes a text.
    ///
    /// Keys that become equal get a number: `[e-mail address] (2)`.
    pub fn redact_value(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                if let Cow::Owned(redacted) = self.redact(&number.to_string()) {
                    *value = Value::String(redacted);
                }
            }
            Value::String(text) => {
                if let Cow::Owned(redacted) = self.redact(text) {
                    *text = redacted;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|it| self.redact_value(it)),
            Value::Object(members) => {
                for (key, mut value) in std::mem::take(members) {
                    self.redact_value(&mut value);
                    let key = self.redact(&key).into_owned();
                    let numbered = (2..).map(|it| format!("{key} ({it})"));
                    let mut free = std::iter::once(key.clone()).chain(numbered);
                    let key = free.find(|it| !members.contains_key(it)).unwrap_or(key);
                    members.insert(key, value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn personal_data_is_replaced_with_its_kind() {
        let redactor = Redactor::new().unwrap();
        for (text, expected) in [
            ("Nothing to hide in order 12345.", "Nothing to hide in order 12345."),
            (
                "Mail ann.lee@acme-corp.com, or bob@mail.org!",
                "Mail [e-mail address], or [e-mail address]!",
            ),
            ("Pay with 4012888888881881 now", "Pay with [card number] now"),
            ("é DE89370400440532013000 ü", "é [IBAN] ü"),
            ("IP 10.1.2.3", "IP [IP address]"),
            ("SSN 212-09-9999", "SSN [US social security number]"),
        ] {
            assert_eq!(redactor.redact(text), expected);
        }
    }

    #[test]
    fn every_kind_is_replaced_in_texts_numbers_and_keys() {
        let redactor = Redactor::new().unwrap();
        let mut value = json!({
            "credit-card": 4_012_888_888_881_881_u64, "iban": "DE89370400440532013000", "us-ssn": "212-09-9999",
            "us-itin": "911-70-1234", "us-npi": 1_245_319_599, "aba-routing": [121_000_358],
            "uk-nhs": "401-023-2137", "ca-sin": 130_692_544, "email": {"ann.lee@acme-corp.com": 1, "bob@mail.org": 2},
            "phone": "212-555-7890", "ip-address": "10.1.2.3",
            "plain": [12345, 1.5, true, null, 1_764_140_000_123_u64, "order"],
        });
        redactor.redact_value(&mut value);
        let expected = json!({
            "credit-card": "[card number]", "iban": "[IBAN]", "us-ssn": "[US social security number]",
            "us-itin": "[US taxpayer number]", "us-npi": "[US provider number]",
            "aba-routing": ["[US bank routing number]"], "uk-nhs": "[UK NHS number]",
            "ca-sin": "[Canadian social insurance number]",
            "email": {"[e-mail address]": 1, "[e-mail address] (2)": 2},
            "phone": "[phone number]", "ip-address": "[IP address]",
            "plain": [12345, 1.5, true, null, 1_764_140_000_123_u64, "order"],
        });
        assert_eq!(value, expected);
        let all = DetectorName::ALL.map(|it| Detector::new(it).unwrap());
        assert!(all.iter().all(|it| expected.get(it.id()).is_some()));
    }

    #[test]
    fn redacted_text_has_no_further_match() {
        let redactor = Redactor::new().unwrap();
        let text = "call +49 30 1234567 or 212-555-7890, IBAN AT611904300234573201, 401-023-2137";
        let once = redactor.redact(text).into_owned();
        assert!(!once.contains(|it: char| it.is_ascii_digit()), "{once}");
        assert_eq!(redactor.redact(&once), once);
    }
}
