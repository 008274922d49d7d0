//! Groups failures that have the same cause.

use std::collections::{BTreeMap, HashMap};

use super::FailingCase;
use crate::{AssertionResult, CaseResult, ExecutionError, FailureCode, Verdict};

/// The maximum number of causes. The failures of further causes are only counted.
///
/// The limit bounds the memory of a run in which every case fails with another message.
pub(super) const MOST: usize = 500;

/// The maximum number of cases that are named for each cause.
const EXAMPLES: usize = 3;

/// The longest title, in characters.
const TITLE: usize = 160;

/// The failures that have the same code, and the same label or error message. Numbers and quoted texts may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CauseTotals {
    /// The key of the cause; see [`cause_key`].
    pub key: String,
    /// The failure code; `None` if an execution was not run.
    pub code: Option<FailureCode>,
    /// The label or error message that the failures share. `…` stands for the parts that differ.
    pub title: String,
    /// The number of cases (test cases × models) that did not hold, with a failure of this cause.
    pub cases: u64,
    /// The numbers of these cases by model, largest first.
    pub models: Vec<(String, u64)>,
    /// The first of these cases, in the order of the plan; at most three.
    pub examples: Vec<FailingCase>,
}

/// Returns the key of the cause of a failed or errored check; `None` for other results.
///
/// The key consists of the failure code, and of the label of a failed check or the message of an errored check. Numbers
/// and quoted texts are left out.
pub fn cause_key(result: &AssertionResult) -> Option<String> {
    let code = result.verdict.code()?;
    Some(key(code.as_str(), title_of(result)))
}

/// Returns the key of the cause of an execution error.
///
/// The key consists of the failure code, if there is one, and of the message without numbers and quoted texts. A
/// request that was not sent because of an earlier error has the cause of that error.
pub fn error_cause_key(error: &ExecutionError) -> String {
    let code = error.code();
    key(code.as_ref().map_or("", FailureCode::as_str), &root(&error.message()))
}

/// Returns the message of an earlier error if a request was not sent because of this error, else the whole message.
///
/// The message may begin with the name of the provider.
fn root(message: &str) -> String {
    let because = message.split_once("not sent, because ");
    let earlier = because.and_then(|(provider, it)| Some((provider, it.split_once(": ")?.1)));
    match earlier {
        Some((provider, earlier)) if provider.is_empty() || provider.ends_with(": ") => {
            format!("{provider}{earlier}")
        }
        _ => message.to_owned(),
    }
}

/// Returns the text that describes what failed.
fn title_of(result: &AssertionResult) -> &str {
    // The label of an errored check names only the expectation. The message has the reason for the error.
    match &result.verdict {
        Verdict::Errored { message, .. } => message,
        _ => &result.label,
    }
}

fn key(code: &str, title: &str) -> String {
    format!("{code} {}", without_literals(title))
}

/// Replaces quoted texts and numbers by `…`.
fn without_literals(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let is_quote = matches!(c, '"' | '`');
        if is_quote && rest.clone().any(|it| it == c) {
            out.push('…');
            rest.by_ref().find(|it| *it == c);
        } else if c.is_ascii_digit() {
            while rest.peek().is_some_and(|it| it.is_ascii_digit() || *it == '.') {
                rest.next();
            }
            out.push('…');
        } else {
            out.push(c);
        }
    }
    out
}

/// The causes of the failures of a run. They are updated while cases finish, in any order.
#[derive(Clone, Debug, Default)]
pub(super) struct Causes {
    entries: HashMap<String, Entry>,
    /// The number of failures of causes that are not in `entries`.
    left_out: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    /// The first appearance: the position of the case, and the index within the case.
    first: (usize, usize),
    code: Option<FailureCode>,
    title: String,
    cases: u64,
    models: BTreeMap<String, u64>,
    examples: BTreeMap<usize, FailingCase>,
}

impl Causes {
    /// Adds the failures of the case at a position. Must be called once for each case.
    pub(super) fn observe(&mut self, position: usize, case: &CaseResult) {
        if case.outcome.held() {
            return;
        }
        let of_checks = case.failing_findings().into_iter().filter_map(|it| {
            let code = it.result.verdict.code()?.clone();
            Some((Some(code), title_of(it.result).to_owned()))
        });
        let errors = case.errors();
        let of_errors = errors.iter().map(|it| (it.error.code(), root(&it.error.message())));
        let mut seen: Vec<String> = Vec::new();
        for (place, (code, title)) in of_checks.chain(of_errors).enumerate() {
            let key = key(code.as_ref().map_or("", FailureCode::as_str), &title);
            if seen.contains(&key) {
                self.entries.entry(key).and_modify(|it| it.title = common(&it.title, &title));
                continue;
            }
            seen.push(key.clone());
            if !self.entries.contains_key(&key) && self.entries.len() >= MOST {
                self.left_out += 1;
                continue;
            }
            let entry = self.entries.entry(key).or_insert_with(|| Entry {
                first: (position, place),
                code,
                title: title.clone(),
                cases: 0,
                models: BTreeMap::new(),
                examples: BTreeMap::new(),
            });
            entry.add(position, place, case, &title);
        }
    }

    /// Returns the number of failures whose causes exceed the limit. A case counts once for each of these causes.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the causes, the most frequent first.
    pub(super) fn totals(&self) -> Vec<CauseTotals> {
        let mut entries: Vec<(&String, &Entry)> = self.entries.iter().collect();
        entries.sort_by_key(|(_, it)| (u64::MAX - it.cases, it.first));
        entries.into_iter().map(|(key, it)| it.totals(key)).collect()
    }
}

impl Entry {
    fn add(&mut self, position: usize, place: usize, case: &CaseResult, title: &str) {
        self.first = self.first.min((position, place));
        self.title = common(&self.title, title);
        self.cases += 1;
        *self.models.entry(case.model.clone()).or_default() += 1;
        let example = FailingCase { case: case.case.clone(), model: case.model.clone() };
        self.examples.insert(position, example);
        if self.examples.len() > EXAMPLES {
            self.examples.pop_last();
        }
    }

    fn totals(&self, key: &str) -> CauseTotals {
        let mut models: Vec<(String, u64)> =
            self.models.iter().map(|(model, count)| (model.clone(), *count)).collect();
        models.sort_by_key(|(_, count)| u64::MAX - count);
        CauseTotals {
            key: key.to_owned(),
            code: self.code.clone(),
            title: cut(&self.title),
            cases: self.cases,
            models,
            examples: self.examples.values().cloned().collect(),
        }
    }
}

fn cut(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= TITLE {
        return line.to_owned();
    }
    line.chars().take(TITLE - 1).chain(['…']).collect()
}

/// Returns the common start and end of two texts, with `…` for the parts that differ.
fn common(a: &str, b: &str) -> String {
    if a == b {
        return a.to_owned();
    }
    let start: usize =
        a.chars().zip(b.chars()).take_while(|(x, y)| x == y).map(|(x, _)| x.len_utf8()).sum();
    let (rest_a, rest_b) = (&a[start..], &b[start..]);
    let pairs = rest_a.chars().rev().zip(rest_b.chars().rev());
    let end: usize = pairs.take_while(|(x, y)| x == y).map(|(x, _)| x.len_utf8()).sum();
    let (head, tail) = (&a[..start], &rest_a[rest_a.len() - end..]);
    format!("{}…{}", head.trim_end_matches('…'), tail.trim_start_matches('…'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_do_not_make_causes() {
        for (text, expected) in [
            ("Contains \"REF-123\"", "Contains …"),
            ("latency 120.5 ms, at most 100 ms", "latency … ms, at most … ms"),
            ("an unpaired \" stays", "an unpaired \" stays"),
            ("file `a.rs`", "file …"),
        ] {
            assert_eq!(without_literals(text), expected);
        }
    }

    #[test]
    fn unsent_requests_have_the_cause_of_the_earlier_error() {
        for (message, expected) in [
            ("not sent, because an earlier request failed permanently: go away", "go away"),
            ("openai: not sent, because the provider refuses everything: no", "openai: no"),
            ("not sent: the run was aborted: x", "not sent: the run was aborted: x"),
            ("not sent, because of it", "not sent, because of it"),
            ("a: b", "a: b"),
        ] {
            assert_eq!(root(message), expected);
        }
    }

    #[test]
    fn titles_keep_what_labels_share() {
        assert_eq!(common("Contains \"REF-1\"", "Contains \"REF-22\""), "Contains \"REF-…\"");
        assert_eq!(common("Contains \"REF-…\"", "Contains \"REF-3\""), "Contains \"REF-…\"");
        assert_eq!(common("a", "a"), "a");
        assert_eq!(common("ä", "ö"), "…");
    }
}
