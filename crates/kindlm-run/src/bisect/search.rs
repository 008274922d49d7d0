//! The searches: the first bad candidate of a list, and a minimal set of changes that is bad.

use std::collections::BTreeSet;

use crate::Failure;

/// The result of trying a commit or a set of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The case passes.
    Good,
    /// The case fails.
    Bad,
    /// The try could not be decided.
    Skip,
    /// The search must stop: the user interrupted it, or the limit of executions is reached.
    Stop,
}

/// The result of the search in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FirstBad {
    /// The indices of the candidates that may be the first bad candidate. A single index is the answer.
    pub(super) suspects: Vec<usize>,
    /// True if the search was stopped.
    pub(super) is_stopped: bool,
}

/// Finds the first bad candidate of `count` candidates by binary search.
///
/// The caller has already found that the state before the first candidate is good, and that the last candidate is bad.
/// If a candidate is skipped, the open candidate nearest to the middle is tried instead.
pub(super) fn first_bad(
    count: usize,
    attempt: &mut dyn FnMut(usize) -> Result<Verdict, Failure>,
) -> Result<FirstBad, Failure> {
    // The first bad candidate is in `low..high`, where `high - 1` is bad, and everything before `low` is good.
    let (mut low, mut high) = (0, count);
    let mut skipped = BTreeSet::new();
    loop {
        let middle = low + (high - low - 1) / 2;
        let open = (low..high.saturating_sub(1)).filter(|it| !skipped.contains(it));
        let suspects = || (low..high).collect();
        let Some(next) = open.min_by_key(|it| it.abs_diff(middle)) else {
            return Ok(FirstBad { suspects: suspects(), is_stopped: false });
        };
        match attempt(next)? {
            Verdict::Good => low = next + 1,
            Verdict::Bad => high = next + 1,
            Verdict::Skip => _ = skipped.insert(next),
            Verdict::Stop => return Ok(FirstBad { suspects: suspects(), is_stopped: true }),
        }
    }
}

/// The result of the search for a set of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SmallestBad {
    /// The changes that are bad together.
    pub(super) changes: BTreeSet<usize>,
    /// True if a subset of `changes` was skipped. The subset may be bad too, so `changes` may not be minimal.
    pub(super) has_skipped: bool,
    /// True if the search was stopped.
    pub(super) is_stopped: bool,
}

/// Finds a minimal bad set among `count` changes. If any one change is removed from the set, the remaining changes are
/// good or were skipped. If the search was stopped, the set may not be minimal.
///
/// The caller has already found that the empty set is good, and that the set of all changes is bad. The algorithm is
/// `ddmin` of Zeller and Hildebrandt (2002), *IEEE Trans. Softw. Eng.* 28:183.
pub(super) fn smallest_bad(
    count: usize,
    attempt: &mut dyn FnMut(&BTreeSet<usize>) -> Result<Verdict, Failure>,
) -> Result<SmallestBad, Failure> {
    let mut found =
        SmallestBad { changes: (0..count).collect(), has_skipped: false, is_stopped: false };
    let mut parts = 2;
    let mut skipped = Vec::new();
    while found.changes.len() > 1 {
        let mut smaller = None;
        for (is_part, candidate) in candidates(&found.changes, parts) {
            match attempt(&candidate)? {
                Verdict::Bad => {
                    smaller = Some((is_part, candidate));
                    break;
                }
                Verdict::Good => {}
                Verdict::Skip => skipped.push(candidate),
                Verdict::Stop => return Ok(SmallestBad { is_stopped: true, ..found }),
            }
        }
        match smaller {
            Some((true, part)) => (found.changes, parts) = (part, 2),
            Some((false, rest)) => (found.changes, parts) = (rest, (parts - 1).max(2)),
            None if parts >= found.changes.len() => break,
            None => parts = (parts * 2).min(found.changes.len()),
        }
    }
    found.has_skipped = skipped.iter().any(|it| it.is_subset(&found.changes));
    Ok(found)
}

/// Splits a set into parts. Returns the parts with the flag true, and then the complement of each part with the flag
/// false.
fn candidates(set: &BTreeSet<usize>, parts: usize) -> Vec<(bool, BTreeSet<usize>)> {
    let items: Vec<usize> = set.iter().copied().collect();
    let bounds = |part: usize| (part * items.len() / parts, (part + 1) * items.len() / parts);
    let part = |part: usize| {
        let (start, end) = bounds(part);
        items.get(start..end).unwrap_or_default().iter().copied().collect::<BTreeSet<usize>>()
    };
    let mut all: Vec<(bool, BTreeSet<usize>)> = (0..parts).map(|it| (true, part(it))).collect();
    // With two parts, each part equals the set without the other part.
    if parts > 2 {
        all.extend((0..parts).map(|it| (false, set - &part(it))));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_each_first_bad_commit_with_few_tries() {
        for count in 1..=40_usize {
            for first in 0..count {
                let mut tries = 0;
                let mut attempt = |it| {
                    tries += 1;
                    assert!(it + 1 < count, "the last one is known to be bad");
                    Ok(if it >= first { Verdict::Bad } else { Verdict::Good })
                };
                let found = first_bad(count, &mut attempt).unwrap();
                assert_eq!(found.suspects, [first], "{first} of {count}");
                assert!(tries <= count.next_power_of_two().ilog2(), "{tries} for {count}");
            }
        }
    }

    #[test]
    fn skipped_commits_beside_the_first_bad_one_stay_suspects() {
        let of = |verdicts: &str| {
            let verdicts: Vec<char> = verdicts.chars().collect();
            let mut attempt = |it: usize| {
                Ok(match verdicts[it] {
                    'g' => Verdict::Good,
                    'b' => Verdict::Bad,
                    's' => Verdict::Skip,
                    _ => Verdict::Stop,
                })
            };
            first_bad(verdicts.len(), &mut attempt).unwrap()
        };
        for (verdicts, suspects, is_stopped) in [
            ("ggsbb", &[2, 3][..], false),
            ("gsgbb", &[3], false),
            ("gsssb", &[1, 2, 3, 4], false),
            ("gggxb", &[3, 4], true),
            ("b", &[0], false),
        ] {
            let found = of(verdicts);
            assert_eq!((&*found.suspects, found.is_stopped), (suspects, is_stopped), "{verdicts}");
        }
    }

    #[test]
    fn finds_the_smallest_set_of_changes() {
        for (count, causes) in [
            (1, &[0][..]),
            (2, &[1]),
            (8, &[5]),
            (8, &[0, 7]),
            (9, &[2, 3, 8]),
            (30, &[4, 21]),
            (3, &[0, 1, 2]),
        ] {
            let causes: BTreeSet<usize> = causes.iter().copied().collect();
            let mut tries = 0;
            let mut attempt = |set: &BTreeSet<usize>| {
                tries += 1;
                assert!(!set.is_empty() && set.len() < count);
                Ok(if causes.is_subset(set) { Verdict::Bad } else { Verdict::Good })
            };
            let found = smallest_bad(count, &mut attempt).unwrap();
            assert_eq!(found.changes, causes, "{count}");
            assert!(!found.has_skipped && !found.is_stopped);
            if causes.len() == 1 {
                assert!(tries <= 2 * count.next_power_of_two().ilog2(), "{tries} for {count}");
            }
        }
    }

    #[test]
    fn skipped_sets_are_no_answer_and_are_reported() {
        let mut attempt = |set: &BTreeSet<usize>| {
            Ok(match set.contains(&1) {
                true if set.len() == 1 => Verdict::Skip,
                true => Verdict::Bad,
                false => Verdict::Good,
            })
        };
        let found = smallest_bad(4, &mut attempt).unwrap();
        assert_eq!(found.changes, BTreeSet::from([0, 1]));
        assert!(found.has_skipped);
        // A skipped set that is no part of the answer does not make the answer uncertain.
        let mut attempt = |set: &BTreeSet<usize>| {
            Ok(match (set.contains(&0), set.is_superset(&BTreeSet::from([2, 3]))) {
                (true, _) => Verdict::Skip,
                (false, true) => Verdict::Bad,
                (false, false) => Verdict::Good,
            })
        };
        let found = smallest_bad(4, &mut attempt).unwrap();
        assert_eq!(found.changes, BTreeSet::from([2, 3]));
        assert!(!found.has_skipped);
        let stopped = smallest_bad(4, &mut |_| Ok(Verdict::Stop)).unwrap();
        assert!(stopped.is_stopped && stopped.changes.len() == 4);
    }
}
