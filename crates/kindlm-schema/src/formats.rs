//! Formats that Ajv supports in addition to the drafts' formats.
//!
//! The checks follow `ajv-formats`.

use std::net::Ipv4Addr;

use jsonschema::ValidationOptions;
use serde_json::{Map, Value, json};

/// Formats that `ajv-formats` accepts without a check.
pub(crate) const UNCHECKED: [&str; 4] = ["binary", "double", "float", "password"];

/// The integer formats, with their minimum and maximum. `None` means no limits.
const WHOLE: [(&str, Option<(i64, i64)>); 2] =
    [("int32", Some((i32::MIN as i64, i32::MAX as i64))), ("int64", None)];

/// A function that checks a text of a format.
type Check = fn(&str) -> bool;

/// The text formats.
const OF_TEXTS: [(&str, Check); 5] = [
    ("byte", is_base64),
    ("iso-date-time", is_date_time),
    ("iso-time", is_time),
    ("json-pointer-uri-fragment", is_fragment),
    ("url", is_url),
];

/// Returns true if this module defines the format.
pub(crate) fn is_known(format: &str) -> bool {
    UNCHECKED.contains(&format)
        || WHOLE.iter().any(|it| it.0 == format)
        || OF_TEXTS.iter().any(|it| it.0 == format)
}

/// Registers the checks of the text formats.
pub(crate) fn of_texts(options: ValidationOptions<'_>) -> ValidationOptions<'_> {
    OF_TEXTS.into_iter().fold(options, |options, (name, check)| options.with_format(name, check))
}

/// Adds the keywords of an integer format.
///
/// Validators apply `format` only to texts.
pub(crate) fn of_numbers(schema: &mut Map<String, Value>) {
    let format = schema.get("format").and_then(Value::as_str);
    let Some((_, range)) = WHOLE.iter().find(|it| Some(it.0) == format) else { return };
    let mut whole = json!({"type": "integer"});
    if let Some((least, most)) = range {
        whole["minimum"] = json!(least);
        whole["maximum"] = json!(most);
    }
    let is_whole = json!({"anyOf": [{"not": {"type": "number"}}, whole]});
    if let Value::Array(all) = schema.entry("allOf").or_insert_with(|| json!([])) {
        all.push(is_whole);
    }
}

fn is_base64(text: &str) -> bool {
    let letters = text.trim_end_matches('=');
    let is_letter = |it: u8| it.is_ascii_alphanumeric() || it == b'+' || it == b'/';
    text.len().is_multiple_of(4)
        && text.len() - letters.len() <= 2
        && letters.bytes().all(is_letter)
}

/// Returns true for a date and a time of day, with an optional time zone.
fn is_date_time(text: &str) -> bool {
    let split = text.split_once(|it: char| it == 't' || it == 'T' || it.is_whitespace());
    split.is_some_and(|(date, time)| is_date(date) && is_time(time))
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2))
    else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

fn is_time(text: &str) -> bool {
    let at = text.find(['z', 'Z', '+', '-']).unwrap_or(text.len());
    let (time, zone) = text.split_at(at);
    let parts: Vec<&str> = time.split(':').collect();
    let [hour, minute, second] = parts.as_slice() else { return false };
    let (second, fraction) = second.split_once('.').unwrap_or((second, "0"));
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|it| it.is_ascii_digit());
    let below = |text: &str, end: u32| digits(text, 2).is_some_and(|it| it < end);
    // A leap second is accepted only at 23:59:60 in the written time zone. Ajv converts the time to UTC first.
    let is_leap = second == "60" && *hour == "23" && *minute == "59";
    let is_second = below(second, 60) || is_leap;
    below(hour, 24) && below(minute, 60) && is_second && is_fraction && is_zone(zone)
}

/// Returns true for an optional time zone.
///
/// A time zone is empty, `Z`, or an offset such as `+02`, `+0200` or `+02:00`.
fn is_zone(text: &str) -> bool {
    let Some(ahead) = text.strip_prefix(['+', '-']) else {
        return text.is_empty() || text.eq_ignore_ascii_case("z");
    };
    let (Some(hours), minutes) = (ahead.get(..2), ahead.get(2..).unwrap_or_default()) else {
        return false;
    };
    let minutes = minutes.strip_prefix(':').unwrap_or(minutes);
    digits(hours, 2).is_some_and(|it| it < 24)
        && ((minutes.is_empty() && ahead.len() == 2)
            || digits(minutes, 2).is_some_and(|it| it < 60))
}

/// Parses a number with exactly `count` digits. Returns `None` for other text.
fn digits(text: &str, count: usize) -> Option<u32> {
    let is = text.len() == count && text.bytes().all(|it| it.is_ascii_digit());
    if is { text.parse().ok() } else { None }
}

fn is_fragment(text: &str) -> bool {
    let Some(pointer) = text.strip_prefix('#') else { return false };
    let is_token = |token: &str| {
        let mut letters = token.bytes();
        while let Some(letter) = letters.next() {
            let is = match letter {
                b'%' => letters.by_ref().take(2).filter(u8::is_ascii_hexdigit).count() == 2,
                b'~' => matches!(letters.next(), Some(b'0' | b'1')),
                other => other.is_ascii_alphanumeric() || b"_-.!$&'()*+,;:=@".contains(&other),
            };
            if !is {
                return false;
            }
        }
        true
    };
    pointer.is_empty() || pointer.strip_prefix('/').is_some_and(|it| it.split('/').all(is_token))
}

/// Returns true for an `http`, `https` or `ftp` address with a public host.
///
/// The host is a name with a dot, or a public IPv4 address.
fn is_url(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let rest = ["http://", "https://", "ftp://"].iter().find_map(|it| lower.strip_prefix(it));
    let Some(rest) = rest.filter(|_| !text.contains(char::is_whitespace)) else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = host.split_once(':').map_or((host, None), |(host, port)| (host, Some(port)));
    let is_port =
        |it: &str| (2..=5).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_digit());
    port.is_none_or(is_port) && (is_public(host) || is_name(host))
}

fn is_public(host: &str) -> bool {
    let Ok(address) = host.parse::<Ipv4Addr>() else { return false };
    let [first, .., last] = address.octets();
    let is_own = address.is_private() || address.is_loopback() || address.is_link_local();
    (1..=223).contains(&first) && (1..=254).contains(&last) && !is_own
}

fn is_name(host: &str) -> bool {
    let is_label = |it: &str| {
        let inner = |it: char| it.is_alphanumeric() || it == '-';
        it.chars().all(inner) && !it.starts_with('-') && !it.ends_with('-') && !it.is_empty()
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_top = last.chars().count() >= 2 && last.chars().all(char::is_alphabetic);
    host.contains('.') && host.split('.').all(is_label) && is_top
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{Schema, lint};

    #[test]
    fn formats_of_ajv_are_checked() {
        for (format, value, expected) in [
            ("url", json!("https://example.com/a?b#c"), true),
            ("url", json!("https://u:p@bücher.example:8080/"), true),
            ("url", json!("http://8.8.8.8"), true),
            ("url", json!("http://127.0.0.1"), false),
            ("url", json!("http://localhost"), false),
            ("url", json!("nonsense"), false),
            ("url", json!("https://a b.example"), false),
            ("url", json!(1), true),
            ("iso-time", json!("10:20:30"), true),
            ("iso-time", json!("10:20:30.5+0200"), true),
            ("iso-time", json!("23:59:60Z"), true),
            ("iso-time", json!("24:00:00"), false),
            ("iso-time", json!("10:20"), false),
            ("iso-time", json!("10:20:30+2"), false),
            ("iso-date-time", json!("2024-02-29T10:20:30"), true),
            ("iso-date-time", json!("2023-02-29 10:20:30Z"), false),
            ("iso-date-time", json!("2024-02-29"), false),
            ("byte", json!("aGk="), true),
            ("byte", json!("aGk"), false),
            ("byte", json!("a==="), false),
            ("int32", json!(2_147_483_647), true),
            ("int32", json!(2_147_483_648_u64), false),
            ("int32", json!(1.5), false),
            ("int32", json!("x"), true),
            ("int64", json!(9_007_199_254_740_993_u64), true),
            ("int64", json!(1.5), false),
            ("json-pointer-uri-fragment", json!("#/a~1b/%20"), true),
            ("json-pointer-uri-fragment", json!("/a"), false),
            ("json-pointer-uri-fragment", json!("#/~2"), false),
            ("float", json!("x"), true),
            ("password", json!("x"), true),
        ] {
            for draft in [None, Some("https://json-schema.org/draft/2020-12/schema")] {
                let mut schema = json!({"properties": {"a": {"format": format}}});
                if let Some(draft) = draft {
                    schema["$schema"] = Value::from(draft);
                }
                assert_eq!(lint(&schema), [], "{format}");
                let compiled = Schema::compile(&schema).unwrap();
                assert_eq!(compiled.is_valid(&json!({"a": value})), expected, "{format}: {value}");
            }
        }
    }
}
