//! A text to search for, or a regular expression.

use std::fmt;

use kindlm_types::{CheckedText, Problem, ResultEvidence};
use schemars::JsonSchema;
use serde::Deserialize;

use super::literal;
use crate::core::result_evidence::{MOST, absent_in, found, matches_of, occurrences};
use crate::shared::pattern::{Pattern, SearchError};

/// A text to search for, or a regular expression.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Phrase {
    /// The exact text.
    Text(#[schemars(length(min = 1))] String),
    /// The regular expression.
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

/// A validated text, or a compiled regular expression.
#[derive(Clone, Debug)]
pub(crate) enum PhrasePattern {
    Text(String),
    Regex(Pattern),
}

impl Phrase {
    /// Validates the text or compiles the expression. `at` is its place in the configuration.
    ///
    /// Fails for an empty text, a text that is written as a regular expression, and an expression that does not
    /// compile.
    pub(crate) fn pattern(self, at: &str) -> Result<PhrasePattern, Vec<Problem>> {
        match self {
            // The schema rejects an empty text, but a text can become empty when its variables are filled in.
            Self::Text(text) if text.is_empty() => Err(vec![
                Problem::new(at, "the text to look for is empty")
                    .with_help("an empty text is in every text: write the text to look for"),
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
    /// Returns true if the text contains the phrase. Fails if the regular expression takes too long.
    pub(crate) fn is_in(&self, text: &str) -> Result<bool, SearchError> {
        match self {
            Self::Text(phrase) => Ok(text.contains(phrase.as_str())),
            Self::Regex(pattern) => pattern.is_match(text),
        }
    }

    /// Returns the evidence about a text: the places of the phrase, or the evidence that the phrase is absent.
    pub(crate) fn evidence(&self, of: CheckedText, text: &str) -> ResultEvidence {
        let places: Vec<_> = match self {
            Self::Text(phrase) => {
                occurrences(text, phrase).take(MOST).map(|it| (it, phrase.clone())).collect()
            }
            Self::Regex(pattern) => matches_of(pattern, text),
        };
        if !places.is_empty() {
            return found(of, text, places);
        }
        self.absence(of)
    }

    /// Returns the evidence that the phrase is absent.
    pub(crate) fn absence(&self, of: CheckedText) -> ResultEvidence {
        absent_in(of, [self.shown()])
    }

    /// Returns the text as it is, or the expression between slashes.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Regex(pattern) => format!("/{}/", pattern.as_str()),
        }
    }

    /// Returns true if the phrase is an ASCII text, and not a regular expression.
    ///
    /// Such a text can be found even if only the ASCII characters of the searched text are readable.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Text(phrase) if phrase.is_ascii())
    }

    /// Returns true if the text equals the phrase, or if the regular expression matches anywhere in the text. Fails if
    /// the regular expression takes too long.
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
