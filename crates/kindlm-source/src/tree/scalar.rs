//! The values of plain scalars, by the core schema of YAML 1.2.

use serde_json::Number;

use super::Kind;

/// The error for infinity, NaN and numbers beyond the range of a 64-bit float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotFinite;

/// Converts a plain scalar to a value.
///
/// `yes`, `no`, `on`, `off`, `1_000` and `1:30` are texts. Unlike in the core schema, numbers with leading zeros are
/// texts, because such numbers are postal codes and identifiers. A number such as `1.0`, whose fraction is 0, becomes
/// an integer. Fails for a number that is not finite.
pub(super) fn plain(text: &str) -> Result<Kind, NotFinite> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        _ => match number(text)? {
            Some(number) => Kind::Number(number),
            None => Kind::Text(text.into()),
        },
    })
}

/// Parses a number. Returns `None` for other text, and an error if the number is not finite.
pub(super) fn number(text: &str) -> Result<Option<Number>, NotFinite> {
    if !text.starts_with(|it: char| it.is_ascii_digit() || matches!(it, '-' | '+' | '.')) {
        return Ok(None);
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return radix_number(digits, radix);
        }
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err(NotFinite);
    }
    if !is_decimal(unsigned) {
        return Ok(None);
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    if let Ok(integer) = text.parse::<i64>() {
        return Ok(Some(integer.into()));
    }
    if let Ok(integer) = text.parse::<u64>() {
        return Ok(Some(integer.into()));
    }
    match text.parse::<f64>() {
        Ok(float) => finite(float).map(Some),
        Err(_) => Ok(None),
    }
}

fn radix_number(digits: &str, radix: u32) -> Result<Option<Number>, NotFinite> {
    if digits.is_empty() || !digits.chars().all(|it| it.is_digit(radix)) {
        return Ok(None);
    }
    match u64::from_str_radix(digits, radix) {
        Ok(integer) => Ok(Some(integer.into())),
        // Beyond 64 bits, use the nearest float, as for decimal numbers.
        Err(_) => finite(digits.chars().fold(0.0, |sum, it| {
            sum * f64::from(radix) + f64::from(it.to_digit(radix).unwrap_or_default())
        }))
        .map(Some),
    }
}

fn finite(float: f64) -> Result<Number, NotFinite> {
    let number = Number::from_f64(float).ok_or(NotFinite)?;
    match kindlm_schema::normalise_numbers(number.clone().into()) {
        serde_json::Value::Number(number) => Ok(number),
        _ => Ok(number),
    }
}

/// Returns true if an unsigned text is a decimal number without leading zeros.
///
/// The pattern is `(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn is_decimal(text: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    if whole > 1 && text.starts_with('0') {
        return false;
    }
    let mut rest = &text[whole..];
    let mut fraction = 0;
    if let Some(after) = rest.strip_prefix('.') {
        fraction = digits(after);
        rest = &after[fraction..];
    }
    if whole + fraction == 0 {
        return false;
    }
    if let Some(after) = rest.strip_prefix(['e', 'E']) {
        let after = after.strip_prefix(['-', '+']).unwrap_or(after);
        return !after.is_empty() && digits(after) == after.len();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn json(text: &str) -> Option<serde_json::Value> {
        let node = super::super::Node {
            span: crate::source::Span::default(),
            used_at: None,
            kind: plain(text).ok()?,
        };
        Some(node.to_json())
    }

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        for (text, expected) in [
            ("", json!(null)),
            ("~", json!(null)),
            ("True", json!(true)),
            ("yes", json!("yes")),
            ("off", json!("off")),
            ("y", json!("y")),
            ("0", json!(0)),
            ("-0", json!(0)),
            ("+12", json!(12)),
            ("017", json!("017")),
            ("00.5", json!("00.5")),
            ("1_000", json!("1_000")),
            ("1:30", json!("1:30")),
            ("2024-01-01", json!("2024-01-01")),
            ("0x1F", json!(31)),
            ("0o17", json!(15)),
            ("-0x1", json!("-0x1")),
            ("0xG", json!("0xG")),
            ("1.0", json!(1)),
            ("1e3", json!(1000)),
            ("1.5", json!(1.5)),
            (".5", json!(0.5)),
            ("5.", json!(5)),
            (".", json!(".")),
            ("-", json!("-")),
            ("1.2.3", json!("1.2.3")),
            ("1e", json!("1e")),
            ("1e-9", json!(1e-9)),
            ("18446744073709551615", json!(u64::MAX)),
            ("123456789012345678901", json!(123_456_789_012_345_680_000_f64)),
        ] {
            assert_eq!(json(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn numbers_that_json_cannot_hold_are_refused() {
        for text in [".inf", "-.INF", "+.inf", ".nan", "1e999", "-1e400"] {
            assert_eq!(json(text), None, "{text}");
        }
    }
}
