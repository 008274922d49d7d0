//! A program with everything that it has started, ended as one.

use std::ffi::OsString;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::process::{Child, Command};

use crate::guard::Guard;
use crate::leftovers::end_marked;

/// From `SIGTERM` to `SIGKILL`, and from the end of a command to the end of waiting for its pipes.
pub const GRACE: Duration = Duration::from_secs(1);

/// The variable by which a process is found that has left its group. Each program has a value of its own.
pub const MARK: &str = "KINDLM_PROCESS";

/// A program with everything that it has started. All of it is killed when this is dropped, and when this process is
/// killed.
#[derive(Debug)]
pub struct Group {
    #[cfg(unix)]
    entry: Option<crate::guard::Entry>,
    mark: OsString,
    is_ended: bool,
}

impl Group {
    /// Starts a program that was [prepared](crate::prepared). The guard knows it from now on.
    ///
    /// # Errors
    ///
    /// If the program cannot be started.
    pub fn spawn(mut command: Command, guard: &Guard) -> io::Result<(Child, Self)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        guard.wake();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mark = OsString::from(format!("{}-{count}", std::process::id()));
        let child = command.env(MARK, &mark).spawn()?;
        let group = Self {
            #[cfg(unix)]
            entry: guard.add(&child),
            mark,
            is_ended: false,
        };
        Ok((child, group))
    }

    /// Ends what is left of the program: its group, and on Linux the processes that have left the group.
    pub async fn end(&mut self) {
        self.signal(Signal::Kill);
        self.is_ended = true;
        let mark = std::mem::take(&mut self.mark);
        // It waits for processes to be gone, a second at most.
        let _ = tokio::task::spawn_blocking(move || end_marked(MARK, &mark)).await;
    }

    /// Asks all of it to end. Where there are no process groups, only the program itself is ended.
    pub fn terminate(&self, child: &mut Child) {
        self.signal(Signal::Terminate);
        #[cfg(not(unix))]
        let _ = child.start_kill();
        let _ = child;
    }

    /// Kills all of it. Where there are no process groups, only the program itself is killed.
    pub fn kill(&self, child: &mut Child) {
        self.signal(Signal::Kill);
        #[cfg(not(unix))]
        let _ = child.start_kill();
        let _ = child;
    }

    fn signal(&self, signal: Signal) {
        #[cfg(unix)]
        if let Some(entry) = &self.entry {
            let signal = match signal {
                Signal::Terminate => rustix::process::Signal::TERM,
                Signal::Kill => rustix::process::Signal::KILL,
            };
            // It fails if the group is gone already, which is what is wanted.
            let _ = rustix::process::kill_process_group(entry.id(), signal);
        }
        #[cfg(not(unix))]
        let _ = signal;
    }
}

/// How a group is ended.
#[derive(Clone, Copy)]
enum Signal {
    Terminate,
    Kill,
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_ended {
            self.signal(Signal::Kill);
            end_marked(MARK, &self.mark);
        }
    }
}
