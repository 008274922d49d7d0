//! Parsers for the values of options.

use std::path::PathBuf;
use std::time::Duration;

use kindlm_engine::{Shard, ShardError};
use kindlm_run::Tag;
use kindlm_run::reports::ReporterSpec;
use kindlm_types::suggest;

/// Parses a reporter: `<id>` or `<id>=<path>`. The path `-` means stdout. Fails for an unknown id or an empty path.
pub(crate) fn reporter(text: &str) -> Result<ReporterSpec, String> {
    let (id, path) = match text.split_once('=') {
        Some((id, path)) => (id, Some(path)),
        None => (text, None),
    };
    let Some(reporter) = kindlm_reporters::find(id) else {
        let known = kindlm_reporters::REGISTRY.iter().map(|it| it.meta.id);
        let known: Vec<&str> = known.collect();
        let help = suggest(id, "reporters", known.iter().copied());
        return Err(format!("there is no reporter `{id}`; {help}"));
    };
    match path {
        Some("") => Err(format!("no path after `{id}=`; write `{id}` alone for stdout")),
        Some("-") | None => Ok(ReporterSpec::new(reporter, None)),
        Some(path) => Ok(ReporterSpec::new(reporter, Some(PathBuf::from(path)))),
    }
}

/// Parses a tag: `tag` or `!tag`. Fails for an empty name.
pub(crate) fn tag(text: &str) -> Result<Tag, String> {
    let (name, tag): (&str, fn(String) -> Tag) = match text.strip_prefix('!') {
        Some(name) => (name, Tag::Without),
        None => (text, Tag::With),
    };
    if name.is_empty() {
        return Err("a tag needs a name; write `slow`, or `!slow` to exclude `slow`".to_owned());
    }
    Ok(tag(name.to_owned()))
}

/// Parses a shard: `K/N`. Fails for any other text.
pub(crate) fn shard(text: &str) -> Result<Shard, String> {
    text.parse().map_err(|err: ShardError| err.to_string())
}

/// Parses a score from 0 to 1. Fails for any other text.
pub(crate) fn score(text: &str) -> Result<f64, String> {
    let score = text.trim().parse().ok().filter(|it: &f64| (0.0..=1.0).contains(it));
    score.ok_or_else(|| format!("`{text}` is not a score; write a number from 0 to 1"))
}

/// Parses a rate such as `95`, `95%` or `0.95`; returns a share from 0 to 1. Fails for any other text, and for
/// `1`, which may mean `1%` or `100%`.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let (number, percent) = match text.trim().strip_suffix('%') {
        Some(number) => (number.trim(), true),
        None => (text.trim(), false),
    };
    let bad = || format!("`{text}` is not a rate; write `95`, `95%` or `0.95`");
    let value: f64 = number.parse().map_err(|_| bad())?;
    if !(0.0..=100.0).contains(&value) {
        return Err(format!("{}: it must be between 0 and 100 percent", bad()));
    }
    if percent || value > 1.0 {
        return Ok(value / 100.0);
    }
    if (value - 1.0).abs() < f64::EPSILON {
        return Err(format!("`{text}` is ambiguous; write `1%` or `100%`"));
    }
    Ok(value)
}

/// Parses an amount in US dollars above 0: `0.5` or `$0.5`. Fails for any other text.
pub(crate) fn usd(text: &str) -> Result<f64, String> {
    let number = text.trim();
    let number = number.strip_prefix('$').unwrap_or(number).parse().ok();
    let amount = number.filter(|it: &f64| it.is_finite() && *it > 0.0);
    amount.ok_or_else(|| format!("`{text}` is not an amount in US dollars above 0; write `0.5`"))
}

/// Parses a whole number from 1 to `MOST`. Fails for any other text.
pub(crate) fn count<const MOST: u32>(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|it| (1..=MOST).contains(it));
    number.ok_or_else(|| format!("`{text}` is not a whole number from 1 to {MOST}"))
}

/// Parses a duration from 1 ms to a day: `1500` (milliseconds), `1500ms`, `30s`, or `2m` or `2min` (minutes). Fails
/// for any other text.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let bad =
        || format!("`{text}` is not a time; write milliseconds (`1500`), `1500ms`, `30s` or `2m`");
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| bad())?;
    let seconds = match unit.trim() {
        "" | "ms" => number / 1000.0,
        "s" => number,
        "m" | "min" => number * 60.0,
        _ => return Err(bad()),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time >= Duration::from_millis(1) && seconds <= 86_400.0 => Ok(time),
        _ => Err(format!("`{text}` is out of range: from 1 ms to a day")),
    }
}

/// Parses an age: `30d`, `12h` or `45m`. Fails for any other text.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let unit = match text.chars().last() {
        Some('d') => 86_400,
        Some('h') => 3600,
        Some('m') => 60,
        _ => 0,
    };
    let number = text.get(..text.len().saturating_sub(1)).and_then(|it| it.parse::<u32>().ok());
    match number.filter(|_| unit > 0) {
        Some(number) => Ok(Duration::from_secs(u64::from(number) * unit)),
        None => Err(format!("`{text}` is not an age; write `30d`, `12h` or `45m`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_pass_rate_in_each_notation() {
        for (text, expected) in [
            ("95", Some(0.95)),
            ("95%", Some(0.95)),
            ("0.95", Some(0.95)),
            ("100", Some(1.0)),
            ("0", Some(0.0)),
            ("1%", Some(0.01)),
            ("0.5%", Some(0.005)),
            (" 50 % ", Some(0.5)),
            ("1.5", Some(0.015)),
            ("1", None),
            ("1.0", None),
            ("101", None),
            ("-1", None),
            ("NaN", None),
            ("inf", None),
            ("abc", None),
            ("", None),
        ] {
            let value = rate(text).ok();
            match (value, expected) {
                (Some(value), Some(expected)) => {
                    assert!((value - expected).abs() < 1e-12, "{text}");
                }
                (value, expected) => assert_eq!(value, expected, "{text}"),
            }
        }
        assert_eq!(rate("1").unwrap_err(), "`1` is ambiguous; write `1%` or `100%`");
    }

    #[test]
    fn reads_an_amount_of_money() {
        for (text, expected) in [
            ("0.5", Some(0.5)),
            ("$2", Some(2.0)),
            (" 1e-3 ", Some(0.001)),
            ("0", None),
            ("-1", None),
            ("inf", None),
            ("NaN", None),
            ("5 EUR", None),
            ("", None),
        ] {
            assert_eq!(usd(text).ok().map(f64::to_bits), expected.map(f64::to_bits), "{text}");
        }
    }

    #[test]
    fn reads_included_and_excluded_tags() {
        assert_eq!(tag("slow"), Ok(Tag::With("slow".to_owned())));
        assert_eq!(tag("!slow"), Ok(Tag::Without("slow".to_owned())));
        assert!(tag("").is_err() && tag("!").is_err());
    }

    #[test]
    fn reads_a_count_within_its_bounds() {
        for (text, expected) in
            [("1", Some(1)), ("50", Some(50)), ("0", None), ("51", None), ("-1", None), ("x", None)]
        {
            assert_eq!(count::<50>(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn reads_an_age() {
        for (text, expected) in [
            ("30d", Some(2_592_000)),
            ("12h", Some(43_200)),
            ("45m", Some(2700)),
            ("30", None),
            ("-1d", None),
            ("d", None),
            ("", None),
            ("3ä", None),
        ] {
            assert_eq!(age(text).ok(), expected.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn reads_a_time_with_or_without_its_unit() {
        for (text, expected) in [
            ("1500", Some(1500)),
            ("1500ms", Some(1500)),
            ("30s", Some(30_000)),
            ("0.5s", Some(500)),
            ("2m", Some(120_000)),
            ("0", None),
            ("-5", None),
            ("5h", None),
            ("1e9", None),
            ("999999999", None),
            ("", None),
            ("s", None),
        ] {
            assert_eq!(duration(text).ok(), expected.map(Duration::from_millis), "{text}");
        }
    }
}
