//! Reads `OpenTelemetry` traces of AI agents, and converts their spans to the evidence of an execution.
//!
//! [`decode_json`], [`decode_protobuf`] and [`decode_file`] read spans; [`Received`] puts them together to traces;
//! [`read`] makes an [`Execution`](kindlm_types::Execution) out of the spans of one: events, tool calls, output, tokens,
//! and for which kinds of evidence they tell everything. [`Encoding`] makes the answers of a receiver.
//!
//! Everything is a function of bytes: nothing here opens a port or a file, and no input makes it panic.
//!
//! ```
//! use kindlm_otlp::{Filter, Received, decode_json, read};
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
//! let reading = read(spans, &settings.mapping, Filter::new(&settings.filter, None))?;
//! assert_eq!(reading.execution.tool_calls[0].name, "lookup");
//! assert_eq!(reading.execution.tool_calls[0].arguments["id"], 7);
//! assert_eq!(reading.execution.latency_ms, Some(250.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(clippy::disallowed_methods)]

mod attributes;
mod calls;
mod coverage;
mod file;
mod filter;
mod group;
mod json;
mod protobuf;
mod reading;
mod reply;
mod said;
mod span;
mod step;
mod timeline;
mod tree;
mod wire;

pub use file::{decode_file, gunzip};
pub use filter::{Filter, NameTest};
pub use group::{MAX_SPANS, Received};
pub use json::{decode_json, decode_logs_json, decode_value};
pub use protobuf::{decode_logs_protobuf, decode_protobuf};
pub use reading::{Inference, Reading, TEST, read};
pub use reply::Encoding;
pub use span::{Decoded, LooseEvent, OtlpSpan, SpanEvent};

/// Why bytes are no traces.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They are no JSON.
    #[error("it is not JSON: {0}")]
    Json(String),
    /// They are JSON, but no export of traces. The words are the original's.
    #[error("OTLP payload missing resourceSpans array")]
    NoResourceSpans,
    /// They are JSON, but no export of log records.
    #[error("OTLP payload missing resourceLogs array")]
    NoResourceLogs,
    /// They are no such protobuf message.
    #[error("it is not a protobuf message of OTLP: {0}")]
    Protobuf(String),
    /// They are not gzipped, or not to their end.
    #[error("it cannot be unpacked as gzip: {0}")]
    Gzip(String),
    /// Unpacked they are more than is taken.
    #[error("it is larger than {} MiB when unpacked", limit / (1024 * 1024))]
    TooLarge {
        /// The most that is taken, in bytes.
        limit: usize,
    },
    /// A message has less bytes than it says.
    #[error("it ends in the middle of a message")]
    CutOff,
    /// There is nothing.
    #[error("it is empty")]
    Empty,
    /// They do not begin like any of the formats.
    #[error("it begins neither like OTLP JSON nor like OTLP protobuf")]
    UnknownFormat,
}
