//! Received spans and events, after decoding.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

/// A received span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OtlpSpan {
    /// The id of the trace: 32 hex digits, if the sender follows the specification.
    pub trace_id: String,
    /// The id of the span in its trace.
    ///
    /// The id has 16 hex digits, if the sender follows the specification.
    pub span_id: String,
    /// The id of the parent span; `None` for a root span.
    pub parent_span_id: Option<String>,
    /// True if the parent span is marked as remote. It ran in another process, so it may not arrive.
    pub parent_is_remote: bool,
    /// The name of the operation.
    pub name: String,
    /// The kind: 0 unspecified, 1 internal, 2 server, 3 client, 4 producer, 5 consumer.
    pub kind: i64,
    /// The start time in nanoseconds since 1970; 0 if it is not recorded.
    pub start_ns: u64,
    /// The end time in nanoseconds since 1970; `None` if it is not recorded.
    pub end_ns: Option<u64>,
    /// The attributes of the span.
    pub attributes: Map<String, Value>,
    /// The attributes of the process, such as `service.name`.
    pub resource: Arc<Map<String, Value>>,
    /// The events during the span, in order.
    pub events: Vec<SpanEvent>,
    /// The status: 0 unset, 1 ok, 2 error.
    pub status_code: i64,
    /// The error message of the status, if it is recorded.
    pub status_message: Option<String>,
    /// True if the sender reports that attributes or events were dropped.
    pub is_cut: bool,
    /// True if another span has the same id but different content.
    pub is_disputed: bool,
    /// The name of a log event whose span did not arrive; `None` if the spans of all events arrived.
    ///
    /// The event belongs to the trace. Only the first span of the trace stores the name.
    pub lost_event: Option<String>,
}

/// An event during a span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpanEvent {
    /// The time in nanoseconds since 1970; 0 if it is not recorded.
    pub time_ns: u64,
    /// The name of the event.
    pub name: String,
    /// The attributes of the event.
    pub attributes: Map<String, Value>,
}

/// An event that arrived separately in a log record.
///
/// The two ids identify the span to which the event belongs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LooseEvent {
    /// The id of the trace.
    pub trace_id: String,
    /// The id of the span.
    pub span_id: String,
    /// The event.
    pub event: SpanEvent,
}

/// The decoded content of one request or file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// The valid spans, in the order of the data.
    pub spans: Vec<OtlpSpan>,
    /// The events from log records, only those of the `GenAI` conventions.
    pub events: Vec<LooseEvent>,
    /// The messages about spans that could not be decoded.
    pub rejected: Vec<String>,
    /// The ids of the traces of the rejected spans; `None` stands for the spans without a valid trace id.
    pub rejected_traces: BTreeSet<Option<String>>,
    /// The number of export requests without spans and logs, such as metrics. Their data is skipped.
    pub passed_over: usize,
}

const NS_PER_MS: u64 = 1_000_000;

impl OtlpSpan {
    /// Returns the start time in whole milliseconds since 1970.
    pub fn start_ms(&self) -> i64 {
        whole_ms(self.start_ns)
    }

    /// Returns the end time in whole milliseconds since 1970, if it is recorded.
    pub fn end_ms(&self) -> Option<i64> {
        self.end_ns.map(whole_ms)
    }

    /// Returns the duration in milliseconds; `None` if a time is not recorded.
    ///
    /// The duration is negative if the recorded end is before the start.
    pub fn duration_ms(&self) -> Option<i64> {
        self.end_ms().filter(|_| self.start_ns > 0).map(|end| end - self.start_ms())
    }

    /// Returns true if the recorded end is before the start. In this case, the clock of the span is not reliable.
    pub fn is_backwards(&self) -> bool {
        self.end_ns.is_some_and(|end| end < self.start_ns)
    }

    /// Returns true if the span has no parent, or a remote parent.
    pub fn is_root(&self) -> bool {
        self.parent_span_id.is_none() || self.parent_is_remote
    }

    /// Returns true if the status is an error.
    pub fn has_failed(&self) -> bool {
        self.status_code == ERROR
    }

    /// Returns true if the status is unset and the span has an exception event.
    pub fn has_thrown(&self) -> bool {
        self.status_code == 0 && self.events.iter().any(|it| it.name == EXCEPTION)
    }
}

/// The status code of an error.
const ERROR: i64 = 2;

/// The name of events that record an exception.
pub(crate) const EXCEPTION: &str = "exception";

fn whole_ms(ns: u64) -> i64 {
    // The largest `u64` is 1.8e13 milliseconds, so the conversion does not fail.
    i64::try_from(ns / NS_PER_MS).unwrap_or(i64::MAX)
}

/// Returns the id; `None` if it is empty or has only zeros, which OTLP defines as no id.
pub(crate) fn some_id(id: String) -> Option<String> {
    (!id.bytes().all(|it| it == b'0')).then_some(id)
}

/// The flag bit of a span that makes [`PARENT_IS_REMOTE`] valid. Without this bit, the parent counts as local.
const PARENT_IS_KNOWN: u32 = 0x100;
/// The flag bit of a span whose parent ran in another process.
const PARENT_IS_REMOTE: u32 = 0x200;

/// Returns true if the flags mark the parent as running in another process.
pub(crate) fn is_remote(flags: u32) -> bool {
    flags & PARENT_IS_KNOWN != 0 && flags & PARENT_IS_REMOTE != 0
}

/// Converts a log record to an event of the `GenAI` conventions.
///
/// Returns `None` for a record without ids, and for a record whose name does not begin with `gen_ai.`.
///
/// In older versions of the conventions, the body holds the content, so the members of the body become attributes.
pub(crate) fn event_of_record(
    trace_id: String,
    span_id: String,
    (name, time_ns): (String, u64),
    mut attributes: Map<String, Value>,
    body: Option<Value>,
) -> Option<LooseEvent> {
    let name = match name {
        name if !name.is_empty() => name,
        _ => attributes.get("event.name")?.as_str()?.to_owned(),
    };
    if !name.starts_with("gen_ai.") || trace_id.is_empty() || span_id.is_empty() {
        return None;
    }
    if let Some(Value::Object(body)) = body {
        attributes.extend(body);
    }
    Some(LooseEvent { trace_id, span_id, event: SpanEvent { time_ns, name, attributes } })
}
