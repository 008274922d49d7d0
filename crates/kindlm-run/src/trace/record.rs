//! Converts a trace to a record, as `evaluate` reads it: [`record_of_trace`].

use kindlm_otlp::{Filter, OtlpSpan, Reading, read_trace};
use kindlm_types::{Event, Execution, Role, Speaker, TraceSettings, Usage};
use kindlm_wire::evaluate::{Record, RecordedUsage};
use serde_json::Value;

use super::prices::TracePrices;

/// The attributes with the person or account that a trace is about.
const SUBJECT: [&str; 2] = ["user.id", "enduser.id"];

/// The start of the names that SDKs give to processes without a name.
const UNNAMED: &str = "unknown_service";

/// A trace as a record, and the identity of its agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceRecord {
    /// The record, in the format of `kindlm evaluate`.
    pub record: Record,
    /// The agent: `gen_ai.agent.name` of the first span that has it, or else `service.name`; `None` without both.
    pub agent: Option<String>,
    /// The version of the agent: `gen_ai.agent.version`, or else `service.version`; `None` without both.
    pub version: Option<String>,
    /// The person or account: `user.id` or `enduser.id`; `None` without both.
    pub subject: Option<String>,
    /// The message of the first error of the agent; `None` without errors.
    pub error: Option<String>,
}

/// Converts the spans of one trace to a record. The span conventions are the defaults of `trace` in a suite.
///
/// `lost` is the reason why spans of the trace are missing. The record is incomplete then.
///
/// Returns `None` if no span is a model request, a tool call or the work of an agent.
pub fn record_of_trace(
    spans: &[OtlpSpan],
    prices: &TracePrices,
    lost: Option<&str>,
) -> Option<TraceRecord> {
    let settings = TraceSettings::default();
    let filter = Filter::new(&settings.filter, None);
    // Without a name pattern, the filter cannot fail.
    let mut reading =
        read_trace(spans, &settings.mapping, filter).ok().filter(|it| it.shows_agent)?;
    if let Some(lost) = lost {
        reading.lose(lost);
    }
    let cost_usd = prices.cost(&reading);
    let Reading { execution, .. } = reading;
    let errors = execution.recorded_events.iter().find_map(|it| match it {
        Event::Error { message } => Some(message.clone()),
        _ => None,
    });
    let of_agent = |key| first_attribute(spans, &[key]);
    Some(TraceRecord {
        agent: of_agent("gen_ai.agent.name")
            .or_else(|| resource(spans, "service.name").filter(|it| !it.starts_with(UNNAMED))),
        version: of_agent("gen_ai.agent.version").or_else(|| resource(spans, "service.version")),
        subject: first_attribute(spans, &SUBJECT),
        error: errors,
        record: record(execution, cost_usd),
    })
}

fn record(execution: Execution, cost_usd: Option<f64>) -> Record {
    let Execution { output, mut recorded_events, completeness, usage, .. } = execution;
    let is_user = |it: &Event| matches!(it, Event::Message { role: Speaker::User, .. });
    let asked = execution.input.into_iter().rev().find(|it| it.role == Role::User);
    let asked = asked.map(|it| it.content).or_else(|| {
        recorded_events.iter().find(|it| is_user(it)).and_then(|it| match it {
            Event::Message { text, .. } => Some(text.clone()),
            _ => None,
        })
    });
    // Without this gap, an earlier message in the events would count as the output of the record.
    let lacks_answer = output.is_empty() && Event::last_words(&recorded_events).is_some();
    let gap = lacks_answer.then(|| "the last answer of the model is not recorded".to_owned());
    // In a record, the output is the last message. The last message of a trace may be that of a subagent.
    let is_last = Event::last_words(&recorded_events).is_none_or(|it| it.trim() == output.trim());
    if !output.is_empty() && !is_last {
        recorded_events.push(Event::Message { role: Speaker::Assistant, text: output.clone() });
    }
    Record {
        agent_input: asked.map(Value::from),
        // Leave out an empty output, because it would be evidence that the agent said nothing.
        agent_output: (!output.is_empty()).then(|| Value::from(output)),
        events: recorded_events,
        complete_for: completeness.coverage.complete_for().cloned(),
        incomplete: completeness.gaps.into_iter().chain(completeness.unread).chain(gap).collect(),
        usage: recorded_usage(usage),
        latency_ms: execution.latency_ms.filter(|it| *it >= 0.0),
        first_token_ms: execution.first_token_ms,
        cost_usd,
        finish_reason: execution.finish_reason.map(|it| it.as_str().to_owned()),
        metadata: execution.metadata,
        trace: execution.trace,
        ..Record::default()
    }
}

/// Returns the token usage; `None` if it is not completely known. The known part is in the events.
fn recorded_usage(usage: Usage) -> Option<RecordedUsage> {
    (usage != Usage::default() && usage.is_whole()).then_some(RecordedUsage {
        input_tokens: Some(usage.input_tokens),
        output_tokens: Some(usage.output_tokens),
        total_tokens: Some(usage.total_tokens),
        cached_input_tokens: usage.cached_input_tokens,
    })
}

/// Returns the value of the first of these attributes, from the span that started first; `None` if no span has one.
fn first_attribute(spans: &[OtlpSpan], keys: &[&str]) -> Option<String> {
    let mut spans: Vec<&OtlpSpan> = spans.iter().collect();
    spans.sort_by_key(|it| it.start_ns);
    let text = |span: &OtlpSpan| keys.iter().find_map(|it| given(span.attributes.get(*it)?));
    spans.into_iter().find_map(text)
}

/// Returns a resource attribute of the process that started the trace; `None` if it is missing or empty.
fn resource(spans: &[OtlpSpan], key: &str) -> Option<String> {
    let root = spans.iter().find(|it| it.parent_span_id.is_none());
    let remote = || spans.iter().find(|it| it.parent_is_remote);
    let first = root.or_else(remote).or(spans.first())?;
    given(first.resource.get(key)?)
}

fn given(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a model request that starts at this second and takes one second. Without `answer`, its answer is not
    /// recorded.
    fn chat(second: u64, answer: Option<&str>) -> OtlpSpan {
        let messages = answer.map(|it| {
            json!([{"role": "assistant", "parts": [{"type": "text", "content": it}]}]).to_string()
        });
        let mut attributes = serde_json::Map::new();
        attributes.insert("gen_ai.operation.name".to_owned(), json!("chat"));
        attributes
            .extend(messages.map(|it| ("gen_ai.output.messages".to_owned(), Value::from(it))));
        let start_ns = second * 1_000_000_000;
        OtlpSpan {
            trace_id: "t".to_owned(),
            span_id: second.to_string(),
            start_ns,
            end_ns: Some(start_ns + 1_000_000_000),
            attributes,
            ..OtlpSpan::default()
        }
    }

    fn record_of(spans: &[OtlpSpan]) -> Record {
        record_of_trace(spans, &TracePrices::default(), None).unwrap().record
    }

    #[test]
    fn unrecorded_last_answer_makes_the_record_incomplete() {
        let record = record_of(&[chat(1, Some("I will look.")), chat(2, None)]);
        assert_eq!(record.agent_output, None);
        assert_eq!(record.incomplete, ["the last answer of the model is not recorded"]);
        let record = record_of(&[chat(1, Some("I will look.")), chat(2, Some("Done."))]);
        assert_eq!(record.agent_output, Some(json!("Done.")));
        assert!(record.incomplete.is_empty(), "{:?}", record.incomplete);
    }

    #[test]
    fn trace_that_lost_spans_is_incomplete() {
        let spans = [chat(1, Some("Done."))];
        let lost = Some("a span was rejected");
        let record = record_of_trace(&spans, &TracePrices::default(), lost).unwrap().record;
        assert_eq!(record.incomplete, ["a span was rejected"]);
        assert_eq!((record.latency_ms, record.cost_usd), (None, None));
        assert!(record_of(&spans).latency_ms.is_some());
    }
}
