//! Makes samples from the traces of agents: [`parts`] divides a request by trace, and [`reader`] reads a trace.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kindlm_assertions::Redactor;
use kindlm_otlp::{Decoded, OtlpSpan, Received, decode_json, encode_json};
use kindlm_run::{TracePrices, TraceRecord, record_of_trace};
use serde_json::{Map, Value};

use crate::routes::body::is_short;
use crate::store::samples::NewSample;
use crate::store::traces::{ReadTrace, TracePart, TraceParts, TraceReading};

/// The maximum size of all traces of a request as they are stored, in bytes. It is larger than the limit of a request,
/// because each stored trace repeats the attributes of its processes.
const LARGEST: usize = 32 << 20;

/// The reason why spans are missing if they could not be decoded.
const REJECTED: &str = "spans of the trace were invalid, and are missing";

/// The attributes that identify the agent and the subject. They are stored as they were sent.
const IDENTIFIERS: [&str; 6] = [
    "gen_ai.agent.name",
    "gen_ai.agent.version",
    "service.name",
    "service.version",
    "user.id",
    "enduser.id",
];

/// The maximum nesting depth of JSON texts inside JSON texts. Deeper texts are masked as a whole.
const DEPTH: usize = 4;

/// The traces of a request.
#[derive(Default)]
pub(crate) struct Parts {
    /// The part of each trace, by the id of the trace.
    pub(crate) by_trace: BTreeMap<String, TracePart>,
    /// The number of spans of each trace, by the id of the trace.
    pub(crate) spans: BTreeMap<String, usize>,
    /// A reason for each span that is not used.
    pub(crate) rejected: Vec<String>,
}

/// Divides the spans of a request by trace, and masks personal data.
///
/// Spans with the same id are not joined, so that [`reader`] finds those that differ.
pub(crate) fn parts(decoded: Decoded, redactor: Option<&Redactor>) -> Parts {
    let Decoded { spans, rejected, rejected_traces, .. } = decoded;
    let mut parts = Parts { rejected, ..Parts::default() };
    let mut traces: BTreeMap<String, Vec<OtlpSpan>> = BTreeMap::new();
    for span in spans {
        traces.entry(span.trace_id.clone()).or_default().push(span);
    }
    let (mut bytes, mut is_full, mut masked) = (0, false, Resources::new());
    for (id, mut spans) in traces {
        let (count, has_root) = (spans.len(), spans.iter().any(OtlpSpan::is_root));
        let encoded = if !is_short(&id) {
            Err("a trace id has 1 to 100 characters, without control characters".to_owned())
        } else if is_full {
            Err(too_large())
        } else {
            if let Some(redactor) = redactor {
                redact(redactor, &mut spans, &mut masked);
            }
            let text = encode_json(&spans).to_string();
            is_full = bytes + text.len() > LARGEST;
            if is_full { Err(too_large()) } else { checked(&id, text) }
        };
        let part = match encoded {
            Ok(text) => {
                bytes += text.len();
                TracePart { spans: Some(text), has_root, lost: None }
            }
            Err(why) => {
                parts.rejected.extend(std::iter::repeat_n(why.clone(), count));
                TracePart { lost: Some(why), ..TracePart::default() }
            }
        };
        parts.spans.insert(id.clone(), count);
        parts.by_trace.insert(id, part);
    }
    for id in rejected_traces.iter().flatten() {
        parts.by_trace.entry(id.clone()).or_default().lose(REJECTED);
    }
    if rejected_traces.contains(&None) {
        parts.by_trace.values_mut().for_each(|it| it.lose(REJECTED));
    }
    // A trace whose id cannot be the id of a sample is not stored.
    parts.by_trace.retain(|id, _| is_short(id));
    parts
}

fn too_large() -> String {
    format!("the traces of the request have more than {} MiB", LARGEST >> 20)
}

/// Checks that the text of a trace can be decoded, and returns the text. Fails if it cannot: values from protobuf may
/// be nested too deeply for the JSON parser.
fn checked(id: &str, text: String) -> Result<String, String> {
    decode_json(text.as_bytes()).map_err(|err| format!("trace {id}: {err}"))?;
    Ok(text)
}

/// Returns the function that reads the parts of a trace.
pub(crate) fn reader(prices: Arc<TracePrices>) -> ReadTrace {
    Arc::new(move |parts| read_parts(parts, &prices))
}

fn read_parts(parts: &TraceParts, prices: &TracePrices) -> TraceReading {
    let TraceParts { earlier, part, lost } = parts;
    let mut received = Received::default();
    let mut rejected = Vec::new();
    for text in earlier {
        match decode_json(text.as_bytes()) {
            Ok(decoded) => rejected.extend(received.add(decoded)),
            Err(err) => {
                let why = format!("a stored part of the trace cannot be read: {err}");
                return TraceReading::Unusable(why);
            }
        }
    }
    if let Some(text) = part {
        let before = (received.spans(), received.disputed_spans());
        match decode_json(text.as_bytes()) {
            Ok(decoded) => rejected.extend(received.add(decoded)),
            Err(err) => return TraceReading::Unusable(err.to_string()),
        }
        if before == (received.spans(), received.disputed_spans()) && rejected.is_empty() {
            return TraceReading::Repeated;
        }
    }
    let is_finished = received.finished_traces() > 0;
    let traces = received.into_traces();
    let Some(spans) = traces.first().filter(|_| is_finished) else {
        return TraceReading::Unfinished;
    };
    let lost = lost.as_deref().or(rejected.first().map(String::as_str));
    sample(spans, prices, lost)
}

/// Makes a sample from a trace. `lost` is the reason why spans are missing; `None` if none is missing.
fn sample(spans: &[OtlpSpan], prices: &TracePrices, lost: Option<&str>) -> TraceReading {
    let id = spans.first().map(|it| it.trace_id.clone()).unwrap_or_default();
    match record_of_trace(spans, prices, lost) {
        None => TraceReading::NoAgent(format!("trace {id}: no span is a step of an agent")),
        Some(found) => sample_of_record(id, found)
            .map_or_else(TraceReading::Unusable, |it| TraceReading::Sample(it.into())),
    }
}

/// Makes a sample from the record of a trace. Fails if the trace does not name its agent, or has too long a name.
fn sample_of_record(id: String, found: TraceRecord) -> Result<NewSample, String> {
    let TraceRecord { record, agent, version, subject, error } = found;
    let agent = agent.filter(|it| is_short(it)).ok_or_else(|| {
        format!("trace {id}: it names no agent; set `service.name` (`OTEL_SERVICE_NAME`) or `gen_ai.agent.name`")
    })?;
    let short = |text: Option<String>, keys: &str| match text.unwrap_or_default() {
        text if text.is_empty() || is_short(&text) => Ok(text),
        _ => Err(format!(
            "trace {id}: the value of {keys} is longer than 100 characters or has control characters; shorten it"
        )),
    };
    let version = short(version, "`service.version` or `gen_ai.agent.version`")?;
    // A sample without its subject would not be found when the data of the subject must be deleted.
    let subject = short(subject, "`user.id` or `enduser.id`")?;
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

/// The attributes of each process, as sent and as masked, by the memory address of the sent attributes. All spans of a
/// process share their attributes, so the attributes are masked only once.
type Resources = HashMap<*const Map<String, Value>, [Arc<Map<String, Value>>; 2]>;

fn redact(redactor: &Redactor, spans: &mut [OtlpSpan], resources: &mut Resources) {
    for span in spans {
        redact_attributes(redactor, &mut span.attributes);
        span.name = redactor.redact(&span.name).into_owned();
        if let Some(message) = &mut span.status_message {
            *message = redactor.redact(message).into_owned();
        }
        for event in &mut span.events {
            redact_attributes(redactor, &mut event.attributes);
        }
        let [_, masked] = resources.entry(Arc::as_ptr(&span.resource)).or_insert_with(|| {
            let mut attributes = Map::clone(&span.resource);
            redact_attributes(redactor, &mut attributes);
            // This clone keeps the sent attributes in memory, so no other attributes can get the same address.
            [Arc::clone(&span.resource), Arc::new(attributes)]
        });
        span.resource = Arc::clone(masked);
    }
}

fn redact_attributes(redactor: &Redactor, attributes: &mut Map<String, Value>) {
    let others = attributes.iter_mut().filter(|(key, _)| !IDENTIFIERS.contains(&key.as_str()));
    others.for_each(|(_, value)| redact_value(redactor, value, DEPTH));
}

/// Masks a value. JSON inside a text is parsed and masked part by part. If the text were masked as a whole, a masked
/// number would make the JSON invalid.
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
            // The values are masked already. Take them out while `redact_value` masks the keys.
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
    fn traces_above_the_size_limit_are_lost() {
        let span = |trace: &str, size: usize| OtlpSpan {
            trace_id: trace.to_owned(),
            span_id: "1".to_owned(),
            name: "x".repeat(size),
            ..OtlpSpan::default()
        };
        let spans = vec![span("a", LARGEST / 2), span("b", LARGEST), span("c", 1)];
        let parts = parts(Decoded { spans, ..Decoded::default() }, None);
        assert_eq!(parts.rejected, [too_large(), too_large()]);
        let part = |id: &str| &parts.by_trace[id];
        assert!(part("a").spans.is_some() && part("a").has_root && part("a").lost.is_none());
        for id in ["b", "c"] {
            assert_eq!((&part(id).spans, &part(id).lost), (&None, &Some(too_large())));
        }
    }

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
