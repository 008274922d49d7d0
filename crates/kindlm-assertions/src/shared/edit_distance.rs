//! The edit distance of two texts: the lowest number of letters to insert, delete or replace.

use rapidfuzz::HashableChar;
use rapidfuzz::distance::levenshtein::{Args, distance_with_args};

/// The highest cost of one comparison, in computed cells of the distance table.
///
/// Two texts of 100,000 letters need this number, which takes about a third of a second.
const MOST_CELLS: u64 = 10_000_000_000;

/// The result of a comparison.
#[derive(Debug, PartialEq)]
pub(crate) enum Distance {
    Exactly(usize),
    /// The distance is above this limit. The exact distance was not computed.
    MoreThan(usize),
    /// The computation would take too long.
    Unknown,
}

/// Returns the distance of two texts.
///
/// If the exact distance would take too long, the distance is computed only up to `limit`. If this would also take too
/// long, the result is [`Distance::Unknown`].
pub(crate) fn distance<T: HashableChar + Copy + PartialEq>(
    left: &[T],
    right: &[T],
    limit: usize,
) -> Distance {
    within(left, right, limit, MOST_CELLS)
}

/// Computes the distance like [`distance`], with at most this number of cells.
fn within<T: HashableChar + Copy + PartialEq>(
    left: &[T],
    right: &[T],
    limit: usize,
    most_cells: u64,
) -> Distance {
    let (shorter, longer) = (left.len().min(right.len()), left.len().max(right.len()));
    let limit = limit.min(longer);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_comparisons_stop_at_the_threshold() {
        let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
        let (left, right) = (units("kitten in the kitchen"), units("sitting in the kitchen"));
        for (limit, cells, expected) in [
            (5, 1_000, Distance::Exactly(3)),
            (1, 1_000, Distance::Exactly(3)),
            (1, 100, Distance::MoreThan(1)),
            (3, 200, Distance::Exactly(3)),
            (9, 100, Distance::Unknown),
            (usize::MAX, 100, Distance::Unknown),
        ] {
            assert_eq!(within(&left, &right, limit, cells), expected, "{limit} in {cells}");
        }
        assert_eq!(within(&left, &[], 2, 0), Distance::Exactly(left.len()));
        assert_eq!(within(&left, &right[..9], 2, 10), Distance::MoreThan(2));
    }

    #[test]
    fn the_caller_defines_the_letters() {
        let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
        assert_eq!(distance(&units("a"), &units("😀"), 5), Distance::Exactly(2));
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
            let whole = distance(&left, &right, 0);
            prop_assert_eq!(&whole, &distance(&right, &left, 0));
            let Distance::Exactly(count) = whole else { panic!("{whole:?}") };
            prop_assert_eq!(count == 0, left == right);
            prop_assert!(left.len().abs_diff(right.len()) <= count && count <= left.len().max(right.len()));
            match within(&left, &right, usize::from(limit), 2_000) {
                Distance::Exactly(cut) => prop_assert_eq!(cut, count),
                Distance::MoreThan(least) => prop_assert!(count > least),
                Distance::Unknown => {}
            }
        }
    }
}
