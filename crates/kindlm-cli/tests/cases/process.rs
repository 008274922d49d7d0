//! The behaviour of the process with pipes, signals and terminals.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use kindlm_testing::{MockReply, MockServer};
use kindlm_wire::parse_report;
use serde_json::Value;

use crate::{binary, wait_until};

/// Writes a suite of many cases with long outputs.
fn suite(folder: &Path, cases: usize, latency_ms: u32, concurrency: usize) {
    let mut yaml = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: many }}\n\
         providers: {{ scripted: {{ replies: [{{ text: \"{}\", latencyMs: {latency_ms} }}] }} }}\n\
         models: [{{ id: m, provider: scripted, model: m }}]\n\
         prompts: {{ p: {{ user: \"{{{{n}}}}\" }} }}\n\
         defaults: {{ concurrency: {concurrency} }}\ntests:\n",
        "long ".repeat(100)
    );
    for number in 0..cases {
        writeln!(yaml, "  - {{ name: case {number}, prompt: p, vars: {{ n: \"{number}\" }}, expect: {{ output: {{ contains: [long] }} }} }}").unwrap();
    }
    fs::write(folder.join("kindlm.yaml"), yaml).unwrap();
}

fn kindlm(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_long_report_goes_through_a_pipe_whole() {
    let folder = tempfile::tempdir().unwrap();
    suite(folder.path(), 200, 0, 16);
    let mut child = kindlm(folder.path(), &["test", "--reporter", "json"]).spawn().unwrap();
    // The pipe is full, because the test has not read from it yet.
    let mut json = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut json).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(json.len() > 128 * 1024, "{} bytes", json.len());
    let report = parse_report(&json).unwrap();
    assert_eq!(report.cases.len(), 200);
    // The stored report equals the printed report.
    let state = folder.path().join(".kindlm");
    let kept = fs::read(state.join("runs").join(&report.run.id).join("report.json")).unwrap();
    assert_eq!(parse_report(&kept).unwrap(), report);
}

/// The command prints the link as its only line on stdout, and Ctrl-C is its normal end.
#[cfg(unix)]
#[test]
fn view_prints_a_link_and_serves_until_an_interrupt() {
    let folder = tempfile::tempdir().unwrap();
    suite(folder.path(), 2, 0, 1);
    assert!(kindlm(folder.path(), &["test"]).output().unwrap().status.success());
    let mut child = kindlm(folder.path(), &["view"]).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut link = String::new();
    stdout.read_line(&mut link).unwrap();
    let (origin, token) = link.trim().split_once("/#token=").unwrap();
    let host = origin.strip_prefix("http://").unwrap();
    let get = |token: &str| {
        let mut stream = TcpStream::connect(host).unwrap();
        let request = format!(
            "GET /wire/heads HTTP/1.1\r\nhost: {host}\r\nx-kindlm-token: {token}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get("wrong").starts_with("HTTP/1.1 403"));
    let answer = get(token);
    let heads: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!((&heads[0]["suite"], &heads[0]["totals"]["passed"]), (&"many".into(), &2.into()));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn a_closed_stdout_leaves_the_exit_code_alone() {
    let folder = tempfile::tempdir().unwrap();
    suite(folder.path(), 200, 0, 16);
    let mut child = kindlm(folder.path(), &["test", "--reporter", "json"]).spawn().unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{stderr}");
    assert!(!stderr.contains("panicked") && !stderr.contains("error"), "{stderr}");

    for args in [&["schema"][..], &["man"], &["completions", "bash"], &["--help"], &["explain"]] {
        let mut child = kindlm(folder.path(), args).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = kindlm(folder.path(), &["schema"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("error: cannot write to stdout: "), "{stderr}");

    suite(folder.path(), 1, 0, 1);
    for report in ["a.json", "b.xml"] {
        std::os::unix::fs::symlink("/dev/full", folder.path().join(report)).unwrap();
    }
    let reporters = ["--reporter", "json=a.json", "--reporter", "junit=b.xml"];
    let output = kindlm(folder.path(), &["test"]).args(reporters).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let stderr = String::from_utf8(output.stderr).unwrap();
    for report in ["a.json", "b.xml"] {
        assert!(stderr.contains(&format!("{report}`: ")), "{report} in {stderr}");
    }
}

#[test]
fn nothing_is_sent_if_the_run_cannot_be_stored() {
    let folder = tempfile::tempdir().unwrap();
    suite(folder.path(), 1, 0, 1);
    fs::write(folder.path().join(".kindlm"), "in the way").unwrap();
    let output = kindlm(folder.path(), &["test"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.starts_with("error: cannot make the folder `"), "{stderr}");
    assert!(stderr.contains("help: nothing was sent: "), "{stderr}");
    assert!(output.stdout.is_empty());
    let output = kindlm(folder.path(), &["test", "--no-journal"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("warning: the run was not saved: "), "{stderr}");
}

#[cfg(target_os = "linux")]
#[test]
fn where_a_report_cannot_be_written_nothing_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    suite(folder.path(), 1, 0, 1);
    let output = kindlm(folder.path(), &["test", "--reporter", "json=/proc/report.json"]).output();
    let output = output.unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.starts_with("error: cannot write a report to `/proc/report.json`: "),
        "{stderr}"
    );
    assert!(!folder.path().join(".kindlm").exists());
}

#[cfg(unix)]
fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// Starts a run, and waits until it has sent two requests.
#[cfg(unix)]
fn started(folder: &Path, server: &MockServer) -> Child {
    let mut child =
        kindlm(folder, &["test", "--reporter", "json"]).env("KEY", "k").spawn().unwrap();
    sent(&mut child, server, 2);
    child
}

/// Waits until the run has sent this number of requests.
#[cfg(unix)]
fn sent(child: &mut Child, server: &MockServer, requests: usize) {
    wait_until("a request", || server.count() >= requests || child.try_wait().unwrap().is_some());
    assert_eq!(child.try_wait().unwrap(), None, "it ended before it sent anything");
}

/// Starts a server that answers only after the test releases it.
#[cfg(unix)]
fn held_server() -> MockServer {
    let server = MockServer::start().unwrap();
    server.hold();
    server
}

/// Sends a signal, and waits until the run prints that it received the signal.
///
/// Returns the rest of stderr.
#[cfg(unix)]
fn stop(child: &mut Child, name: &str, says: &str) -> BufReader<ChildStderr> {
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    signal(child, name);
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with(says), "{line}");
    stderr
}

/// Returns the report, exit code and stderr of a stopped run.
#[cfg(unix)]
fn stopped(child: Child, mut stderr: BufReader<ChildStderr>) -> (Value, Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    let report =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|err| panic!("{err}: {said}"));
    (report, output.status.code(), said)
}

#[cfg(unix)]
fn slow_suite(folder: &Path, url: &str) {
    let mut yaml = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: slow }}\n\
         providers: {{ openai: {{ apiKeyEnv: KEY, baseUrl: \"{url}/v1\" }} }}\n\
         models: [{{ id: m, provider: openai, model: gpt-4o }}]\n\
         prompts: {{ p: {{ user: \"{{{{n}}}}\" }} }}\n\
         defaults: {{ concurrency: 2 }}\ntests:\n"
    );
    for number in 0..20 {
        writeln!(
            yaml,
            "  - {{ name: case {number}, prompt: p, vars: {{ n: \"{number}\" }}, expect: {{}} }}"
        )
        .unwrap();
    }
    fs::write(folder.join("kindlm.yaml"), yaml).unwrap();
}

#[cfg(unix)]
fn report_of(child: Child) -> (Value, Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let report =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|err| panic!("{err}: {stderr}"));
    (report, output.status.code(), stderr)
}

#[cfg(unix)]
fn outcomes(report: &Value) -> Vec<&str> {
    report["cases"].as_array().unwrap().iter().map(|it| it["outcome"].as_str().unwrap()).collect()
}

#[cfg(unix)]
#[test]
fn an_interrupt_finishes_requests_in_flight_and_reports() {
    for (name, words) in
        [("-INT", "interrupted"), ("-TERM", "stopped by a signal"), ("-HUP", "stopped by a signal")]
    {
        let folder = tempfile::tempdir().unwrap();
        let server = held_server();
        slow_suite(folder.path(), &server.url());
        let mut child = started(folder.path(), &server);
        let stderr = stop(&mut child, name, &format!("{words}: no new calls"));
        server.release();
        let (report, code, stderr) = stopped(child, stderr);
        assert_eq!(code, Some(130), "{stderr}");
        assert_eq!(report["run"]["interrupted"], true);
        assert_eq!(report["exitCode"], 130);
        let outcomes = outcomes(&report);
        assert_eq!(outcomes.len(), 20);
        assert_eq!(outcomes.iter().filter(|it| **it == "passed").count(), 2);
        assert_eq!(server.count(), 2);
        assert!(stderr.contains("were not run: `kindlm test --resume "), "{stderr}");
        let id = report["run"]["id"].as_str().unwrap();
        assert!(folder.path().join(".kindlm/runs").join(id).join("report.json").is_file());
    }
}

#[cfg(unix)]
#[test]
fn a_stop_after_everything_was_sent_leaves_no_rest() {
    let folder = tempfile::tempdir().unwrap();
    let server = held_server();
    slow_suite(folder.path(), &server.url());
    let mut child = kindlm(folder.path(), &["test", "--reporter", "json", "--concurrency", "20"])
        .env("KEY", "k")
        .spawn()
        .unwrap();
    sent(&mut child, &server, 20);
    let stderr = stop(&mut child, "-INT", "interrupted");
    server.release();
    let (_, code, stderr) = stopped(child, stderr);
    assert_eq!(code, Some(130), "{stderr}");
    assert!(stderr.contains("everything had been sent"), "{stderr}");
    assert!(!stderr.contains("--resume"), "{stderr}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_should_outlive_its_terminal_does() {
    let folder = tempfile::tempdir().unwrap();
    let server = held_server();
    slow_suite(folder.path(), &server.url());
    let mut child = Command::new("sh")
        .args(["-c", &format!("trap '' HUP; exec {} test --reporter json", binary())])
        .current_dir(folder.path())
        .env("KEY", "k")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    sent(&mut child, &server, 2);
    signal(&child, "-HUP");
    server.release();
    let (report, code, stderr) = report_of(child);
    assert_eq!((code, outcomes(&report).len()), (Some(0), 20), "{stderr}");
    assert_eq!(server.count(), 20);
}

/// The server demands a wait of one minute, and an interrupt ends this wait.
#[cfg(unix)]
#[test]
fn an_interrupt_ends_waits_for_a_retry() {
    let folder = tempfile::tempdir().unwrap();
    let server = MockServer::answering(|_| {
        MockReply::error(429, "Rate limit reached").with_header("retry-after", "60")
    });
    let server = server.unwrap();
    slow_suite(folder.path(), &server.url());
    let mut child = started(folder.path(), &server);
    // The answers may not have arrived yet. An earlier interrupt has the same effect.
    signal(&child, "-INT");
    // Send only one interrupt, because a second interrupt would stop the run at once.
    let mut stdout = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).unwrap();
        text
    });
    let report: Value = serde_json::from_str(&reader.join().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let error = |case: usize| report["cases"][case]["executions"][0]["error"].clone();
    for case in 0..2 {
        let message = error(case)["message"].as_str().unwrap().to_owned();
        assert!(message.ends_with("; stopped while waiting to retry"), "{message}");
        assert_eq!(
            (&error(case)["reason"], &error(case)["attempts"]),
            (&"rate_limited".into(), &1.into())
        );
    }
    assert_eq!(error(19)["kind"], "not-run", "{}", error(19));
    assert_eq!(server.count(), 2, "nothing was sent after the interrupt");
}

/// The child processes of a command end with the command.
#[cfg(target_os = "linux")]
#[test]
fn a_second_interrupt_ends_the_children_of_commands() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "{ kindlm: 1, project: p, suite: { name: agents }, models: ['openai:gpt-4o'], \
        prompts: { p: { user: hi } }, tests: [{ name: starts another, \
        command: 'sleep 300 & echo $! > pid; wait', expect: { output: { maxLength: 9 } } }] }";
    fs::write(folder.path().join("kindlm.yaml"), yaml).unwrap();
    let mut child = kindlm(folder.path(), &["test", "--reporter", "json"]).spawn().unwrap();
    let pid = || fs::read_to_string(folder.path().join("pid")).unwrap_or_default();
    wait_until("the command", || pid().ends_with('\n') || child.try_wait().unwrap().is_some());
    assert_eq!(child.try_wait().unwrap(), None, "it ended before the command had begun");
    let pid = pid().trim().to_owned();
    let stderr = stop(&mut child, "-TERM", "stopped by a signal");
    assert!(Path::new(&format!("/proc/{pid}")).exists(), "what is under way is finished");
    signal(&child, "-TERM");
    let (report, code, _) = stopped(child, stderr);
    assert_eq!((code, outcomes(&report)), (Some(130), vec!["errored"]));
    // A zombie process counts as ended.
    let lives = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
    };
    wait_until("the end of the command's child", || !lives());
}

#[cfg(unix)]
#[test]
fn a_second_interrupt_stops_now_and_still_reports() {
    let folder = tempfile::tempdir().unwrap();
    let server = held_server();
    slow_suite(folder.path(), &server.url());
    let mut child = started(folder.path(), &server);
    let stderr = stop(&mut child, "-INT", "interrupted");
    signal(&child, "-INT");
    let (report, code, _) = stopped(child, stderr);
    assert_eq!(code, Some(130));
    assert_eq!(report["run"]["interrupted"], true);
    assert_eq!(outcomes(&report).len(), 20);
}

/// A terminal with 0 columns, as `script` has in some CI systems, is supported.
///
/// On such a terminal, the progress bar must not write without end.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_without_columns_is_harmless() {
    let folder = tempfile::tempdir().unwrap();
    suite(folder.path(), 500, 1, 8);
    let command = format!("stty cols 0 rows 0; {} test", binary());
    let Ok(output) = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .current_dir(folder.path())
        .env_remove("CI")
        .stdin(Stdio::null())
        .output()
    else {
        return; // The program `script` is not installed.
    };
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.stdout.len() < 200_000, "{} bytes", output.stdout.len());
}
