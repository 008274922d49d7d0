//! The required number of occurrences.

use kindlm_types::{Problem, ResultEvidence};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::core::range::Range;
use crate::core::result_evidence::counted;

/// The number of times that something must happen.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "HowOften")]
pub(crate) enum Counted {
    /// Exactly this number of times.
    Exactly(u64),
    /// A minimum, a maximum, or both.
    Within(Within),
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HowOftenWithin")]
pub(crate) struct Within {
    /// The lowest number of times that is allowed.
    at_least: Option<u64>,
    /// The highest number of times that is allowed.
    at_most: Option<u64>,
}

/// A validated number of occurrences, ready for comparison with a count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count(Range);

impl Count {
    /// Validates the configured count; without a count, at least 1 is required.
    ///
    /// Fails if the count has neither `atLeast` nor `atMost`, or if `atMost` is less than `atLeast`.
    pub(crate) fn new(written: Option<Counted>) -> Result<Self, Vec<Problem>> {
        let (min, max) = match written {
            None => (Some(1), None),
            Some(Counted::Exactly(count)) => (Some(count), Some(count)),
            Some(Counted::Within(Within { at_least: None, at_most: None })) => {
                let problem = Problem::new("/count", "has neither `atLeast` nor `atMost`")
                    .with_help("write a number, or one of the two");
                return Err(vec![problem]);
            }
            Some(Counted::Within(Within { at_least, at_most })) => (at_least, at_most),
        };
        if let (Some(least), Some(most)) = (min, max)
            && most < least
        {
            let message = format!("`atMost` is {most}, which is less than `atLeast` ({least})");
            let problem =
                Problem::new("/count/atMost", message).with_help("swap them, or remove one");
            return Err(vec![problem]);
        }
        Ok(Self(Range { min, max }))
    }

    /// Returns true if every count from `least` to `most` is allowed, false if none is.
    ///
    /// Returns `None` if only some of these counts are allowed; see [`Range::surely_holds`]. Without `most`, the count
    /// has no upper end.
    pub(crate) fn holds(self, least: usize, most: Option<usize>) -> Option<bool> {
        self.0.surely_holds(least, most)
    }

    /// Returns the evidence of a count outside the required range; with `negate`, of a count inside the range.
    pub(crate) fn evidence(self, name: &str, count: usize, negate: bool) -> ResultEvidence {
        counted(name, count, self.0, negate)
    }

    /// Returns the expected count as text, such as `exactly 2 times`.
    ///
    /// With `negate`, the text describes the opposite.
    pub(crate) fn expected(self, negate: bool) -> String {
        match (self.0.min, self.0.max) {
            (Some(1), None) if negate => "never".to_owned(),
            (Some(0), Some(0)) if negate => "at least once".to_owned(),
            _ if negate => format!("not {}", self.describe()),
            _ => self.describe(),
        }
    }

    /// Returns the count as text, such as `exactly 2 times` or `at least once`.
    fn describe(self) -> String {
        let times = |count: u64| match count {
            1 => "once".to_owned(),
            2 => "twice".to_owned(),
            count => format!("{count} times"),
        };
        match (self.0.min, self.0.max) {
            (Some(0), Some(0)) => "never".to_owned(),
            (Some(least), Some(most)) if least == most => format!("exactly {}", times(least)),
            (Some(least), Some(most)) => format!("{least} to {most} times"),
            (Some(least), None) => format!("at least {}", times(least)),
            (None, Some(most)) => format!("at most {}", times(most)),
            (None, None) => "any number of times".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn missing_evidence_matters_only_if_it_could_decide() {
        for (written, least, most, holds, words) in [
            (Value::Null, 0, Some(0), Some(false), "at least once"),
            (Value::Null, 0, None, None, "at least once"),
            (Value::Null, 0, Some(1), None, "at least once"),
            (Value::Null, 3, None, Some(true), "at least once"),
            (json!(2), 2, Some(2), Some(true), "exactly twice"),
            (json!(2), 2, None, None, "exactly twice"),
            (json!(2), 2, Some(3), None, "exactly twice"),
            (json!(2), 0, Some(1), Some(false), "exactly twice"),
            (json!(2), 3, None, Some(false), "exactly twice"),
            (json!(0), 0, Some(0), Some(true), "never"),
            (json!({"atMost": 3}), 1, None, None, "at most 3 times"),
            (json!({"atMost": 3}), 1, Some(3), Some(true), "at most 3 times"),
            (json!({"atMost": 3}), 4, None, Some(false), "at most 3 times"),
            (json!({"atLeast": 2, "atMost": 3}), 1, Some(1), Some(false), "2 to 3 times"),
        ] {
            let count = Count::new(serde_json::from_value(written.clone()).unwrap()).unwrap();
            assert_eq!(count.holds(least, most), holds, "{written}: {least} to {most:?}");
            assert_eq!(count.expected(false), words);
        }
    }

    #[test]
    fn with_not_the_opposite_is_expected() {
        for (written, words) in [
            (Value::Null, "never"),
            (json!(0), "at least once"),
            (json!(2), "not exactly twice"),
            (json!({"atMost": 3}), "not at most 3 times"),
        ] {
            let count = Count::new(serde_json::from_value(written).unwrap()).unwrap();
            assert_eq!(count.expected(true), words);
        }
    }

    #[test]
    fn impossible_counts_are_problems() {
        for (written, at) in
            [(json!({}), "/count"), (json!({"atLeast": 3, "atMost": 2}), "/count/atMost")]
        {
            let written = serde_json::from_value(written).unwrap();
            assert_eq!(Count::new(Some(written)).unwrap_err()[0].pointer, at);
        }
    }
}
