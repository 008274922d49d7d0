//! The options of a run, and the selection of test cases.

use std::collections::{HashMap, HashSet};
use std::str::FromStr;
use std::time::Duration;

use globset::{Glob, GlobMatcher};
use regex::{Regex, RegexBuilder};

/// The options of one run, which take precedence over the suite.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The number of repeats of each case on each model, at least 1; the suite's number if absent.
    ///
    /// If set, no case ends its repeats early.
    pub repeat: Option<u32>,
    /// The maximum number of concurrent requests and commands, at least 1; the suite's number if absent.
    pub concurrency: Option<usize>,
    /// The time limit of one request or command; the limits of the suite and its cases if absent.
    pub timeout: Option<Duration>,
    /// True if the run stops after the first case that failed or could not be judged.
    ///
    /// If true, [`max_failures`](Self::max_failures) counts as 1.
    pub fail_fast: bool,
    /// The number of failed or errored cases after which the run stops, at least 1; `None` for no limit. A case counts
    /// once for each model.
    pub max_failures: Option<u32>,
    /// The budget in US dollars; `None` if only the gates set budgets. The lowest of all these budgets applies.
    pub budget_usd: Option<f64>,
    /// True if a failed soft check fails the execution.
    pub strict: bool,
    /// The selection of test cases and models.
    pub filter: Filter,
}

/// A selection of test cases and models. A case must meet all criteria. An empty criterion selects everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The tags to select by: a selected case must have at least one of these tags.
    pub tags: Vec<String>,
    /// The tags that a selected case must not have.
    pub without_tags: Vec<String>,
    /// The patterns for names: the name of a selected case must match at least one of these patterns.
    pub tests: Vec<Pattern>,
    /// The ids of the selected models; `command` selects the command tests, and `transcript` the transcript tests.
    pub models: Vec<String>,
    /// The selected cases with their models, such as the cases that failed in an earlier run; `None` for all cases.
    pub only: Option<Targets>,
}

/// A set of test cases, each on some of its models.
///
/// ```
/// let mut targets = kindlm_engine::Targets::default();
/// targets.insert("greets", "gpt");
/// assert!(targets.contains("greets", "gpt"));
/// assert!(!targets.contains("greets", "claude"));
/// assert_eq!(targets.len(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets(HashMap<String, HashSet<String>>);

impl Targets {
    /// Adds a case on a model; `command` for command tests, and `transcript` for transcript tests.
    pub fn insert(&mut self, case: &str, model: &str) {
        match self.0.get_mut(case) {
            Some(models) => _ = models.insert(model.to_owned()),
            None => _ = self.0.insert(case.to_owned(), HashSet::from([model.to_owned()])),
        }
    }

    /// Returns true if the set contains the case on this model.
    pub fn contains(&self, case: &str, model: &str) -> bool {
        self.0.get(case).is_some_and(|models| models.contains(model))
    }

    /// Returns true if the set contains the case on any model.
    pub fn has_case(&self, case: &str) -> bool {
        self.0.contains_key(case)
    }

    /// Returns the number of pairs of case and model.
    pub fn len(&self) -> usize {
        self.0.values().map(HashSet::len).sum()
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A pattern for names of test cases.
///
/// * `/…/` and `/…/i`: a regular expression that matches anywhere in the name (`i`: ignoring case).
/// * a valid glob with `*`, `?`, `[` or `{`: matches the whole name.
/// * anything else: matches anywhere in the name.
///
/// Each pattern also matches a name that equals the pattern. If a test case has this name, the pattern selects no other
/// names in a [`Filter`].
///
/// ```
/// use kindlm_engine::Pattern;
///
/// for (pattern, matches) in [
///     ("refund", true),
///     ("refund-*", true),
///     ("*-eu", false),
///     ("/^refund/", true),
///     ("/REFUND/", false),
///     ("/REFUND/i", true),
/// ] {
///     let pattern: Pattern = pattern.parse().unwrap();
///     assert_eq!(pattern.is_match("refund-late"), matches, "{pattern:?}");
/// }
/// assert!("{\"a\": [".parse::<Pattern>().unwrap().is_match("{\"a\": [1"));
/// assert!("[eu] refund".parse::<Pattern>().unwrap().is_match("[eu] refund"));
/// assert!("/(/".parse::<Pattern>().is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    matcher: Matcher,
}

#[derive(Clone, Debug)]
enum Matcher {
    Part,
    Glob(GlobMatcher),
    Regex(Regex),
}

/// The reason why a pattern is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a pattern for test names: {reason}")]
#[non_exhaustive]
pub struct PatternError {
    /// The pattern as written.
    pub pattern: String,
    /// The reason, without the pattern.
    pub reason: String,
}

impl Pattern {
    /// Returns true if the pattern matches the name.
    pub fn is_match(&self, name: &str) -> bool {
        name == self.text
            || match &self.matcher {
                Matcher::Part => name.contains(&self.text),
                Matcher::Glob(glob) => glob.is_match(name),
                Matcher::Regex(regex) => regex.is_match(name),
            }
    }

    /// Returns the pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let fail = |reason: String| PatternError { pattern: text.to_owned(), reason };
        let matcher = if let Some((source, ignore_case)) = as_regex(text) {
            let regex = RegexBuilder::new(source).case_insensitive(ignore_case).build();
            Matcher::Regex(regex.map_err(|err| fail(last_line(&err.to_string())))?)
        } else if text.contains(['*', '?', '[', '{']) {
            // The name of a test may have an unclosed bracket.
            Glob::new(text).map_or(Matcher::Part, |glob| Matcher::Glob(glob.compile_matcher()))
        } else if text.is_empty() {
            return Err(fail("it is empty".to_owned()));
        } else {
            Matcher::Part
        };
        Ok(Self { text: text.to_owned(), matcher })
    }
}

fn as_regex(text: &str) -> Option<(&str, bool)> {
    let inner = text.strip_prefix('/')?;
    let (source, ignore_case) = match inner.strip_suffix("/i") {
        Some(source) => (source, true),
        None => (inner.strip_suffix('/')?, false),
    };
    (!source.is_empty()).then_some((source, ignore_case))
}

/// Returns the reason in a multi-line error message: the last line. The lines before it mark the position.
fn last_line(text: &str) -> String {
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}
