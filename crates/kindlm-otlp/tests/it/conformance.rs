//! Compares traces row by row with the results of the original KindLM.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use kindlm_otlp::{DecodeError, Filter, OtlpSpan, Reading, Received, decode_json, read_trace};
use kindlm_types::{SpanFilter, SpanMapping, TraceSettings};
use regex::Regex;
use serde_json::{Map, Value, json};

const ROWS: &str = include_str!("../../../../fixtures/conformance/kindlm-core/trace.jsonl");

/// Returns the intended differences from the original KindLM.
///
/// Each difference has the row, the pointer into the row's `expect`, the value of this crate, and the reason.
fn differences() -> Vec<(&'static str, &'static str, Value, &'static str)> {
    vec![
        ("array-attr", "/spans/0/attributes", json!({"l": ["x"]}), "finish reasons are a list"),
        (
            "tool-call-arguments-new-semconv",
            "/mapped/toolCalls/0/arguments",
            json!({"a": 1}),
            "the conventions of today are read",
        ),
        (
            "tool-bad-args",
            "/mapped/toolCalls/0/arguments",
            Value::Null,
            "the text is kept beside it",
        ),
        ("tool-args-null", "/mapped/toolCalls/0/arguments", json!({}), "no arguments are no error"),
        ("tool-order-is-arrival", "/mapped/latencyMs", Value::Null, "a clock that runs backwards"),
        ("negative-duration", "/mapped/latencyMs", Value::Null, "a clock that runs backwards"),
        ("filter-unsafe-regex", "/keptSpanIds", json!(["1", "3"]), "the original kept everything"),
        ("filter-unsafe-regex", "/mapped/latencyMs", json!(3000), "so it counted everything"),
        ("filter-resource-attr", "/mapped/latencyMs", Value::Null, "no span, no time"),
        ("payload-rs-empty", "/mapped/latencyMs", Value::Null, "no span, no time"),
        ("payload-no-scope", "/mapped/latencyMs", Value::Null, "no span, no time"),
    ]
}

#[test]
fn every_row_of_the_original_holds_or_is_a_known_difference() {
    let mut differences = differences();
    let mut rows = 0;
    for line in ROWS.lines() {
        rows += 1;
        let row: Value = serde_json::from_str(line).unwrap();
        let id = row["id"].as_str().unwrap();
        let mut expected = row["expect"].clone();
        differences.retain(|(of, pointer, ours, _)| {
            if *of == id {
                let theirs = expected.pointer_mut(pointer).unwrap();
                assert_ne!(theirs, ours, "{id}: {pointer} is no difference any more");
                *theirs = ours.clone();
            }
            *of != id
        });
        assert_eq!(ours(&row["input"]), expected, "{id}");
    }
    assert_eq!(rows, 24);
    assert!(differences.is_empty(), "{differences:?}");
}

fn ours(input: &Value) -> Value {
    let decoded = match decode_json(input["payload"].to_string().as_bytes()) {
        Ok(decoded) => decoded,
        Err(err) => {
            assert_eq!(err, DecodeError::NoResourceSpans);
            return json!({"ok": false, "code": "CONFIG_PARSE_ERROR", "message": err.to_string()});
        }
    };
    assert_eq!(decoded.rejected, Vec::<String>::new());
    let spans: Value = decoded.spans.iter().map(span).collect();
    let (mapping, filter) = settings(input);
    // The loader of the config file already refuses an invalid pattern.
    let pattern = match filter.name_pattern.as_deref().map(Regex::new) {
        Some(Err(_)) => {
            let words = "SyntaxError: Invalid regular expression: /(/: Unterminated group";
            return json!({"ok": true, "spans": spans, "throws": words});
        }
        Some(Ok(pattern)) => Some(pattern),
        None => None,
    };
    let matches = |name: &str| Ok(pattern.as_ref().is_some_and(|it| it.is_match(name)));
    let filter = Filter::new(&filter, if pattern.is_some() { Some(&matches) } else { None });
    let kept = decoded.spans.iter().filter(|it| filter.keeps(it).unwrap());
    let kept: Vec<&str> = kept.map(|it| it.span_id.as_str()).collect();
    let mut received = Received::default();
    received.add(decoded.clone());
    let spans_of_all: Vec<OtlpSpan> = received.into_traces().into_iter().flatten().collect();
    let reading = read_trace(&spans_of_all, &mapping, filter).unwrap();
    json!({"ok": true, "spans": spans, "keptSpanIds": kept, "mapped": mapped(&reading)})
}

fn settings(input: &Value) -> (SpanMapping, SpanFilter) {
    let TraceSettings { mut mapping, mut filter, .. } = TraceSettings::default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let (written, filtered) = (&input["spanMapping"], &input["spanFilter"]);
    for (key, slot) in [
        ("outputTextAttr", &mut mapping.output_text_attr),
        ("modelAttr", &mut mapping.model_attr),
        ("systemAttr", &mut mapping.system_attr),
        ("inputTokensAttr", &mut mapping.input_tokens_attr),
        ("outputTokensAttr", &mut mapping.output_tokens_attr),
    ] {
        if let Some(given) = text(&written[key]) {
            *slot = given;
        }
    }
    filter.name_pattern = text(&filtered["namePattern"]);
    filter.min_duration_ms = filtered["minDurationMs"].as_f64();
    for (key, value) in filtered["attributeMatch"].as_object().into_iter().flatten() {
        filter.attribute_match.insert(key.clone(), text(value).unwrap());
    }
    (mapping, filter)
}

fn span(span: &OtlpSpan) -> Value {
    let mut object = Map::new();
    object.insert("traceId".to_owned(), json!(span.trace_id));
    object.insert("spanId".to_owned(), json!(span.span_id));
    if let Some(parent) = &span.parent_span_id {
        object.insert("parentSpanId".to_owned(), json!(parent));
    }
    object.insert("name".to_owned(), json!(span.name));
    object.insert("kind".to_owned(), json!(span.kind));
    object.insert("startTimeMs".to_owned(), json!(span.start_ms()));
    object.insert("endTimeMs".to_owned(), json!(span.end_ms()));
    object.insert("durationMs".to_owned(), json!(span.duration_ms()));
    object.insert("attributes".to_owned(), json!(span.attributes));
    object.insert("resourceAttributes".to_owned(), json!(*span.resource));
    Value::Object(object)
}

fn mapped(reading: &Reading) -> Value {
    let execution = &reading.execution;
    let call = |it: &kindlm_types::ToolCall| {
        assert!(it.malformed_arguments.is_none() || it.arguments.is_null());
        json!({"id": it.id, "name": it.name, "arguments": it.arguments})
    };
    #[expect(clippy::cast_possible_truncation, reason = "whole milliseconds")]
    let latency = execution.latency_ms.map(|it| it as i64);
    let mut mapped = json!({
        "outputText": execution.output,
        "toolCalls": execution.tool_calls.iter().map(call).collect::<Vec<_>>(),
        "latencyMs": latency,
        "inputTokens": execution.usage.input_tokens,
        "outputTokens": execution.usage.output_tokens,
    });
    if let Some(models) = execution.metadata.get("models") {
        mapped["model"] = models[0].clone();
    }
    mapped
}
