//! `--watch`: saving a file starts another run, which requests only the answers that the change affects.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use kindlm_testing::MockServer;

use crate::binary;

/// Starts `--watch` on a suite.
///
/// Returns the process, and a function that waits for a text on stderr.
#[cfg(target_os = "linux")]
fn watch(folder: &Path) -> (Child, impl FnMut(&str)) {
    let mut child = Command::new(binary())
        .args(["test", "--watch", "-q"])
        .current_dir(folder)
        .env("WATCH_KEY", "watch-key-value")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let until = move |text: &str| {
        let found = lines.by_ref().find(|line| line.contains(text));
        assert!(found.is_some(), "nothing said `{text}`");
    };
    (child, until)
}

/// Interrupts the process with Ctrl-C, and returns its exit code.
#[cfg(target_os = "linux")]
fn interrupted(mut child: Child) -> Option<i32> {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    child.wait().unwrap().code()
}

#[cfg(target_os = "linux")]
#[test]
fn a_saved_file_starts_a_run_of_new_requests_only() {
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
    let (child, mut until) = watch(folder.path());
    until("watching 2 files (exit code 0)");
    assert_eq!(server.requests().len(), 2);

    cases(&["a", "b", "c"]);
    until("`cases.jsonl` was saved");
    until("watching 2 files (exit code 0)");
    assert_eq!(server.requests().len(), 3, "the answers to `a` and `b` were there already");

    fs::write(folder.path().join("cases.jsonl"), "{").unwrap();
    until("(exit code 2)");
    fs::rename(folder.path().join("cases.jsonl"), folder.path().join("other.jsonl")).unwrap();
    until("`cases.jsonl` was removed");
    until("(exit code 2)");
    cases(&["a"]);
    until("`cases.jsonl` was saved");
    until("watching 2 files (exit code 0)");
    assert_eq!(server.requests().len(), 3);

    assert_eq!(interrupted(child), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn imports_of_programs_are_watched() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "kindlm.yaml",
        "kindlm: 1\nproject: p\nsuite: { name: watched }\n\
         providers: { script: { file: model.js } }\nmodels: [{ id: m, provider: script, model: m }]\n\
         prompts: { p: { user: hello } }\n\
         tests: [{ name: t, prompt: p, expect: { assert: [{ type: javascript, value: file://check.mjs }] } }]\n",
    );
    write(
        "model.js",
        "const { said } = require('./said')\nmodule.exports = () => ({ output: said })\n",
    );
    write("said.js", "exports.said = 'bad'\n");
    write(
        "check.mjs",
        "import { good } from './good.mjs'\nexport default (output) => output === good\n",
    );
    write("good.mjs", "export const good = 'good'\n");
    let (child, mut until) = watch(folder.path());
    until("watching 5 files (exit code 1)");
    // The script of the model has changed, so the stored answer is not used.
    write("said.js", "exports.said = 'good'\n");
    until("`said.js` was saved");
    until("watching 5 files (exit code 0)");
    write("good.mjs", "export const good = 'other'\n");
    until("`good.mjs` was saved");
    until("watching 5 files (exit code 1)");
    assert_eq!(interrupted(child), Some(1));
}
