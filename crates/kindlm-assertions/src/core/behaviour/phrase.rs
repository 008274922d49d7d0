//! A text, or a pattern for one.

use std::fmt;

use kindlm_types::Problem;
use schemars::JsonSchema;
use serde::Deserialize;

use super::literal;
use crate::shared::pattern::{Pattern, SearchError};

/// A text, or a pattern for one.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Phrase {
    /// This text.
    Text(#[schemars(length(min = 1))] String),
    /// The subject of the pattern.
    Regex(Regex),
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PhraseRegex")]
pub(crate) struct Regex {
    /// A regular expression, matched anywhere in the text.
    #[serde(rename = "$regex")]
    #[schemars(length(min = 1))]
    regex: String,
}

/// A text, or a compiled pattern for one.
#[derive(Clone, Debug)]
pub(crate) enum PhrasePattern {
    Text(String),
    Regex(Pattern),
}

impl Phrase {
    /// Ready to be looked for; `at` is where it is written.
    pub(crate) fn pattern(self, at: &str) -> Result<PhrasePattern, Vec<Problem>> {
        match self {
            // The schema has seen it before its variables were filled in.
            Self::Text(text) if text.is_empty() => Err(vec![
                Problem::new(at, "the text to look for is empty")
                    .with_help("an empty text is in every text: write what must be there"),
            ]),
            Self::Text(text) => match literal::refused(&text, at, false) {
                Some(problem) => Err(vec![problem]),
                None => Ok(PhrasePattern::Text(text)),
            },
            Self::Regex(Regex { regex }) => Pattern::compile(&regex)
                .map(PhrasePattern::Regex)
                .map_err(|err| vec![err.problem(format!("{at}/$regex"))]),
        }
    }
}

impl PhrasePattern {
    /// True if a text contains it.
    pub(crate) fn is_in(&self, text: &str) -> Result<bool, SearchError> {
        match self {
            Self::Text(phrase) => Ok(text.contains(phrase.as_str())),
            Self::Regex(pattern) => pattern.is_match(text),
        }
    }

    /// True if it would be found in a text of which only the ASCII characters could be read.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Text(phrase) if phrase.is_ascii())
    }

    /// True if a text equals it; a pattern may still match anywhere.
    pub(crate) fn is(&self, text: &str) -> Result<bool, SearchError> {
        match self {
            Self::Text(phrase) => Ok(text == phrase),
            Self::Regex(pattern) => pattern.is_match(text),
        }
    }
}

impl fmt::Display for PhrasePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::Regex(pattern) => write!(f, "/{}/", pattern.as_str()),
        }
    }
}
