//! Comparison of JSON values: numbers by value, objects without regard to the order of keys.

use serde_json::{Number, Value};

/// Returns true if two values are equal, including all nested values.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => same_number(left, right),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| equal(a, b))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, a)| right.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => left == right,
    }
}

/// Returns true if a value contains everything that is expected.
///
/// Objects may have more keys. Lists must have the same length. All other values must be equal.
pub(crate) fn contains(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => expected
            .iter()
            .all(|(key, wanted)| actual.get(key).is_some_and(|found| contains(found, wanted))),
        (Value::Array(actual), Value::Array(expected)) => {
            actual.len() == expected.len()
                && actual.iter().zip(expected).all(|(found, wanted)| contains(found, wanted))
        }
        _ => equal(actual, expected),
    }
}

/// Returns true if two numbers have the same value, such as `1`, `1.0` and `1e0`.
///
/// Two integers are compared exactly, even if a float cannot hold them.
fn same_number(left: &Number, right: &Number) -> bool {
    left == right || (left.is_f64() || right.is_f64()) && left.as_f64() == right.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn equality_ignores_number_notation_and_key_order() {
        for (left, right, expected) in [
            (json!(1), json!(1.0), true),
            (json!(-0.0), json!(0), true),
            (json!(1), json!("1"), false),
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64), false),
            (json!({"a": 1, "b": [1.0]}), json!({"b": [1], "a": 1}), true),
            (json!({"a": 1}), json!({"a": 1, "b": null}), false),
            (json!([1, 2]), json!([2, 1]), false),
        ] {
            assert_eq!(equal(&left, &right), expected, "{left} and {right}");
        }
    }

    #[test]
    fn objects_match_partially_and_lists_as_a_whole() {
        for (actual, expected, holds) in [
            (json!({"a": {"b": 1, "c": 2}, "d": 3}), json!({"a": {"c": 2}}), true),
            (json!({"a": [{"b": 1, "c": 2}]}), json!({"a": [{"b": 1}]}), true),
            (json!({"a": [1, 2]}), json!({"a": [1]}), false),
            (json!({"a": null}), json!({"a": null}), true),
            (json!({}), json!({"a": null}), false),
            (json!([]), json!({}), false),
        ] {
            assert_eq!(contains(&actual, &expected), holds, "{actual} has {expected}");
        }
    }
}
