//! The binary, run as a user runs it: one case folder for each test in `fixtures/cli`.
//!
//! A case folder contains `cmd` (the commands, one per line), and the input files. The expected results are `stdout`,
//! `stderr`, `exit` (the exit codes) and `files` (the written files). `base` names a folder whose files are copied
//! first. `KINDLM_BLESS=1` rewrites the expected results; review the changes.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod agent_workspaces;
mod agents;
mod calibrated;
mod canaries;
mod case;
mod cheating;
mod coding_agent;
mod drifted;
mod evaluate;
mod html_limit;
mod iterated;
mod journaled;
mod judge_replies;
mod killed;
mod live;
mod normalise;
mod parts;
mod process;
mod prompt_cache;
mod real_agents;
mod report_link;
mod responses;
mod resumed;
mod secrets;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
mod shells;
#[cfg(unix)]
mod terminal;
mod traced;
mod vouching;
mod waits;
mod watched;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use case::Case;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").canonicalize().unwrap()
}

fn binary() -> &'static str {
    #[cfg(unix)]
    handle_signals();
    env!("CARGO_BIN_EXE_kindlm")
}

/// The time after which an awaited event counts as failed.
const NEVER: Duration = Duration::from_mins(5);

/// Waits until a condition holds.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < NEVER, "{what}: this does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Lets signals reach the child processes.
///
/// The tests may have been started with ignored signals (by `nohup`, or in the background of a shell). Children
/// inherit ignored signals, but not handlers. So each ignored signal gets a handler.
#[cfg(unix)]
fn handle_signals() {
    use tokio::signal::unix::{SignalKind, signal};
    static HEEDED: Once = Once::new();
    HEEDED.call_once(|| {
        let kinds = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        for kind in kinds {
            // Signals that are not ignored keep their default action, so that they still stop the tests.
            if ignored_signals() & (1 << (kind.as_raw_value() - 1)) != 0 {
                drop(signal(kind).unwrap());
            }
        }
    });
}

/// Returns a bit mask of the signals that this process ignores.
///
/// If the mask is unknown, only SIGHUP counts as ignored.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|it| it.strip_prefix("SigIgn:"));
    mask.and_then(|it| u64::from_str_radix(it.trim(), 16).ok()).unwrap_or(1)
}

#[test]
fn every_case_gives_the_output_of_its_folder() {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(fixtures().join("cli"))
        .unwrap()
        .map(|it| it.unwrap().path())
        .filter(|it| it.join("cmd").is_file())
        .collect();
    folders.sort();
    assert!(folders.len() >= 30, "only {} cases found", folders.len());

    let bless = std::env::var_os("KINDLM_BLESS").is_some();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(folder) = folders.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let case = Case::new(folder);
                    let got = case.run();
                    if bless {
                        case.bless(&got);
                    } else if let Some(difference) = case.difference(&got) {
                        failures.lock().unwrap().push(difference);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    assert!(
        failures.is_empty(),
        "{}\n{} of {} cases differ; if that is meant, run again with KINDLM_BLESS=1",
        failures.join("\n"),
        failures.len(),
        folders.len()
    );
}
