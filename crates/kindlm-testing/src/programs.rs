//! Detects programs that some tests need.
#![expect(clippy::print_stderr, reason = "a test that cannot run prints a notice")]

use std::process::{Command, Stdio};

/// The environment variable with the space-separated names of required programs.
///
/// A test fails if it needs a required program that is missing.
const PROMISED: &str = "KINDLM_TESTS_NEED";

/// Returns true if a program that a test needs is installed.
///
/// If the program is missing, a message on stderr says that the test does not run.
///
/// # Panics
///
/// Panics if the program is missing but `KINDLM_TESTS_NEED` names it. Otherwise, a test that did not run would look
/// like a passed test.
pub fn installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let found = command.status().is_ok_and(|it| it.success());
    if !found {
        not_run(program, &format!("no `{program}` on this machine"));
    }
    found
}

/// Returns true if `bwrap` can create a sandbox.
///
/// Some machines have `bwrap`, but do not allow sandboxes.
///
/// If `bwrap` cannot create a sandbox, a message on stderr says that the test does not run.
///
/// # Panics
///
/// Panics if `bwrap` cannot create a sandbox but `KINDLM_TESTS_NEED` names `bwrap`.
pub fn can_sandbox() -> bool {
    if !installed("bwrap") {
        return false;
    }
    let words = ["--unshare-all", "--ro-bind", "/", "/", "true"];
    let found = Command::new("bwrap").args(words).status().is_ok_and(|it| it.success());
    if !found {
        not_run("bwrap", "`bwrap` cannot make a sandbox on this machine");
    }
    found
}

/// Reports on stderr that a test does not run because a program is missing.
///
/// # Panics
///
/// Panics if `KINDLM_TESTS_NEED` names the program.
pub fn not_run(needs: &str, why: &str) {
    let promised = std::env::var(PROMISED).unwrap_or_default();
    assert!(
        !promised.split_whitespace().any(|it| it == needs),
        "`{PROMISED}` requires `{needs}`: {why}"
    );
    eprintln!("NOT RUN: {why}");
}
