//! Calls of tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A call of a tool that the model asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The provider's id of the call, or one made up where the provider has none.
    #[serde(default)]
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments; normally an object. `Null` where the model sent none.
    #[serde(default)]
    pub arguments: Value,
    /// The arguments as sent, where they are not JSON: kept and reported, never dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed_arguments: Option<String>,
    /// The answer of the tool; `None` if it was not recorded (a command's own tools, for example).
    #[serde(default, deserialize_with = "crate::present", skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
}
