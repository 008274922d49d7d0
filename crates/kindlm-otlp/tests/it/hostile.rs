//! Hostile input is refused with an error message. It causes no panic, no endless loop and no unbounded memory use.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use kindlm_otlp::{
    DecodeError, Decoded, Encoding, Filter, LooseEvent, MAX_SPANS, Received, Signal, decode_file,
    decode_json, decode_logs_json, decode_logs_protobuf, decode_protobuf, gunzip, read_trace,
};
use kindlm_types::TraceSettings;
use proptest::prelude::*;
use serde_json::{Value, json};

const LIMIT: usize = 1 << 20;

/// Reads the decoded spans too, because spans that can be decoded may also be hostile.
fn read_all(decoded: Decoded) {
    let settings = TraceSettings::default();
    let mut received = Received::default();
    received.add(decoded);
    for spans in received.into_traces() {
        read_trace(&spans, &settings.mapping, Filter::new(&settings.filter, None)).unwrap();
    }
}

fn decode_every_way(bytes: &[u8]) {
    let ways = [decode_json, decode_logs_json, decode_protobuf, decode_logs_protobuf];
    for decode in ways {
        if let Ok(decoded) = decode(bytes) {
            read_all(decoded);
        }
    }
    if let Ok(decoded) = decode_file(bytes, LIMIT) {
        read_all(decoded);
    }
}

/// Returns JSON whose parts resemble OTLP.
fn otlp_like() -> impl Strategy<Value = Value> {
    let words = prop_oneof![
        Just("gen_ai.operation.name"),
        Just("chat"),
        Just("execute_tool"),
        Just("invoke_agent"),
        Just("gen_ai.tool.name"),
        Just("gen_ai.tool.call.arguments"),
        Just("{\"a\":[1]}"),
        Just("{bad"),
        Just("gen_ai.prompt.0.role"),
        Just("gen_ai.prompt.99999999999999999999.content"),
        Just("gen_ai.output.messages"),
        Just("[{\"role\":\"assistant\",\"parts\":[{\"type\":\"tool_call\",\"name\":\"t\"}]}]"),
        Just("gen_ai.completion.0.tool_calls.0.name"),
        Just("llm.output_messages.0.message.content"),
        Just("gen_ai.usage.input_tokens"),
        Just("-1"),
        Just("18446744073709551615"),
        Just("openinference.span.kind"),
        Just("LLM"),
        Just("TOOL"),
        Just("1"),
        Just("2"),
        Just(""),
        Just("gen_ai.choice"),
        Just("é\u{0}"),
    ];
    let value = prop_oneof![
        words.clone().prop_map(|it| json!({"stringValue": it})),
        any::<i64>().prop_map(|it| json!({"intValue": it.to_string()})),
        any::<f64>().prop_map(|it| json!({"doubleValue": it})),
        words.clone().prop_map(|it| json!({"arrayValue": {"values": [{"stringValue": it}]}})),
        words.clone().prop_map(
            |it| json!({"kvlistValue": {"values": [{"key": it, "value": {"boolValue": true}}]}})
        ),
        Just(json!({})),
        Just(json!(7)),
    ];
    let attributes = prop::collection::vec((words.clone(), value), 0..8).prop_map(|list| {
        list.into_iter().map(|(key, value)| json!({"key": key, "value": value})).collect::<Value>()
    });
    let id = prop_oneof![Just("1"), Just("2"), Just("3"), Just(""), Just("0000")];
    let time = prop_oneof![
        any::<u64>().prop_map(|it| json!(it.to_string())),
        any::<u64>().prop_map(Value::from),
        Just(json!(null))
    ];
    let span = (
        id.clone(),
        id,
        words.clone(),
        time.clone(),
        time,
        attributes.clone(),
        attributes,
        0..4_i64,
    );
    let span = span.prop_map(|(id, parent, name, start, end, attributes, event, status)| json!({
        "traceId": "t", "spanId": id, "parentSpanId": parent, "name": name, "startTimeUnixNano": start,
        "endTimeUnixNano": end, "attributes": attributes, "status": {"code": status},
        "events": [{"name": "gen_ai.choice", "attributes": event}],
    }));
    prop::collection::vec(span, 0..8)
        .prop_map(|spans| json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        decode_every_way(&bytes);
    }

    #[test]
    fn reads_any_data_in_otlp_shape(payload in otlp_like()) {
        let decoded = decode_json(payload.to_string().as_bytes()).unwrap();
        let spans = payload["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().len();
        prop_assert_eq!(decoded.spans.len() + decoded.rejected.len(), spans);
        read_all(decoded);
    }

    #[test]
    fn flipped_bytes_are_survived(payload in otlp_like(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = payload.to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        decode_every_way(&bytes);
    }

    #[test]
    fn protobuf_with_a_valid_head_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        // The fields are nested with valid lengths: resource spans, scope spans, spans.
        let wrap = |tag: u8, inner: Vec<u8>| {
            let mut outer = vec![tag];
            let mut length = inner.len();
            while length > 127 {
                outer.push(u8::try_from(length & 127).unwrap() | 128);
                length >>= 7;
            }
            outer.push(u8::try_from(length).unwrap());
            outer.extend(inner);
            outer
        };
        decode_every_way(&wrap(0x0a, wrap(0x12, wrap(0x12, bytes))));
    }
}

#[test]
fn errors_are_reported() {
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    for (bytes, expected) in [
        (&b""[..], "it is empty"),
        (b"  \n ", "it is empty"),
        (b"hello", "it begins neither like OTLP JSON nor like OTLP protobuf"),
        (b"[]", "OTLP payload missing resourceSpans array"),
        (b"{}", "OTLP payload missing resourceSpans array"),
        (b"{\"resourceSpans\": 1}", "OTLP payload missing resourceSpans array"),
        (b"{\"resourceSpans\": [", "it is not JSON: EOF while parsing a list at line 1 column 19"),
        (
            b"{\"resourceSpans\": []}\n{\"resou",
            "it is not JSON: EOF while parsing a string at line 2 column 7",
        ),
        (b"\x00\x00\x00\x09\x0a", "it ends in the middle of a message"),
        (b"\x00\x00", "it ends in the middle of a message"),
        (
            b"\x0a\xff",
            "it is not a protobuf message of OTLP: failed to decode Protobuf message: TracesRequest.resource_spans: invalid varint",
        ),
        // The rest of the error message depends on the gzip library of the build.
        (b"\x1f\x8b\x08\x00", "it cannot be unpacked as gzip: …"),
        (deep.as_bytes(), "it is not JSON: recursion limit exceeded at line 1 column 128"),
    ] {
        let err = decode_file(bytes, LIMIT).unwrap_err().to_string();
        let shown = &bytes[..bytes.len().min(40)];
        match expected.strip_suffix('…') {
            Some(beginning) => assert!(err.starts_with(beginning), "{err}: {shown:?}"),
            None => assert_eq!(err, expected, "{shown:?}"),
        }
    }
}

#[test]
fn a_gzip_bomb_is_stopped_at_the_limit() {
    use std::io::Write as _;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(&vec![b' '; 4 * LIMIT]).unwrap();
    let bomb = packer.finish().unwrap();
    assert!(bomb.len() < LIMIT / 100);
    assert_eq!(gunzip(&bomb, LIMIT), Err(DecodeError::TooLarge { limit: LIMIT }));
    assert_eq!(decode_file(&bomb, LIMIT), Err(DecodeError::TooLarge { limit: LIMIT }));
}

#[test]
fn one_bad_span_does_not_cost_the_others() {
    let body = json!({"resourceSpans": [{"scopeSpans": [{"spans": [
        {"traceId": "t", "spanId": "1", "name": "good"},
        {"traceId": "t", "name": "without id"},
        {"traceId": "t", "spanId": "3", "name": "late", "startTimeUnixNano": "yesterday"},
        7,
    ]}]}]});
    let decoded = decode_json(body.to_string().as_bytes()).unwrap();
    assert_eq!(decoded.spans.len(), 1);
    assert_eq!(
        decoded.rejected,
        [
            "span `without id`: `spanId` is not a text",
            "span `late`: `startTimeUnixNano` is not a number of nanoseconds",
            "span ``: `traceId` is not a text",
        ]
    );
    for (signal, key) in [(Signal::Traces, "rejectedSpans"), (Signal::Logs, "rejectedLogRecords")] {
        let reply = Encoding::Json.accepted(signal, &decoded.rejected);
        let reply: Value = serde_json::from_slice(&reply).unwrap();
        assert_eq!(reply["partialSuccess"][key], "3", "{reply}");
        assert_eq!(Encoding::Protobuf.accepted(signal, &[]), b"");
    }
}

#[test]
fn parents_in_a_circle_are_read() {
    let span = |id: &str, parent: &str| {
        json!({
            "traceId": "t", "spanId": id, "parentSpanId": parent, "name": "a",
            "attributes": [{"key": "gen_ai.request.model", "value": {"stringValue": "m"}}],
        })
    };
    let body = json!({"resourceSpans": [{"scopeSpans": [{"spans": [span("1", "2"), span("2", "1"), span("3", "3")]}]}]});
    read_all(decode_json(body.to_string().as_bytes()).unwrap());
}

#[test]
fn a_span_that_is_sent_again_counts_once() {
    let body =
        json!({"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "t", "spanId": "1"}]}]}]});
    let mut received = Received::default();
    for _ in 0..3 {
        received.add(decode_json(body.to_string().as_bytes()).unwrap());
    }
    assert_eq!(received.spans(), 1);
}

#[test]
fn two_spans_of_one_id_leave_nothing_complete() {
    let span = |name: &str| json!({"traceId": "t", "spanId": "1", "name": name, "startTimeUnixNano": "1", "endTimeUnixNano": "2"});
    let body =
        |spans: Value| json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).to_string();
    let gaps = |bodies: &[String]| {
        let mut received = Received::default();
        for body in bodies {
            received.add(decode_json(body.as_bytes()).unwrap());
        }
        assert_eq!(received.spans(), 1);
        let (settings, traces) = (TraceSettings::default(), received.into_traces());
        let filter = Filter::new(&settings.filter, None);
        read_trace(&traces[0], &settings.mapping, filter).unwrap().execution.completeness.gaps
    };
    let disputed = [
        "`pay` is one of several spans of the id 1 that have different content; give each span its own id",
    ];
    assert_eq!(gaps(&[body(json!([span("pay"), span("look")]))]), disputed);
    assert_eq!(
        gaps(&[
            body(json!([span("pay")])),
            body(json!([span("look")])),
            body(json!([span("pay")]))
        ]),
        disputed
    );
    assert!(gaps(&[body(json!([span("pay"), span("pay")]))]).is_empty());
}

#[test]
fn events_above_the_limit_are_reported() {
    let event = LooseEvent::default();
    let decoded = Decoded { events: vec![event; MAX_SPANS + 2], ..Decoded::default() };
    let rejected = Received::default().add(decoded);
    assert_eq!(rejected, ["rejected: the limit of 100000 events is reached"; 2]);
}

#[test]
fn encoded_spans_are_decoded_unchanged() {
    let values = json!([
        {"key": "text", "value": {"stringValue": "a"}}, {"key": "whole", "value": {"intValue": "-7"}},
        {"key": "part", "value": {"doubleValue": 0.5}}, {"key": "yes", "value": {"boolValue": true}},
        {"key": "none", "value": {}},
        {"key": "list", "value": {"arrayValue": {"values": [{"stringValue": "b"}, {}, {"intValue": 1}]}}},
        {"key": "map", "value": {"kvlistValue": {"values": [{"key": "c", "value": {"boolValue": false}}]}}},
    ]);
    let body = json!({"resourceSpans": [
        {"resource": {"attributes": values}, "scopeSpans": [{"spans": [
            {"traceId": "t", "spanId": "1", "name": "a", "kind": 3, "startTimeUnixNano": "1", "endTimeUnixNano": "18446744073709551615",
             "attributes": values, "flags": 0x301, "parentSpanId": "9", "status": {"code": 2, "message": "no"},
             "droppedEventsCount": 2, "events": [{"name": "e", "timeUnixNano": "5", "attributes": values}]},
            {"traceId": "t", "spanId": "2"},
        ]}]},
        {"scopeSpans": [{"spans": [{"traceId": "u", "spanId": "1", "status": {"code": 1}}]}]},
    ]});
    let spans = decode_json(body.to_string().as_bytes()).unwrap().spans;
    let encoded = kindlm_otlp::encode_json(&spans);
    assert_eq!(encoded["resourceSpans"].as_array().unwrap().len(), 2);
    assert_eq!(decode_json(encoded.to_string().as_bytes()).unwrap().spans, spans);
}
