//! `levenshtein`: how many letters must be changed to turn the output into a text.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Problem, ecma};
use rapidfuzz::distance::levenshtein::{Args, distance_with_args};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::codes::{ASSERTION_FAILED, CHECK_GIVEN_UP};
use crate::grade::Grade;
use crate::{Assertion, Build, Built, Code, Evidence, Meta, Own, Registration, Setup, config};

const ID: &str = "levenshtein";

/// The distance that is allowed unless the entry says otherwise.
const DEFAULT: f64 = 5.0;

/// The most work of one comparison, in cells of the table of distances that are not cut off: about a third of a
/// second. Two texts of 100,000 letters need as much.
const MOST_CELLS: u64 = 10_000_000_000;

/// Compares the output with a text by their edit distance.
pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output differs from a text in no more than a few letters.",
        since: "0.1.0",
        class: Class::Deterministic,
        codes: &[Code { code: ASSERTION_FAILED, summary: "The output differs in more letters." }],
        docs: include_str!("docs.md"),
    },
    schema: Config::json_schema,
    build: Build::Own(build),
};

/// What to compare the output with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The text that the output is compared with.
    value: String,
}

#[derive(Debug)]
struct Levenshtein {
    /// In UTF-16 units, which is what JavaScript counts.
    value: Vec<u16>,
    threshold: f64,
    label: String,
    negate: bool,
}

/// What is known of the distance.
#[derive(Debug, PartialEq)]
enum Distance {
    Exactly(usize),
    /// More than what was asked about, and not measured.
    MoreThan(usize),
    /// Too much work to find out.
    Unknown,
}

fn build(value: &Value, own: Own, _setup: &Setup<'_>) -> Built {
    let config: Config = config::read(value)?;
    let threshold = own.threshold.unwrap_or(DEFAULT);
    if threshold < 0.0 {
        let problem = Problem::new("/threshold", "no distance is below 0")
            .with_help("write the greatest number of letters that may differ");
        return Err(vec![problem]);
    }
    let label = own.label("Levenshtein distance");
    let value = config.value.encode_utf16().collect();
    Ok(Arc::new(Levenshtein { value, threshold, label, negate: own.negate }))
}

/// The distance of two texts, exactly if that takes no more than so many cells, else only whether it is
/// greater than `limit`.
fn distance(left: &[u16], right: &[u16], limit: f64, most_cells: u64) -> Distance {
    let (shorter, longer) = (left.len().min(right.len()), left.len().max(right.len()));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "limits are not negative, and greater ones than the length mean the length"
    )]
    let limit = (limit as usize).min(longer);
    if longer - shorter > limit && (shorter as u64).saturating_mul(longer as u64) > most_cells {
        return Distance::MoreThan(limit);
    }
    let measure = |cutoff: usize| {
        let args = Args::default().score_cutoff(cutoff);
        distance_with_args(left.iter().copied(), right.iter().copied(), &args)
    };
    let cells = |width: usize| (longer as u64).saturating_mul(width.min(shorter) as u64);
    if cells(shorter) <= most_cells {
        return measure(longer).map_or(Distance::MoreThan(longer), Distance::Exactly);
    }
    if cells(limit.saturating_mul(2).saturating_add(1)) <= most_cells {
        return measure(limit).map_or(Distance::MoreThan(limit), Distance::Exactly);
    }
    Distance::Unknown
}

impl Levenshtein {
    fn grade(&self, distance: &Distance) -> Option<Grade> {
        #[expect(clippy::cast_precision_loss, reason = "no text has 2^53 letters")]
        let (near, shown) = match distance {
            Distance::Exactly(distance) => {
                (*distance as f64 <= self.threshold, distance.to_string())
            }
            Distance::MoreThan(least) => (false, format!("of more than {least}")),
            Distance::Unknown => return None,
        };
        let relation = if near { "less than or equal to" } else { "greater than" };
        Some(Grade::of(near != self.negate, || {
            let threshold = ecma::number(self.threshold);
            format!("Levenshtein distance {shown} is {relation} threshold {threshold}")
        }))
    }
}

impl Assertion for Levenshtein {
    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let output: Vec<u16> = evidence.execution.output.encode_utf16().collect();
        let distance = distance(&output, &self.value, self.threshold, MOST_CELLS);
        let result = match self.grade(&distance) {
            Some(grade) => grade.result(ID, &self.label),
            None => AssertionResult::errored(
                ID,
                &self.label,
                CHECK_GIVEN_UP,
                format!(
                    "comparing texts of {} and {} letters up to a distance of {} takes too long; \
                     choose a smaller `threshold`, or another check for long texts",
                    output.len(),
                    self.value.len(),
                    ecma::number(self.threshold),
                ),
            ),
        };
        vec![result]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_would_take_too_long_is_cut_off_at_the_threshold() {
        let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
        let (left, right) = (units("kitten in the kitchen"), units("sitting in the kitchen"));
        for (limit, cells, expected) in [
            (5.0, 1_000, Distance::Exactly(3)),
            (1.0, 1_000, Distance::Exactly(3)),
            (1.0, 100, Distance::MoreThan(1)),
            (3.0, 200, Distance::Exactly(3)),
            (9.0, 100, Distance::Unknown),
            (f64::MAX, 100, Distance::Unknown),
        ] {
            assert_eq!(distance(&left, &right, limit, cells), expected, "{limit} in {cells}");
        }
        assert_eq!(distance(&left, &[], 2.0, 0), Distance::Exactly(left.len()));
        assert_eq!(distance(&left, &right[..9], 2.0, 10), Distance::MoreThan(2));
    }

    #[test]
    fn letters_are_utf_16_units() {
        let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
        assert_eq!(distance(&units("a"), &units("😀"), 5.0, MOST_CELLS), Distance::Exactly(2));
    }

    proptest! {
        #[test]
        fn is_a_metric_and_the_same_where_it_is_cut_off(
            left in "[ab😀]{0,80}",
            right in "[ab😀]{0,80}",
            limit in 0_u8..90,
        ) {
            let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
            let (left, right) = (units(&left), units(&right));
            let whole = distance(&left, &right, 0.0, MOST_CELLS);
            prop_assert_eq!(&whole, &distance(&right, &left, 0.0, MOST_CELLS));
            let Distance::Exactly(count) = whole else { panic!("{whole:?}") };
            prop_assert_eq!(count == 0, left == right);
            prop_assert!(left.len().abs_diff(right.len()) <= count && count <= left.len().max(right.len()));
            match distance(&left, &right, f64::from(limit), 2_000) {
                Distance::Exactly(cut) => prop_assert_eq!(cut, count),
                Distance::MoreThan(least) => prop_assert!(count > least),
                Distance::Unknown => {}
            }
        }
    }
}
