//! Which executions a journal has, and where.

use std::collections::HashMap;

use kindlm_types::ExecutionResult;

use super::{JournalError, Place};

/// Which executions a journal has, and where the last entry of each is.
///
/// It holds no execution, only some 100 bytes for each: a report of any size can be written in the order of the
/// plan by reading ([`Journal::read`](super::Journal::read)) one after the other.
#[derive(Debug, Default)]
pub struct Index {
    /// Names of cases and models, by number: many executions have the same.
    names: HashMap<Box<str>, u32>,
    places: HashMap<(u32, u32, u32), Place>,
    damaged: Vec<JournalError>,
}

impl Index {
    /// The place of the last entry of an execution; `None` if it has none.
    pub fn get(&self, case: &str, model: &str, repeat: u32) -> Option<Place> {
        let key = (*self.names.get(case)?, *self.names.get(model)?, repeat);
        self.places.get(&key).copied()
    }

    /// True if an execution need not be made again: it is there, and it could be executed and judged.
    pub fn is_done(&self, case: &str, model: &str, repeat: u32) -> bool {
        self.get(case, model, repeat).is_some_and(Place::is_done)
    }

    /// Records the place of an execution; an earlier place is replaced.
    pub fn insert(&mut self, result: &ExecutionResult, place: Place) {
        let execution = &result.execution;
        let key = (self.number(&execution.case), self.number(&execution.model), execution.repeat);
        self.places.insert(key, place);
    }

    /// The lines that have changed since they were written, each an error that names it. Their executions are not in
    /// the index, so that they are run again.
    pub fn damaged(&self) -> &[JournalError] {
        &self.damaged
    }

    pub(super) fn note_damaged(&mut self, line: JournalError) {
        self.damaged.push(line);
    }

    /// The number of different executions.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The number of executions that need not be run again.
    pub fn done(&self) -> usize {
        self.places.values().filter(|it| it.is_done()).count()
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.names.get(name) {
            return number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.insert(name.into(), number);
        number
    }
}
