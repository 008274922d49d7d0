//! Deserialization of optional fields in which `null` is a value.

use serde::Deserialize as _;
use serde_json::Value;

/// Deserializes an optional field in which `null` is a value: `Some(Null)`, not `None`.
pub fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
