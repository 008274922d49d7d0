//! Spans and events as they arrive, whichever the encoding.

use std::sync::Arc;

use serde_json::{Map, Value};

/// One span as an agent sent it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OtlpSpan {
    /// The trace that it belongs to: 32 hex digits, where the sender keeps to the specification.
    pub trace_id: String,
    /// Distinguishes the span from others of its trace: 16 hex digits, likewise.
    pub span_id: String,
    /// The span within which this one ran.
    pub parent_span_id: Option<String>,
    /// True if that span is marked as running in another process, so that it may never arrive here.
    pub parent_is_remote: bool,
    /// The name of the operation.
    pub name: String,
    /// 0 unspecified, 1 internal, 2 server, 3 client, 4 producer, 5 consumer.
    pub kind: i64,
    /// When it began, in nanoseconds since 1970.
    pub start_ns: u64,
    /// When it ended, in nanoseconds since 1970; `None` if that is not recorded.
    pub end_ns: Option<u64>,
    /// Its attributes.
    pub attributes: Map<String, Value>,
    /// The attributes of its process, `service.name` for example.
    pub resource: Arc<Map<String, Value>>,
    /// The events while it ran, in order.
    pub events: Vec<SpanEvent>,
    /// 0 unset, 1 ok, 2 error.
    pub status_code: i64,
    /// The error in words.
    pub status_message: Option<String>,
    /// True if its sender says that attributes or events are missing.
    pub is_cut: bool,
    /// True if another span with the same id has other content.
    pub is_disputed: bool,
}

/// Something that happened while a span ran.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpanEvent {
    /// When, in nanoseconds since 1970; 0 if that is not recorded.
    pub time_ns: u64,
    /// The name.
    pub name: String,
    /// Its attributes.
    pub attributes: Map<String, Value>,
}

/// An event that came by itself, as a log record; it belongs to the span that it names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LooseEvent {
    /// The trace of the span.
    pub trace_id: String,
    /// The span.
    pub span_id: String,
    /// The event.
    pub event: SpanEvent,
}

/// The decoded contents of one request or file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// The spans that could be read, in the order in which they stood there.
    pub spans: Vec<OtlpSpan>,
    /// Events of the conventions that came as log records.
    pub events: Vec<LooseEvent>,
    /// Why others could not be read, one text for each.
    pub rejected: Vec<String>,
    /// The number of requests with signals that are no evidence about agents, such as metrics.
    pub passed_over: usize,
}

const NS_PER_MS: u64 = 1_000_000;

impl OtlpSpan {
    /// When it began, in whole milliseconds since 1970.
    pub fn start_ms(&self) -> i64 {
        whole_ms(self.start_ns)
    }

    /// When it ended, in whole milliseconds since 1970.
    pub fn end_ms(&self) -> Option<i64> {
        self.end_ns.map(whole_ms)
    }

    /// The duration: the difference of the two times. It is below 0 if the span ended before it began, and `None` if
    /// either time is not recorded.
    pub fn duration_ms(&self) -> Option<i64> {
        self.end_ms().filter(|_| self.start_ns > 0).map(|end| end - self.start_ms())
    }

    /// True if it ended before it began: then its clock is not one to go by.
    pub fn is_backwards(&self) -> bool {
        self.end_ns.is_some_and(|end| end < self.start_ns)
    }

    /// True if it says that it went wrong.
    pub fn has_failed(&self) -> bool {
        self.status_code == ERROR
    }

    /// True if an exception went through it and its status is not `ok`.
    pub fn has_thrown(&self) -> bool {
        self.status_code == 0 && self.events.iter().any(|it| it.name == EXCEPTION)
    }
}

/// The state of a span that went wrong.
const ERROR: i64 = 2;

/// The name of events that tell of exceptions.
pub(crate) const EXCEPTION: &str = "exception";

fn whole_ms(ns: u64) -> i64 {
    // The largest u64 is 1.8e13 ms.
    i64::try_from(ns / NS_PER_MS).unwrap_or(i64::MAX)
}

/// An id without what only means "none".
pub(crate) fn some_id(id: String) -> Option<String> {
    (!id.bytes().all(|it| it == b'0')).then_some(id)
}

/// Bits of a span's flags: one is set if the place of the parent is known, the other if it ran in another process.
const PARENT_IS_KNOWN: u32 = 0x100;
const PARENT_IS_REMOTE: u32 = 0x200;

/// True if the flags say that the parent ran in another process.
pub(crate) fn is_remote(flags: u32) -> bool {
    flags & PARENT_IS_KNOWN != 0 && flags & PARENT_IS_REMOTE != 0
}

/// A log record that is an event of the conventions; `None` for all others.
///
/// Its content stands in the body, in older versions, or in the attributes.
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
