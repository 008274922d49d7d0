//! Formats numbers for people: money, durations, counts and shares.

use std::time::Duration;

pub(crate) use kindlm_types::percent;
pub use kindlm_types::thousands as count;
use kindlm_types::{Cost, Execution, MeasuredRate, SuiteTotals, ecma};

/// Formats milliseconds as `850 ms`, `1.2 s`, `1 min 23 s` or `2 h 5 min`.
///
/// A negative number is shown as 0, and a number that is not finite as `unknown`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and negative numbers are shown as 0"
)]
pub fn duration(ms: f64) -> String {
    if !ms.is_finite() {
        return "unknown".to_owned();
    }
    if ms < 999.5 {
        return format!("{} ms", ms.max(0.0).round() as u64);
    }
    if ms < 59_950.0 {
        return format!("{} s", ecma::to_fixed(ms / 1000.0, 1));
    }
    let seconds = (ms / 1000.0).round() as u64;
    if seconds < 3600 {
        format!("{} min {} s", seconds / 60, seconds % 60)
    } else {
        format!("{} h {} min", seconds / 3600, seconds % 3600 / 60)
    }
}

/// Formats the latency of an execution, and the time to the first token if it was measured.
///
/// Returns `cached` for a stored answer, and an empty text without a latency.
pub(crate) fn time_spent(execution: &Execution) -> String {
    match (execution.latency_ms, execution.first_token_ms) {
        _ if execution.spend.cached => "cached".to_owned(),
        (Some(ms), Some(first)) => {
            format!("{}, first token {}", duration(ms), duration(first))
        }
        (Some(ms), None) => duration(ms),
        (None, _) => String::new(),
    }
}

/// Formats a duration as `0:43`, `12:05` or `1:02:03`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, rest) = (seconds / 60, seconds % 60);
    match minutes / 60 {
        0 => format!("{minutes}:{rest:02}"),
        hours => format!("{hours}:{:02}:{rest:02}", minutes % 60),
    }
}

/// Formats milliseconds as seconds with a dot and three decimals, for XML reports.
///
/// A number that is negative or not finite becomes 0.
pub(crate) fn seconds(ms: f64) -> String {
    ecma::to_fixed(if ms.is_finite() { (ms / 1000.0).max(0.0) } else { 0.0 }, 3)
}

/// Formats US dollars as `$12.40`, `$0.0021`, `<$0.0001` or `$0`.
pub fn usd(amount: f64) -> String {
    if amount == 0.0 {
        "$0".to_owned()
    } else if amount > 0.0 && amount < 0.000_05 {
        "<$0.0001".to_owned()
    } else {
        format!("${}", ecma::to_fixed(amount, if amount < 1.0 { 4 } else { 2 }))
    }
}

/// Formats a number for other programs, rounded to nine decimals. So the rounding error of a sum is not shown.
pub(crate) fn number(value: f64) -> String {
    ecma::number((value * 1e9).round() / 1e9)
}

/// Formats a cost in US dollars, with a note if a part is unknown.
///
/// An unknown cost is never shown as 0.
pub(crate) fn cost(cost: Cost) -> String {
    match cost.usd() {
        Some(amount) => usd(amount),
        None if cost.known_usd == 0.0 => "unknown".to_owned(),
        None => format!("{} + unknown", usd(cost.known_usd)),
    }
}

/// Formats the number of tokens of all executions.
pub(crate) fn tokens(totals: &SuiteTotals) -> String {
    reported(totals.tokens).map_or_else(|| "not reported".to_owned(), count)
}

/// Returns the number of tokens; `None` if no source reported it.
///
/// Every answer of a model uses tokens, so 0 means that the number is missing.
pub(crate) fn reported(tokens: u64) -> Option<u64> {
    Some(tokens).filter(|it| *it > 0)
}

/// Formats the cost of judges, and their tokens from a prompt cache.
///
/// Returns `None` if the judges cost nothing and used no cached tokens.
pub(crate) fn judge_cost(totals: &SuiteTotals) -> Option<String> {
    let is_free = totals.judge_cost.usd() == Some(0.0);
    match totals.judge_cached_tokens {
        0 if is_free => None,
        0 => Some(cost(totals.judge_cost)),
        cached => Some(format!(
            "{}, {} tokens from a prompt cache",
            cost(totals.judge_cost),
            count(cached)
        )),
    }
}

/// Formats a count as `1 case` or `2 cases`.
pub(crate) fn plural(value: u64, word: &str) -> String {
    format!("{} {word}{}", count(value), if value == 1 { "" } else { "s" })
}

/// Formats a share as `4 of 12 (33.3%)`, or as `none` if the total is 0.
pub(crate) fn share(rate: MeasuredRate) -> String {
    match rate.rate() {
        Some(share) => {
            format!("{} of {} ({}%)", count(rate.count), count(rate.total), percent(share))
        }
        None => "none".to_owned(),
    }
}

/// Formats repeats as `repeats 2 and 5 of 5`, counted from 1; `indices` are counted from 0.
///
/// `of` is the number of repeats of the case. Returns an empty text if the case has only one repeat. More than eight
/// repeats are only counted.
pub(crate) fn repeats(indices: &[u32], of: usize) -> String {
    if of <= 1 {
        return String::new();
    }
    if indices.len() == of {
        return format!("all {of} repeats");
    }
    let numbers: Vec<String> = indices.iter().map(|it| (u64::from(*it) + 1).to_string()).collect();
    match numbers.as_slice() {
        [] => String::new(),
        [one] => format!("repeat {one} of {of}"),
        [most @ .., last] if most.len() < 8 => {
            format!("repeats {} and {last} of {of}", most.join(", "))
        }
        many => format!("{} of {of} repeats", many.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_that_fits() {
        for (ms, expected) in [
            (0.0, "0 ms"),
            (46.666_666, "47 ms"),
            (999.6, "1.0 s"),
            (1_240.0, "1.2 s"),
            (59_949.0, "59.9 s"),
            (59_960.0, "1 min 0 s"),
            (83_412.5, "1 min 23 s"),
            (7_500_000.0, "2 h 5 min"),
            (f64::NAN, "unknown"),
            (-1.0, "0 ms"),
        ] {
            assert_eq!(duration(ms), expected);
        }
    }

    #[test]
    fn time_to_first_token_stands_beside_the_latency() {
        for (latency_ms, first_token_ms, expected) in [
            (Some(1_240.0), Some(320.0), "1.2 s, first token 320 ms"),
            (Some(1_240.0), None, "1.2 s"),
            (None, Some(320.0), ""),
        ] {
            let execution = Execution { latency_ms, first_token_ms, ..Execution::default() };
            assert_eq!(time_spent(&execution), expected);
        }
    }

    #[test]
    fn unknown_money_is_not_zero() {
        for (known_usd, unknown, expected) in [
            (0.0, 0, "$0"),
            (0.0, 1, "unknown"),
            (0.0021, 0, "$0.0021"),
            (12.4, 2, "$12.40 + unknown"),
            (0.000_01, 0, "<$0.0001"),
        ] {
            assert_eq!(cost(Cost { known_usd, unknown }), expected);
        }
    }

    #[test]
    fn counts_and_shares_read_well() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(plural(1, "case"), "1 case");
        let rate = |count, total| MeasuredRate { count, total, interval: None };
        assert_eq!(share(rate(4, 12)), "4 of 12 (33.3%)");
        assert_eq!(share(rate(9_999, 10_000)), "9,999 of 10,000 (99.9%)");
        assert_eq!(share(rate(0, 0)), "none");
        assert_eq!(seconds(1_240.4), "1.240");
        assert_eq!(seconds(f64::INFINITY), "0.000");
    }

    #[test]
    fn numbers_have_no_noise() {
        for (value, expected) in
            [(0.1 + 0.2, "0.3"), (3.0 * 0.001_05, "0.00315"), (1e-12, "0"), (250.0, "250")]
        {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn repeats_are_counted_from_one() {
        for (indices, of, expected) in [
            (&[0_u32][..], 1, ""),
            (&[1], 5, "repeat 2 of 5"),
            (&[1, 4], 5, "repeats 2 and 5 of 5"),
            (&[0, 1, 2], 3, "all 3 repeats"),
            (&[0, 1, 2, 3, 4, 5, 6, 7, 8], 20, "9 of 20 repeats"),
        ] {
            assert_eq!(repeats(indices, of), expected);
        }
    }

    #[test]
    fn clocks_have_the_parts_they_need() {
        for (seconds, expected) in [(3, "0:03"), (725, "12:05"), (3723, "1:02:03")] {
            assert_eq!(clock(Duration::from_secs(seconds)), expected);
        }
    }
}
