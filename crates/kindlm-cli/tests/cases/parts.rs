//! Images, sounds and files of prompts: they are sent, and never stored.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use kindlm_testing::{MockReply, MockServer};
use serde_json::{Value, json};

use crate::binary;

/// The data of an image and of a sound.
const IMAGE: [u8; 300] = [0xAB; 300];
const SOUND: [u8; 300] = [0xCD; 300];

/// The beginnings of the same data in Base64.
const IN_BASE64: [&str; 2] = ["q6urq6urq6ur", "zc3Nzc3Nzc3N"];

fn kindlm(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(arguments).current_dir(folder).env("KEY", "a key").env("NO_COLOR", "1");
    command.stdin(Stdio::null()).output().unwrap()
}

fn write_suite(folder: &Path, server: &MockServer) {
    let data_url = format!("data:image/png;base64,{}", IN_BASE64[0].repeat(34));
    let yaml = format!(
        r#"
kindlm: 1
project: demo
suite: {{ name: pictures }}
providers: {{ openai: {{ apiKeyEnv: KEY, baseUrl: "{}/v1" }} }}
models: [{{ id: m, provider: openai, model: gpt-4o }}]
prompts:
  parts:
    messages: [{{ role: user, content: [{{ text: Who? }}, {{ image: "{{{{ photo }}}}" }}, {{ audio: file://hi.mp3 }}] }}]
  raw:
    messages:
      - {{ role: user, content: [{{ raw: {{ type: image_url, image_url: {{ url: "{{{{ photo }}}}" }} }} }}] }}
tests:
  - {{ name: file, prompt: parts, vars: {{ photo: file://cat.png }}, expect: {{ output: {{ contains: [no] }} }} }}
  - {{ name: raw, prompt: raw, vars: {{ photo: file://cat.png }}, expect: {{ output: {{ contains: [no] }} }} }}
  - {{ name: data, prompt: raw, vars: {{ photo: "{data_url}" }}, expect: {{ output: {{ contains: [no] }} }} }}
"#,
        server.url()
    );
    fs::write(folder.join("kindlm.yaml"), yaml).unwrap();
    fs::write(folder.join("cat.png"), IMAGE).unwrap();
    fs::write(folder.join("hi.mp3"), SOUND).unwrap();
}

/// Returns the files below a folder that contain the data, except the suite.
fn with_data(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for item in fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        if path.is_dir() {
            found.extend(with_data(&path));
        } else if !path.ends_with("kindlm.yaml") {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            if IN_BASE64.iter().any(|it| text.contains(it)) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn data_is_sent_and_in_no_report_and_no_stored_file() {
    let server = MockServer::answering(|request| {
        let content = &request.json()["messages"][0]["content"];
        MockReply::text(if content.is_array() { "a cat" } else { "nothing" })
    });
    let server = server.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_suite(folder, &server);
    let reports =
        ["json", "html", "markdown", "junit", "csv"].map(|it| format!("{it}=report.{it}"));
    let mut arguments = vec!["test", "-v", "--responses", "record", "--reporter", "pretty"];
    arguments.extend(reports.iter().flat_map(|it| ["--reporter", it.as_str()]));
    let output = kindlm(folder, &arguments);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{shown}{said}");
    let sent: Vec<Value> =
        server.requests().iter().map(kindlm_testing::MockRequest::json).collect();
    let image = format!("data:image/png;base64,{}", &IN_BASE64[0].repeat(34)[..400]);
    let content = |index: usize| &sent[index]["messages"][0]["content"];
    let parts = (0..3).find(|it| content(*it)[0]["type"] == "text").map(content).unwrap();
    assert_eq!(parts[1]["image_url"]["url"], json!(image));
    assert_eq!(parts[2]["input_audio"]["format"], "mp3");
    assert_eq!(with_data(folder), [""; 0]);
    assert!(!IN_BASE64.iter().any(|it| shown.contains(it) || said.contains(it)));
    assert!(shown.contains("[image cat.png: image/png, 300 bytes, sha256"), "{shown}");
    let report: Value =
        serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap();
    let part = &report["cases"][0]["executions"][0]["input"][0]["parts"][1]["media"];
    assert_eq!((&part["name"], &part["size"]), (&json!("cat.png"), &json!(300)), "{report}");
}

#[test]
fn a_stored_answer_is_not_used_for_another_image() {
    let server = MockServer::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_suite(folder, &server);
    kindlm(folder, &["test", "--responses", "record"]);
    let replay = || {
        let output = kindlm(folder, &["test", "--responses", "replay", "--reporter", "json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let cases = report["cases"].as_array().unwrap().clone();
        cases.iter().map(|it| it["executions"][0]["error"].is_null()).collect::<Vec<_>>()
    };
    assert_eq!(replay(), [true, true, true]);
    fs::write(folder.join("cat.png"), [0xAC; 300]).unwrap();
    assert_eq!(replay(), [false, false, true]);
}
