//! Decodes OTLP in protobuf, the default encoding of SDKs.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use data_encoding::HEXLOWER;
use prost::Message as _;
use serde_json::{Map, Value};

use crate::DecodeError;
use crate::span::{Decoded, LooseEvent, OtlpSpan, SpanEvent, event_of_record, is_remote, some_id};
use crate::wire;

/// Decodes the body of a trace export request. Fails if it is not a protobuf message. An invalid span is only
/// rejected.
pub fn decode_protobuf(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let request = wire::TracesRequest::decode(bytes).map_err(|err| broken(&err))?;
    let mut decoded = Decoded::default();
    for group in request.resource_spans {
        let resource = Arc::new(attributes(group.resource.unwrap_or_default().attributes));
        for span in group.scope_spans.into_iter().flat_map(|it| it.spans) {
            let trace_id = HEXLOWER.encode(&span.trace_id);
            match self::span(span, &resource) {
                Ok(span) => decoded.spans.push(span),
                Err(why) => {
                    decoded.rejected.push(why);
                    decoded.rejected_traces.insert((trace_id.len() == 32).then_some(trace_id));
                }
            }
        }
    }
    Ok(decoded)
}

/// Decodes the body of a log export request. Fails if it is not a protobuf message.
///
/// Only events of the `GenAI` conventions are kept.
pub fn decode_logs_protobuf(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let request = wire::LogsRequest::decode(bytes).map_err(|err| broken(&err))?;
    let scopes = request.resource_logs.into_iter().flat_map(|it| it.scope_logs);
    let records = scopes.flat_map(|it| it.log_records);
    let events = records.filter_map(|record| {
        let time_ns = match record.time_unix_nano {
            0 => record.observed_time_unix_nano,
            time => time,
        };
        let attributes = attributes(record.attributes);
        let body = record.body.and_then(any);
        event_of_record(
            HEXLOWER.encode(&record.trace_id),
            HEXLOWER.encode(&record.span_id),
            (record.event_name, time_ns),
            attributes,
            body,
        )
    });
    let events: Vec<LooseEvent> = events.collect();
    Ok(Decoded { events, ..Decoded::default() })
}

fn broken(err: &prost::DecodeError) -> DecodeError {
    DecodeError::Protobuf(err.to_string())
}

fn span(span: wire::Span, resource: &Arc<Map<String, Value>>) -> Result<OtlpSpan, String> {
    for (what, id, length) in [("trace", &span.trace_id, 16), ("span", &span.span_id, 8)] {
        if id.len() != length {
            return Err(format!(
                "span `{}`: its {what} id has {} bytes instead of {length}",
                span.name,
                id.len()
            ));
        }
    }
    let status = span.status.unwrap_or_default();
    let event = |it: wire::SpanEvent| SpanEvent {
        time_ns: it.time_unix_nano,
        name: it.name,
        attributes: attributes(it.attributes),
    };
    Ok(OtlpSpan {
        trace_id: HEXLOWER.encode(&span.trace_id),
        span_id: HEXLOWER.encode(&span.span_id),
        parent_span_id: some_id(HEXLOWER.encode(&span.parent_span_id)),
        parent_is_remote: is_remote(span.flags),
        name: span.name,
        kind: i64::from(span.kind),
        start_ns: span.start_time_unix_nano,
        end_ns: (span.end_time_unix_nano != 0).then_some(span.end_time_unix_nano),
        attributes: attributes(span.attributes),
        resource: Arc::clone(resource),
        events: span.events.into_iter().map(event).collect(),
        status_code: i64::from(status.code),
        status_message: (!status.message.is_empty()).then_some(status.message),
        is_cut: span.dropped_attributes_count > 0 || span.dropped_events_count > 0,
        is_disputed: false,
        lost_event: None,
    })
}

fn attributes(list: Vec<wire::KeyValue>) -> Map<String, Value> {
    let some = |it: wire::KeyValue| Some((it.key, any(it.value?)?));
    list.into_iter().filter_map(some).collect()
}

/// Decodes an attribute value; returns `None` if there is no value.
fn any(value: wire::AnyValue) -> Option<Value> {
    Some(match value.value? {
        wire::AnyOf::String(text) => Value::String(text),
        wire::AnyOf::Bool(value) => Value::Bool(value),
        wire::AnyOf::Int(value) => Value::from(value),
        wire::AnyOf::Double(value) => double(value),
        wire::AnyOf::Array(list) => {
            list.values.into_iter().map(|it| any(it).unwrap_or_default()).collect()
        }
        wire::AnyOf::Map(list) => Value::Object(attributes(list.values)),
        wire::AnyOf::Bytes(bytes) => Value::String(STANDARD.encode(bytes)),
    })
}

/// Converts a number. JSON has no infinities and no NaN, so these become texts, such as `Infinity`.
fn double(value: f64) -> Value {
    match serde_json::Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => Value::from("NaN"),
        None if value > 0.0 => Value::from("Infinity"),
        None => Value::from("-Infinity"),
    }
}
