//! Processes that outlive the program that started them.
//!
//! Killing a process group does not reach a process that has left the group (`setsid`). Such a process still carries the
//! environment that it was given, with a variable whose value is like no other. So on Linux it is found, and ended.

#[cfg(target_os = "linux")]
use std::{ffi::OsStr, fs::File, io::Read as _, path::Path};

/// The most that the arguments and the environment of a process take where the limit of its stack is 8 MiB, the default of
/// Linux (execve(2)), in bytes. Only the bytes that are read take memory. Of a larger environment the beginning is read.
#[cfg(target_os = "linux")]
const SPACE: usize = 2 * 1024 * 1024;

/// Ends every process of this user that was started with this variable. It blocks until they are gone, for a second at
/// most. A process that has cleared its environment is not found.
#[cfg(target_os = "linux")]
pub fn end_marked(variable: &str, value: &OsStr) {
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    // A process that is found may have started others meanwhile, and one that is killed takes a moment to be gone.
    const ROUNDS: u32 = 100;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
    let mark = [variable.as_bytes(), b"=", value.as_bytes()].concat();
    let mut space = vec![0; SPACE];
    for _ in 0..ROUNDS {
        let mut is_one_left = false;
        for id in ids() {
            // It is held before it is looked at, so that another process that gets its number is not hit.
            let Ok(process) = pidfd_open(id, PidfdFlags::empty()) else { continue };
            match carries(id, &mark, &mut space) {
                Some(false) => continue,
                // It fails if the process is gone already, which is what is wanted.
                Some(true) => drop(pidfd_send_signal(&process, Signal::KILL)),
                None => {}
            }
            is_one_left = true;
        }
        if !is_one_left {
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

/// Elsewhere the environment of a process cannot be read.
#[cfg(not(target_os = "linux"))]
pub fn end_marked(_variable: &str, _value: &std::ffi::OsStr) {}

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
            super::end_marked("KINDLM_LEFT", folder.path().as_os_str());
            // A process that was not found goes on for ever, and one that was killed takes a moment to be gone.
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
