//! Reading fields whose `null` is a value.

use serde::Deserialize as _;
use serde_json::Value;

/// For optional fields in which `null` is a value of its own.
pub fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
