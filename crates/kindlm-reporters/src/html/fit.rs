//! Cuts texts of cases, so that the data of the page stays below a size limit.

use data_encoding::HEXLOWER;
use kindlm_types::Outcome;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::amount::count;

/// The steps of cutting. Each step keeps less text than the step before.
pub(super) const STEPS: [Cut; 6] = [
    Cut { passed: None, others: None },
    Cut { passed: Some(2_000), others: None },
    Cut { passed: Some(200), others: None },
    Cut { passed: Some(200), others: Some(20_000) },
    Cut { passed: Some(200), others: Some(2_000) },
    Cut { passed: Some(200), others: Some(200) },
];

/// The number of characters that each text keeps, in passed cases and in other cases; `None` keeps the whole text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cut {
    passed: Option<usize>,
    others: Option<usize>,
}

impl Cut {
    /// Returns the maximum number of characters of a text in a case with this outcome; `None` for no limit.
    pub(super) fn limit_for(self, outcome: Outcome) -> Option<usize> {
        if outcome == Outcome::Passed { self.passed } else { self.others }
    }

    /// Returns the note about cut texts; `None` if no texts were cut.
    pub(super) fn note(self, limit: usize, is_larger: bool) -> Option<String> {
        let passed = count(self.passed? as u64);
        let others = match self.others {
            Some(most) => format!(", and those of other cases to {}", count(most as u64)),
            None => String::new(),
        };
        let size = if is_larger {
            "The page is larger than its limit of"
        } else {
            "So the page stays below its limit of"
        };
        // Limits are whole megabytes, except in tests.
        let megabytes = count((limit / 1_000_000) as u64);
        Some(format!(
            "Texts of passed cases are cut to {passed} characters{others}. {size} {megabytes} MB \
             (`--html-limit`). The json report has the texts in full."
        ))
    }
}

/// Cuts all texts in a value to `most` characters.
///
/// A cut text ends with a note that has a digest, so that different texts stay different.
pub(super) fn cut_texts(value: &mut Value, most: usize) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(most) {
                let all = count(text.chars().count() as u64);
                let digest = Sha256::digest(&*text);
                text.truncate(end);
                text.push_str("… [cut: ");
                text.push_str(&all);
                text.push_str(" characters, SHA-256 ");
                text.push_str(&HEXLOWER.encode(&digest[..4]));
                text.push_str("…]");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|it| cut_texts(it, most)),
        Value::Object(fields) => fields.values_mut().for_each(|it| cut_texts(it, most)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
