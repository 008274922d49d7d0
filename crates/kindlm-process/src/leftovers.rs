//! Ends processes that outlive the program that started them.
//!
//! Killing a process group does not reach a process that has left the group (`setsid`). Such a process still has its
//! initial environment, which contains a variable with a unique value. On Linux, this variable identifies the process
//! as one that KindLM started.

#[cfg(target_os = "linux")]
use std::{ffi::OsStr, fs::File, io::Read as _, path::Path};

/// The size of the read buffer for the environment of a process, in bytes. With the default stack limit of 8 MiB, Linux
/// limits arguments and environment together to this size (execve(2)). A larger environment is truncated. The unused
/// part of the buffer takes no memory.
#[cfg(target_os = "linux")]
const SPACE: usize = 2 * 1024 * 1024;

/// Kills every process of this user that was started with this variable. Blocks until these processes have ended, for
/// at most a second. A process that has cleared its environment is not found.
#[cfg(target_os = "linux")]
pub fn end_marked(variable: &str, value: &OsStr) {
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    // Several rounds are needed: a found process may have started other processes, and a killed process ends with a
    // delay.
    const ROUNDS: u32 = 100;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
    let mark = [variable.as_bytes(), b"=", value.as_bytes()].concat();
    let mut space = vec![0; SPACE];
    for _ in 0..ROUNDS {
        let mut is_one_left = false;
        for id in ids() {
            // The pidfd is opened before the check, so that the signal cannot hit another process that reuses the id.
            let Ok(process) = pidfd_open(id, PidfdFlags::empty()) else { continue };
            match carries(id, &mark, &mut space) {
                Some(false) => continue,
                // The signal only fails if the process has already ended.
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

/// Returns true if the initial environment of a process contains the mark. Returns `None` during `execve`, because the
/// process shows no environment then. The environment of another user's process is unreadable. The result is then
/// false, because KindLM did not start the process.
#[cfg(target_os = "linux")]
fn carries(id: rustix::process::Pid, mark: &[u8], space: &mut [u8]) -> Option<bool> {
    // During `execve`, a process shows neither arguments nor an environment (proc_pid_environ(5)). If the process then
    // shows arguments but no environment, the environment is empty, or `execve` has just finished. So the environment
    // is read again.
    const LOOKS: u32 = 4;
    let folder = Path::new("/proc").join(id.as_raw_nonzero().to_string());
    for _ in 0..LOOKS {
        // A single read is needed: if `execve` runs between two reads, the rest would be missing.
        let length = File::open(folder.join("environ")).and_then(|mut it| it.read(space));
        let Ok(length) = length else { break };
        if length > 0 {
            return Some(space[..length].split(|byte| *byte == 0).any(|it| it == mark));
        }
        // Kernel threads and ended processes have no executable.
        let is_program = std::fs::read_link(folder.join("exe")).is_ok();
        if is_program && std::fs::read(folder.join("cmdline")).is_ok_and(|it| it.is_empty()) {
            return None;
        }
    }
    Some(false)
}

/// Does nothing, because the environment of processes is only read on Linux.
#[cfg(not(target_os = "linux"))]
pub fn end_marked(_variable: &str, _value: &std::ffi::OsStr) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    #[test]
    fn a_process_during_exec_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("again.sh");
        std::fs::write(&script, "#!/bin/sh\nexec \"$0\"\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mark = format!("KINDLM_LEFT={}", folder.path().display());
        let mut space = vec![0; super::SPACE];
        for _ in 0..50 {
            let mut child =
                Command::new(&script).env("KINDLM_LEFT", folder.path()).spawn().unwrap();
            // At first, the child still shows the environment of this test.
            let id = rustix::process::Pid::from_child(&child);
            while super::carries(id, mark.as_bytes(), &mut space) != Some(true) {}
            super::end_marked("KINDLM_LEFT", folder.path().as_os_str());
            // A process that was not found runs forever, and a killed process ends with a delay.
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
            assert_eq!(ended.and_then(|it| it.signal()), Some(9), "the process still runs");
        }
    }
}
