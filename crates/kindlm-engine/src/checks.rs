//! The checks behind the results of an execution: those in sets as well.

use std::borrow::Cow;
use std::slice::Iter;

use kindlm_types::{AssertionResult, Severity};

/// A check, by itself or in a set.
#[derive(Clone, Debug)]
pub(crate) struct Check<'a> {
    /// Its result.
    pub result: &'a AssertionResult,
    /// The turn of a conversation that was checked.
    pub turn: Option<&'a str>,
    /// Soft if the check is, or a set that it is in.
    pub severity: Severity,
    /// Its label, after those of the sets that it is in: `Set > Judge: tone`.
    pub label: Cow<'a, str>,
}

/// Every result, and after each set the checks in it, however deep.
pub(crate) fn checks(results: &[AssertionResult]) -> Checks<'_> {
    Checks { results: results.iter(), sets: Vec::new() }
}

/// See [`checks`].
#[derive(Debug)]
pub(crate) struct Checks<'a> {
    results: Iter<'a, AssertionResult>,
    /// The sets around the next check, the outermost first, each with what is left of it.
    sets: Vec<(Check<'a>, Iter<'a, AssertionResult>)>,
}

impl<'a> Iterator for Checks<'a> {
    type Item = Check<'a>;

    fn next(&mut self) -> Option<Check<'a>> {
        let check = self.next_in_set().or_else(|| self.results.next().map(alone))?;
        let parts = check.result.parts();
        if !parts.is_empty() {
            self.sets.push((check.clone(), parts.iter()));
        }
        Some(check)
    }
}

impl<'a> Checks<'a> {
    fn next_in_set(&mut self) -> Option<Check<'a>> {
        while let Some((set, parts)) = self.sets.last_mut() {
            match parts.next() {
                Some(part) => return Some(within(set, part)),
                None => self.sets.pop(),
            };
        }
        None
    }
}

fn alone(result: &AssertionResult) -> Check<'_> {
    Check {
        result,
        turn: result.turn.as_deref(),
        severity: result.severity,
        label: Cow::Borrowed(&result.label),
    }
}

fn within<'a>(set: &Check<'a>, part: &'a AssertionResult) -> Check<'a> {
    let severity = match set.severity {
        Severity::Gate => part.severity,
        Severity::Soft => Severity::Soft,
    };
    let label = Cow::Owned(format!("{} > {}", set.label, part.label));
    Check { result: part, turn: part.turn.as_deref().or(set.turn), severity, label }
}
