//! `/v1/traces`: traces of agents that become samples.

use std::io::Write as _;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::monitor::evaluate_shop;
use crate::server::{Reply, Server};
use crate::tokens::token;

const HOST: &str = "host: localhost";
const JSON: &str = "content-type: application/json";
const PROTOBUF: &str = "content-type: application/x-protobuf";
const TRACE: &str = "5b8efff798038103d269b633813fc60c";

/// Returns attributes with texts and numbers as OTLP JSON.
fn attributes(values: &Value) -> Vec<Value> {
    let any = |value: &Value| match value {
        Value::Number(_) => json!({"intValue": value}),
        value => json!({"stringValue": value}),
    };
    let values = values.as_object().unwrap().iter();
    values.map(|(key, value)| json!({"key": key, "value": any(value)})).collect()
}

/// Returns a span of one second. The root span has no parent.
fn span(trace: &str, id: u64, parent: Option<u64>, values: &Value) -> Value {
    let hex = |it: u64| format!("{it:016x}");
    let start = 1_700_000_000_000_000_000 + id * 1_000_000_000;
    let mut span = json!({
        "traceId": trace, "spanId": hex(id), "name": format!("span {id}"),
        "startTimeUnixNano": start.to_string(), "endTimeUnixNano": (start + 1_000_000_000).to_string(),
        "attributes": attributes(values),
    });
    if let Some(parent) = parent {
        span["parentSpanId"] = json!(hex(parent));
    }
    span
}

fn request(service: &str, spans: &[Value]) -> Value {
    let resource = json!({"service.name": service, "service.version": "v7", "host.name": "ann.lee@acme-corp.com"});
    json!({"resourceSpans": [
        {"resource": {"attributes": attributes(&resource)}, "scopeSpans": [{"spans": spans}]}
    ]})
}

/// Returns the spans of an agent: the agent, a tool call, and the model request with the answer.
fn agent(trace: &str, answer: &str) -> [Value; 3] {
    let root = json!({"gen_ai.operation.name": "invoke_agent", "user.id": "user-7"});
    let tool = json!({
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund",
        "gen_ai.tool.call.arguments": "{\"order\": 7}", "gen_ai.tool.call.result": "{\"done\": true}",
    });
    let messages = |role: &str, text: &str| {
        json!([{"role": role, "parts": [{"type": "text", "content": text}]}]).to_string()
    };
    let chat = json!({
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 1_000_000, "gen_ai.usage.output_tokens": 0,
        "gen_ai.input.messages": messages("user", "My mug is broken."),
        "gen_ai.output.messages": messages("assistant", answer),
    });
    [span(trace, 1, None, &root), span(trace, 2, Some(1), &tool), span(trace, 3, Some(1), &chat)]
}

fn send(server: &Server, body: &Value) -> Reply {
    let reply = server.json("POST /v1/traces", body);
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply
}

/// Returns the only stored sample.
fn only(server: &Server) -> Value {
    let page = server.get("/v1/samples").json();
    assert_eq!(page["total"], 1, "{page}");
    page["items"][0].clone()
}

/// Waits until the only sample is not pending.
fn evaluated(server: &Server) -> Value {
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        let sample = only(server);
        if sample["state"] != "pending" {
            return sample;
        }
        assert!(Instant::now() < end, "{sample}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn finished_trace_is_an_evaluated_sample() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--trace-delay", "0"]);
    evaluate_shop(&server, 1.0);
    let body = request("shop", &agent(TRACE, "Here is your refund."));
    for _ in 0..2 {
        assert_eq!(send(&server, &body).json(), json!({}));
    }
    let sample = evaluated(&server);
    assert_eq!(sample["state"], "done", "{sample}");
    assert_eq!(sample["evaluation"]["outcome"], "passed", "{sample}");
    for (key, expected) in
        [("id", TRACE), ("agent", "shop"), ("version", "v7"), ("subject", "user-7")]
    {
        assert_eq!(sample[key], expected, "{key}");
    }
    let record = &sample["sample"];
    assert_eq!(record["agent_input"], "My mug is broken.");
    assert_eq!(record["agent_output"], "Here is your refund.");
    assert_eq!(record["usage"]["input_tokens"], 1_000_000);
    assert_eq!(record["metadata"]["models"], json!(["gpt-4o-mini"]));
    assert_eq!(record["latency_ms"], 1000.0);
    assert!((record["cost_usd"].as_f64().unwrap() - 0.15).abs() < 1e-9, "{record}");
    let events = record["events"].as_array().unwrap();
    let call = events.iter().find(|it| it["type"] == "action.called").unwrap();
    assert_eq!((&call["name"], &call["input"]), (&json!("refund"), &json!({"order": 7})));
    assert_eq!(record.get("incomplete"), None);
    // A span that arrives after the evaluation is not used.
    let late = span(TRACE, 9, Some(1), &json!({}));
    let partial = send(&server, &request("shop", &[late])).json()["partialSuccess"].clone();
    assert_eq!(partial["rejectedSpans"], "1");
    assert!(partial["errorMessage"].as_str().unwrap().contains("evaluated before"), "{partial}");
    // A stored span that arrives again is not late, even if another request has it.
    let again = agent(TRACE, "Here is your refund.");
    assert_eq!(send(&server, &request("shop", &again[1..2])).json(), json!({}));
}

#[test]
fn parts_of_a_trace_are_joined_until_the_evaluation() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--trace-delay", "3600"]);
    evaluate_shop(&server, 1.0);
    let [root, tool, chat] = agent(TRACE, "Here is your refund.");
    let part = |spans: &[Value]| send(&server, &request("shop", spans)).json();
    assert_eq!(part(&[tool]), json!({}));
    assert_eq!(server.get("/v1/samples").json()["total"], 0);
    assert_eq!(part(&[root]), json!({}));
    let before = only(&server);
    assert_eq!((&before["state"], before["sample"].get("agent_output")), (&json!("pending"), None));
    assert_eq!(part(std::slice::from_ref(&chat)), json!({}));
    let after = only(&server);
    assert_eq!(after["sample"]["agent_output"], "Here is your refund.");
    assert_eq!(after["received_at"], before["received_at"]);
    // A span whose parent is missing makes the evidence incomplete.
    let lost = span(TRACE, 5, Some(4), &json!({}));
    assert_eq!(part(&[lost, chat]), json!({}));
    let reasons = only(&server)["sample"]["incomplete"].clone();
    assert!(reasons[0].as_str().unwrap().contains("missing"), "{reasons}");
    // Deleting the sample deletes the parts of its trace.
    let query = "DELETE /v1/samples?subject=user-7";
    assert_eq!(server.send(query, &[HOST], b"").json(), json!({"deleted": 1}));
    assert_eq!(part(&[span(TRACE, 6, Some(1), &json!({}))]), json!({}));
    assert_eq!(server.get("/v1/samples").json()["total"], 0);
}

#[test]
fn incomplete_trace_is_errored_and_does_not_pass() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--trace-delay", "0"]);
    evaluate_shop(&server, 1.0);
    let mut spans = agent(TRACE, "Here is your refund.").to_vec();
    spans.push(span(TRACE, 5, Some(4), &json!({})));
    send(&server, &request("shop", &spans));
    let sample = evaluated(&server);
    assert_eq!(sample["evaluation"]["outcome"], "errored", "{sample}");
}

#[test]
fn lost_spans_make_samples_incomplete() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--trace-delay", "3600"]);
    let samples = || {
        let page = server.get("/v1/samples").json();
        let samples = page["items"].as_array().unwrap().clone();
        let of = |it: &Value| {
            (it["id"].as_str().unwrap().to_owned(), it["sample"]["incomplete"].clone())
        };
        samples.iter().map(of).collect::<std::collections::BTreeMap<_, _>>()
    };
    let invalid = "spans of the trace were invalid, and are missing";
    let whole = |id: &str| agent(id, "Here is your refund.").to_vec();
    // An invalid span of `a` comes with its trace, that of `b` later, and that of `c` before.
    let [a, b, c] = ["a", "b", "c"].map(|it| [whole(it), vec![json!({"traceId": it})]]);
    send(&server, &request("shop", &a.concat()));
    for request_of in [&b[0], &b[1], &c[1], &c[0], &whole("d")] {
        send(&server, &request("shop", request_of));
    }
    let all = samples();
    assert_eq!(
        ["a", "b", "c", "d"].map(|it| all[it].clone()),
        [json!([invalid]), json!([invalid]), json!([invalid]), Value::Null]
    );
    // An invalid span without a trace id makes all traces of its request incomplete.
    let spans = [whole("e"), whole("f"), vec![json!({"spanId": "1"})]].concat();
    send(&server, &request("shop", &spans));
    let all = samples();
    assert_eq!([&all["e"], &all["f"]], [&json!([invalid]), &json!([invalid])]);
    // Two spans of a request have the same id, and differ.
    let mut spans = whole("g");
    spans.push(span("g", 2, Some(1), &json!({"gen_ai.operation.name": "chat"})));
    send(&server, &request("shop", &spans));
    assert_ne!(samples()["g"], Value::Null);
    // Spans that are repeated do not differ.
    send(&server, &request("shop", &[whole("h"), whole("h")].concat()));
    assert_eq!(samples()["h"], Value::Null);
}

/// Returns a length-delimited field of a protobuf message.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let mut length = value.len();
    let mut bytes = vec![number << 3 | 2];
    while length >= 0x80 {
        bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).unwrap());
    [bytes.as_slice(), value].concat()
}

/// Returns an OTLP request in protobuf with one span: a model request of the service `shop`, answered with "a refund".
fn protobuf(id: u8) -> Vec<u8> {
    let attribute = |number: u8, key: &str, text: &str| {
        let value = field(1, text.as_bytes());
        field(number, &[field(1, key.as_bytes()), field(2, &value)].concat())
    };
    let answer =
        "[{\"role\": \"assistant\", \"parts\": [{\"type\": \"text\", \"content\": \"a refund\"}]}]";
    let span = [
        field(1, &[id; 16]),
        field(2, &[1; 8]),
        field(5, b"chat"),
        [&[7 << 3 | 1][..], &1_u64.to_le_bytes()].concat(),
        [&[8 << 3 | 1][..], &2_u64.to_le_bytes()].concat(),
        attribute(9, "gen_ai.operation.name", "chat"),
        attribute(9, "gen_ai.output.messages", answer),
    ];
    let resource = field(1, &attribute(1, "service.name", "shop"));
    field(1, &[resource, field(2, &field(2, &span.concat()))].concat())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

#[test]
fn protobuf_and_gzip_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let send = |head: &[&str], body: &[u8]| {
        let head: Vec<&str> = [HOST].iter().chain(head).copied().collect();
        server.send("POST /v1/traces", &head, body)
    };
    let reply = send(&[PROTOBUF], &protobuf(1));
    assert_eq!((reply.status, reply.body.as_str()), (200, ""), "{}", reply.head);
    assert!(reply.head.contains("content-type: application/x-protobuf"), "{}", reply.head);
    let packed = gzip(&protobuf(2));
    assert_eq!(send(&[PROTOBUF, "content-encoding: gzip"], &packed).status, 200);
    let items = server.get("/v1/samples").json()["items"].clone();
    let ids: Vec<&Value> = items.as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(ids, [&json!("02".repeat(16)), &json!("01".repeat(16))]);
    assert_eq!(items[0]["sample"]["agent_output"], "a refund");
    let bomb = gzip(&vec![b' '; 9 << 20]);
    for (head, body, status) in [
        (&[JSON, "content-encoding: gzip"][..], &bomb[..], 413),
        (&[JSON, "content-encoding: gzip"], b"{}", 400),
        (&[JSON, "content-encoding: br"], b"{}", 415),
        (&[JSON], b"{}", 400),
        (&[JSON], b"{", 400),
        (&[PROTOBUF], b"\x0a\xff", 400),
        (&["content-type: text/plain"], b"{}", 415),
        (&[], b"{}", 415),
    ] {
        let reply = send(head, body);
        assert_eq!(reply.status, status, "{head:?}: {}", reply.body);
        assert!(reply.head.contains("application/problem+json"), "{}", reply.head);
    }
}

#[test]
fn unused_spans_are_counted_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let other = |id: &str| span(id, 1, None, &json!({"http.route": "/health"}));
    let long = "x".repeat(101);
    let spans = [other("a"), other("b"), json!({"traceId": "c"}), other(&long)];
    let partial = send(&server, &request("shop", &spans)).json()["partialSuccess"].clone();
    assert_eq!(partial["rejectedSpans"], "4", "{partial}");
    let message = partial["errorMessage"].as_str().unwrap();
    for part in ["`spanId` is not a text", "trace id has 1 to 100", "no span is a step of an agent"]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    for unnamed in ["", "unknown_service:python"] {
        let partial = send(&server, &request(unnamed, &agent(TRACE, "x"))).json();
        let partial = &partial["partialSuccess"];
        assert_eq!(partial["rejectedSpans"], "3", "{partial}");
        assert!(partial["errorMessage"].as_str().unwrap().contains("OTEL_SERVICE_NAME"));
    }
    // Without its subject, the sample would stay when the samples of the subject are deleted.
    for key in ["user.id", "enduser.id", "gen_ai.agent.version"] {
        let mut spans = agent(TRACE, "x");
        spans[0]["attributes"] = json!(attributes(&json!({
            "gen_ai.operation.name": "invoke_agent", key: long,
        })));
        let partial = send(&server, &request("shop", &spans)).json();
        let partial = &partial["partialSuccess"];
        assert_eq!(partial["rejectedSpans"], "3", "{key}: {partial}");
        let message = partial["errorMessage"].as_str().unwrap();
        assert!(message.contains(&format!("`{key}`")), "{message}");
        assert!(message.contains("longer than 100 characters"), "{message}");
    }
    assert_eq!(server.get("/v1/samples").json()["total"], 0);
    // The name of the agent takes precedence over that of its process.
    let mut spans = agent(TRACE, "x");
    let named = attributes(&json!({"gen_ai.agent.name": "Desk", "gen_ai.agent.version": "v8"}));
    spans[0]["attributes"].as_array_mut().unwrap().extend(named);
    assert_eq!(send(&server, &request("shop", &spans)).json(), json!({}));
    let sample = only(&server);
    assert_eq!((&sample["agent"], &sample["version"]), (&json!("Desk"), &json!("v8")));
    // A sample with the id of the trace is not replaced.
    let body = json!({"id": "d", "agent": "shop", "agent_output": "x"});
    assert_eq!(server.json("POST /v1/samples", &body).status, 200);
    let partial = send(&server, &request("shop", &agent("d", "x"))).json();
    let message = partial["partialSuccess"]["errorMessage"].as_str().unwrap();
    assert!(message.contains("stored already"), "{message}");
}

#[test]
fn personal_data_in_traces_is_masked() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--redact-pii", "--trace-delay", "3600"]);
    let [root, tool, chat] = agent(TRACE, "Write to ann.lee@acme-corp.com.");
    send(&server, &request("shop", &[tool, chat]));
    send(&server, &request("shop", &[root]));
    let sample = only(&server);
    assert_eq!(sample["sample"]["agent_output"], "Write to [e-mail address].");
    assert_eq!(sample["subject"], "user-7");
    drop(server);
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(7).any(|it| it == b"ann.lee"));
    }
}

#[test]
fn traces_need_the_scope_ingest() {
    let folder = tempfile::tempdir().unwrap();
    let [ingest, other] = ["ingest", "evaluate,read"].map(|it| {
        let (_, text) = token(folder.path(), &["create", "it", "--scopes", it]);
        format!("authorization: Bearer {text}")
    });
    let server = Server::start(folder.path(), &[]);
    let body = request("shop", &agent(TRACE, "x")).to_string();
    for (head, status) in [(vec![], 401), (vec![&other], 403), (vec![&ingest], 200)] {
        let head: Vec<&str> =
            [HOST, JSON].into_iter().chain(head.into_iter().map(|it| &**it)).collect();
        assert_eq!(server.send("POST /v1/traces", &head, body.as_bytes()).status, status);
    }
}
