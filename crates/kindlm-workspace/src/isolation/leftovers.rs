//! Processes that outlive the command that started them.
//!
//! Killing a process group does not reach who has left it (`setsid`). Such a process still carries the environment that it
//! was given, and in that the name of the folder, which is like no other. So on Linux it is found, and ended.

use std::path::Path;
#[cfg(target_os = "linux")]
use std::{fs::File, io::Read as _};

/// As much as the words and the environment of a process take at most where the limit of its stack is 8 MiB, as everywhere
/// where nobody has changed it (execve(2)); only what is read takes memory. Of more, only the beginning is looked at.
#[cfg(target_os = "linux")]
const SPACE: usize = 2 * 1024 * 1024;

/// Ends every process of ours that was started with this variable. A process that has cleared its environment is not
/// found.
#[cfg(target_os = "linux")]
pub(crate) fn end(variable: &str, folder: &Path) {
    use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    // Whoever is found may have started others meanwhile; whoever is killed takes a moment to be gone.
    const ROUNDS: u32 = 100;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
    let mark = format!("{variable}={}", folder.display());
    let mut space = vec![0; SPACE];
    for _ in 0..ROUNDS {
        let mut is_anybody_left = false;
        for id in ids() {
            // It is held before it is looked at, so that nobody else is hit who gets its number.
            let Ok(process) = pidfd_open(id, PidfdFlags::empty()) else { continue };
            match carries(id, mark.as_bytes(), &mut space) {
                Some(false) => continue,
                // It fails if the process is gone already, which is what is wanted.
                Some(true) => drop(pidfd_send_signal(&process, Signal::KILL)),
                None => {}
            }
            is_anybody_left = true;
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

/// Whether a process was started with a variable; nothing while it cannot be told yet. Those of other users cannot be
/// looked at, and were not started by us.
#[cfg(target_os = "linux")]
fn carries(id: rustix::process::Pid, mark: &[u8], space: &mut [u8]) -> Option<bool> {
    // Between taking up another program and being given its words and its environment, a process shows neither (`execve`;
    // proc_pid_environ(5)). Words without an environment are those of a process that has none, or that has been given both
    // since it was looked at: so that one is looked at again.
    const LOOKS: u32 = 4;
    let folder = Path::new("/proc").join(id.as_raw_nonzero().to_string());
    for _ in 0..LOOKS {
        // It is read at once: of a process that takes up another program in between, the rest would be missing.
        let length = File::open(folder.join("environ")).and_then(|mut it| it.read(space));
        let Ok(length) = length else { break };
        if length > 0 {
            return Some(space[..length].split(|byte| *byte == 0).any(|it| it == mark));
        }
        // What belongs to the kernel and what has ended runs no program.
        let is_program = std::fs::read_link(folder.join("exe")).is_ok();
        if is_program && std::fs::read(folder.join("cmdline")).is_ok_and(|it| it.is_empty()) {
            return None;
        }
    }
    Some(false)
}

/// Elsewhere nobody tells the environment of a process.
#[cfg(not(target_os = "linux"))]
pub(crate) fn end(_variable: &str, _folder: &Path) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    #[test]
    fn a_process_that_is_taking_up_another_program_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("again.sh");
        std::fs::write(&script, "#!/bin/sh\nexec \"$0\"\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mark = format!("KINDLM_LEFT={}", folder.path().display());
        let mut space = vec![0; super::SPACE];
        for _ in 0..50 {
            let mut child =
                Command::new(&script).env("KINDLM_LEFT", folder.path()).spawn().unwrap();
            // At first it still shows the environment of this test.
            let id = rustix::process::Pid::from_child(&child);
            while super::carries(id, mark.as_bytes(), &mut space) != Some(true) {}
            super::end("KINDLM_LEFT", folder.path());
            // Whoever was not found goes on for ever; whoever was killed takes a moment to be gone.
            let mut ended = None;
            for _ in 0..500 {
                ended = child.try_wait().unwrap();
                if ended.is_some() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            drop(child.kill());
            child.wait().unwrap();
            assert_eq!(ended.and_then(|it| it.signal()), Some(9), "it still runs");
        }
    }
}
