//! Processes that outlive the command that started them.
//!
//! Killing a process group does not reach who has left it (`setsid`). Such a process still carries the environment that it
//! was given, and in that the name of the folder, which is like no other. So on Linux it is found, and ended.

use std::path::Path;

/// Ends every process of ours that was started with this variable. A process that has cleared its environment is not
/// found.
#[cfg(target_os = "linux")]
pub(crate) fn end(variable: &str, folder: &Path) {
    use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    // Whoever is found may have started others meanwhile; whoever is killed takes a moment to be gone.
    const ROUNDS: u32 = 100;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
    let mark = format!("{variable}={}", folder.display());
    for _ in 0..ROUNDS {
        let mut is_anybody_left = false;
        for id in ids() {
            // It is held before it is looked at, so that nobody else is hit who gets its number.
            let Ok(process) = pidfd_open(id, PidfdFlags::empty()) else { continue };
            if !carries(id, mark.as_bytes()) {
                continue;
            }
            is_anybody_left = true;
            // It fails if the process is gone already, which is what is wanted.
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
        if !is_anybody_left {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(target_os = "linux")]
fn ids() -> impl Iterator<Item = rustix::process::Pid> {
    let own = std::process::id();
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(move |it| {
        let id: u32 = it.file_name().to_str()?.parse().ok()?;
        let id = i32::try_from(id).ok().filter(|_| id != own)?;
        rustix::process::Pid::from_raw(id)
    })
}

/// Whether a process was started with a variable. Those of other users cannot be looked at, and were not started by us.
#[cfg(target_os = "linux")]
fn carries(id: rustix::process::Pid, mark: &[u8]) -> bool {
    let environment = std::fs::read(format!("/proc/{}/environ", id.as_raw_nonzero()));
    environment.is_ok_and(|it| it.split(|byte| *byte == 0).any(|it| it == mark))
}

/// Elsewhere nobody tells the environment of a process.
#[cfg(not(target_os = "linux"))]
pub(crate) fn end(_variable: &str, _folder: &Path) {}
