//! Decodes OTLP in JSON, in the specified form and in common variants.
//!
//! A number may be written as a number or as text. Enumeration values may be names, keys may be in `snake_case`, and
//! ids need not be hex. An invalid span does not affect the other spans.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::DecodeError;
use crate::span::{Decoded, OtlpSpan, SpanEvent, event_of_record, is_remote, some_id};

/// Decodes the body of a trace export request. Fails if it is not JSON, or has no list `resourceSpans`.
pub fn decode_json(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    decode_value(&parse(bytes)?)
}

/// Decodes a trace export request from JSON. Fails without a list `resourceSpans`.
pub fn decode_value(payload: &Value) -> Result<Decoded, DecodeError> {
    let Some(Value::Array(groups)) = field(payload, "resourceSpans") else {
        return Err(DecodeError::NoResourceSpans);
    };
    let mut decoded = Decoded::default();
    for group in groups {
        let resource = field(group, "resource").and_then(|it| field(it, "attributes"));
        let resource = Arc::new(attributes(resource));
        for scope in items(field(group, "scopeSpans")) {
            for span in items(field(scope, "spans")) {
                match self::span(span, &resource) {
                    Ok(span) => decoded.spans.push(span),
                    Err(why) => {
                        decoded.rejected.push(why);
                        decoded.rejected_traces.insert(id(span, "traceId"));
                    }
                }
            }
        }
    }
    Ok(decoded)
}

/// Decodes the body of a log export request. Fails if it is not JSON, or has no list `resourceLogs`.
///
/// Only events of the `GenAI` conventions are kept.
pub fn decode_logs_json(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    decode_logs_value(&parse(bytes)?)
}

/// Decodes an export request from JSON, with traces, logs or both.
///
/// Requests of other signals, such as metrics, are only counted. Fails for JSON that is no export request.
pub(crate) fn decode_any(payload: &Value) -> Result<Decoded, DecodeError> {
    let has = |key: &str| field(payload, key).is_some();
    let mut decoded = match (has("resourceSpans"), has("resourceLogs")) {
        (true, _) => decode_value(payload)?,
        (false, true) => return decode_logs_value(payload),
        (false, false) if has("resourceMetrics") || has("resourceProfiles") => {
            return Ok(Decoded { passed_over: 1, ..Decoded::default() });
        }
        (false, false) => return Err(DecodeError::NoResourceSpans),
    };
    if has("resourceLogs") {
        decoded.append(decode_logs_value(payload)?);
    }
    Ok(decoded)
}

fn decode_logs_value(payload: &Value) -> Result<Decoded, DecodeError> {
    let Some(Value::Array(groups)) = field(payload, "resourceLogs") else {
        return Err(DecodeError::NoResourceLogs);
    };
    let scopes = groups.iter().flat_map(|it| items(field(it, "scopeLogs")));
    let records = scopes.flat_map(|it| items(field(it, "logRecords")));
    let events = records.filter_map(|record| {
        let time = |key| field(record, key).and_then(nanos).filter(|it| *it > 0);
        let time_ns = time("timeUnixNano").or_else(|| time("observedTimeUnixNano"));
        let text = |key| field(record, key).and_then(Value::as_str).unwrap_or_default().to_owned();
        event_of_record(
            lower_hex(text("traceId")),
            lower_hex(text("spanId")),
            (text("eventName"), time_ns.unwrap_or(0)),
            attributes(field(record, "attributes")),
            field(record, "body").and_then(any),
        )
    });
    Ok(Decoded { events: events.collect(), ..Decoded::default() })
}

fn parse(bytes: &[u8]) -> Result<Value, DecodeError> {
    serde_json::from_slice(bytes).map_err(|err| DecodeError::Json(err.to_string()))
}

fn span(span: &Value, resource: &Arc<Map<String, Value>>) -> Result<OtlpSpan, String> {
    let name = field(span, "name").and_then(Value::as_str).unwrap_or_default();
    let id = |key: &str| {
        self::id(span, key).ok_or_else(|| format!("span `{name}`: `{key}` is not a text"))
    };
    let time = |key: &str| match field(span, key) {
        None | Some(Value::Null) => Ok(None),
        Some(time) => {
            let time = nanos(time);
            time.map(Some)
                .ok_or_else(|| format!("span `{name}`: `{key}` is not a number of nanoseconds"))
        }
    };
    let parent = field(span, "parentSpanId").and_then(Value::as_str).unwrap_or_default();
    let flags = field(span, "flags").and_then(nanos).and_then(|it| u32::try_from(it).ok());
    let status = field(span, "status").unwrap_or(&Value::Null);
    let status_message = field(status, "message").and_then(Value::as_str).unwrap_or_default();
    let cut = |key| field(span, key).and_then(nanos).is_some_and(|it| it > 0);
    Ok(OtlpSpan {
        trace_id: id("traceId")?,
        span_id: id("spanId")?,
        parent_span_id: some_id(lower_hex(parent.to_owned())),
        parent_is_remote: flags.is_some_and(is_remote),
        name: name.to_owned(),
        kind: field(span, "kind").map_or(0, |it| constant(it, &KINDS)),
        start_ns: time("startTimeUnixNano")?.unwrap_or(0),
        end_ns: time("endTimeUnixNano")?.filter(|it| *it > 0),
        attributes: attributes(field(span, "attributes")),
        resource: Arc::clone(resource),
        events: items(field(span, "events")).map(event).collect(),
        status_code: field(status, "code").map_or(0, |it| constant(it, &STATUSES)),
        status_message: (!status_message.is_empty()).then(|| status_message.to_owned()),
        is_cut: cut("droppedAttributesCount") || cut("droppedEventsCount"),
        is_disputed: false,
        lost_event: None,
    })
}

/// Returns an id of a span; `None` if it is missing, empty or not a text.
fn id(span: &Value, key: &str) -> Option<String> {
    let id = field(span, key)?.as_str().filter(|it| !it.is_empty())?;
    Some(lower_hex(id.to_owned()))
}

fn event(event: &Value) -> SpanEvent {
    SpanEvent {
        time_ns: field(event, "timeUnixNano").and_then(nanos).unwrap_or(0),
        name: field(event, "name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        attributes: attributes(field(event, "attributes")),
    }
}

const KINDS: [&str; 6] = [
    "SPAN_KIND_UNSPECIFIED",
    "SPAN_KIND_INTERNAL",
    "SPAN_KIND_SERVER",
    "SPAN_KIND_CLIENT",
    "SPAN_KIND_PRODUCER",
    "SPAN_KIND_CONSUMER",
];
const STATUSES: [&str; 3] = ["STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"];

/// Returns an enumeration value, given by its number or by its name.
///
/// The specification allows only numbers, but some senders write names. Any other value gives 0, which means
/// unspecified.
fn constant(value: &Value, names: &[&str]) -> i64 {
    match value {
        Value::String(name) => {
            let at = names.iter().position(|it| it == name);
            at.and_then(|it| i64::try_from(it).ok()).unwrap_or(0)
        }
        value => value.as_i64().unwrap_or(0),
    }
}

/// Returns the field with this JSON name, or with the matching protobuf name.
fn field<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    let object = value.as_object()?;
    object.get(name).or_else(|| object.get(&snake_case(name)))
}

fn snake_case(name: &str) -> String {
    name.chars().fold(String::new(), |mut text, it| {
        if it.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(it.to_ascii_lowercase());
        text
    })
}

fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}

/// Parses a number of at least 0, without its fraction. A whole number may be written as text.
fn nanos(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.parse().ok(),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates, and negative numbers are excluded"
        )]
        Value::Number(number) => {
            number.as_u64().or_else(|| number.as_f64().filter(|it| *it >= 0.0).map(|it| it as u64))
        }
        _ => None,
    }
}

fn attributes(list: Option<&Value>) -> Map<String, Value> {
    items(list)
        .filter_map(|it| {
            let key = field(it, "key")?.as_str()?;
            Some((key.to_owned(), any(field(it, "value")?)?))
        })
        .collect()
}

/// Decodes an attribute value; returns `None` if its type is unknown, or if the value does not have this type.
///
/// A text instead of a number stays a text if it is not a valid number. The recursion is safe, because the JSON
/// parser limits the nesting.
fn any(value: &Value) -> Option<Value> {
    let (kind, value) = value.as_object()?.iter().next()?;
    Some(match (kind.as_str(), value) {
        ("stringValue" | "string_value" | "bytesValue" | "bytes_value", Value::String(_))
        | ("boolValue" | "bool_value", Value::Bool(_))
        | ("intValue" | "int_value" | "doubleValue" | "double_value", Value::Number(_)) => {
            value.clone()
        }
        ("intValue" | "int_value", Value::String(text)) => match text.parse::<i64>() {
            Ok(number) => Value::from(number),
            Err(_) => value.clone(),
        },
        ("doubleValue" | "double_value", Value::String(text)) => {
            let number = text.parse().ok().and_then(serde_json::Number::from_f64);
            number.map_or_else(|| value.clone(), Value::Number)
        }
        ("arrayValue" | "array_value", list) => {
            items(field(list, "values")).map(|it| any(it).unwrap_or_default()).collect()
        }
        ("kvlistValue" | "kvlist_value", list) => Value::Object(attributes(field(list, "values"))),
        _ => return None,
    })
}

/// Converts ids of 16 or 32 hex digits to lower case. Other ids stay unchanged.
fn lower_hex(id: String) -> String {
    if matches!(id.len(), 16 | 32) && id.bytes().all(|it| it.is_ascii_hexdigit()) {
        return id.to_ascii_lowercase();
    }
    id
}
