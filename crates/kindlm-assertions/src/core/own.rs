//! The options of an entry that an assertion applies itself.

/// The options of an entry that an assertion applies itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Own {
    /// True if the entry was written with `not-`.
    pub negate: bool,
    /// The entry's `threshold` (or `atLeast`).
    pub threshold: Option<f64>,
}

impl Own {
    /// The least score that is wanted, if it is told: of a check that is turned round, what is missing to 1.
    pub(crate) fn wants(&self) -> Option<f64> {
        self.threshold.map(|it| if self.negate { 1.0 - it } else { it })
    }

    /// The label of the check's result: the assertion's name, marked where it is turned round.
    pub(crate) fn label(&self, name: &str) -> String {
        if self.negate { format!("Not: {name}") } else { name.to_owned() }
    }
}
