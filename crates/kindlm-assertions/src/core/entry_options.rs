//! The options `not-` and `threshold`, for assertions that apply these options themselves.

/// The options `not-` and `threshold`, for assertions that apply these options themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EntryOptions {
    /// True if the entry was written with `not-`.
    pub negate: bool,
    /// The entry's `threshold` (or `atLeast`).
    pub threshold: Option<f64>,
}

impl EntryOptions {
    /// Returns the lowest score that passes, if a threshold is set; with `not-`, 1 minus the threshold.
    pub(crate) fn wants(&self) -> Option<f64> {
        self.threshold.map(|it| if self.negate { 1.0 - it } else { it })
    }

    /// Returns the label of the result: the assertion's name, with the prefix `Not:` if negated.
    pub(crate) fn label(&self, name: &str) -> String {
        if self.negate { format!("Not: {name}") } else { name.to_owned() }
    }
}
