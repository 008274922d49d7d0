//! The probabilities that one or all of several tries pass, from the repeats of a case.

use crate::{Tally, Undefined, float};

impl Tally {
    /// Returns the probability that at least one of `tries` repeats passes: pass@k.
    ///
    /// This is the unbiased estimate `1 − C(n−c, k) / C(n, k)` of Chen et al. 2021, arXiv 2107.03374, from `c` passes in
    /// `n` repeats. Fails unless `tries` is from 1 to the number of repeats.
    pub fn pass_at(self, tries: u64) -> Result<f64, Undefined> {
        Ok(1.0 - chosen(self.total() - self.passed(), self.total(), tries)?)
    }

    /// Returns the probability that each of `tries` repeats passes: pass^k.
    ///
    /// This is the unbiased estimate `C(c, k) / C(n, k)` of Yao et al. 2024, arXiv 2406.12045, from `c` passes in `n`
    /// repeats. Fails unless `tries` is from 1 to the number of repeats.
    pub fn pass_all(self, tries: u64) -> Result<f64, Undefined> {
        chosen(self.passed(), self.total(), tries)
    }
}

/// Returns `C(some, tries) / C(all, tries)`. Fails unless `tries` is from 1 to `all`.
fn chosen(some: u64, all: u64, tries: u64) -> Result<f64, Undefined> {
    if tries == 0 || tries > all {
        return Err(Undefined::OutOfRange);
    }
    let left = |of: u64, taken: u64| float(of.saturating_sub(taken));
    Ok((0..tries).map(|it| left(some, it) / left(all, it)).product())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_equal_the_published_vectors() {
        let tally = |passed, total| Tally::new(passed, total).unwrap();
        for (found, expected) in [
            (tally(3, 10).pass_at(1), 0.3),
            (tally(3, 10).pass_at(5), 0.916_667),
            (tally(13, 200).pass_at(100), 0.999_919),
            (tally(3, 4).pass_all(2), 0.5),
            (tally(6, 8).pass_all(4), 0.214_286),
            (tally(8, 10).pass_all(3), 0.466_667),
            (tally(9, 10).pass_all(10), 0.0),
        ] {
            assert!((found.unwrap() - expected).abs() < 1e-6, "{found:?} {expected}");
        }
        for tries in [0, 11] {
            assert_eq!(tally(3, 10).pass_at(tries), Err(Undefined::OutOfRange));
        }
    }
}
