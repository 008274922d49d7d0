//! Numbers as in JavaScript, where `1.0` equals `1`.

use serde_json::{Number, Value};

/// Converts every whole number to an integer, in nested values too.
///
/// YAML and JSON files may contain `1.0` or `1e3` for an integer, but serde distinguishes such numbers from integers.
/// Numbers beyond 64 bits and fractions stay unchanged; `-0.0` becomes `0`.
#[must_use]
pub fn normalise_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(normalise(number)),
        Value::Array(items) => items.into_iter().map(normalise_numbers).collect(),
        Value::Object(map) => {
            map.into_iter().map(|(key, value)| (key, normalise_numbers(value))).collect()
        }
        other => other,
    }
}

fn normalise(number: Number) -> Number {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 => integer(float).unwrap_or(number),
        _ => number,
    }
}

/// Returns the 64-bit integer that equals a float without a fraction, or `None` if the float is out of range.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the bounds are checked, and the value has no fraction"
)]
fn integer(float: f64) -> Option<Number> {
    // Both bounds are powers of two, so they are exact as floats.
    if !(-9_223_372_036_854_775_808.0..18_446_744_073_709_551_616.0).contains(&float) {
        return None;
    }
    let wide = float as i128;
    i64::try_from(wide).map(Number::from).or_else(|_| u64::try_from(wide).map(Number::from)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn integral_floats_become_integers_in_depth() {
        for (value, expected) in [
            (json!(1.0), "1"),
            (json!(-0.0), "0"),
            (json!(1.5), "1.5"),
            (json!(1e3), "1000"),
            (json!(-9_223_372_036_854_775_808.0), "-9223372036854775808"),
            (json!(1e19), "10000000000000000000"),
            (json!(1e21), "1e+21"),
            (json!({"a": [2.0, {"b": 3.0}]}), r#"{"a":[2,{"b":3}]}"#),
            (json!(u64::MAX), "18446744073709551615"),
        ] {
            assert_eq!(normalise_numbers(value).to_string(), expected);
        }
    }
}
