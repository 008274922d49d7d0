//! The example runs a suite, writes its report, and resumes it.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns the path of the example. Cargo builds examples next to the folder of test binaries.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let name = format!("run_a_suite{}", std::env::consts::EXE_SUFFIX);
    test.ancestors().nth(2).unwrap().join("examples").join(name)
}

fn run(folder: &Path, more: &[&str]) -> Output {
    Command::new(example())
        .current_dir(folder)
        .args(["kindlm.yaml", "junit.xml"])
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn a_suite_is_run_reported_and_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let suite = "\
kindlm: 1
project: p
suite: { name: s }
providers: { scripted: { file: ./answers.yaml } }
models: [{ id: m, provider: scripted, model: x }]
prompts: { p: { user: \"{{q}}\" } }
tests:
  - { name: holds, prompt: p, vars: { q: hi }, expect: { output: { contains: [hello] } } }
  - { name: fails, prompt: p, vars: { q: hi }, expect: { output: { contains: [goodbye] } } }
";
    std::fs::write(folder.path().join("kindlm.yaml"), suite).unwrap();
    std::fs::write(folder.path().join("answers.yaml"), "- text: hello\n").unwrap();

    let first = run(folder.path(), &[]);
    let shown = String::from_utf8_lossy(&first.stdout).into_owned();
    assert_eq!(first.status.code(), Some(1), "{first:?}");
    let mut outcomes: Vec<&str> = shown.lines().collect();
    outcomes.sort_unstable();
    assert_eq!(outcomes, ["Failed", "Passed"]);
    let junit = std::fs::read_to_string(folder.path().join("junit.xml")).unwrap();
    assert!(junit.contains("name=\"fails\""), "{junit}");

    let again = run(folder.path(), &["--resume"]);
    let notices = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert!(notices.contains("is complete: nothing is sent"), "{notices}");
}
