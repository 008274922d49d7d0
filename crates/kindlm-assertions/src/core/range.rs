//! Ranges for counts.

use kindlm_types::Problem;

/// A range of counts. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) min: Option<u64>,
    pub(crate) max: Option<u64>,
}

impl Range {
    /// Validates a configured range. A range that no count can match is a problem.
    pub(crate) fn new(min: Option<u64>, max: Option<u64>, at: &str) -> Result<Self, Vec<Problem>> {
        match (min, max) {
            (Some(min), Some(max)) if max < min => {
                let message = format!("`max` is {max}, which is less than `min` ({min})");
                Err(vec![
                    Problem::new(format!("{at}/max"), message)
                        .with_help("swap them, or remove one"),
                ])
            }
            _ => Ok(Self { min, max }),
        }
    }

    pub(crate) fn holds(self, count: usize) -> bool {
        self.missed(count).is_none()
    }

    /// Returns true if the count is certainly inside the range, and false if the count is certainly outside.
    ///
    /// The count is at least `least`, and at most `most` if `most` is known. Returns `None` if the result depends on
    /// the exact count.
    pub(crate) fn surely_holds(self, least: usize, most: Option<usize>) -> Option<bool> {
        let Self { min, max } = self;
        let least = u64::try_from(least).unwrap_or(u64::MAX);
        let most = most.map(|it| u64::try_from(it).unwrap_or(u64::MAX));
        let too_many = max.is_some_and(|max| least > max);
        let too_few = min.zip(most).is_some_and(|(min, most)| most < min);
        if too_many || too_few {
            return Some(false);
        }
        let enough = min.is_none_or(|min| least >= min);
        let not_too_many = max.is_none_or(|max| most.is_some_and(|most| most <= max));
        (enough && not_too_many).then_some(true)
    }

    /// Returns the text of the limit that the count violates, such as `at least 3`; `None` for a count in the range.
    pub(crate) fn missed(self, count: usize) -> Option<String> {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        match self {
            Self { min: Some(min), .. } if count < min => Some(format!("at least {min}")),
            Self { max: Some(max), .. } if count > max => Some(format!("at most {max}")),
            _ => None,
        }
    }

    /// Returns the whole range as text; `None` if the range has no limits.
    pub(crate) fn expected(self) -> Option<String> {
        match (self.min, self.max) {
            (Some(min), Some(max)) => Some(format!("{min}-{max}")),
            (Some(min), None) => Some(format!("at least {min}")),
            (None, Some(max)) => Some(format!("at most {max}")),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_range_and_refuses_empty_ranges() {
        for (min, max, count, holds, expected) in [
            (None, None, 0, true, None),
            (Some(1), None, 0, false, Some("at least 1")),
            (Some(1), Some(2), 2, true, Some("1-2")),
            (None, Some(2), 3, false, Some("at most 2")),
        ] {
            let range = Range::new(min, max, "").unwrap();
            assert_eq!((range.holds(count), range.expected().as_deref()), (holds, expected));
        }
        assert_eq!(Range::new(Some(2), Some(1), "/value").unwrap_err()[0].pointer, "/value/max");
    }
}
