//! Parsing of an assertion's configuration.

use kindlm_types::Problem;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Parses the configuration into its type.
///
/// The configuration has passed the schema, so only problems that a schema cannot express are found here.
pub(crate) fn parse_config<T: DeserializeOwned>(value: &Value) -> Result<T, Vec<Problem>> {
    T::deserialize(value).map_err(|err| vec![Problem::new("", err.to_string())])
}
