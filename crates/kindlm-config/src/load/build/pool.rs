//! The parts that tests share, each stored once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kindlm_assertions::Check;
use kindlm_engine::{CheckPlaces, Fingerprint};

use super::body::{Compiler, Part, TestParts};

/// The maximum number of parts of each kind that stay compiled. A suite written by hand has fewer parts.
///
/// If a dataset has different expectations in every row, the pool is soon full. Further parts are stored as JSON, and
/// are compiled again for each execution. This saves the memory of compiled patterns.
const MOST: usize = 1_024;

/// The shared parts of tests, by their JSON.
// perf: process, 52 % fewer instructions for `kindlm validate`
#[derive(Debug, Default)]
pub(super) struct Pool {
    pub(super) compiler: Arc<Compiler>,
    blocks: HashMap<String, Block>,
    shared: HashMap<String, Arc<TestParts>>,
    lists: HashSet<Arc<[String]>>,
    texts: HashSet<Arc<str>>,
    places: HashSet<Arc<CheckPlaces>>,
}

/// A compiled `expect` block.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// The checks of the block, and the rules of the prompt and of assertion sets.
    pub(super) checks: Arc<[Check]>,
    /// True if a check has a result or asks a question, such as a judge request, for an empty execution.
    pub(super) is_active: bool,
    /// True if a check asks the default judge of the suite.
    pub(super) asks_judge: bool,
    /// True if a check compares outputs.
    pub(super) compares: bool,
    /// The digest of the block and of the files that it names.
    pub(super) digest: Fingerprint,
    /// The block as JSON.
    pub(super) text: Arc<str>,
}

impl Pool {
    /// Returns the stored block of a key, or `None`.
    pub(super) fn block(&self, key: &str) -> Option<Block> {
        self.blocks.get(key).cloned()
    }

    /// Stores a block without errors.
    ///
    /// Returns the checks in the form that a test stores. If the pool is full and the block has checks, this form is
    /// JSON.
    pub(super) fn keep(&mut self, key: String, block: &Block) -> Part<[Check]> {
        if self.blocks.contains_key(&key) || self.blocks.len() < MOST {
            self.blocks.entry(key).or_insert_with(|| block.clone());
        } else if !block.checks.is_empty() {
            return Part::Written(Arc::clone(&block.text));
        }
        Part::Ready(Arc::clone(&block.checks))
    }

    /// Returns the shared parts of a key, or creates them.
    ///
    /// The argument of `make` is true if the pool stores the shared parts, so that they stay compiled.
    pub(super) fn test_parts(
        &mut self,
        key: String,
        make: impl FnOnce(bool) -> TestParts,
    ) -> Arc<TestParts> {
        if let Some(parts) = self.shared.get(&key) {
            return Arc::clone(parts);
        }
        let is_kept = self.shared.len() < MOST;
        let parts = Arc::new(make(is_kept));
        if is_kept {
            self.shared.insert(key, Arc::clone(&parts));
        }
        parts
    }

    /// Returns a shared copy of a list.
    pub(super) fn list(&mut self, items: &[String]) -> Arc<[String]> {
        if items.is_empty() {
            return Arc::default();
        }
        if let Some(list) = self.lists.get(items) {
            return Arc::clone(list);
        }
        let list: Arc<[String]> = items.into();
        if self.lists.len() < MOST {
            self.lists.insert(Arc::clone(&list));
        }
        list
    }

    /// Returns a shared copy of the places of checks.
    pub(super) fn places(&mut self, places: CheckPlaces) -> Arc<CheckPlaces> {
        if let Some(known) = self.places.get(&places) {
            return Arc::clone(known);
        }
        let shared = Arc::new(places);
        if self.places.len() < MOST {
            self.places.insert(Arc::clone(&shared));
        }
        shared
    }

    /// Returns a shared copy of a text.
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let shared: Arc<str> = text.into();
        if self.texts.len() < MOST {
            self.texts.insert(Arc::clone(&shared));
        }
        shared
    }
}
