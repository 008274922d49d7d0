//! Masks personal data in texts: [`Redactor`].

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::detectors::{Detector, DetectorName};
use crate::shared::pattern::PatternError;

/// Replaces personal data with its kind: `[e-mail address]`. It finds what all detectors of the check `pii` find.
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

    /// Returns the text with all matches replaced. Of matches that overlap, the first one gives its name to all.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut found: Vec<(Range<usize>, &'static str)> = Vec::new();
        for detector in &self.detectors {
            detector.find(text, |hit| {
                // A match is a part of the text.
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

    /// Replaces the matches in all texts of a JSON value. Keys and numbers stay as they are.
    pub fn redact_value(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => {
                if let Cow::Owned(redacted) = self.redact(text) {
                    *text = redacted;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|it| self.redact_value(it)),
            Value::Object(members) => members.values_mut().for_each(|it| self.redact_value(it)),
        }
    }
}

#[cfg(test)]
mod tests {
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
    fn redacted_text_has_no_further_match() {
        let redactor = Redactor::new().unwrap();
        let text = "call +49 30 1234567 or 212-555-7890, IBAN AT611904300234573201, 401-023-2137";
        let once = redactor.redact(text).into_owned();
        assert!(!once.contains(|it: char| it.is_ascii_digit()), "{once}");
        assert_eq!(redactor.redact(&once), once);
    }
}
