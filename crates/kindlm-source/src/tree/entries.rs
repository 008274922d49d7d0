//! The entries of a mapping while it is read.
//!
//! The entries are in the order of the file. Large mappings have an index of their keys.

use std::collections::HashMap;
use std::rc::Rc;

use super::{Key, Node};
use crate::source::Span;

/// The number of keys at which the index is built.
const MANY_KEYS: usize = 12;

/// The entries of a mapping while it is read.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) list: Vec<(Key, Node)>,
    index: HashMap<Rc<str>, usize>,
}

impl Entries {
    pub(super) fn find(&self, name: &str) -> Option<Span> {
        let at = if self.index.is_empty() {
            self.list.iter().position(|(key, _)| &*key.name == name)
        } else {
            self.index.get(name).copied()
        };
        at.and_then(|it| self.list.get(it)).map(|(key, _)| key.span)
    }

    pub(super) fn push(&mut self, key: Key, value: Node) {
        if !self.index.is_empty() {
            self.index.insert(key.name.clone(), self.list.len());
        }
        self.list.push((key, value));
        if self.list.len() == MANY_KEYS {
            let names = self.list.iter().map(|(key, _)| key.name.clone());
            self.index = names.zip(0..).collect();
        }
    }
}
