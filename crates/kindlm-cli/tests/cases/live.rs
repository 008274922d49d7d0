//! Failed cases are shown during the run.

use std::fs;
use std::process::{Command, Output, Stdio};

use crate::binary;

/// Runs a suite whose first test fails at once, and whose second fails after more than a second.
fn run(args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "kindlm: 1\nproject: p\nsuite: { name: live }\ndefaults: { concurrency: 1 }\ntests:\n  \
                - { name: early, command: \"echo $LIVE_TOKEN\", expect: { output: { contains: [no] } } }\n  \
                - { name: late, command: \"sleep 1.2; echo b\", expect: { output: { contains: [token-4711] } } }\n";
    fs::write(folder.path().join("kindlm.yaml"), yaml).unwrap();
    let mut command = Command::new(binary());
    command.arg("test").args(args).current_dir(folder.path()).stdin(Stdio::null());
    command.env("LIVE_TOKEN", "token-4711").output().unwrap()
}

#[test]
fn failed_cases_are_named_once_and_masked() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = stderr.lines().filter(|it| it.starts_with('✗')).collect();
    assert_eq!(lines.len(), 2, "{stderr}");
    for (line, (name, at)) in lines.iter().zip([("early", 6), ("late", 7)]) {
        assert!(line.starts_with(&format!("✗ {name} · command  ")), "{stderr}");
        assert!(line.ends_with(&format!("  kindlm.yaml:{at}")), "{stderr}");
    }
    assert!(!stderr.contains("token-4711"), "{stderr}");
}

#[test]
fn quiet_runs_name_no_failed_case() {
    let output = run(&["-q"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains('✗'), "{stderr}");
}
