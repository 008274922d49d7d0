//! Formats that Ajv supports in addition to the formats of the schema's draft.
//!
//! The checks follow `ajv-formats`, which checks the same formats in every draft.

use std::net::Ipv4Addr;
use std::sync::LazyLock;

use jsonschema::{Draft, ValidationOptions, Validator};
use serde_json::{Map, Value, json};

/// Formats that `ajv-formats` accepts without a check.
pub(crate) const UNCHECKED: [&str; 4] = ["binary", "double", "float", "password"];

/// The integer formats, with their minimum and maximum. `None` means no limits.
const WHOLE: [(&str, Option<(i64, i64)>); 2] =
    [("int32", Some((i32::MIN as i64, i32::MAX as i64))), ("int64", None)];

/// A function that checks a text of a format.
type Check = fn(&str) -> bool;

/// The text formats that only Ajv has, with their checks.
const OF_TEXTS: [(&str, Check); 5] = [
    ("byte", is_base64),
    ("iso-date-time", is_date_time),
    ("iso-time", is_time),
    ("json-pointer-uri-fragment", is_fragment),
    ("url", is_url),
];

/// Formats that the earlier drafts lack, with their checks. Ajv checks these formats in every draft.
///
/// The validator itself skips a format that the schema's draft lacks. Ajv's `duration` accepts more texts than RFC
/// 3339, and Ajv's `uuid` accepts the prefix `urn:uuid:`.
static OF_LATER_DRAFTS: LazyLock<Vec<(&str, Validator)>> = LazyLock::new(|| {
    let format = |name: &'static str| (name, json!({ "format": name }));
    let pattern = |name: &'static str, regex: &str| (name, json!({ "pattern": regex }));
    let schemas = [
        pattern(
            "duration",
            r"^P(?!$)((\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?|(\d+W)?)$",
        ),
        pattern(
            "uuid",
            "^([uU][rR][nN]:[uU][uU][iI][dD]:)?[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$",
        ),
        format("idn-hostname"),
        format("iri"),
        format("iri-reference"),
        format("json-pointer"),
        format("relative-json-pointer"),
        format("uri-reference"),
        format("uri-template"),
    ];
    // All of these schemas compile; a test covers each of them.
    let compiled = schemas.into_iter().filter_map(|(name, schema)| {
        let options = jsonschema::options().with_draft(Draft::Draft202012);
        Some((name, options.should_validate_formats(true).build(&schema).ok()?))
    });
    compiled.collect()
});

/// Returns true for a format that Ajv has, but no draft.
pub(crate) fn is_known(format: &str) -> bool {
    UNCHECKED.contains(&format)
        || WHOLE.iter().any(|it| it.0 == format)
        || OF_TEXTS.iter().any(|it| it.0 == format)
}

/// Registers the checks of the text formats, for every draft.
pub(crate) fn of_texts(options: ValidationOptions<'_>) -> ValidationOptions<'_> {
    let options = OF_TEXTS
        .into_iter()
        .fold(options, |options, (name, check)| options.with_format(name, check));
    OF_LATER_DRAFTS.iter().fold(options, |options, (name, validator)| {
        options.with_format(*name, move |text: &str| validator.is_valid(&Value::from(text)))
    })
}

/// Adds the type and the limits of an integer format to a schema, because validators apply `format` only to texts.
///
/// Values that are not numbers still conform to the schema.
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
    let (Some(minutes), Some(offset)) = (minutes(hour, minute), offset(zone)) else { return false };
    // A leap second is the last second of a day in UTC.
    let is_leap = second == "60" && (minutes - offset).rem_euclid(24 * 60) == 23 * 60 + 59;
    is_fraction && (digits(second, 2).is_some_and(|it| it < 60) || is_leap)
}

/// Returns the minutes since midnight. Returns `None` if the text is not a time of day.
fn minutes(hour: &str, minute: &str) -> Option<i32> {
    let hour = digits(hour, 2).filter(|it| *it < 24)?;
    let minute = digits(minute, 2).filter(|it| *it < 60)?;
    Some(hour * 60 + minute)
}

/// Returns the minutes by which a time zone is ahead of UTC. Returns `None` for other text.
///
/// A time zone is empty, `Z`, or an offset such as `+02`, `+0200` or `+02:00`.
fn offset(text: &str) -> Option<i32> {
    if text.is_empty() || text.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let ahead = text.strip_prefix(['+', '-'])?;
    let (hours, rest) = (ahead.get(..2)?, ahead.get(2..)?);
    let rest = if rest.is_empty() { "00" } else { rest.strip_prefix(':').unwrap_or(rest) };
    Some(sign * minutes(hours, rest)?)
}

/// Parses a number with exactly `count` digits. Returns `None` for other text.
fn digits(text: &str, count: usize) -> Option<i32> {
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
/// The host is a name with a dot, or a public IPv4 address. A port has 2 to 5 digits.
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
            ("iso-time", json!("15:59:60-08:00"), true),
            ("iso-time", json!("00:29:60+0030"), true),
            ("iso-time", json!("23:59:60-08:00"), false),
            ("iso-time", json!("15:59:60"), false),
            ("iso-time", json!("24:00:00"), false),
            ("iso-time", json!("10:20"), false),
            ("iso-time", json!("10:20:30+2"), false),
            ("iso-time", json!("10:20:30+02:"), false),
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
            ("uuid", json!("2eb8aa08-aa98-11ea-b4aa-73b441d16380"), true),
            ("uuid", json!("urn:uuid:2EB8AA08-AA98-11EA-B4AA-73B441D16380"), true),
            ("uuid", json!("2eb8aa08aa9811eab4aa73b441d16380"), false),
            ("uuid", json!("nope"), false),
            ("duration", json!("P1Y2DT3H4S"), true),
            ("duration", json!("P4W"), true),
            ("duration", json!("P"), false),
            ("duration", json!("P1DT"), false),
            ("iri", json!("http://ƒøø.ßår/?∂éœ=πîx"), true),
            ("iri", json!("/abc"), false),
            ("iri-reference", json!("/âππ"), true),
            ("iri-reference", json!("\\\\WINDOWS"), false),
            ("idn-hostname", json!("bücher.example"), true),
            ("idn-hostname", json!("a..b"), false),
            ("json-pointer", json!("/a~1b"), true),
            ("json-pointer", json!("a"), false),
            ("relative-json-pointer", json!("1/a"), true),
            ("relative-json-pointer", json!("/a"), false),
            ("uri-reference", json!("../a?b"), true),
            ("uri-reference", json!("a b"), false),
            ("uri-template", json!("/a/{b}"), true),
            ("uri-template", json!("/a/{b"), false),
            ("float", json!("x"), true),
            ("password", json!("x"), true),
        ] {
            for draft in [
                None,
                Some("http://json-schema.org/draft-04/schema#"),
                Some("http://json-schema.org/draft-06/schema#"),
                Some("https://json-schema.org/draft/2020-12/schema"),
            ] {
                let mut schema = json!({"properties": {"a": {"format": format}}});
                if let Some(draft) = draft {
                    schema["$schema"] = Value::from(draft);
                }
                assert_eq!(lint(&schema), [], "{format}");
                let compiled = Schema::compile(&schema).unwrap();
                let is_valid = compiled.is_valid(&json!({"a": value}));
                assert_eq!(is_valid, expected, "{draft:?}, {format}: {value}");
            }
        }
    }
}
