//! A program and all processes that it started, as one group that ends together.

use std::ffi::OsString;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::process::{Child, Command};

use crate::guard::Guard;
use crate::leftovers::end_marked;

/// The time between `SIGTERM` and `SIGKILL`. Reading the pipes of an ended command is limited to the same time.
pub const GRACE: Duration = Duration::from_secs(1);

/// The environment variable that identifies a started program and its descendants, even if they have left the group.
/// Its value is different for each started program.
pub const MARK: &str = "KINDLM_PROCESS";

/// A program and the processes that it started. They are killed when the group is dropped, or when KindLM is killed.
///
/// On Unix, all processes of the process group are killed. On Linux, processes that have left the group are killed too.
/// On other systems, only the program itself is killed, and only when its [`Child`] is dropped.
#[derive(Debug)]
pub struct Group {
    #[cfg(unix)]
    entry: Option<crate::guard::Entry>,
    mark: OsString,
    is_ended: bool,
}

impl Group {
    /// Starts a [prepared](crate::prepare) program, and registers it with the guard.
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be started.
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

    /// Kills the remaining processes of the group. On Linux, also kills the processes that have left the group.
    pub async fn end(&mut self) {
        self.signal(Signal::Kill);
        let mark = self.mark.clone();
        // The call blocks until the processes end, for at most a second. If the runtime shuts down first, `drop`
        // ends the processes.
        let ended = tokio::task::spawn_blocking(move || end_marked(MARK, &mark)).await;
        self.is_ended = ended.is_ok();
    }

    /// Asks the group to end with `SIGTERM`. On systems without process groups, the program itself is killed instead.
    pub fn terminate(&self, child: &mut Child) {
        self.signal(Signal::Terminate);
        #[cfg(not(unix))]
        let _ = child.start_kill();
        let _ = child;
    }

    /// Kills the group. On systems without process groups, only the program itself is killed.
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
            // This only fails if no process of the group is left.
            let _ = rustix::process::kill_process_group(entry.id(), signal);
        }
        #[cfg(not(unix))]
        let _ = signal;
    }
}

/// The signal for a group.
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
