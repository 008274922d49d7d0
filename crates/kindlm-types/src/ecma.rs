//! Numbers and JSON as JavaScript prints them, which is how the original's messages have them.

use std::io;

use serde::Serialize;
use serde_json::Value;

/// `String(number)` of ECMAScript: `1`, `0.1`, `1e+21`, `NaN`.
pub fn number(value: f64) -> String {
    ryu_js::Buffer::new().format(value).to_owned()
}

/// `number.toFixed(digits)` of ECMAScript: ties go up, from 1e21 on as [`number`].
pub fn to_fixed(value: f64, digits: u8) -> String {
    ryu_js::Buffer::new().format_to_fixed(value, digits).to_owned()
}

/// `JSON.stringify(value)` of ECMAScript: no spaces, keys in order, doubles without a trailing `.0`.
pub fn stringify(value: &Value) -> String {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, EcmaFormatter);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        // Writing to memory cannot fail, and a `Value` has only string keys.
        Err(err) => err.to_string(),
    }
}

struct EcmaFormatter;

impl serde_json::ser::Formatter for EcmaFormatter {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // `-0` is `0` in JSON.stringify.
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
    fn stringifies_like_javascript() {
        let value = json!({"b": 1.0, "a": [null, -0.0, "é\n"]});
        assert_eq!(stringify(&value), r#"{"b":1,"a":[null,0,"é\n"]}"#);
    }
}
