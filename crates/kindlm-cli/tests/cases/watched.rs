//! `--watch`: a saved file starts another run, which asks only for what the change touches.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use kindlm_testing::MockServer;

use crate::binary;

#[cfg(target_os = "linux")]
#[test]
fn a_saved_file_starts_another_run_that_asks_only_for_what_is_new() {
    let server = MockServer::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let yaml = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: watched }}\n\
         providers: {{ openai: {{ apiKeyEnv: WATCH_KEY, baseUrl: \"{}/v1\" }} }}\n\
         models: [{{ id: m, provider: openai, model: gpt-4o }}]\n\
         prompts: {{ p: {{ user: \"{{{{n}}}}\" }} }}\ntests: file://cases.jsonl\n",
        server.url()
    );
    fs::write(folder.path().join("kindlm.yaml"), yaml).unwrap();
    let cases = |names: &[&str]| {
        let line = |it: &&str| {
            format!(
                r#"{{"name":"{it}","prompt":"p","vars":{{"n":"{it}"}},"expect":{{"output":{{"maxLength":999}}}}}}"#
            )
        };
        let lines: Vec<String> = names.iter().map(line).collect();
        fs::write(folder.path().join("cases.jsonl"), lines.join("\n")).unwrap();
    };
    cases(&["a", "b"]);
    let mut child = Command::new(binary())
        .args(["test", "--watch", "-q"])
        .current_dir(folder.path())
        .env("WATCH_KEY", "watch-key-value")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut until = |text: &str| {
        let found = lines.by_ref().find(|line| line.contains(text));
        assert!(found.is_some(), "nothing said `{text}`");
    };
    until("watching 2 files (exit code 0)");
    assert_eq!(server.requests().len(), 2);

    cases(&["a", "b", "c"]);
    until("`cases.jsonl` was saved");
    until("watching 2 files (exit code 0)");
    assert_eq!(server.requests().len(), 3, "the answers to `a` and `b` were there already");

    fs::write(folder.path().join("cases.jsonl"), "{").unwrap();
    until("(exit code 2)");
    cases(&["a"]);
    until("watching 2 files (exit code 0)");
    assert_eq!(server.requests().len(), 3);

    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
