//! The example in `fixtures/coding-agent`: an agent that edits repositories, scored by real test runners.
#![expect(clippy::print_stderr, reason = "a test that cannot run says so")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use kindlm_testing::installed;
use kindlm_types::{ExecutionResult, Report, Verdict};
use kindlm_wire::parse_report;

use crate::{binary, fixtures};

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for item in fs::read_dir(from).unwrap() {
        let item = item.unwrap();
        let name = item.file_name();
        if ["node_modules", "target", ".kindlm"].iter().any(|it| name == *it) {
            continue;
        }
        if item.path().is_dir() {
            copy(&item.path(), &to.join(&name));
        } else {
            fs::copy(item.path(), to.join(&name)).unwrap();
        }
    }
}

/// Runs the tests with a tag; returns the only execution, the exit code and stderr.
fn run(folder: &Path, tag: &str, args: &[&str]) -> (ExecutionResult, Option<i32>, String) {
    copy(&fixtures().join("coding-agent"), folder);
    let output = Command::new(binary())
        .args(["test", "--reporter", "json", "--tags", tag])
        .args(args)
        .current_dir(folder)
        .env("TMPDIR", folder)
        .env_remove("CARGO_TARGET_DIR")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let report: Report =
        parse_report(&output.stdout).unwrap_or_else(|err| panic!("{err}: {stderr}"));
    let execution = report.cases[0].executions[0].clone();
    (execution, output.status.code(), stderr)
}

/// Returns one line per check, with its verdict and its label.
fn shown(execution: &ExecutionResult) -> Vec<String> {
    let results = execution.results.iter().map(|it| {
        let word = match it.verdict {
            Verdict::Pass => "pass",
            Verdict::Fail { .. } => "fail",
            Verdict::Errored { .. } => "errored",
            Verdict::Skipped { .. } => "skipped",
        };
        format!("{word} {}", it.label)
    });
    results.collect()
}

/// Returns true if npm can install the packages of the example; prints a message if not.
fn npm_reaches_its_registry() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let shop = fixtures().join("coding-agent/shop-ts");
    for name in ["package.json", "package-lock.json"] {
        fs::copy(shop.join(name), folder.path().join(name)).unwrap();
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund"]).current_dir(folder.path());
    let reached = npm.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success();
    let promised = std::env::var("KINDLM_TESTS_NEED").unwrap_or_default();
    assert!(
        reached || !promised.split_whitespace().any(|it| it == "vitest"),
        "`npm ci` fails, and `KINDLM_TESTS_NEED` promises `vitest`"
    );
    if !reached {
        eprintln!("NOT RUN: npm cannot install vitest on this machine");
    }
    reached
}

#[test]
fn vitest_scores_an_agent_that_never_sees_it() {
    if !["python3", "node", "npm"].into_iter().all(installed) || !npm_reaches_its_registry() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (execution, code, stderr) = run(folder.path(), "vitest", &[]);
    assert_eq!(
        shown(&execution),
        [
            "pass Tool calls within limit: at most 5",
            "pass EVAL.ts > the cart > rounds to cents",
            "pass EVAL.ts > the cart > costs nothing when it is empty",
            "fail EVAL.ts > the cart > refuses negative counts",
            "pass EVAL.ts > the agent > read the file before it changed it",
            "pass EVAL.ts > the agent > ran no more than three commands, and none failed",
            "pass File changed: src/cart.ts",
            "pass Not: File changed: package*.json",
            "pass Not: In diff: \"console.log\"",
            "pass No failed shell commands",
        ],
        "{stderr}"
    );
    let workspace = execution.execution.workspace.unwrap();
    let paths: Vec<&str> = workspace.changes.iter().map(|it| it.path.as_str()).collect();
    assert_eq!((paths, code), (vec!["src/cart.ts"], Some(1)));
    // The initial state and the copies were removed.
    let left = fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name());
    assert!(left.into_iter().all(|it| !it.to_string_lossy().starts_with("kindlm-")));
}

#[test]
fn cargo_scores_an_agent_that_never_sees_it() {
    if !["python3", "cargo"].into_iter().all(installed) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (execution, code, stderr) = run(folder.path(), "cargo-test", &["--keep-workspaces"]);
    let mut shown = shown(&execution);
    // The tests run concurrently, so their order varies.
    shown.sort();
    assert_eq!(
        shown,
        [
            "fail an_overflow_is_no_small_number",
            "pass Command succeeded: cargo build --offline",
            "pass File changed: src/lib.rs",
            "pass counts_are_multiplied",
            "pass tests::an_empty_cart_costs_nothing",
            "pass the_agent_said_what_it_changed",
        ],
        "{stderr}"
    );
    assert_eq!(code, Some(1));
    let failed = execution.results.iter().find_map(|it| it.verdict.message()).unwrap();
    assert!(failed.contains("multiply with overflow"), "{failed}");
    let kept = execution.execution.workspace.unwrap().kept.unwrap();
    assert!(fs::read_to_string(format!("{kept}/src/lib.rs")).unwrap().contains("price * count"));
    assert!(stderr.contains("workspaces kept in "), "{stderr}");
}

#[test]
fn nextest_scores_an_agent_that_never_sees_it() {
    if !["python3", "cargo", "cargo-nextest"].into_iter().all(installed) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (execution, code, stderr) = run(folder.path(), "nextest", &[]);
    let mut shown = shown(&execution);
    // The tests run concurrently, so their order varies.
    shown.sort();
    assert_eq!(
        shown,
        [
            "fail shop::eval > an_overflow_is_no_small_number",
            "pass shop::eval > counts_are_multiplied",
            "pass shop::eval > the_agent_said_what_it_changed",
            "pass shop::shop > tests::an_empty_cart_costs_nothing",
        ],
        "{stderr}"
    );
    assert_eq!(code, Some(1));
}
