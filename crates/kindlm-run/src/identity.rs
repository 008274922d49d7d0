//! The identity of a run: its id, start time, platform and commit.

use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use kindlm_types::RunInfo;

use crate::git;

/// Creates the identity of a run that starts at `now`.
///
/// The identity has the checked-out commit and branch of the repository around `folder`.
pub fn begin(now: Timestamp, folder: &Path) -> RunInfo {
    RunInfo {
        id: run_id(now, RandomState::new().hash_one(std::process::id())),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: rfc3339(now),
        platform: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        git_commit: git::commit(folder),
        git_branch: git::branch(folder),
        ..RunInfo::default()
    }
}

/// Returns a run id that sorts by time.
///
/// The last part is random, for runs that start in the same millisecond.
fn run_id(now: Timestamp, random: u64) -> String {
    let millis = now.subsec_millisecond();
    format!("{}-{millis:03}-{:04x}", now.strftime("%Y%m%d-%H%M%S"), random & 0xffff)
}

/// Formats a time in RFC 3339, in UTC with milliseconds.
pub(crate) fn rfc3339(now: Timestamp) -> String {
    format!("{}.{:03}Z", now.strftime("%Y-%m-%dT%H:%M:%S"), now.subsec_millisecond())
}

/// Returns the milliseconds from `started_at`, in RFC 3339, to `end`.
///
/// Returns 0 if `started_at` is invalid.
pub(crate) fn elapsed_since(started_at: &str, end: Timestamp) -> f64 {
    started_at.parse().map_or(0.0, |start| elapsed_ms(start, end))
}

/// Returns the milliseconds from `start` to `end`, or 0 if `end` is earlier.
fn elapsed_ms(start: Timestamp, end: Timestamp) -> f64 {
    end.duration_since(start).max(SignedDuration::ZERO).as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_are_unique() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let early = run_id(at("2026-11-20T14:09:12.005Z"), 0xabc_0001);
        assert_eq!(early, "20261120-140912-005-0001");
        assert!(early < run_id(at("2026-11-20T14:09:12.1Z"), 0));
        assert_ne!(early, run_id(at("2026-11-20T14:09:12.005Z"), 2));
        assert_eq!(rfc3339(at("2026-11-20T14:09:12.0059Z")), "2026-11-20T14:09:12.005Z");
    }

    #[test]
    fn time_never_runs_backwards() {
        let (a, b) = (Timestamp::from_second(10).unwrap(), Timestamp::from_second(12).unwrap());
        assert!((elapsed_ms(a, b) - 2000.0).abs() < 1e-9);
        assert!(elapsed_ms(b, a).abs() < 1e-9);
    }
}
