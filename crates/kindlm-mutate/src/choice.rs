//! Pseudo-random choices that depend only on a seed, so that the same execution always has the same mutants.

use sha2::{Digest as _, Sha256};

/// A pseudo-random sequence of choices for one operator on one execution.
pub(crate) struct Choice {
    state: [u8; 32],
}

impl Choice {
    /// Starts the sequence for a seed and the id of an operator.
    pub(crate) fn new(seed: &str, operator: &str) -> Self {
        Self { state: Sha256::digest(format!("{operator}\n{seed}")).into() }
    }

    /// Returns a number below `len`; 0 if `len` is 0.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.state = Sha256::digest(self.state).into();
        let [a, b, c, d, ..] = self.state;
        u32::from_be_bytes([a, b, c, d]) as usize % len.max(1)
    }

    /// Returns one of the items; `None` without items.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }
}
