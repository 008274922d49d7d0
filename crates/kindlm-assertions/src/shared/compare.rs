//! Equality of JSON values as people see it: numbers by value, objects whatever the order of their keys.

use serde_json::{Number, Value};

/// True if two values are equal, in depth.
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

/// True if a value has everything that is expected of it: objects may have more keys, lists may not have
/// more items, everything else is equal.
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

/// `1`, `1.0` and `1e0` are one number. Integers that do not fit a float are compared exactly.
fn same_number(left: &Number, right: &Number) -> bool {
    left == right || (left.is_f64() || right.is_f64()) && left.as_f64() == right.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn equality_ignores_how_a_number_is_written_and_the_order_of_keys() {
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
