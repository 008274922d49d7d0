//! Conversion of values to text, and the limit of their length.

use kindlm_types::ecma;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value as Jinja};

/// The longest text that a method or filter may make, in bytes (for padding, in characters).
pub(crate) const LONGEST: usize = 1_000_000;

/// Converts a value to text in the same way as JavaScript.
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

/// Returns an error if a text of this length is too long.
pub(crate) fn not_too_long(length: usize) -> Result<(), Error> {
    if length <= LONGEST {
        return Ok(());
    }
    Err(refused("the text would be longer than 1,000,000 characters".to_owned()))
}

/// Returns the number of bytes that replacing all matches inserts.
pub(crate) fn replaced(own: &str, from: &str, to: &str) -> usize {
    own.matches(from).count().saturating_mul(to.len())
}

/// Makes the error of a method or filter for invalid arguments.
pub(crate) fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}
