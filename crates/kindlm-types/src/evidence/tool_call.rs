//! Tool calls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A tool call that the model requested.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The provider's id of the call; generated if the provider sends none.
    #[serde(default)]
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, normally an object; `Null` if the model sent no arguments.
    #[serde(default)]
    pub arguments: Value,
    /// The arguments as sent, if they are not valid JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed_arguments: Option<String>,
    /// The response of the tool; `None` if it was not recorded (for example, for a command's own tools).
    #[serde(default, deserialize_with = "crate::present", skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
}

impl ToolCall {
    /// Returns the engine's answer to a call of a tool that the suite does not simulate.
    pub fn not_simulated(&self) -> Value {
        json!({ "error": format!("Tool \"{}\" not simulated", self.name) })
    }
}
