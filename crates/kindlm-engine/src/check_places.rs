//! The places of the checks of a test in the files of its suite.

use kindlm_assertions::Check;
use kindlm_types::{AssertionResult, SourcePlace, Verdict};

/// The places of the checks that are written in the test itself.
///
/// Lines count from the line of the test, so tests with the same layout have equal places and can share them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CheckPlaces(Box<[CheckPlace]>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CheckPlace {
    /// The index of the turn in the conversation; `None` for the checks of the whole test.
    turn: Option<usize>,
    /// The JSON pointer of the check in its `expect` block.
    at: Box<str>,
    id: &'static str,
    /// The number of lines from the line of the test to the line of the check.
    lines: u32,
    column: u32,
}

impl CheckPlaces {
    /// Collects the places of checks, each with the index of its turn.
    ///
    /// A check that is not below the line of the test is left out. Its results get the place of the test.
    pub fn new<'c>(
        test: &SourcePlace,
        checks: impl IntoIterator<Item = (Option<usize>, &'c Check, SourcePlace)>,
    ) -> Self {
        let below = checks.into_iter().filter_map(|(turn, check, place)| {
            let lines = place.line.checked_sub(test.line).filter(|it| *it > 0)?;
            let at = check.at.as_str().into();
            Some(CheckPlace { turn, at, id: check.meta.id, lines, column: place.column })
        });
        Self(below.collect())
    }

    /// Returns true if no check has a place of its own.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the place of a check of the test, or of the turn with this index.
    ///
    /// Returns `None` if the check has no place of its own.
    pub fn find(
        &self,
        test: &SourcePlace,
        turn: Option<usize>,
        check: &Check,
    ) -> Option<SourcePlace> {
        let is_it =
            |it: &&CheckPlace| it.turn == turn && *it.at == check.at && it.id == check.meta.id;
        let found = self.0.iter().find(is_it)?;
        let line = test.line.saturating_add(found.lines);
        Some(SourcePlace::new(test.file.clone(), line, found.column))
    }
}

/// Finds the places of checks: the checks of a whole test, or the checks of one turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlaceFinder<'a> {
    /// The place of the test; `None` for a suite that is built in code.
    pub(crate) test: Option<&'a SourcePlace>,
    pub(crate) checks: Option<&'a CheckPlaces>,
    /// The index of the turn, from 0; `None` for checks of the whole execution.
    pub(crate) turn: Option<usize>,
}

impl PlaceFinder<'_> {
    /// Sets the place of the check in its results that failed or are errored.
    ///
    /// A check without its own place gets the place of the test.
    pub(crate) fn note(self, check: &Check, results: &mut [AssertionResult]) {
        let (Some(test), true) = (self.test, results.iter().any(has_no_place)) else { return };
        let own = self.checks.and_then(|it| it.find(test, self.turn, check));
        note_place(&own.unwrap_or_else(|| test.clone()), results);
    }
}

/// Sets the place in each failed or errored result that has no place. The parts of the results are included.
pub(crate) fn note_place(place: &SourcePlace, results: &mut [AssertionResult]) {
    for result in results {
        if has_no_place(result) {
            result.source = Some(place.clone());
        }
        note_place(place, &mut result.components);
    }
}

fn has_no_place(result: &AssertionResult) -> bool {
    let is_open = matches!(result.verdict, Verdict::Fail { .. } | Verdict::Errored { .. });
    (is_open && result.source.is_none()) || result.components.iter().any(has_no_place)
}
