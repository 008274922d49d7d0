//! The values of keys never leave the process, even if a model or a command repeats them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use kindlm_testing::{MockReply, MockServer};

use crate::binary;
use crate::traced::{self, Waiting};

const KEY: &str = "correct-horse-battery-staple";
const TOKEN: &str = "tr0ub4dor\"and3";
/// The beginning of every key that the script of [`keys_that_a_command_prints_are_in_no_file`] prints.
const PRINTED: &str = "short-lived-key";

fn kindlm(folder: &Path, line: &str) -> Output {
    kindlm_with(folder, &line.split(' ').collect::<Vec<_>>())
}

fn kindlm_with(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(binary())
        .args(arguments)
        .current_dir(folder)
        .env("MY_KEY", format!("{KEY}\n"))
        .env("MY_TOKEN", TOKEN)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Returns all files below a folder that contain the key or the token.
fn leaks(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for item in fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        if path.is_dir() {
            found.extend(leaks(&path));
        } else if leaked(&fs::read(&path).unwrap()) {
            found.push(path.display().to_string());
        }
    }
    found
}

fn leaked(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    [KEY, "tr0ub4dor", PRINTED].iter().any(|it| text.contains(it))
}

#[test]
fn echoed_keys_are_in_no_report_and_no_stored_file() {
    let folder = tempfile::tempdir().unwrap();
    let server = MockServer::answering(|_| {
        let arguments = serde_json::json!({"to": KEY, TOKEN: [TOKEN]}).to_string();
        MockReply::json(&serde_json::json!({
            "choices": [{
                "message": {
                    "content": format!("Your key is {KEY}, and {TOKEN}"),
                    "tool_calls": [{
                        "id": "1", "type": "function", "function": {"name": "send", "arguments": arguments},
                    }],
                },
                "finish_reason": "tool_calls",
            }],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }))
    })
    .unwrap();
    let url = server.url();
    let yaml = format!(
        r#"kindlm: 1
project: p
suite: {{ name: leaky }}
providers:
  openai: {{ apiKeyEnv: MY_KEY, baseUrl: "{url}/v1" }}
  http:
    url: "{url}/v1/chat/completions"
    headers: {{ x-token: "env:MY_TOKEN" }}
models:
  - {{ id: m, provider: openai, model: gpt-4o }}
  - {{ id: h, provider: http, model: x }}
prompts: {{ p: {{ user: hi }} }}
tests:
  - name: model
    prompt: p
    expect:
      output: {{ contains: [bye], schema: {{ type: object }}, format: json }}
      guardrails: {{ keywords: {{ deny: [horse] }} }}
  - name: command
    command: 'echo "out $MY_KEY"; echo "err $MY_TOKEN" >&2; exit 3'
    expect: {{ output: {{ contains: [bye] }} }}
"#
    );
    fs::write(folder.path().join("kindlm.yaml"), yaml).unwrap();

    // A PDF needs a build with the feature `pdf`. The PDF has the text of `compliance-html`.
    let reporters = kindlm_reporters::REGISTRY.iter().filter(|it| !it.is_pdf_source());
    let reporters: Vec<&str> = reporters.map(|it| it.meta.id).collect();
    let files: Vec<String> =
        reporters.iter().map(|it| format!("--reporter {it}=reports/{it}")).collect();
    let mut outputs = vec![kindlm(folder.path(), &format!("test -v {}", files.join(" ")))];
    for reporter in &reporters {
        outputs.push(kindlm(folder.path(), &format!("test -v --reporter {reporter}")));
    }
    for line in ["baseline set --force", "test -v", "baseline compare", "report -v"] {
        outputs.push(kindlm(folder.path(), line));
    }
    for output in &outputs {
        let (out, err) = (&output.stdout, &output.stderr);
        let said = [out.as_slice(), err].concat();
        assert!(!leaked(&said), "{}", String::from_utf8_lossy(&said));
    }
    let first = String::from_utf8_lossy(&outputs[0].stderr);
    assert!(first.contains("report `json` written to reports/json"), "{first}");
    assert_eq!(leaks(folder.path()), Vec::<String>::new());
    let json = fs::read_to_string(folder.path().join("reports/json")).unwrap();
    assert!(json.contains("Your key is [redacted], and [redacted]"), "{json}");
    assert!(json.contains("out [redacted]") && json.contains("err [redacted]"), "{json}");
}

#[cfg(unix)]
#[test]
fn keys_that_a_command_prints_are_in_no_file() {
    let folder = tempfile::tempdir().unwrap();
    // The server refuses the first key, and repeats every key.
    let server = MockServer::answering(|request| {
        let sent = request.header("authorization").unwrap_or_default();
        let key = sent.strip_prefix("Bearer ").unwrap_or_default();
        if key.ends_with("-1") {
            return MockReply::error(401, &format!("expired: {key}"));
        }
        MockReply::text(format!("You sent {key}"))
    })
    .unwrap();
    let yaml = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: s }}\n\
         providers: {{ openai: {{ apiKeyCommand: sh print.sh, baseUrl: \"{}/v1\" }} }}\n\
         models: [{{ id: m, provider: openai, model: gpt-4o }}]\n\
         prompts: {{ p: {{ user: hi }} }}\n\
         tests: [{{ name: t, prompt: p, expect: {{ output: {{ contains: [You sent] }} }} }}]\n",
        server.url()
    );
    fs::write(folder.path().join("kindlm.yaml"), yaml).unwrap();
    let script =
        "echo run >> runs\nprintf 'short-%s-key-%s\\n' lived \"$(wc -l < runs | tr -d ' ')\"\n";
    fs::write(folder.path().join("print.sh"), script).unwrap();
    let runs = || {
        let runs = fs::read_to_string(folder.path().join("runs"));
        runs.unwrap_or_default().lines().count()
    };
    for (line, expected) in [
        ("validate", 0),
        ("test --dry-run", 0),
        (
            "test -v --responses record --reporter json=reports/json --reporter junit=reports/junit",
            2,
        ),
        ("report -v", 2),
        // The digest of a request does not contain the key, so a replay finds the answer and needs no key.
        ("test -v --responses replay --reporter json=reports/replayed", 2),
    ] {
        let output = kindlm(folder.path(), line);
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&said));
        assert!(!leaked(&said), "{line}: {}", String::from_utf8_lossy(&said));
        assert_eq!(runs(), expected, "{line}");
    }
    assert_eq!(leaks(folder.path()), Vec::<String>::new());
    for report in ["reports/json", "reports/replayed"] {
        let json = fs::read_to_string(folder.path().join(report)).unwrap();
        assert!(json.contains("You sent [redacted]"), "{report}: {json}");
    }
    assert_eq!(server.count(), 2);
}

#[test]
fn keys_in_a_judges_answer_are_not_in_an_evaluation() {
    let folder = tempfile::tempdir().unwrap();
    let server = MockServer::answering(|_| {
        MockReply::text(format!(r#"{{"score": 0.1, "reasoning": "the key is {KEY}"}}"#))
    })
    .unwrap();
    let yaml = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: s }}\n\
         providers: {{ openai: {{ apiKeyEnv: MY_KEY, baseUrl: \"{}/v1\" }} }}\n\
         models: [{{ id: m, provider: openai, model: gpt-4o }}]\n\
         prompts: {{ p: {{ user: hi }} }}\ntests: [{{ name: t, prompt: p, expect: {{ output: {{ maxLength: 5 }} }} }}]\n",
        server.url()
    );
    fs::write(folder.path().join("kindlm.yaml"), yaml).unwrap();
    let record = format!(
        r#"{{"agent_output": "x", "notes": "{KEY}", "expect": {{"judge": [{{"criteria": "is it?"}}]}}}}"#
    );
    fs::write(folder.path().join("record.json"), record).unwrap();
    let output = kindlm(folder.path(), "evaluate -c kindlm.yaml --echo record.json");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("the key is [redacted]"), "{text}");
    assert!(!leaked(&output.stdout) && !leaked(&output.stderr), "{text}");
    // The key must not appear as the id of a record, or in its error message.
    let records = [
        format!(
            r#"{{"id": "{KEY}", "agent_output": "x", "expect": {{"output": {{"contains": ["x"]}}}}}}"#
        ),
        format!(r#"{{"id": "{KEY}", "agent_output": "x", "expect": {{"{KEY}": 1}}}}"#),
        format!(
            r#"{{"id": "{KEY}", "agent_input": "q", "agent_output": "x", "assertions": "{KEY}"}}"#
        ),
    ];
    fs::write(folder.path().join("records.jsonl"), records.join("\n")).unwrap();
    for _ in 0..2 {
        let output = kindlm(
            folder.path(),
            "evaluate -c kindlm.yaml --jsonl records.jsonl --output results.jsonl --resume",
        );
        let results = fs::read_to_string(folder.path().join("results.jsonl")).unwrap();
        assert_eq!(results.matches("[redacted]").count(), 6, "{results}");
        assert!(!leaked(results.as_bytes()) && !leaked(&output.stderr), "{results}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!told.contains("is no longer"), "{told}");
    }
}

/// An agent that reveals the key in every part of its protocol.
const AGENT: &str = r#"key=$(printf %s "$MY_KEY")
read -r hello
echo '{"kindlm":"hello","version":1}'
echo "progress: $key" >&2
while read -r turn; do
  printf '{"kindlm":"event","type":"action.called","callId":"1","name":"send","input":{"to":"%s"}}\n' "$key"
  printf '{"kindlm":"event","type":"action.result","callId":"1","output":"%s","status":"failed"}\n' "$key"
  printf '{"kindlm":"event","type":"message","role":"assistant","text":"my key is %s"}\n' "$key"
  echo '{"kindlm":"result"}'
done
"#;

/// Programs get the whole environment, so its secrets are redacted even if no provider names them.
#[test]
fn secrets_of_programs_are_in_no_artifact() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("agent.sh", AGENT);
    fs::create_dir(folder.path().join("start")).unwrap();
    write("start/readme", "nothing yet\n");
    write(
        "kindlm.yaml",
        r#"kindlm: 1
project: p
suite: { name: leaky }
agents:
  all: { command: sh agent.sh, timeoutMs: 20000 }
  some: { command: sh agent.sh, env: [MY_KEY], timeoutMs: 20000 }
tests:
  - name: agent
    agent: [all, some]
    conversation: [{ turn: one, user: hi }]
    expect:
      output: { contains: [bye] }
      assert: [{ type: no-failed-actions }, { type: called-tool, value: read }]
  - name: workspace
    command: 'echo "$MY_KEY" > kept; echo "$MY_KEY"; exit 3'
    workspace: { from: start }
    expect: { assert: [{ type: diff-empty }, { type: command-succeeded, value: 'cat kept; exit 4' }] }
"#,
    );
    let mut outputs = Vec::new();
    for line in [
        "test -v --reporter json=reports/json --reporter html=reports/html",
        "test -v --resume --reporter json=reports/resumed",
        "test -v --no-journal --reporter junit=reports/junit",
        "trace -v --timeout 20s --reporter json=reports/trace --command false",
        "baseline set --force",
        "report -v",
    ] {
        outputs.push(kindlm(folder.path(), line));
    }
    let command = r#"echo "$MY_KEY" >&2; exit 127"#;
    outputs.push(kindlm_with(folder.path(), &["trace", "-v", "--command", command]));
    for output in &outputs {
        let said = [output.stdout.as_slice(), &output.stderr].concat();
        assert!(!leaked(&said), "{}", String::from_utf8_lossy(&said));
    }
    assert_eq!(leaks(folder.path()), Vec::<String>::new());
    for report in ["json", "resumed"] {
        let json = fs::read_to_string(folder.path().join("reports").join(report)).unwrap();
        assert!(json.matches("my key is [redacted]").count() >= 2, "{json}");
        assert!(json.contains("progress: [redacted]"), "{json}");
        assert!(json.contains(r#""stdout": "[redacted]""#), "{json}");
    }
    let said = String::from_utf8_lossy(&outputs[6].stdout);
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("it wrote to stderr: [redacted]"), "{said}");
}

/// Secret values, recognized by the name of the variable, or only by the form of the value: a password in a URL.
const PLANTED: [(&str, &str, &str); 5] = [
    ("MY_KEY", "sk-CANARY7-q9Zx/T+w3vLm=Kd", "sk-CANARY7-q9Zx/T+w3vLm=Kd"),
    ("DB_PASS", "canary.pass.17", "canary.pass.17"),
    ("GH_PAT", "canary~pat~18", "canary~pat~18"),
    ("DATABASE_URL", "postgres://shop:canary!url!19@db.test/shop", "canary!url!19"),
    ("MY_SECRET", "canary^line^20\ncanary^line^21", "canary^line^21"),
];

/// Returns a secret in all encodings in which it may appear.
fn forms(secret: &str) -> Vec<String> {
    use data_encoding::{BASE64, BASE64URL, HEXLOWER, HEXUPPER};

    let each = |form: fn(u8) -> String| secret.bytes().map(form).collect::<String>();
    let mut forms = vec![
        secret.to_owned(),
        secret.to_uppercase(),
        HEXLOWER.encode(secret.as_bytes()),
        HEXUPPER.encode(secret.as_bytes()),
        each(|it| format!("%{it:02X}")),
        each(|it| format!("\\u{it:04x}")),
        each(|it| format!("&#{it};")),
    ];
    for before in ["", "user:", "Bearer ", "a"] {
        forms.push(BASE64.encode(format!("{before}{secret}").as_bytes()));
        forms.push(BASE64URL.encode(format!("{before}{secret}:").as_bytes()));
    }
    forms
}

/// Values that are recognized as secrets by their form alone: API keys of services, and key-value pairs.
const LOOKS: [&str; 3] = ["AbCdEf0123456789xyz", "c4n4ryp4ss", "c4n4ryb34rer00000"];

/// How the API keys of services begin.
const KEYS: [&str; 21] = [
    "sk-proj-",
    "sk_live_",
    "rk_live_",
    "gsk_",
    "AIza",
    "xai-",
    "hf_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xapp-",
    "AKIA",
    "ASIA",
    "pplx-",
    "nvapi-",
    "eyJ",
];

/// Returns all texts that must not appear in files and outputs.
fn canaries() -> Vec<String> {
    let known = PLANTED.iter().flat_map(|(_, _, secret)| forms(secret));
    known.chain(LOOKS.map(str::to_owned)).collect()
}

/// Returns a text with all secrets, each in all its forms.
fn planted() -> String {
    let mut words: Vec<String> = PLANTED.iter().flat_map(|(_, _, secret)| forms(secret)).collect();
    words.extend(KEYS.map(|it| format!("{it}{}", LOOKS[0])));
    words.push(format!("password={}", LOOKS[1]));
    words.push(format!("Bearer {}", LOOKS[2]));
    words.join(" ")
}

fn with_planted(folder: &Path, line: &str) -> Output {
    Command::new(binary())
        .args(line.split(' '))
        .current_dir(folder)
        .envs(PLANTED.map(|(name, value, _)| (name, value)))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The input files, which have secrets.
const INPUTS: [&str; 4] = ["kindlm.yaml", "records.jsonl", "said", "transcript.json"];

/// Returns the files below a folder that contain a secret, each with the secret.
///
/// The input files are not searched.
fn planted_in(folder: &Path, canaries: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for item in fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        if path.is_dir() {
            found.extend(planted_in(&path, canaries));
        } else if !INPUTS.iter().any(|it| path.ends_with(it)) {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            found.extend(
                canaries
                    .iter()
                    .filter(|it| text.contains(it.as_str()))
                    .map(|it| format!("{}: {it}", path.display())),
            );
        }
    }
    found
}

/// Writes input files with secrets into a folder, and starts a server whose answers have them.
fn plant(folder: &Path, said: &str) -> MockServer {
    fs::write(folder.join("said"), said).unwrap();
    let arguments = serde_json::json!({ "to": said }).to_string();
    let transcript = serde_json::json!([
        {"role": "user", "content": said},
        {"role": "assistant", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "send", "arguments": arguments}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": said},
        {"role": "assistant", "content": said},
    ]);
    fs::write(folder.join("transcript.json"), transcript.to_string()).unwrap();
    let answer = said.to_owned();
    MockServer::answering(move |request| {
        let reply = if String::from_utf8_lossy(&request.body).contains("fail") {
            MockReply::error(400, &answer)
        } else {
            MockReply::text(answer.clone())
        };
        // A server may send the headers of a request back.
        let headers = ["x-request-id", "retry-after", "www-authenticate"];
        headers
            .into_iter()
            .fold(reply, |reply, name| reply.with_header(name, &answer.replace('\n', " ")))
    })
    .unwrap()
}

/// Secrets of all kinds and encodings appear in no output, whichever input contains them.
#[test]
fn no_artifact_holds_a_secret_in_any_form() {
    let folder = tempfile::tempdir().unwrap();
    let canaries = canaries();
    let said = planted();
    let server = plant(folder.path(), &said);
    let name = PLANTED[0].1;
    let yaml = format!(
        r#"kindlm: 1
project: p
suite: {{ name: "suite {name}" }}
providers: {{ openai: {{ apiKeyEnv: MY_KEY, baseUrl: "{}/v1" }} }}
models: [{{ id: m, provider: openai, model: gpt-4o }}]
prompts: {{ p: {{ user: "{{{{what}}}}" }}, q: {{ user: fail }} }}
tests:
  - name: "answer {name}"
    prompt: p
    tags: ["tag {name}"]
    vars: {{ what: "{name}" }}
    expect:
      output: {{ contains: [bye] }}
      guardrails: {{ keywords: {{ deny: [canary] }} }}
      assert:
        - {{ type: javascript, value: "console.log(output); throw new Error(output)" }}
        - {{ type: equals, value: other }}
  - {{ name: error, prompt: q, expect: {{ output: {{ contains: [bye] }} }} }}
  - {{ name: command, command: "cat said; cat said >&2; exit 3", expect: {{ output: {{ contains: [bye] }} }} }}
  - name: transcript
    transcript: file://transcript.json
    expect: {{ output: {{ contains: [bye] }}, assert: [{{ type: called-tool, value: look, input: {{ to: me }} }}] }}
  - {{ name: passes, prompt: p, vars: {{ what: hi }}, expect: {{ output: {{ contains: [CANARY] }} }} }}
"#,
        server.url()
    );
    fs::write(folder.path().join("kindlm.yaml"), yaml).unwrap();
    let record = serde_json::json!({
        "id": name, "agent_output": said, "vars": {"x": said}, "notes": said,
        "expect": {"output": {"contains": ["bye"]}},
    });
    fs::write(folder.path().join("records.jsonl"), format!("{record}\n")).unwrap();
    let files: Vec<String> = kindlm_reporters::REGISTRY
        .iter()
        .filter(|it| !it.is_pdf_source())
        .map(|it| format!("--reporter {0}=reports/{0}", it.meta.id))
        .collect();
    for line in [
        "validate",
        "validate --format json",
        &format!("test -v --responses cache {}", files.join(" ")),
        "test --dry-run",
        "baseline set --force",
        "test -v --reporter pretty",
        "baseline compare",
        "report -v",
        "history",
        "runs",
        "compare default --json",
        "mutate --only passes --html reports/mutation.html",
        "mutate --only passes --json",
        "explain openai",
        "evaluate -c kindlm.yaml --echo --jsonl records.jsonl --output results.jsonl",
    ] {
        let output = with_planted(folder.path(), line);
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let found: Vec<&String> = canaries.iter().filter(|it| text.contains(it.as_str())).collect();
        assert!(found.is_empty(), "{line}: {found:?}\n{text}");
        assert!(!text.contains("unexpected argument"), "{line}: {text}");
    }
    let found = planted_in(folder.path(), &canaries);
    assert!(found.is_empty(), "{}", found.join("\n"));
    let json = fs::read_to_string(folder.path().join("reports/json")).unwrap();
    assert!(json.contains("answer sk-[redacted]") || json.contains("answer [redacted]"), "{json}");
}

/// Spans of an agent may have its secrets in every attribute.
#[test]
fn secrets_in_spans_are_in_no_artifact() {
    let folder = tempfile::tempdir().unwrap();
    let (canaries, said) = (canaries(), planted());
    fs::write(folder.path().join("kindlm.yaml"), traced::SUITE).unwrap();
    let reports = [
        "--reporter",
        "html=reports/html",
        "--reporter",
        "junit=reports/junit",
        "--settle",
        "200ms",
    ];
    let env = PLANTED.map(|(name, value, _)| (name, value));
    let waiting = Waiting::start_with_env(folder.path(), &reports, &env);
    let text =
        |key: &str, text: &str| serde_json::json!({"key": key, "value": {"stringValue": text}});
    let mut answer = traced::chat(traced::A, &format!("done {said}"));
    answer["attributes"].as_array_mut().unwrap().push(text("app.note", &said));
    answer["status"] = serde_json::json!({"code": 2, "message": said});
    let tool = serde_json::json!({
        "traceId": traced::A, "spanId": "00f067aa0ba902b8", "name": format!("execute_tool {said}"),
        "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000100000000",
        "attributes": [
            text("gen_ai.operation.name", "execute_tool"),
            text("gen_ai.tool.name", "send"),
            text("gen_ai.tool.call.arguments", &serde_json::json!({"to": said}).to_string()),
            text("gen_ai.tool.call.result", &said),
        ],
    });
    let reply = waiting.post("application/json", &traced::request(&[answer, tool]));
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
    let (_, report, stderr) = waiting.end();
    let text = format!("{report:#}{stderr}");
    let found: Vec<&String> = canaries.iter().filter(|it| text.contains(it.as_str())).collect();
    assert!(found.is_empty(), "{found:?}\n{text}");
    assert!(text.contains("send") && text.contains("[redacted]"), "{text}");
    assert_eq!(planted_in(folder.path(), &canaries), Vec::<String>::new());
}
