//! The index of the executions in a journal.

use std::collections::HashMap;

use kindlm_types::ExecutionResult;

use super::{EntryLocation, JournalError};

/// The index of the executions in a journal: the location of each execution's last entry.
///
/// The index uses about 100 bytes per execution, because it holds no content. A report of any size can be written by
/// reading one execution after the other with [`Journal::read_execution`](super::Journal::read_execution).
#[derive(Debug, Default)]
pub struct Index {
    /// A number for each case name and model name. Many executions share a name, so each name is stored once.
    names: HashMap<Box<str>, u32>,
    places: HashMap<(u32, u32, u32), EntryLocation>,
    damaged: Vec<JournalError>,
}

impl Index {
    /// Returns the location of an execution's last entry; `None` without an entry.
    pub fn get(&self, case: &str, model: &str, repeat: u32) -> Option<EntryLocation> {
        let key = (*self.names.get(case)?, *self.names.get(model)?, repeat);
        self.places.get(&key).copied()
    }

    /// Returns true if an execution was executed and judged.
    ///
    /// Such an execution need not run again.
    pub fn is_done(&self, case: &str, model: &str, repeat: u32) -> bool {
        self.get(case, model, repeat).is_some_and(EntryLocation::is_done)
    }

    /// Stores the location of an execution; replaces an earlier location.
    pub fn insert(&mut self, result: &ExecutionResult, place: EntryLocation) {
        let execution = &result.execution;
        let key = (self.number(&execution.case), self.number(&execution.model), execution.repeat);
        self.places.insert(key, place);
    }

    /// Returns an error for each damaged line.
    ///
    /// The execution of a damaged line runs again, unless another line has this execution too.
    pub fn damaged(&self) -> &[JournalError] {
        &self.damaged
    }

    pub(super) fn note_damaged(&mut self, line: JournalError) {
        self.damaged.push(line);
    }

    /// Returns the number of distinct executions.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns true if the index has no executions.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the number of executions that were executed and judged.
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
