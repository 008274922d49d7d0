//! The number of repeats of a test.

use schemars::JsonSchema;
use serde::Deserialize;

/// The number of repeats: a fixed number, or a maximum with a rule that ends the repeats early.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RepeatEntry {
    /// A fixed number of repeats.
    Fixed(#[schemars(range(min = 1, max = 10_000))] u32),
    /// A maximum number of repeats. They end early when the verdict is clear.
    Early(EarlyEntry),
}

/// A maximum number of repeats with a rule that ends them early.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EarlyEntry {
    /// The maximum number of repeats.
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) max: u32,
    /// The rule that ends the repeats. `settled` ends them when no further repeat can change the verdict. `decided`
    /// ends them when a statistical test has decided between `pass` and `fail`. Default: `settled`.
    #[serde(default)]
    pub(crate) until: UntilEntry,
    /// The pass rate that is high enough, for `decided`. Default: 0.95.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub(crate) pass: Option<f64>,
    /// The pass rate that is too low, for `decided`. It must be below `pass`. Default: 0.8.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub(crate) fail: Option<f64>,
    /// The highest probability of a wrong pass, for `decided`. Default: 0.05.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 0.5))]
    pub(crate) alpha: Option<f64>,
    /// The highest probability of a wrong failure, for `decided`. Default: 0.05.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 0.5))]
    pub(crate) beta: Option<f64>,
}

/// The rule that ends repeats early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum UntilEntry {
    /// No further repeat can change the verdict.
    #[default]
    Settled,
    /// A statistical test has decided.
    Decided,
}

impl RepeatEntry {
    /// Returns the number of repeats, or their maximum.
    pub(crate) fn max(self) -> u32 {
        match self {
            Self::Fixed(repeats) => repeats,
            Self::Early(early) => early.max,
        }
    }
}
