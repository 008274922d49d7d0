//! `kindlm evaluate` on the conformance vectors, and in interactive use.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use kindlm_testing::{MockReply, MockServer};
use serde_json::Value;

use crate::{binary, fixtures};

fn evaluate(file: &str, extra: &[&str]) -> (Vec<Value>, Option<i32>) {
    let vectors = fixtures().join("conformance/kindlm");
    let output = Command::new(binary())
        .args(["evaluate", "--jsonl", "--base"])
        .arg(&vectors)
        .args(extra)
        .stdin(std::fs::File::open(vectors.join(file)).unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (lines, output.status.code())
}

/// Returns a label or message without the names of patterns for personal data.
///
/// The reference implementation numbers the patterns, and KindLM names the default patterns. The tests of the assertion
/// compare the names themselves.
fn unnamed(text: &Value) -> String {
    let names = r"(US social security number|card number|e-mail address)( \(pii-pattern-\d\))?|pii-pattern-\d";
    let names = regex::Regex::new(names).unwrap();
    let text = names.replace_all(text.as_str().unwrap(), "<pattern>").into_owned();
    // KindLM writes "1 PII match" and "2 PII matches".
    text.replace("match(es)", "match").replace(" PII matches ", " PII match ")
}

#[test]
fn reference_vectors_give_the_expected_results() {
    for (file, count) in [
        ("tool_calls.jsonl", 259),
        ("schema.jsonl", 202),
        ("keywords.jsonl", 70),
        ("pii.jsonl", 107),
    ] {
        let text =
            std::fs::read_to_string(fixtures().join("conformance/kindlm").join(file)).unwrap();
        let (evaluations, code) = evaluate(file, &[]);
        assert_eq!(
            (evaluations.len(), text.lines().count(), code),
            (count, count, Some(1)),
            "{file}"
        );
        for (line, evaluation) in text.lines().zip(&evaluations) {
            let record: Value = serde_json::from_str(line).unwrap();
            assert_eq!(record["id"], evaluation["id"]);
            let expected = record["results"].as_array().unwrap();
            let results = evaluation["results"].as_array().unwrap();
            assert_eq!(expected.len(), results.len(), "{evaluation}");
            for (expected, result) in expected.iter().zip(results) {
                assert_eq!(expected["type"], result["type"], "{}", record["id"]);
                assert_eq!(
                    unnamed(&expected["label"]),
                    unnamed(&result["label"]),
                    "{}",
                    record["id"]
                );
                assert_eq!(expected["passed"], result["pass"], "{}", record["id"]);
                assert_eq!(
                    expected["score"].as_f64(),
                    result["score"].as_f64(),
                    "{}",
                    record["id"]
                );
                assert_eq!(expected["failureCode"], result["failure_code"], "{}", record["id"]);
                if expected["failureMessage"].is_string() {
                    assert_eq!(
                        unnamed(&expected["failureMessage"]),
                        unnamed(&result["failure_message"]),
                        "{}",
                        record["id"]
                    );
                }
            }
        }
    }
}

#[test]
fn other_keys_come_back_only_when_asked_for() {
    let (plain, _) = evaluate("keywords.jsonl", &[]);
    let (echoed, _) = evaluate("keywords.jsonl", &["--echo"]);
    for (plain, echoed) in plain.iter().zip(&echoed) {
        assert!(plain.get("input").is_none());
        assert!(echoed["input"]["results"].is_array());
        assert_eq!(plain["results"], echoed["results"]);
    }
}

#[test]
fn order_is_kept_and_every_line_is_counted() {
    let mut input = String::from("\u{feff}");
    for number in 1..=20_000 {
        match number % 1000 {
            0 => input.push_str("not json\n"),
            1 => input.push_str("\r\n"),
            _ => writeln!(
                input,
                r#"{{"id":{number},"agent_output":"hello {number}","expect":{{"output":{{"contains":["{}"]}}}}}}"#,
                number % 7
            )
            .unwrap(),
        }
    }
    // The last line has no line break.
    input.push_str(r#"{"id":"last"}"#);
    let mut child = Command::new(binary())
        .args(["evaluate", "--jsonl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert_eq!(output.status.code(), Some(2));

    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
    for number in 1..=20_000_u64 {
        match number % 1000 {
            0 => assert_eq!(lines.next().unwrap()["line"], number),
            1 => {}
            _ => assert_eq!(lines.next().unwrap()["id"], number),
        }
    }
    let last = lines.next().unwrap();
    assert_eq!(
        (&last["id"], &last["score"], &last["total"]),
        (&"last".into(), &Value::Null, &0.into())
    );
    assert_eq!(lines.next(), None);
}

#[test]
fn each_line_is_answered_before_the_next_one_is_sent() {
    let mut child = Command::new(binary())
        .args(["evaluate", "--jsonl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for id in 0..5 {
        writeln!(stdin, r#"{{"id":{id},"agent_output":"x"}}"#).unwrap();
        stdin.flush().unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["id"], id);
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Reads only the first of many results, and closes the pipe.
///
/// Returns this result, the exit code and stderr.
fn read_one(length: &str) -> (String, Option<i32>, String) {
    let input: String = (0..50_000).fold(String::new(), |mut text, id| {
        writeln!(
            text,
            r#"{{"id":{id},"agent_output":"{length}","expect":{{"output":{{"maxLength":1}}}}}}"#
        )
        .unwrap();
        text
    });
    let mut child = Command::new(binary())
        .args(["evaluate", "--jsonl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut first = String::new();
    let writer = std::thread::spawn(move || _ = stdin.write_all(input.as_bytes()));
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    (first, output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_reader_that_stops_changes_no_exit_code() {
    for (output, code) in [("x", 0), ("xx", 1)] {
        let (first, exit, stderr) = read_one(output);
        assert!(first.starts_with(r#"{"id":0,"#), "{first}");
        assert_eq!(exit, Some(code), "{output}");
        assert_eq!(stderr, "");
    }
}

#[cfg(unix)]
#[test]
fn after_an_interrupt_no_record_is_begun() {
    let verdict = |_: &_| MockReply::text(r#"{"score": 1, "reasoning": "x"}"#);
    let server = MockServer::answering(verdict).unwrap();
    // The server holds its answers, so that the interrupt comes before the first answer.
    server.hold();
    let folder = tempfile::tempdir().unwrap();
    let yaml = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: s }}\n\
         providers: {{ openai: {{ apiKeyEnv: KEY, baseUrl: \"{}/v1\" }} }}\n\
         models: [{{ id: m, provider: openai, model: gpt-4o-mini }}]\n\
         prompts: {{ p: {{ user: hi }} }}\n\
         tests: [{{ name: one, prompt: p, expect: {{ output: {{ contains: [x] }} }} }}]\n",
        server.url()
    );
    std::fs::write(folder.path().join("kindlm.yaml"), yaml).unwrap();
    let records: String = (0..40).fold(String::new(), |text, id| {
        let expect = r#"{"judge":[{"criteria":"Is kind"}]}"#;
        text + &format!("{{\"id\":{id},\"agent_output\":\"{id}\",\"expect\":{expect}}}\n")
    });
    std::fs::write(folder.path().join("records.jsonl"), records).unwrap();
    let mut child = Command::new(binary())
        .args(["evaluate", "--jsonl", "records.jsonl", "-c", "kindlm.yaml"])
        .args(["--concurrency", "3", "--output", "results.jsonl"])
        .current_dir(folder.path())
        .env("KEY", "k")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    crate::wait_until("three questions", || server.count() >= 3);
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut stderr = String::new();
    said.read_line(&mut stderr).unwrap();
    assert!(stderr.contains("interrupted"), "{stderr}");
    server.release();
    let status = child.wait().unwrap();
    said.read_to_string(&mut stderr).unwrap();
    assert_eq!(status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("results.jsonl: 3 results (3 passed)"), "{stderr}");
    assert_eq!(server.count(), 3, "{stderr}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_evaluation_can_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let record = |id: u32| {
        format!(
            "{{\"id\":{id},\"agent_output\":\"x\",\"expect\":{{\"output\":{{\"maxLength\":1}}}}}}\n"
        )
    };
    let records: String = (0..40).map(record).collect();
    std::fs::write(folder.path().join("records.jsonl"), &records).unwrap();
    let results = folder.path().join("results.jsonl");
    let mut seen = 0;
    for at in [10, 20] {
        let mut child = Command::new(binary())
            .args(["evaluate", "--jsonl", "--output", "results.jsonl"])
            .args(if at == 10 { &[][..] } else { &["--resume"] })
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Stdin stays open, and the last line is incomplete.
        let mut stdin = child.stdin.take().unwrap();
        let text: String = (0..at).map(record).collect();
        write!(stdin, "{text}{{\"id\":").unwrap();
        stdin.flush().unwrap();
        let lines = || std::fs::read_to_string(&results).unwrap_or_default().lines().count();
        crate::wait_until("results", || lines() >= at as usize);
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{stderr}");
        let kept =
            if at == 10 { String::new() } else { ", 10 of them from an earlier run".to_owned() };
        let words = format!("results.jsonl: {at} results ({at} passed){kept}\n");
        assert!(stderr.contains(&words), "{stderr}");
        assert!(stderr.contains("the same command with `--resume`"), "{stderr}");
        let lines = std::fs::read_to_string(&results).unwrap();
        assert_eq!(lines.lines().count(), at as usize, "{lines}");
        seen = at;
    }
    let output = Command::new(binary())
        .args(["evaluate", "--jsonl", "records.jsonl", "--output", "results.jsonl", "--resume"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(
        stderr,
        format!("results.jsonl: 40 results (40 passed), {seen} of them from an earlier run\n")
    );
    assert!(!folder.path().join("results.jsonl.before").exists());
}
