//! `http` providers of a promptfoo config: the requests, and the handling of answers.
//!
//! The expected values are the requests of promptfoo 0.121.20 to the same server, and the inputs of its scripts.

use kindlm_testing::{MockReply, MockServer};
use serde_json::{Value, json};

use crate::ran::{CONFIG, folder, kindlm_with, rows};

const TOKEN: &str = "secret-token-1234";

fn server() -> MockServer {
    MockServer::answering(|request| match request.path.split('?').next() {
        Some("/text") => MockReply::raw(200, "text/plain", "plain words"),
        Some("/refuses") => {
            MockReply::raw(403, "application/json", format!(r#"{{"said":"{TOKEN} is not known"}}"#))
        }
        _ => MockReply::json(
            &json!({"reply": {"text": "got it", "n": [1, 2]}, "usage": {"total": 7}}),
        )
        .with_header("x-trace", "t-1"),
    })
    .unwrap()
}

fn provider(url: &str, id: &str, config: &str) -> String {
    format!(
        "prompts: ['Say \"hi\" to {{{{name}}}}']\n\
         providers: [{{ id: '{id}', config: {} }}]\n\
         tests:\n  - vars: {{ name: \"O'Hara\", lines: \"a\\n\\\"b\\\"\", path: one, list: '[1, 2]' }}\n\
         \x20   assert: [{{ type: javascript, value: 'JSON.stringify(context.providerResponse) !== undefined' }}]\n",
        config.replace("URL", url)
    )
    .replace("URL", url)
}

#[test]
fn requests_are_templates_as_in_promptfoo() {
    let server = server();
    for (id, config, expected) in [
        (
            "URL/{{path}}?a=1",
            "{ method: POST, headers: { Authorization: 'Bearer {{env.TOKEN}}', X-Team: 'team {{name | upper}}' },
               queryParams: { q: '{{prompt}}', k: '{{env.TOKEN}}' },
               body: { q: '{{prompt}}', deep: [{ n: '{{name}}', obj: '{{list}}' }], n: 3 }, transformResponse: json.reply.text }",
            json!({
                "method": "POST",
                "path": format!("/one?a=1&k={TOKEN}&q=Say%20%22hi%22%20to%20O%27Hara"),
                "authorization": format!("Bearer {TOKEN}"),
                "x-team": "team O'HARA",
                "type": "application/json",
                "body": r#"{"q":"Say \"hi\" to O'Hara","deep":[{"n":"O'Hara","obj":[1,2]}],"n":3}"#,
            }),
        ),
        (
            "URL/str",
            r#"{ method: POST, headers: { Content-Type: application/json }, body: '{"q": "{{prompt}}", "t": "{{ lines }}"}', transformResponse: json.reply.n }"#,
            json!({
                "method": "POST",
                "path": "/str",
                "type": "application/json",
                "body": r#"{"q":"Say \"hi\" to O'Hara","t":"a\n\"b\""}"#,
            }),
        ),
        (
            "URL/form",
            "{ method: POST, body: 'q={{prompt}}&x=1', transformResponse: json.reply.n }",
            json!({
                "method": "POST",
                "path": "/form",
                "type": "application/x-www-form-urlencoded",
                "body": "q=Say \"hi\" to O'Hara&x=1",
            }),
        ),
        (
            "http",
            "{ url: '{{env.BASE}}/g', method: get, auth: { type: bearer, token: '{{env.TOKEN}}' } }",
            json!({"method": "GET", "path": "/g", "authorization": format!("Bearer {TOKEN}"), "body": ""}),
        ),
        (
            "URL/key",
            "{ auth: { type: api_key, placement: query, keyName: key, value: '{{env.TOKEN}}' } }",
            json!({"method": "GET", "path": format!("/key?key={TOKEN}"), "body": ""}),
        ),
    ] {
        let url = server.url();
        let folder = folder(&[(CONFIG, &provider(&url, id, config))]);
        let before = server.count();
        let env = [("TOKEN", TOKEN), ("BASE", url.as_str())];
        let (ran, rows) = rows(folder.path(), CONFIG, &env);
        assert_eq!(rows.len(), 1, "{id}: {ran:?}");
        assert_eq!(rows[0]["status"], "passed", "{id}: {ran:?} {rows:?}");
        let sent = server.requests();
        let sent = &sent[before];
        let mut got = json!({"method": sent.method, "path": sent.path, "body": String::from_utf8_lossy(&sent.body)});
        for (key, header) in
            [("authorization", "authorization"), ("x-team", "x-team"), ("type", "content-type")]
        {
            if let Some(value) = sent.header(header).filter(|_| key != "type" || !sent.body.is_empty()) {
                got[key] = value.into();
            }
        }
        assert_eq!(got, expected, "{id}");
    }
}

#[test]
fn answers_are_read_as_in_promptfoo() {
    let server = server();
    let parse = "module.exports = { pick: (json, text, context) => ({ output: json.reply.text + context.response.status, raw: 'mine', cost: 0.25, tokenUsage: { total: json.usage.total } }) };\n";
    for (path, response, output, raw) in [
        (
            "j",
            "transformResponse: 'json.reply.text + context.response.status + context.response.headers[\"x-trace\"] + text.length'",
            json!("got it200t-157"),
            None,
        ),
        (
            "j",
            "transformResponse: '(json, text) => ({ output: json.reply })'",
            json!({"text": "got it", "n": [1, 2]}),
            None,
        ),
        ("j", "responseParser: 'json.reply.n'", json!([1, 2]), None),
        ("j", "transformResponse: 'file://parse.js:pick'", json!("got it200"), Some(json!("mine"))),
        ("text", "method: GET", json!("plain words"), None),
        (
            "text",
            "transformResponse: 'text.toUpperCase() + String(json)'",
            json!("PLAIN WORDSnull"),
            Some(json!("plain words")),
        ),
        (
            "j",
            "method: GET",
            json!({"reply": {"text": "got it", "n": [1, 2]}, "usage": {"total": 7}}),
            None,
        ),
    ] {
        let config = format!("{{ method: GET, {response} }}")
            .replace("method: GET, method: GET", "method: GET");
        let config = provider(&server.url(), &format!("URL/{path}"), &config);
        let seen = "JSON.stringify(context.providerResponse) !== undefined";
        let check = raw.as_ref().map_or_else(
            || "true".to_owned(),
            |it| format!("context.providerResponse.raw === {it}"),
        );
        let folder = folder(&[(CONFIG, &config.replace(seen, &check)), ("parse.js", parse)]);
        let (ran, rows) = rows(folder.path(), CONFIG, &[]);
        assert_eq!(rows.len(), 1, "{response}: {ran:?}");
        assert_eq!(rows[0]["status"], "passed", "{response}: {rows:?}");
        let got = if rows[0]["outputJson"].is_null() {
            &rows[0]["output"]
        } else {
            &rows[0]["outputJson"]
        };
        assert_eq!(*got, output, "{response}");
    }
}

/// The answer of an agent of Foundry, by the path of its project.
fn answer_of_agent(project: &str) -> Value {
    let text =
        |text: &str| json!({"type": "message", "content": [{"type": "output_text", "text": text}]});
    match project {
        "ok" => {
            json!({"status": "completed", "output": [{"type": "reasoning"}, text("a"), text("b")]})
        }
        "cut" => {
            json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": [text("a")]})
        }
        "failed" => json!({"status": "failed", "output": [text("a")]}),
        "call" => json!({"output": [text("a"), {"type": "function_call", "name": "f"}]}),
        "empty" => json!({"status": "completed", "output": []}),
        _ => json!({"status": "completed"}),
    }
}

#[test]
fn answers_of_foundry_agents_are_read() {
    let server = MockServer::answering(|request| {
        let project = request.path.split('/').nth(1).unwrap_or_default();
        MockReply::json(&answer_of_agent(project))
    })
    .unwrap();
    for (project, status, output) in [
        ("ok", "passed", "a\nb"),
        // The answer was cut, so the check of an absence is inconclusive.
        ("cut", "errored", "a"),
        ("failed", "errored", ""),
        ("call", "errored", ""),
        ("empty", "errored", ""),
        ("none", "errored", ""),
    ] {
        let config = format!(
            "prompts: ['Hi', '[{{\"role\": \"user\", \"content\": \"Hi\"}}]']\n\
             providers: [{{ id: 'azure:foundry-agent:it', config: {{ projectUrl: 'foundry.example/{project}' }} }}]\n\
             tests: [{{ assert: [{{ type: not-contains, value: c }}] }}]\n"
        );
        let folder = folder(&[(CONFIG, &config)]);
        let imported = kindlm_with(folder.path(), &["import", CONFIG, "--output", "-"], &[]);
        let suite = imported.stdout.replace("https://foundry.example", &server.url());
        std::fs::write(folder.path().join("kindlm.yaml"), suite).unwrap();
        let before = server.count();
        let (ran, rows) = rows(folder.path(), "kindlm.yaml", &[("AZURE_ACCESS_TOKEN", TOKEN)]);
        assert_eq!(rows.len(), 2, "{project}: {ran:?} {imported:?}");
        for row in &rows {
            assert_eq!(
                (&row["status"], &row["output"]),
                (&json!(status), &json!(output)),
                "{project}: {ran:?}"
            );
        }
        let mut inputs: Vec<String> = server.requests()[before..]
            .iter()
            .map(|it| serde_json::from_slice::<Value>(&it.body).unwrap()["input"].to_string())
            .collect();
        inputs.sort();
        let expected = [
            r#"[{"role":"user","content":"Hi"}]"#,
            r#"[{"type":"message","role":"user","content":"Hi"}]"#,
        ];
        assert_eq!(inputs, expected, "{project}: {ran:?}");
    }
}

#[test]
fn secrets_of_the_environment_are_shown_nowhere() {
    let server = server();
    let config = "{ method: POST, headers: { X: 'a {{env.PASSPHRASE_OF_MINE}}' }, body: { k: '{{ env.PASSPHRASE_OF_MINE }}', p: '{{prompt}}' } }";
    let config = provider(&server.url(), "URL/refuses", config);
    let folder = folder(&[(CONFIG, &config)]);
    let env = [("PASSPHRASE_OF_MINE", TOKEN)];
    let args = ["test", "-c", CONFIG, "-v", "--reporter", "json=ran.json", "--responses", "cache"];
    let ran = kindlm_with(folder.path(), &args, &env);
    assert_eq!(ran.code, 3, "{ran:?}");
    let sent = server.requests();
    assert!(String::from_utf8_lossy(&sent[0].body).contains(TOKEN), "it is sent");
    let report = std::fs::read_to_string(folder.path().join("ran.json")).unwrap();
    assert!(report.contains("[redacted] is not known"), "{report}");
    let mut files = vec![folder.path().to_owned()];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|it| it.unwrap().path()));
        } else {
            let text = std::fs::read(&path).unwrap();
            assert!(!String::from_utf8_lossy(&text).contains(TOKEN), "{path:?}");
        }
    }
    assert!(!ran.stdout.contains(TOKEN) && !ran.stderr.contains(TOKEN), "{ran:?}");

    // If a variable has no value, no request is sent.
    let ran = kindlm_with(folder.path(), &["test", "-c", CONFIG], &[]);
    assert_eq!(server.count(), sent.len());
    assert!(ran.stderr.contains("`PASSPHRASE_OF_MINE` is not set"), "{ran:?}");
}

#[test]
fn a_prompt_reads_no_environment_variable() {
    let server = server();
    let config = "{ method: POST, headers: { X: '{{env.TOKEN}}' }, body: { p: '{{prompt}}' } }";
    let config = provider(&server.url(), "URL/x", config)
        .replace("O'Hara", "{% raw %}{{env.TOKEN}}{% endraw %}");
    let folder = folder(&[(CONFIG, &config)]);
    let (ran, rows) = rows(folder.path(), CONFIG, &[("TOKEN", TOKEN)]);
    assert_eq!(rows.len(), 1, "{ran:?}");
    let sent = server.requests();
    assert_eq!(sent[0].header("x"), Some(TOKEN));
    assert!(!String::from_utf8_lossy(&sent[0].body).contains(TOKEN));
}

#[test]
fn errors_name_their_place() {
    for (config, expected) in [
        ("{ method: GET, headers: { X: '{{ name | uper }}' } }", "there is no filter `uper`"),
        (
            "{ method: GET, headers: { X: '{{ env.A | upper }}' } }",
            "`env.A` is part of a larger expression",
        ),
        ("{ method: POST, body: { a: [{ b: '{{ name' }] } }", "the template cannot be read"),
        (
            "{ method: GET, queryParams: { k: sk-proj-AbCdEf0123456789xyz } }",
            "a key must not be in a file",
        ),
        (
            "{ auth: { type: api_key, placement: query, keyName: k, value: sk-proj-AbCdEf0123456789xyz } }",
            "a key must not be in a file",
        ),
        ("{ method: GET, transformResponse: 'file://nope.js' }", "nope.js"),
        (
            "{ method: GET, transformRequest: '{{prompt}}' }",
            "`config.transformRequest` of an http provider",
        ),
    ] {
        let folder = folder(&[(CONFIG, &provider("http://localhost:1", "URL/x", config))]);
        let ran = kindlm_with(folder.path(), &["validate", "-c", CONFIG], &[]);
        assert_eq!(ran.code, 2, "{config}: {ran:?}");
        assert!(ran.stderr.contains(expected), "{config}: {}", ran.stderr);
        assert!(ran.stderr.contains("promptfooconfig.yaml:2:"), "{config}: {}", ran.stderr);
    }
}

#[test]
fn a_session_is_opened_before_each_request() {
    let server = MockServer::answering(|request| match request.path.as_str() {
        "/sessions" => MockReply::json(&json!({"session": {"id": "s 1"}})),
        _ => MockReply::json(&json!({"reply": "got it"})),
    })
    .unwrap();
    let url = server.url();
    let config = format!(
        "prompts: ['{{{{x}}}}']\nproviders:\n  - id: http\n    config:\n      url: {url}/ask\n      method: POST\n      \
         headers: {{ X-Session: '{{{{sessionId}}}}' }}\n      body: {{ q: '{{{{prompt}}}}' }}\n      transformResponse: json.reply\n      \
         session: {{ url: '{url}/sessions', headers: {{ Authorization: 'Bearer {{{{env.TOKEN}}}}' }}, body: {{ for: '{{{{x}}}}' }}, \
         responseParser: data.body.session.id }}\ntests: [{{ vars: {{ x: a }} }}, {{ vars: {{ x: b }} }}]\n\
         evaluateOptions: {{ maxConcurrency: 1 }}\n"
    );
    let folder = folder(&[(CONFIG, &config)]);
    let (ran, rows) = rows(folder.path(), CONFIG, &[("TOKEN", TOKEN)]);
    assert_eq!(rows.len(), 2, "{ran:?}");
    let sent = server.requests();
    let sent: Vec<_> = sent
        .iter()
        .map(|it| {
            let header = it.header("x-session").or_else(|| it.header("authorization"));
            (it.path.clone(), it.json(), header.unwrap_or_default().to_owned())
        })
        .collect();
    let bearer = format!("Bearer {TOKEN}");
    let expected = [
        ("/sessions", json!({"for": "a"}), bearer.as_str()),
        ("/ask", json!({"q": "a"}), "s 1"),
        ("/sessions", json!({"for": "b"}), bearer.as_str()),
        ("/ask", json!({"q": "b"}), "s 1"),
    ];
    let expected = expected.map(|(path, body, header)| (path.to_owned(), body, header.to_owned()));
    assert_eq!(sent, expected);
    assert!(rows.iter().all(|it| it["output"] == "got it"), "{rows:?}");
}
