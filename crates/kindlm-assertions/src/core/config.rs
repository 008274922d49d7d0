//! Reading an assertion's configuration.

use kindlm_types::Problem;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The typed configuration. It has passed the schema, so problems are rare: what a schema cannot say.
pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Vec<Problem>> {
    T::deserialize(value).map_err(|err| vec![Problem::new("", err.to_string())])
}
