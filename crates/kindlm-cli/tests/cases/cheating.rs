//! Agents that try to cheat, and files that the caller left open.

use std::fs;
use std::process::{Command, Stdio};

use kindlm_testing::installed;
use kindlm_types::{Outcome, Report};
use kindlm_wire::parse_report;

use crate::{binary, fixtures};

fn copy(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).unwrap();
    for item in fs::read_dir(from).unwrap() {
        let (item, to) = (item.as_ref().unwrap(), to.join(item.as_ref().unwrap().file_name()));
        if item.path().is_dir() {
            copy(&item.path(), &to);
        } else {
            fs::copy(item.path(), to).unwrap();
        }
    }
}

#[test]
fn no_cheating_agent_passes() {
    if !installed("node") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("suite");
    copy(&fixtures().join("cheating-agents"), &suite);
    let output = Command::new(binary())
        .args(["test", "--reporter", "json"])
        .current_dir(&suite)
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Report =
        parse_report(&output.stdout).unwrap_or_else(|err| panic!("{err}: {stderr}"));
    assert_eq!(report.cases.len(), 12, "{stderr}");
    for case in &report.cases {
        let execution = &case.executions[0];
        let results: Vec<_> = execution.results.iter().map(|it| (&it.label, &it.verdict)).collect();
        let has_passed = execution.outcome == Outcome::Passed;
        assert_eq!(has_passed, case.case == "honest", "{}: {results:?} {stderr}", case.case);
    }
}

#[cfg(unix)]
#[test]
fn no_program_gets_the_files_that_the_caller_left_open() {
    let folder = tempfile::tempdir().unwrap();
    let suite = "kindlm: 1\nproject: p\nsuite: { name: s }\n\
        tests: [{ name: t, command: \"{ echo leaked >&7; } 2>/dev/null; echo done\", expect: { output: { contains: [done] } } }]\n";
    fs::write(folder.path().join("kindlm.yaml"), suite).unwrap();
    let line = format!("exec 7> leak; exec {} test", binary());
    let output =
        Command::new("sh").args(["-c", &line]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(fs::read_to_string(folder.path().join("leak")).unwrap(), "");
}
