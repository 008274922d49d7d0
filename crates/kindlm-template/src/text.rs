//! Conversion of values to text, and the limit of their length.

use std::borrow::Cow;

use kindlm_types::ecma;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value as Jinja};
use serde_json::Value;

/// The longest text that a method or filter may make, in bytes. For padding, the limit counts characters.
pub(crate) const LONGEST: usize = 1_000_000;

/// Converts a value to text as in JavaScript, with two exceptions.
///
/// Objects become JSON, and `null` and undefined become an empty text.
pub(crate) fn text(value: &Jinja) -> String {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => String::new(),
        ValueKind::Number => match f64::try_from(value.clone()) {
            Ok(number) if !value.is_integer() => ecma::number(number),
            _ => value.to_string(),
        },
        ValueKind::Bool => value.is_true().to_string(),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().into_iter().flatten();
            items.map(|it| text(&it)).collect::<Vec<_>>().join(",")
        }
        ValueKind::Map => {
            serde_json::to_value(value).map(|it| ecma::stringify(&it)).unwrap_or_default()
        }
        _ => value.to_string(),
    }
}

/// Converts a value to text. Texts stay unchanged, undefined is empty, and other values become JSON.
pub(crate) fn json_text(value: &Jinja) -> String {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable | ValueKind::None => {
            serde_json::to_value(value).map(|it| ecma::stringify(&it)).unwrap_or_default()
        }
        _ => text(value),
    }
}

/// Returns the text that [`Variables::printing_json`](crate::Variables::printing_json) prints for a value.
pub fn printed(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        value => Cow::Owned(ecma::stringify(value)),
    }
}

/// Returns an error if a text of this length is too long.
pub(crate) fn not_too_long(length: usize) -> Result<(), Error> {
    if length <= LONGEST {
        return Ok(());
    }
    Err(refused("the text would be longer than 1,000,000 characters".to_owned()))
}

/// Returns the total size of the replacement texts for all matches, in bytes.
pub(crate) fn replaced(own: &str, from: &str, to: &str) -> usize {
    own.matches(from).count().saturating_mul(to.len())
}

/// Makes the error of a method, filter or operator: an argument is invalid, or a result would be too large.
pub(crate) fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;
    use crate::Variables;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e9..1e9_f64).prop_map(Value::from),
            "[a-z<\"{]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-z]", inner, 0..3)
                    .prop_map(|it| Value::Object(it.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_variable_is_printed_as_the_template_prints_it(value in value()) {
            let vars = json!({"x": value.clone()});
            let variables = Variables::new(vars.as_object().unwrap(), &Map::new()).printing_json();
            prop_assert_eq!(variables.render("{{ x }}").unwrap(), printed(&value).into_owned());
        }
    }
}
