//! Programs that some tests need and a machine may lack.
#![expect(clippy::print_stderr, reason = "a test that cannot run says so")]

use std::process::{Command, Stdio};

/// Names the programs that must be there, with spaces between: a test that needs one of them fails without it.
const PROMISED: &str = "KINDLM_TESTS_NEED";

/// True if a program that a test needs is installed.
///
/// If it is not installed, the test reports that it was not run, and is left out.
///
/// # Panics
///
/// If the program is missing where `KINDLM_TESTS_NEED` promises it: then a test that is left out would look like one that
/// passed.
pub fn installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let found = command.status().is_ok_and(|it| it.success());
    if !found {
        not_run(program, &format!("no `{program}` on this machine"));
    }
    found
}

/// True if `bwrap` can make a sandbox. Some machines have it and do not let it.
///
/// If it cannot, the test reports that it was not run, and is left out.
///
/// # Panics
///
/// If `KINDLM_TESTS_NEED` promises `bwrap`.
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

/// Says that a test is not run for want of something, and why.
///
/// # Panics
///
/// If `KINDLM_TESTS_NEED` promises it.
pub fn not_run(needs: &str, why: &str) {
    let promised = std::env::var(PROMISED).unwrap_or_default();
    assert!(
        !promised.split_whitespace().any(|it| it == needs),
        "`{PROMISED}` promises `{needs}`: {why}"
    );
    eprintln!("NOT RUN: {why}");
}
