//! Iteration over the checks of an execution, including those in sets.

use std::borrow::Cow;
use std::slice::Iter;

use kindlm_types::{AssertionResult, Severity};

/// A check, either alone or in a set.
#[derive(Clone, Debug)]
pub(crate) struct Check<'a> {
    /// The result of the check.
    pub result: &'a AssertionResult,
    /// The turn of a conversation that was checked; `None` for the whole execution.
    pub turn: Option<&'a str>,
    /// The severity: soft if the check, or a set that contains it, is soft.
    pub severity: Severity,
    /// The label, preceded by the labels of the enclosing sets: `Set > Judge: tone`.
    pub label: Cow<'a, str>,
}

/// Returns an iterator over all results. Each set is followed by its checks, at any depth.
pub(crate) fn checks(results: &[AssertionResult]) -> Checks<'_> {
    Checks { results: results.iter(), sets: Vec::new() }
}

/// The iterator that [`checks`] returns.
#[derive(Debug)]
pub(crate) struct Checks<'a> {
    results: Iter<'a, AssertionResult>,
    /// The enclosing sets of the next check, outermost first, each with its remaining parts.
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
