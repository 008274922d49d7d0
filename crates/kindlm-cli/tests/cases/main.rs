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
mod coding_agent;
mod evaluate;
mod iterated;
mod journaled;
mod killed;
mod normalise;
mod process;
mod responses;
mod resumed;
mod secrets;
mod traced;
mod waits;
mod watched;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use case::Case;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").canonicalize().unwrap()
}

fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_kindlm")
}

#[test]
fn every_case_gives_what_its_folder_says() {
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
