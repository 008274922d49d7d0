//! Regular expressions in ECMAScript syntax, with a bounded running time.
//!
//! A pattern is valid if JavaScript accepts it without the flag `u`. It has the same meaning as in JavaScript: `\d`,
//! `\w` and `\b` are ASCII, and `.` stops at every line separator. A reference to a group that has not matched matches
//! the empty text.
//!
//! Most patterns are translated and run in linear time. Some syntax needs a backtracking engine, which stops after
//! [`STEP_LIMIT`] steps:
//!
//! - look-around and back-references;
//! - `\B`;
//! - `^` and `$` in a group with the flag `m`.
//!
//! Two things differ from JavaScript, because texts in Rust are Unicode, not UTF-16. A character outside the basic
//! plane counts as one character, and half a surrogate pair (`\uD83D` alone) matches nothing.

mod class;
mod scanner;
mod translate;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use kindlm_types::Problem;

use translate::{Engine, translate};

/// The highest number of backtracking steps before the engine stops.
pub const STEP_LIMIT: usize = 1_000_000;

/// The flags of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// True for JavaScript's flag `i`.
    pub ignore_case: bool,
}

/// A compiled regular expression.
///
/// Clones share one program and the working memory of the engines.
#[derive(Clone, Debug)]
pub struct Pattern {
    source: Arc<str>,
    program: Arc<Program>,
}

#[derive(Debug)]
enum Program {
    Linear(regex::Regex),
    Backtracking(fancy_regex::Regex),
}

/// The reason why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// JavaScript would not accept the pattern.
    #[error("`{source_text}` is not a valid regular expression: {reason}")]
    Syntax {
        /// The pattern.
        source_text: String,
        /// The problem, as the end of the error message.
        reason: String,
        /// The advice for the user; `None` for the general advice.
        help: Option<String>,
    },
    /// The pattern is valid, but it needs too much memory, is nested too deeply, or has an unsupported feature.
    #[error("the regular expression `{source_text}` cannot be used: {reason}")]
    Unusable {
        /// The pattern.
        source_text: String,
        /// The reason.
        reason: String,
    },
}

/// The error of the backtracking engine if a pattern needs too many steps on a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the regular expression `{source_text}` was stopped after {STEP_LIMIT} steps")]
#[non_exhaustive]
pub struct SearchError {
    /// The pattern.
    pub source_text: String,
}

impl PatternError {
    /// Returns the problem for the place where the pattern is written.
    pub fn problem(&self, pointer: impl Into<String>) -> Problem {
        let problem = Problem::new(pointer, self.to_string());
        match self {
            Self::Syntax { help: Some(help), .. } => problem.with_help(help),
            Self::Syntax { help: None, .. } => {
                problem.with_help("patterns are written as in JavaScript, without `/` around them")
            }
            Self::Unusable { .. } => problem.with_help("write a simpler or smaller pattern"),
        }
    }
}

impl Pattern {
    /// Compiles a case-sensitive pattern, or returns the reason why the pattern cannot be used.
    pub fn compile(source: &str) -> Result<Self, PatternError> {
        Self::new(source, Flags::default())
    }

    /// Compiles a pattern, or returns the reason why the pattern cannot be used.
    pub fn new(source: &str, flags: Flags) -> Result<Self, PatternError> {
        let invalid = |reason: String| PatternError::Syntax {
            source_text: source.to_owned(),
            reason,
            help: inline_flags(source).map(|inline| help_for_inline_flags(inline, flags)),
        };
        let points = source.chars().map(u32::from);
        regress::backends::try_parse(points, regress::Flags::default())
            .map_err(|err| invalid(lower_first(&err.text)))?;
        let linear = translate(source, flags, Engine::Linear).map_err(invalid)?;
        let program = if linear.needs_backtracking {
            translate(source, flags, Engine::Backtracking)
                .map_err(invalid)
                .map(|it| Program::backtracking(&it.text))?
        } else {
            Program::linear(&linear.text)
        };
        let program = program
            .map_err(|reason| PatternError::Unusable { source_text: source.to_owned(), reason })?;
        Ok(Self { source: source.into(), program: Arc::new(program) })
    }

    /// Returns the pattern as written.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Returns true if the pattern matches anywhere in a text. Fails after [`STEP_LIMIT`] steps of the backtracking
    /// engine.
    pub fn is_match(&self, text: &str) -> Result<bool, SearchError> {
        match &*self.program {
            Program::Linear(regex) => Ok(regex.is_match(text)),
            Program::Backtracking(regex) => regex.is_match(text).map_err(|_| self.gave_up()),
        }
    }

    /// Returns true if a text has a match that no further text can change.
    ///
    /// A match that ends before the end of the text stays valid, because `\b` and `$` depend only on the next character. The
    /// result is always false for patterns that need the backtracking engine.
    pub fn matches_whatever_follows(&self, text: &str) -> bool {
        match &*self.program {
            Program::Linear(regex) => {
                regex.shortest_match(text).is_some_and(|end| end < text.len())
            }
            Program::Backtracking(_) => false,
        }
    }

    /// Returns the matches in a text as byte ranges.
    ///
    /// JavaScript's `match` with the flag `g` finds the same matches. The iterator ends after the first error. After an
    /// empty match, the iterator moves on by one character.
    pub fn find_iter<'p, 't>(&'p self, text: &'t str) -> Matches<'p, 't> {
        Matches { pattern: self, text, at: Some(0) }
    }

    fn find_at(&self, text: &str, at: usize) -> Result<Option<Range<usize>>, SearchError> {
        match &*self.program {
            Program::Linear(regex) => Ok(regex.find_at(text, at).map(|it| it.range())),
            Program::Backtracking(regex) => match regex.find_from_pos(text, at) {
                Ok(found) => Ok(found.map(|it| it.start()..it.end())),
                Err(_) => Err(self.gave_up()),
            },
        }
    }

    fn gave_up(&self) -> SearchError {
        SearchError { source_text: self.source.as_ref().to_owned() }
    }
}

/// The size at which the pattern cache is cleared. A stream of records may have any number of patterns.
const REMEMBERED: usize = 1_024;

/// A cache of compiled case-insensitive patterns, which the checks of a suite share.
// perf: process, 98 % fewer instructions for `kindlm validate`
//
// The figure is for tests that all use `pii`, each with a different `expect` block.
#[derive(Debug, Default)]
pub(crate) struct Patterns(Mutex<HashMap<String, Result<Pattern, PatternError>>>);

impl Patterns {
    /// Returns the pattern or its error from the cache, or compiles the pattern.
    pub(crate) fn ignoring_case(&self, source: &str) -> Result<Pattern, PatternError> {
        // The map is consistent even if a panic elsewhere poisoned the lock.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pattern) = known.get(source) {
            return pattern.clone();
        }
        let pattern = Pattern::new(source, Flags { ignore_case: true });
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(source.to_owned(), pattern.clone());
        pattern
    }
}

impl Program {
    fn linear(text: &str) -> Result<Self, String> {
        regex::Regex::new(text).map(Self::Linear).map_err(|err| match err {
            regex::Error::CompiledTooBig(limit) => format!("it needs more than {limit} bytes"),
            _ => "it is nested too deeply".to_owned(),
        })
    }

    fn backtracking(text: &str) -> Result<Self, String> {
        fancy_regex::RegexBuilder::new(text)
            .backtrack_limit(STEP_LIMIT)
            .max_prog_size(STEP_LIMIT)
            .build()
            .map(Self::Backtracking)
            .map_err(|err| lower_first(&err.to_string()))
    }
}

/// An iterator over the matches of a pattern in a text; see [`Pattern::find_iter`].
#[derive(Clone, Debug)]
pub struct Matches<'p, 't> {
    pattern: &'p Pattern,
    text: &'t str,
    at: Option<usize>,
}

impl Iterator for Matches<'_, '_> {
    type Item = Result<Range<usize>, SearchError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.pattern.find_at(self.text, self.at.take()?) {
            Ok(None) => None,
            Ok(Some(found)) => {
                self.at = if found.is_empty() {
                    self.text[found.end..].chars().next().map(|c| found.end + c.len_utf8())
                } else {
                    Some(found.end)
                };
                Some(Ok(found))
            }
            Err(err) => Some(Err(err)),
        }
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|c| c.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// Returns the letters of the first inline flag group such as `(?i)`; `None` without such a group.
///
/// JavaScript does not have inline flag groups.
fn inline_flags(source: &str) -> Option<&str> {
    source.match_indices("(?").find_map(|(at, open)| {
        let rest = &source[at + open.len()..];
        let flags = &rest[..rest.find(')')?];
        (!flags.is_empty() && flags.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-'))
            .then_some(flags)
    })
}

fn help_for_inline_flags(inline: &str, flags: Flags) -> String {
    if flags.ignore_case && inline == "i" {
        return "matching ignores case already: remove `(?i)`".to_owned();
    }
    format!("JavaScript has no inline flags such as `(?{inline})`: remove them")
}

#[cfg(test)]
mod tests;
