//! Encodes spans as OTLP JSON, so that they can be stored and decoded again.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::span::{OtlpSpan, SpanEvent};

/// Encodes spans as the JSON of an export request.
///
/// [`decode_json`](crate::decode_json) returns equal spans, except for attributes without a value,
/// [`OtlpSpan::is_disputed`] and [`OtlpSpan::lost_event`]. A caller that needs these fields must store them separately.
pub fn encode_json(spans: &[OtlpSpan]) -> Value {
    let group = |spans: &[OtlpSpan]| {
        let resource = spans.first().map(|it| attributes(&it.resource));
        let spans: Vec<Value> = spans.iter().map(span).collect();
        json!({"resource": {"attributes": resource}, "scopeSpans": [{"spans": spans}]})
    };
    let groups = spans.chunk_by(|a, b| Arc::ptr_eq(&a.resource, &b.resource)).map(group);
    let groups: Vec<Value> = groups.collect();
    json!({"resourceSpans": groups})
}

fn span(span: &OtlpSpan) -> Value {
    let events: Vec<Value> = span.events.iter().map(event).collect();
    let mut encoded = json!({
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": span.start_ns.to_string(),
        "attributes": attributes(&span.attributes),
    });
    let mut put = |key: &str, value: Value| encoded[key] = value;
    if let Some(parent) = &span.parent_span_id {
        put("parentSpanId", json!(parent));
    }
    if span.parent_is_remote {
        // These are the flags for a remote parent: bit 0x100 makes bit 0x200 valid.
        put("flags", json!(0x300));
    }
    if let Some(end) = span.end_ns {
        put("endTimeUnixNano", json!(end.to_string()));
    }
    if !events.is_empty() {
        put("events", events.into());
    }
    if span.status_code != 0 || span.status_message.is_some() {
        let message = span.status_message.as_deref().unwrap_or_default();
        put("status", json!({"code": span.status_code, "message": message}));
    }
    if span.is_cut {
        put("droppedAttributesCount", json!(1));
    }
    encoded
}

fn event(event: &SpanEvent) -> Value {
    json!({
        "timeUnixNano": event.time_ns.to_string(),
        "name": event.name,
        "attributes": attributes(&event.attributes),
    })
}

fn attributes(attributes: &Map<String, Value>) -> Vec<Value> {
    let some = attributes.iter().filter(|(_, value)| !value.is_null());
    some.map(|(key, value)| json!({"key": key, "value": any(value)})).collect()
}

fn any(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Bool(_) => json!({"boolValue": value}),
        Value::Number(number) if number.is_f64() => json!({"doubleValue": value}),
        Value::Number(_) => json!({"intValue": value}),
        Value::String(_) => json!({"stringValue": value}),
        Value::Array(items) => {
            let items: Vec<Value> = items.iter().map(any).collect();
            json!({"arrayValue": {"values": items}})
        }
        Value::Object(members) => json!({"kvlistValue": {"values": attributes(members)}}),
    }
}
