//! What tests have in common, kept once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kindlm_assertions::Check;
use kindlm_engine::Fingerprint;

use super::body::{Compiler, Kit, Part};

/// How many parts of a kind are kept ready. A suite that is written by hand has fewer; of a dataset whose every row
/// expects something else, the rest is made again when a test is executed, as compiled patterns are large.
const MOST: usize = 1_024;

/// Parts of tests by how they are written.
#[derive(Debug, Default)]
pub(super) struct Pool {
    pub(super) compiler: Arc<Compiler>,
    blocks: HashMap<String, Block>,
    kits: HashMap<String, Arc<Kit>>,
    lists: HashSet<Arc<[String]>>,
    texts: HashSet<Arc<str>>,
}

/// An `expect` block.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// The checks that it stands for, and those of the prompt.
    pub(super) checks: Arc<[Check]>,
    /// True if they find something in an execution, whatever it is.
    pub(super) is_active: bool,
    /// True if the suite's own judge is asked, as no check and no block names another.
    pub(super) asks_judge: bool,
    /// True if one of them compares outputs.
    pub(super) compares: bool,
    /// Of the block as it is written, and of the files that it names.
    pub(super) digest: Fingerprint,
    /// The block as JSON.
    pub(super) text: Arc<str>,
}

impl Pool {
    /// The block with this key, if it was kept.
    pub(super) fn block(&self, key: &str) -> Option<Block> {
        self.blocks.get(key).cloned()
    }

    /// Keeps a block in which nothing is wrong; gives back what a test keeps of it.
    pub(super) fn keep(&mut self, key: String, block: &Block) -> Part<[Check]> {
        if self.blocks.contains_key(&key) || self.blocks.len() < MOST {
            self.blocks.entry(key).or_insert_with(|| block.clone());
        } else if !block.checks.is_empty() {
            return Part::Written(Arc::clone(&block.text));
        }
        Part::Ready(Arc::clone(&block.checks))
    }

    /// The kit with this key, made if there is none; `make` is told whether its parts are to be kept ready.
    pub(super) fn kit(&mut self, key: String, make: impl FnOnce(bool) -> Kit) -> Arc<Kit> {
        if let Some(kit) = self.kits.get(&key) {
            return Arc::clone(kit);
        }
        let is_kept = self.kits.len() < MOST;
        let kit = Arc::new(make(is_kept));
        if is_kept {
            self.kits.insert(key, Arc::clone(&kit));
        }
        kit
    }

    /// A list that equal lists share.
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

    /// A text that equal texts share.
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
