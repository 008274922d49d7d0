//! The binary, run as a user runs it: a folder for each case in `fixtures/cli`.
//!
//! A case folder holds `cmd` (what is typed, one command on a line), the input files, and what must come of it:
//! `stdout`, `stderr`, `exit` (the codes) and `files` (what is written). `base` names a folder whose files are
//! copied first. `KINDLM_BLESS=1` rewrites the expectations; read what it wrote.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod agent_workspaces;
mod agents;
mod calibrated;
mod case;
mod cheating;
mod coding_agent;
mod evaluate;
mod iterated;
mod journaled;
mod judge_replies;
mod killed;
mod normalise;
mod process;
mod prompt_cache;
mod real_agents;
mod responses;
mod resumed;
mod secrets;
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
    heed_signals();
    env!("CARGO_BIN_EXE_kindlm")
}

/// An event that takes longer than this counts as one that does not happen.
const NEVER: Duration = Duration::from_mins(5);

/// Waits until it holds.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < NEVER, "{what}: this does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Lets signals reach the programs that are started from here, also where the tests were started with signals ignored (`nohup`,
/// the background of a shell). Programs inherit which signals are ignored, but not which are caught: so those are caught.
#[cfg(unix)]
fn heed_signals() {
    use tokio::signal::unix::{SignalKind, signal};
    static HEEDED: Once = Once::new();
    HEEDED.call_once(|| {
        let kinds = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        for kind in kinds {
            // Who stops the tests with a signal that is not ignored still does.
            if ignored_signals() & (1 << (kind.as_raw_value() - 1)) != 0 {
                drop(signal(kind).unwrap());
            }
        }
    });
}

/// The signals that this process ignores, one bit each; all but SIGHUP are taken for heeded where the system does not say.
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
