//! How a suite is to be run, and which part of it.

use std::collections::{HashMap, HashSet};
use std::str::FromStr;
use std::time::Duration;

use globset::{Glob, GlobMatcher};
use regex::{Regex, RegexBuilder};

/// The options of one run, which win over the suite.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The number of repeats of each case on each model, whatever the suite says; from 1.
    pub repeat: Option<u32>,
    /// The number of requests and commands in flight at once, whatever the suite says; from 1.
    pub concurrency: Option<usize>,
    /// The time limit of one request or command, whatever the suite and its cases say.
    pub timeout: Option<Duration>,
    /// True if nothing more is sent once a case has failed or could not be judged: a
    /// [`max_failures`](Self::max_failures) of 1.
    pub fail_fast: bool,
    /// After how many cases that failed or could not be judged nothing more is sent, counted per model; from 1.
    pub max_failures: Option<u32>,
    /// The budget in US dollars, if it is less than that of the gates.
    pub budget_usd: Option<f64>,
    /// True if a soft check below its threshold fails the execution.
    pub strict: bool,
    /// Which part of the suite is run.
    pub filter: Filter,
}

/// Selects test cases and models. What is empty selects everything; what is not must all apply.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Cases with any of these tags.
    pub tags: Vec<String>,
    /// Cases with none of these tags.
    pub without_tags: Vec<String>,
    /// Cases whose name any of these matches.
    pub tests: Vec<Pattern>,
    /// Models with any of these ids; `command` selects the command tests.
    pub models: Vec<String>,
    /// Only these, if given: what failed in an earlier run, for example.
    pub only: Option<Targets>,
}

/// Test cases, each on some of its models.
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
    /// Adds a case on a model; `command` for tests of commands.
    pub fn insert(&mut self, case: &str, model: &str) {
        match self.0.get_mut(case) {
            Some(models) => _ = models.insert(model.to_owned()),
            None => _ = self.0.insert(case.to_owned(), HashSet::from([model.to_owned()])),
        }
    }

    /// True if the case is meant on this model.
    pub fn contains(&self, case: &str, model: &str) -> bool {
        self.0.get(case).is_some_and(|models| models.contains(model))
    }

    /// True if the case is meant on any model.
    pub fn has_case(&self, case: &str) -> bool {
        self.0.contains_key(case)
    }

    /// The count, each case once for each of its models.
    pub fn len(&self) -> usize {
        self.0.values().map(HashSet::len).sum()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A pattern for names of test cases.
///
/// * `/…/` and `/…/i`: a regular expression that matches anywhere in the name (`i`: ignoring case).
/// * with `*`, `?`, `[` or `{`: a glob that matches the whole name.
/// * anything else: matches anywhere in the name.
///
/// Whatever it looks like, a pattern also matches the name that is written exactly like it.
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

/// Why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a pattern for test names: {reason}")]
pub struct PatternError {
    /// As written.
    pub pattern: String,
    /// The problem.
    pub reason: String,
}

impl Pattern {
    /// True if a test case of this name is meant.
    pub fn is_match(&self, name: &str) -> bool {
        name == self.text
            || match &self.matcher {
                Matcher::Part => name.contains(&self.text),
                Matcher::Glob(glob) => glob.is_match(name),
                Matcher::Regex(regex) => regex.is_match(name),
            }
    }

    /// The pattern as written.
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
            match Glob::new(text) {
                Ok(glob) => Matcher::Glob(glob.compile_matcher()),
                Err(err) => return Err(fail(err.kind().to_string())),
            }
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

/// The regex crate draws the place on lines of its own; the reason is the last one.
fn last_line(text: &str) -> String {
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}
