//! Numbers and JSON in the notation of JavaScript.
//!
//! The messages of the original KindLM, a TypeScript program, use this notation.

use std::io;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::Value;

/// Formats a number like `String(number)` of ECMAScript: `1`, `0.1`, `1e+21`, `NaN`.
pub fn number(value: f64) -> String {
    ryu_js::Buffer::new().format(value).to_owned()
}

/// Formats a number like `number.toFixed(digits)` of ECMAScript.
///
/// `digits` is the number of decimal places; more than 100 counts as 100. Exact ties are rounded away from zero.
/// Numbers of at least 1e21, infinities and NaN are formatted by [`number`].
pub fn to_fixed(value: f64, digits: u8) -> String {
    ryu_js::Buffer::new().format_to_fixed(value, digits).to_owned()
}

/// Formats a number like `number.toPrecision(digits)` of ECMAScript.
///
/// `digits` is the number of significant digits, clamped to 1..=100. Ties are rounded away from zero. Infinities and
/// NaN are formatted by [`number`].
pub fn to_precision(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return number(value);
    }
    let digits = digits.clamp(1, 100);
    let sign = if value < 0.0 { "-" } else { "" };
    // A double has at most 767 significant digits, so 800 decimal places show the exact value.
    let exact = format!("{:.800e}", value.abs());
    let (mantissa, exponent) = exact.split_once('e').unwrap_or((&exact, "0"));
    let mut exponent: i32 = exponent.parse().unwrap_or(0);
    let mut kept: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let round_up = kept.get(digits).is_some_and(|it| *it >= b'5');
    kept.truncate(digits);
    if round_up {
        let nines = kept.iter().rev().take_while(|it| **it == b'9').count();
        let stays = kept.len() - nines;
        kept[stays..].fill(b'0');
        if let Some(digit) = kept[..stays].last_mut() {
            *digit += 1;
        } else {
            kept[0] = b'1';
            exponent += 1;
        }
    }
    let kept = String::from_utf8_lossy(&kept).into_owned();
    let places = i32::try_from(digits).unwrap_or(i32::MAX);
    if exponent < -6 || exponent >= places {
        let (first, rest) = kept.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        return format!("{sign}{first}{point}{rest}e{exponent:+}");
    }
    match usize::try_from(exponent + 1) {
        Ok(whole) if whole >= kept.len() => format!("{sign}{kept}"),
        Ok(whole) if whole > 0 => format!("{sign}{}.{}", &kept[..whole], &kept[whole..]),
        _ => {
            let zeros = "0".repeat(usize::try_from(-exponent - 1).unwrap_or(0));
            format!("{sign}0.{zeros}{kept}")
        }
    }
}

/// Serializes a value like `JSON.stringify(value)` of ECMAScript.
///
/// The output has no spaces, keys keep their order, and doubles have no trailing `.0`.
pub fn stringify(value: &Value) -> String {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, EcmaFormatter);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        // Writing to memory cannot fail, and a `Value` has only string keys. The error text is never returned.
        Err(err) => err.to_string(),
    }
}

/// Returns a string unchanged, and any other value as [`stringify()`] writes it.
///
/// ```
/// use kindlm_types::ecma;
///
/// assert_eq!(ecma::text(&"Shipped.".into()), "Shipped.");
/// assert_eq!(ecma::text(&vec![1, 2].into()), "[1,2]");
/// ```
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => stringify(other),
    }
}

/// Serializes a value like `JSON.stringify(value, null, indent)` of ECMAScript.
///
/// `indent` is the number of spaces per level; more than 10 counts as 10. Each entry is on its own line. With an indent
/// of 0, the output has no spaces and no line breaks.
pub fn stringify_indented(value: &Value, indent: usize) -> String {
    if indent == 0 {
        return stringify(value);
    }
    let spaces = vec![b' '; indent.min(10)];
    let formatter = Indented(serde_json::ser::PrettyFormatter::with_indent(&spaces));
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        // Writing to memory cannot fail, and a `Value` has only string keys. The error text is never returned.
        Err(err) => err.to_string(),
    }
}

/// The characters that `encodeURIComponent` encodes.
const NOT_IN_COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// Encodes a text like `encodeURIComponent(text)` of ECMAScript.
///
/// The result can be used in a path segment or a query of a URL.
pub fn encode_uri_component(text: &str) -> String {
    utf8_percent_encode(text, NOT_IN_COMPONENT).to_string()
}

struct EcmaFormatter;

/// JSON formatter with the indentation and the numbers of JavaScript.
///
/// [`serde_json::ser::PrettyFormatter`] has the layout of JavaScript. Only its notation of numbers differs.
struct Indented<'a>(serde_json::ser::PrettyFormatter<'a>);

impl serde_json::ser::Formatter for Indented<'_> {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        EcmaFormatter.write_f64(writer, value)
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

impl serde_json::ser::Formatter for EcmaFormatter {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // `JSON.stringify` writes `-0` as `0`.
        writer.write_all(number(value + 0.0).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn prints_numbers_like_javascript() {
        for (value, expected) in
            [(1.0, "1"), (0.1 + 0.2, "0.30000000000000004"), (1e21, "1e+21"), (1e-7, "1e-7")]
        {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn gives_as_many_digits_as_are_asked_for() {
        for (value, digits, expected) in [
            (0.05, 2, "0.050"),
            (0.000_123_456, 2, "0.00012"),
            (1.25, 2, "1.3"),
            (0.125, 2, "0.13"),
            (-0.125, 2, "-0.13"),
            (9.96, 2, "10"),
            (99.6, 2, "1.0e+2"),
            (0.999, 2, "1.0"),
            (12.0, 2, "12"),
            (123.0, 2, "1.2e+2"),
            (1e-7, 2, "1.0e-7"),
            (1e-7, 1, "1e-7"),
            (0.0, 2, "0.0"),
            (0.0, 1, "0"),
            (f64::NAN, 2, "NaN"),
        ] {
            assert_eq!(to_precision(value, digits), expected, "{value} to {digits}");
        }
    }

    #[test]
    fn rounds_ties_up_and_uses_the_exact_value() {
        for (value, digits, expected) in [
            (6.25, 1, "6.3"),
            (0.00015, 4, "0.0001"),
            (0.00025, 4, "0.0003"),
            (2.5, 0, "3"),
            (1e21, 4, "1e+21"),
            (0.0, 1, "0.0"),
        ] {
            assert_eq!(to_fixed(value, digits), expected, "{value}.toFixed({digits})");
        }
    }

    #[test]
    fn encodes_like_javascript() {
        assert_eq!(encode_uri_component("a b/c?d=é'~"), "a%20b%2Fc%3Fd%3D%C3%A9'~");
    }

    #[test]
    fn stringifies_like_javascript() {
        let value = json!({"b": 1.0, "a": [null, -0.0, "é\n"]});
        assert_eq!(stringify(&value), r#"{"b":1,"a":[null,0,"é\n"]}"#);
        let value = json!({"b": 1.0, "a": [], "c": [1, {}]});
        let lines = "{\n  \"b\": 1,\n  \"a\": [],\n  \"c\": [\n    1,\n    {}\n  ]\n}";
        assert_eq!(stringify_indented(&value, 2), lines);
        assert_eq!(stringify_indented(&value, 0), stringify(&value));
    }
}
