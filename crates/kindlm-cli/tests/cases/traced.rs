//! `kindlm trace`: the answers of the receiver, agents that send spans, and results that must not pass.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use kindlm_testing::installed;
use serde_json::{Value, json};

use crate::{NEVER, binary, fixtures, wait_until};

pub(crate) const SUITE: &str = "\
kindlm: 1
project: traced
suite: { name: traced }
providers: { echo: {} }
models: [{ id: none, provider: echo, model: none }]
prompts: { p: { user: not sent } }
tests:
  - name: says done
    prompt: p
    expect:
      output: { contains: [done] }
      toolCalls: [{ tool: delete, shouldNotCall: true }]
      assert:
        - { type: not-called-tool, value: delete }
";

fn suite() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kindlm.yaml"), SUITE).unwrap();
    folder
}

fn kindlm(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A `kindlm trace` process that waits for spans.
pub(crate) struct Waiting {
    child: Child,
    address: String,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Waiting {
    fn start(folder: &Path, more: &[&str]) -> Self {
        Self::start_with_env(folder, more, &[])
    }

    /// Starts the process with these environment variables, and waits until it receives spans.
    pub(crate) fn start_with_env(folder: &Path, more: &[&str], env: &[(&str, &str)]) -> Self {
        let usual = ["trace", "--port", "0", "--reporter", "json"];
        let timeout: &[&str] =
            if more.contains(&"--timeout") { &[] } else { &["--timeout", "60s"] };
        let args = [&usual, timeout, more].concat();
        let mut child = kindlm(folder, &args).envs(env.iter().copied()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("receiving spans at http://");
        let address = address.and_then(|it| it.strip_suffix("/v1/traces"));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, address, stderr }
    }

    /// Sends a raw request, and returns the response.
    fn send(&self, head: &str, body: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(NEVER)).unwrap();
        let length = body.len();
        let head =
            format!("{head}\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        // The server may close the connection early, so write errors are ignored.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        text(&answer)
    }

    pub(crate) fn post(&self, content_type: &str, body: &[u8]) -> String {
        self.send(&format!("POST /v1/traces HTTP/1.1\r\nContent-Type: {content_type}"), body)
    }

    pub(crate) fn end(mut self) -> (Option<i32>, Value, String) {
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        let mut stderr = String::new();
        self.stderr.read_to_string(&mut stderr).unwrap();
        let code = self.child.wait().unwrap().code();
        (code, serde_json::from_str(&stdout).unwrap_or_default(), stderr)
    }
}

pub(crate) fn chat(trace: &str, said: &str) -> Value {
    let said = json!([{"role": "assistant", "parts": [{"type": "text", "content": said}]}]);
    json!({
        "traceId": trace, "spanId": "00f067aa0ba902b7", "name": "chat m",
        "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000100000000",
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
            {"key": "gen_ai.output.messages", "value": {"stringValue": said.to_string()}},
        ],
    })
}

pub(crate) fn request(spans: &[Value]) -> Vec<u8> {
    json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).to_string().into_bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

pub(crate) const A: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const B: &str = "4bf92f3577b34da6a3ce929d0e0e4737";

#[test]
fn the_receiver_reports_errors_and_goes_on() {
    let folder = suite();
    let waiting = Waiting::start(folder.path(), &["--settle", "300ms"]);
    assert!(waiting.address.starts_with("127.0.0.1:"), "{}", waiting.address);
    let traces = "POST /v1/traces HTTP/1.1";
    let as_json = "POST /v1/traces HTTP/1.1\r\nContent-Type: application/json";
    let large = vec![b' '; 21 << 20];
    let bomb = gzip(&large);
    let gzipped = format!("{as_json}\r\nContent-Encoding: gzip");
    for (head, body, status, words) in [
        ("GET /v1/traces HTTP/1.1", &b""[..], 405, "POST requests only"),
        (
            "POST / HTTP/1.1\r\nContent-Type: application/json",
            b"{}",
            404,
            "received at `/v1/traces`",
        ),
        (traces, b"{}", 415, "content type"),
        ("POST /v1/traces HTTP/1.1\r\nContent-Type: text/plain", b"{}", 415, "content type"),
        (&format!("{as_json}\r\nContent-Encoding: br"), b"{}", 415, "content encoding"),
        (as_json, b"", 400, "it is not JSON"),
        (as_json, b"{\"resourceSpans\": [", 400, "it is not JSON"),
        (as_json, b"[]", 400, "OTLP payload missing resourceSpans array"),
        (as_json, b"\xff\xfe", 400, "it is not JSON"),
        (
            "POST /v1/traces HTTP/1.1\r\nContent-Type: application/x-protobuf",
            b"\x0a\xff",
            400,
            "protobuf",
        ),
        (&gzipped, b"no gzip", 400, "gzip"),
        (&gzipped, &bomb, 413, "larger than 20 MiB"),
        (as_json, &large, 413, "larger than 20 MiB"),
        ("POST /v1/metrics HTTP/1.1\r\nContent-Type: application/x-protobuf", b"\x0a\x00", 200, ""),
        (
            "POST /v1/logs HTTP/1.1\r\nContent-Type: application/json",
            b"{\"resourceLogs\": []}",
            200,
            "{}",
        ),
        ("POST /v1/traces HTTP/1.1\r\nContent-Type: application/x-protobuf", b"", 200, ""),
        (as_json, b"{\"resourceSpans\": []}", 200, "{}"),
    ] {
        let answer = waiting.send(head, body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
        assert!(answer.contains(words), "{head}: {answer}");
        assert!(!answer.contains("access-control"), "{answer}");
    }
    // These bytes are not HTTP.
    let mut stream = TcpStream::connect(&waiting.address).unwrap();
    stream.write_all(&[0; 4096]).unwrap();
    drop(stream);
    let answer =
        waiting.send(&gzipped, &gzip(&request(&[chat(A, "all done"), json!({"name": "bad"})])));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains(r#"{"partialSuccess":{"rejectedSpans":"1""#), "{answer}");
    let (code, report, stderr) = waiting.end();
    // The rejected data may contain events that a negative check looks for, so the execution is errored.
    assert_eq!(code, Some(1), "{stderr}");
    assert_eq!(report["totals"]["errored"], 1, "{report}");
    assert!(stderr.contains("1 span in 1 trace"), "{stderr}");
    assert!(stderr.contains("warning: a request to `/v1/traces` was answered with 4"), "{stderr}");
}

#[test]
fn several_traces_are_several_executions() {
    let folder = suite();
    let waiting = Waiting::start(folder.path(), &["--settle", "200ms", "--traces", "2"]);
    for (trace, said) in [(A, "done"), (B, "nothing")] {
        let answer =
            waiting.post("application/json; charset=utf-8", &request(&[chat(trace, said)]));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let (code, report, stderr) = waiting.end();
    assert_eq!(code, Some(1), "{stderr}");
    let executions = report["cases"][0]["executions"].as_array().unwrap();
    let outcomes: Vec<&Value> = executions.iter().map(|it| &it["outcome"]).collect();
    assert_eq!(outcomes, ["passed", "failed"]);
}

#[test]
fn spans_that_never_end_are_not_waited_for_without_end() {
    let folder = suite();
    let mut waiting = Waiting::start(
        folder.path(),
        // The report of one execution fits into a pipe that is not read yet.
        &["--command", "sleep 1", "--timeout", "3s", "--settle", "2900ms", "--merge"],
    );
    let deadline = Instant::now() + NEVER;
    let mut number = 0;
    while waiting.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "it waits as long as something comes");
        number += 1;
        let body = request(&[chat(&format!("{number:032x}"), "done")]);
        let head = format!(
            "POST /v1/traces HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        if let Ok(mut stream) = TcpStream::connect(&waiting.address) {
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
            let _ = stream.read_to_end(&mut Vec::new());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let (_, report, stderr) = waiting.end();
    let words = "spans still arrived 3000 ms after the command had ended";
    assert!(stderr.contains(words), "{stderr}");
    assert!(report["warnings"].to_string().contains(words), "{report}");
}

#[test]
fn without_spans_nothing_is_green() {
    let folder = suite();
    for (args, words) in [
        (&["--timeout", "200ms", "--port", "0"][..], "no span arrived within 200 ms"),
        (
            &["--command", "echo done", "--settle", "50ms"],
            "the command ended with exit code 0, and no span arrived",
        ),
        (
            &["--command", "exit 3", "--settle", "50ms"],
            "the command ended with exit code 3, and no span arrived",
        ),
        (&["--command", "no-such-agent"], "the command was not found (exit code 127)"),
        (&["--command", "kill -9 $$"], "a signal ended the command"),
        (
            &["--command", "sleep 60", "--timeout", "200ms"],
            "did not end within 200 ms and was stopped",
        ),
    ] {
        let Output { status, stdout, stderr } =
            kindlm(folder.path(), &[&["trace"], args].concat()).output().unwrap();
        assert_eq!(status.code(), Some(3), "{args:?}: {}", text(&stderr));
        assert!(text(&stdout).contains(words), "{args:?}: {}", text(&stdout));
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_stops_the_agent_with_all_that_it_started() {
    let folder = suite();
    let command = "sleep 1000 & echo $! > child; echo $$ > agent; wait";
    let child = kindlm(folder.path(), &["trace", "--command", command, "--timeout", "60s"])
        .spawn()
        .unwrap();
    let pid = |name: &str| -> Option<i32> {
        fs::read_to_string(folder.path().join(name)).ok()?.trim().parse().ok()
    };
    wait_until("the agent", || pid("agent").is_some() && pid("child").is_some());
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("interrupted while waiting for spans"));
    for name in ["agent", "child"] {
        let id = pid(name).unwrap().to_string();
        wait_until("its end", || is_gone(&id));
    }
}

/// Returns true if a process has ended; zombies count as ended.
#[cfg(unix)]
fn is_gone(id: &str) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", id]).output().unwrap();
    let state = text(&output.stdout);
    state.trim().is_empty() || state.trim().starts_with('Z')
}

/// Copies the example for users into a folder, with a virtual environment that has the OpenTelemetry SDK from `PyPI`.
///
/// Without Python, prints a message and returns `None`.
fn python_agent() -> Option<(tempfile::TempDir, PathBuf)> {
    if !installed("python3") {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    for file in ["agent.py", "kindlm.yaml", "requirements.txt"] {
        fs::copy(fixtures().join("traced-agent").join(file), folder.path().join(file)).unwrap();
    }
    let venv = folder.path().join("venv");
    let made = Command::new("python3").args(["-m", "venv"]).arg(&venv).output().unwrap();
    let python = venv.join("bin/python");
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-r",
        "requirements.txt",
    ];
    let installed = made
        .status
        .success()
        .then(|| Command::new(&python).args(install).current_dir(folder.path()).output().unwrap());
    let why = match installed {
        Some(output) if output.status.success() => return Some((folder, python)),
        Some(output) => text(&output.stderr),
        None => text(&made.stderr),
    };
    kindlm_testing::not_run("pypi", &format!("the OpenTelemetry SDK cannot be installed: {why}"));
    None
}

#[test]
fn a_python_agent_is_tested_by_its_spans() {
    let Some((folder, python)) = python_agent() else { return };
    for more in ["", " --gzip"] {
        let command = format!("{} agent.py{more}", python.display());
        let args = ["trace", "--command", &command, "--timeout", "120s", "--reporter", "json"];
        let Output { status, stdout, stderr } = kindlm(folder.path(), &args).output().unwrap();
        let report: Value = serde_json::from_slice(&stdout).unwrap();
        assert_eq!(status.code(), Some(0), "{}\n{report:#}", text(&stderr));
        assert!(text(&stderr).contains("10 spans in 2 traces"), "{}", text(&stderr));
        let cases = report["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 2);
        for case in cases {
            assert_eq!(case["executions"].as_array().unwrap().len(), 1, "{case:#}");
            assert_eq!(case["executions"][0]["outcome"], "passed", "{case:#}");
        }
    }
    // The same agent without the limit fails the test.
    let agent = fs::read_to_string(folder.path().join("agent.py")).unwrap();
    fs::write(folder.path().join("agent.py"), agent.replace("LIMIT = 100", "LIMIT = 10_000"))
        .unwrap();
    let command = format!("{} agent.py", python.display());
    let Output { status, stdout, .. } =
        kindlm(folder.path(), &["trace", "--command", &command, "--timeout", "120s"])
            .output()
            .unwrap();
    assert_eq!(status.code(), Some(1), "{}", text(&stdout));
    assert!(text(&stdout).contains("issue_refund"), "{}", text(&stdout));
}
