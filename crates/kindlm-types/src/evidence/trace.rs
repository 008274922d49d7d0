//! Traces of instrumented agents: spans as in OpenTelemetry.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A trace: all spans of one execution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// The trace's id; lower-case hex if it comes from OpenTelemetry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// The id of the run that the trace belongs to; absent if the source does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation_id: Option<String>,
    /// The id of the execution within the run; absent if the source does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_case_id: Option<String>,
    /// Other data of the source about the whole trace; absent without such data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The spans, in the order in which they were received.
    #[serde(default)]
    pub spans: Vec<Span>,
}

/// One span (step) of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// The span's id.
    pub span_id: String,
    /// The id of the enclosing span; absent for a root span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<String>,
    /// The name of the operation.
    pub name: String,
    /// The start time, in milliseconds since 1970.
    pub start_time: f64,
    /// The end time, in milliseconds since 1970; absent while the operation runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<f64>,
    /// The attributes of the span; absent without attributes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Map<String, Value>>,
    /// The status: 0 unset, 1 ok, 2 error; absent if the source does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<i64>,
    /// The message of the status, normally of an error; absent without a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
}
