//! Reads `OpenTelemetry` traces of AI agents as the evidence of executions.
//!
//! [`decode_json`], [`decode_protobuf`] and [`decode_file`] decode spans. [`Received`] groups the spans by trace.
//!
//! [`read_trace`] converts one trace to an [`Execution`](kindlm_types::Execution) with events, tool calls, output,
//! tokens and coverage. [`Encoding`] encodes the responses of a receiver. All functions work on bytes in memory, and
//! open no ports or files. No input causes a panic.
//!
//! ```
//! use kindlm_otlp::{Filter, Received, decode_json, read_trace};
//! use kindlm_types::TraceSettings;
//!
//! let body = br#"{"resourceSpans": [{"scopeSpans": [{"spans": [{
//!     "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "name": "execute_tool lookup",
//!     "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000250000000",
//!     "attributes": [
//!         {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
//!         {"key": "gen_ai.tool.call.arguments", "value": {"stringValue": "{\"id\": 7}"}}
//!     ]
//! }]}]}]}"#;
//! let mut received = Received::default();
//! assert!(received.add(decode_json(body)?).is_empty());
//!
//! let settings = TraceSettings::default();
//! let spans = &received.into_traces()[0];
//! let reading = read_trace(spans, &settings.mapping, Filter::new(&settings.filter, None))?;
//! assert_eq!(reading.execution.tool_calls[0].name, "lookup");
//! assert_eq!(reading.execution.tool_calls[0].arguments["id"], 7);
//! assert_eq!(reading.execution.latency_ms, Some(250.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(clippy::disallowed_methods)]

mod attributes;
mod calls;
mod coverage;
mod encode;
mod file;
mod filter;
mod group;
mod json;
mod message;
mod protobuf;
mod reading;
mod reply;
mod span;
mod step;
mod timeline;
mod tree;
mod wire;

pub use encode::encode_json;
pub use file::{decode_file, gunzip};
pub use filter::{Filter, NameTest};
pub use group::{MAX_SPANS, Received};
pub use json::{decode_json, decode_logs_json, decode_value};
pub use protobuf::{decode_logs_protobuf, decode_protobuf};
pub use reading::{Inference, Reading, TEST, read_trace};
pub use reply::{Encoding, Signal};
pub use span::{Decoded, LooseEvent, OtlpSpan, SpanEvent};

/// The error of data that is not a supported trace export.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The data is not JSON.
    #[error("it is not JSON: {0}")]
    Json(String),
    /// The JSON is not a trace export, because it has no list `resourceSpans`.
    #[error("OTLP payload missing resourceSpans array")]
    NoResourceSpans,
    /// The JSON is not a log export, because it has no list `resourceLogs`.
    #[error("OTLP payload missing resourceLogs array")]
    NoResourceLogs,
    /// The data is not an OTLP protobuf message.
    #[error("it is not a protobuf message of OTLP: {0}")]
    Protobuf(String),
    /// The gzip data is invalid or incomplete.
    #[error("it cannot be unpacked as gzip: {0}")]
    Gzip(String),
    /// The data exceeds the limit. For gzip, the size after decompression counts.
    #[error("it is larger than {} MiB when unpacked", limit / (1024 * 1024))]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// A message is shorter than its length prefix.
    #[error("it ends in the middle of a message")]
    CutOff,
    /// The data is empty, or has only white space.
    #[error("it is empty")]
    Empty,
    /// The data does not begin like a supported format.
    #[error("it begins neither like OTLP JSON nor like OTLP protobuf")]
    UnknownFormat,
}
