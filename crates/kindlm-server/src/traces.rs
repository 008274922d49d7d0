//! Makes samples of the traces of agents: [`parts`] divides a request by trace, and [`reader`] reads a trace.

use std::collections::BTreeMap;
use std::sync::Arc;

use kindlm_assertions::Redactor;
use kindlm_otlp::{Decoded, OtlpSpan, Received, decode_json, encode_json};
use kindlm_run::{TracePrices, TraceRecord, record_of_trace};
use serde_json::{Map, Value};

use crate::routes::body::is_short;
use crate::store::samples::NewSample;
use crate::store::traces::{ReadTrace, TraceReading};

/// The maximum size of all traces of a request, in bytes. Each trace repeats the attributes of its processes.
const LARGEST: usize = 32 << 20;

/// The attributes that identify the agent and the subject. They are stored as they were sent.
const IDENTIFIERS: [&str; 6] = [
    "gen_ai.agent.name",
    "gen_ai.agent.version",
    "service.name",
    "service.version",
    "user.id",
    "enduser.id",
];

/// The maximum depth of JSON texts inside JSON texts that are masked part by part.
const DEPTH: usize = 4;

/// The traces of a request.
#[derive(Default)]
pub(crate) struct Parts {
    /// The spans of each trace as OTLP JSON, by the id of the trace.
    pub(crate) texts: BTreeMap<String, String>,
    /// The number of spans of each trace.
    pub(crate) spans: BTreeMap<String, usize>,
    /// A reason for each span that is not used.
    pub(crate) rejected: Vec<String>,
}

/// Divides the spans of a request by trace, and masks personal data.
pub(crate) fn parts(decoded: Decoded, redactor: Option<&Redactor>) -> Parts {
    let mut received = Received::default();
    let mut parts = Parts { rejected: received.add(decoded), ..Parts::default() };
    let mut bytes = 0;
    for mut spans in received.into_traces() {
        let Some(id) = spans.first().map(|it| it.trace_id.clone()) else { continue };
        let count = spans.len();
        if let Some(redactor) = redactor {
            redact(redactor, &mut spans);
        }
        let text = encode_json(&spans).to_string();
        let why = if !is_short(&id) {
            Some("a trace id has 1 to 100 characters, without control characters".to_owned())
        } else if bytes + text.len() > LARGEST {
            Some(format!("the traces of the request have more than {} MiB", LARGEST >> 20))
        } else {
            // Protobuf permits values that are nested more deeply than JSON.
            decode_json(text.as_bytes()).err().map(|err| format!("trace {id}: {err}"))
        };
        if let Some(why) = why {
            parts.rejected.extend(std::iter::repeat_n(why, count));
            continue;
        }
        bytes += text.len();
        parts.spans.insert(id.clone(), count);
        parts.texts.insert(id, text);
    }
    parts
}

/// Returns the function that reads the parts of a trace.
pub(crate) fn reader(prices: Arc<TracePrices>) -> ReadTrace {
    Arc::new(move |earlier, part| read(&earlier, &part, &prices))
}

fn read(earlier: &[String], part: &str, prices: &TracePrices) -> TraceReading {
    let mut received = Received::default();
    let mut add = |text: &str| decode_json(text.as_bytes()).map(|it| received.add(it));
    let all: Result<Vec<Vec<String>>, _> = earlier.iter().map(|it| add(it)).collect();
    if let Err(err) = all {
        return TraceReading::Unusable(format!("a stored part of the trace cannot be read: {err}"));
    }
    let before = received.clone().into_traces();
    if let Err(err) = decode_json(part.as_bytes()).map(|it| received.add(it)) {
        return TraceReading::Unusable(err.to_string());
    }
    let is_finished = received.finished_traces() > 0;
    let after = received.into_traces();
    if before == after {
        return TraceReading::Repeated;
    }
    let Some(spans) = after.first().filter(|_| is_finished) else {
        return TraceReading::Unfinished;
    };
    sample(spans, prices).map_or_else(TraceReading::Unusable, |it| TraceReading::Sample(it.into()))
}

/// Makes a sample of a trace. Fails if the trace shows no agent, or does not name it.
fn sample(spans: &[OtlpSpan], prices: &TracePrices) -> Result<NewSample, String> {
    let id = spans.first().map(|it| it.trace_id.clone()).unwrap_or_default();
    let Some(found) = record_of_trace(spans, prices) else {
        return Err(format!("trace {id}: no span is a step of an agent"));
    };
    let TraceRecord { record, agent, version, subject, error } = found;
    let agent = agent.filter(|it| is_short(it)).ok_or_else(|| {
        format!("trace {id}: it names no agent; set `service.name` (`OTEL_SERVICE_NAME`) or `gen_ai.agent.name`")
    })?;
    let short = |text: Option<String>| text.filter(|it| is_short(it)).unwrap_or_default();
    let (version, subject) = (short(version), short(subject));
    let body = serde_json::to_value(record).map_err(|err| format!("trace {id}: {err}"))?;
    let Value::Object(record) = body else { return Err(format!("trace {id}: not an object")) };
    let named = [
        ("id", id.as_str()),
        ("agent", &agent),
        ("version", &version),
        ("subject", &subject),
        ("error", error.as_deref().unwrap_or_default()),
    ];
    let named = named.into_iter().filter(|(_, text)| !text.is_empty());
    let mut body: Map<String, Value> =
        named.map(|(key, text)| (key.to_owned(), Value::from(text))).collect();
    body.extend(record);
    Ok(NewSample { id: Some(id), agent, subject, version, has_error: error.is_some(), body })
}

fn redact(redactor: &Redactor, spans: &mut [OtlpSpan]) {
    // Spans of one process share its attributes: each resource as it was sent, and masked.
    let mut resources: Vec<[Arc<Map<String, Value>>; 2]> = Vec::new();
    for span in spans {
        redact_attributes(redactor, &mut span.attributes);
        span.name = redactor.redact(&span.name).into_owned();
        if let Some(message) = &mut span.status_message {
            *message = redactor.redact(message).into_owned();
        }
        for event in &mut span.events {
            redact_attributes(redactor, &mut event.attributes);
        }
        let known = resources.iter().find(|[sent, _]| Arc::ptr_eq(sent, &span.resource));
        let masked = if let Some([_, masked]) = known {
            Arc::clone(masked)
        } else {
            let mut attributes = Map::clone(&span.resource);
            redact_attributes(redactor, &mut attributes);
            let masked = Arc::new(attributes);
            resources.push([Arc::clone(&span.resource), Arc::clone(&masked)]);
            masked
        };
        span.resource = masked;
    }
}

fn redact_attributes(redactor: &Redactor, attributes: &mut Map<String, Value>) {
    let others = attributes.iter_mut().filter(|(key, _)| !IDENTIFIERS.contains(&key.as_str()));
    others.for_each(|(_, value)| redact_value(redactor, value, DEPTH));
}

/// Masks a value. JSON in a text is masked part by part, because a masked number in it would not be JSON any more.
fn redact_value(redactor: &Redactor, value: &mut Value, depth: usize) {
    match value {
        Value::String(text) if depth > 0 && text.trim_start().starts_with(['{', '[']) => {
            match serde_json::from_str::<Value>(text) {
                Ok(mut inner) => {
                    redact_value(redactor, &mut inner, depth - 1);
                    *text = inner.to_string();
                }
                Err(_) => redactor.redact_value(value),
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|it| redact_value(redactor, it, depth)),
        Value::Object(members) => {
            members.iter_mut().for_each(|(_, it)| redact_value(redactor, it, depth));
            // Only the keys are left to mask, so the values are taken out meanwhile.
            let values: Vec<Value> = members.iter_mut().map(|(_, it)| it.take()).collect();
            redactor.redact_value(value);
            if let Value::Object(members) = value {
                members.iter_mut().zip(values).for_each(|((_, slot), it)| *slot = it);
            }
        }
        _ => redactor.redact_value(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn masked_json_texts_stay_json() {
        let redactor = Redactor::new().unwrap();
        let arguments = json!({"card": 4_012_888_888_881_881_u64, "ann.lee@acme-corp.com": [1]});
        let call = json!({"name": "pay", "arguments": arguments.to_string()});
        let mut value = json!(json!([{"tool_calls": [call]}]).to_string());
        redact_value(&redactor, &mut value, DEPTH);
        let messages: Value = serde_json::from_str(value.as_str().unwrap()).unwrap();
        let arguments = messages[0]["tool_calls"][0]["arguments"].as_str().unwrap();
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        assert_eq!(arguments, json!({"card": "[card number]", "[e-mail address]": [1]}));
        // Text that only looks like JSON is masked as a whole.
        let mut text = json!("[see ann.lee@acme-corp.com");
        redact_value(&redactor, &mut text, DEPTH);
        assert_eq!(text, "[see [e-mail address]");
    }
}
