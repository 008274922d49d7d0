//! Formats a share with its confidence interval, in the same words for all reports.

use kindlm_types::RateCount;

use crate::amount::{count, percent};

/// Formats a share as `92.0% (23 of 25; 95% CI 75.0 to 97.8)`, or as `none` if the total is 0.
pub(crate) fn with_interval(rate: RateCount) -> String {
    match (rate.rate(), confidence(rate)) {
        (Some(share), Some(interval)) => format!(
            "{}% ({} of {}; {interval})",
            percent(share),
            count(rate.count),
            count(rate.total)
        ),
        _ => "none".to_owned(),
    }
}

/// Formats a share as `23 of 25 held (92.0%, 95% CI 75.0 to 97.8)`, or as `nothing was checked` if the total is 0.
pub(crate) fn held(rate: RateCount) -> String {
    match (rate.rate(), confidence(rate)) {
        (Some(share), Some(interval)) => format!(
            "{} of {} held ({}%, {interval})",
            count(rate.count),
            count(rate.total),
            percent(share)
        ),
        _ => "nothing was checked".to_owned(),
    }
}

/// Formats Wilson's interval as `95% CI 75.0 to 97.8`, in percent; `None` if the total is 0.
fn confidence(rate: RateCount) -> Option<String> {
    let interval = rate.interval()?;
    Some(format!("95% CI {} to {}", percent(interval.low), percent(interval.high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_their_interval() {
        for (number, total, first, second) in [
            (
                23,
                25,
                "92.0% (23 of 25; 95% CI 75.0 to 97.8)",
                "23 of 25 held (92.0%, 95% CI 75.0 to 97.8)",
            ),
            (
                2,
                2,
                "100.0% (2 of 2; 95% CI 34.2 to 100.0)",
                "2 of 2 held (100.0%, 95% CI 34.2 to 100.0)",
            ),
            (
                0,
                1_000,
                "0.0% (0 of 1,000; 95% CI 0.0 to 0.4)",
                "0 of 1,000 held (0.0%, 95% CI 0.0 to 0.4)",
            ),
            (0, 0, "none", "nothing was checked"),
        ] {
            let rate = RateCount { count: number, total };
            assert_eq!(with_interval(rate), first);
            assert_eq!(held(rate), second);
        }
    }
}
