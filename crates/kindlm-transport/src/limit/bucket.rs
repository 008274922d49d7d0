//! A token bucket: an amount per minute, spread evenly.

use std::time::Duration;

use tokio::time::Instant;

/// The longest wait that a bucket returns.
const DAY: Duration = Duration::from_hours(24);

/// A token bucket. Its capacity is the amount that is refilled in one second, at least 1. Its level may become
/// negative.
///
/// A negative level lets the bucket admit amounts larger than its capacity, and correct estimates that were too low.
/// The average rate stays within the limit.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    per_second: f64,
    capacity: f64,
    level: f64,
    at: Instant,
}

impl Bucket {
    /// Creates a full bucket.
    pub(super) fn new(per_minute: f64, now: Instant) -> Self {
        let per_second = per_minute / 60.0;
        let capacity = per_second.max(1.0);
        Self { per_second, capacity, level: capacity, at: now }
    }

    /// Returns the time at which this amount is available; `None` if it is available now. An amount above the capacity
    /// is available when the bucket is full.
    pub(super) fn ready(&mut self, amount: f64, now: Instant) -> Option<Instant> {
        self.refill(now);
        let missing = amount.min(self.capacity) - self.level;
        // Differences below one millionth are rounding errors.
        if missing < 1e-6 {
            return None;
        }
        let wait = Duration::try_from_secs_f64(missing / self.per_second).unwrap_or(DAY).min(DAY);
        Some(now + wait)
    }

    /// Takes an amount; the level may become negative.
    pub(super) fn take(&mut self, amount: f64) {
        self.level -= amount;
    }

    /// Returns an unused amount to the bucket, up to its capacity. A negative amount takes more.
    pub(super) fn settle(&mut self, unused: f64) {
        self.level = (self.level + unused).min(self.capacity);
    }

    fn refill(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.level = (self.level + seconds * self.per_second).min(self.capacity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes each amount as early as possible, and returns the times. Times are milliseconds since the start.
    fn times(per_minute: f64, amounts: &[f64]) -> Vec<u128> {
        let start = Instant::now();
        let (mut bucket, mut now) = (Bucket::new(per_minute, start), start);
        let mut times = Vec::new();
        for amount in amounts {
            while let Some(later) = bucket.ready(*amount, now) {
                now = later;
            }
            bucket.take(*amount);
            times.push(now.duration_since(start).as_millis());
        }
        times
    }

    #[test]
    fn spreads_evenly_after_one_second_s_worth() {
        for (per_minute, amounts, expected) in [
            (60.0, &[1.0; 4][..], &[0, 1_000, 2_000, 3_000][..]),
            (120.0, &[1.0; 4], &[0, 0, 500, 1_000]),
            (6.0, &[1.0; 3], &[0, 10_000, 20_000]),
            // An amount larger than the bucket is admitted, and the next amount waits until the level has recovered.
            (600.0, &[1_000.0, 1.0, 1.0], &[0, 99_100, 99_200]),
            (600.0, &[0.0, 10.0, 10.0], &[0, 0, 1_000]),
        ] {
            assert_eq!(times(per_minute, amounts), expected, "{per_minute} {amounts:?}");
        }
    }

    #[test]
    fn settles_estimated_tokens() {
        let now = Instant::now();
        let mut bucket = Bucket::new(600.0, now);
        bucket.take(10.0);
        bucket.settle(5.0);
        assert_eq!(bucket.ready(5.0, now), None);
        bucket.settle(-15.0);
        assert_eq!(bucket.ready(10.0, now), Some(now + Duration::from_secs(2)));
        bucket.settle(1_000.0);
        bucket.take(10.0);
        assert_eq!(
            bucket.ready(1.0, now),
            Some(now + Duration::from_millis(100)),
            "never overfull"
        );
    }

    #[test]
    fn no_amount_is_too_large_to_plan() {
        let now = Instant::now();
        let mut bucket = Bucket::new(1.0, now);
        bucket.take(f64::MAX);
        assert_eq!(bucket.ready(f64::MAX, now), Some(now + DAY));
    }
}
