//! Formats the share of cases that held, in the same words for all reports.

use kindlm_types::MeasuredRate;

use crate::amount::{count, percent};

/// Formats a share as `23 of 25 held (92.0%, 95% CI 75.0 to 97.8)`, or as `nothing was checked` if the total is 0.
pub(crate) fn held(rate: MeasuredRate) -> String {
    match (rate.rate(), rate.interval_text()) {
        (Some(share), Some(interval)) => format!(
            "{} of {} held ({}%, {interval})",
            count(rate.count),
            count(rate.total),
            percent(share)
        ),
        _ => "nothing was checked".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use kindlm_types::RateCount;

    use super::*;

    #[test]
    fn shares_have_their_interval() {
        for (count, total, expected) in [
            (23, 25, "23 of 25 held (92.0%, 95% CI 75.0 to 97.8)"),
            (2, 2, "2 of 2 held (100.0%, 95% CI 34.2 to 100.0)"),
            (0, 1_000, "0 of 1,000 held (0.0%, 95% CI 0.0 to 0.4)"),
            (0, 0, "nothing was checked"),
        ] {
            assert_eq!(held(MeasuredRate::of_independent(RateCount { count, total })), expected);
        }
    }
}
