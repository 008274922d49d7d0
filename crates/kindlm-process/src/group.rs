//! A program with everything that it has started, ended as one.

use std::time::Duration;

use tokio::process::Child;

use crate::guard::Guard;

/// From `SIGTERM` to `SIGKILL`, and from the end of a command to the end of waiting for its pipes.
pub const GRACE: Duration = Duration::from_secs(1);

/// A command with everything it started. What is left of it when this is dropped, or when this process is killed, is
/// killed.
#[cfg(unix)]
pub struct Group(Option<(rustix::process::Pid, crate::guard::Entry)>);

#[cfg(unix)]
impl Group {
    /// The group of a child that was started with [`prepared`](crate::prepared), known to the guard from now on.
    pub fn of(child: &Child, guard: &Guard) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(rustix::process::Pid::from_raw).map(|id| (id, guard.add(id))))
    }

    /// Asks the whole group to end.
    pub fn terminate(&self, _child: &mut Child) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Ends the whole group.
    pub fn kill(&self, _child: &mut Child) {
        self.signal(rustix::process::Signal::KILL);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some((id, _)) = &self.0 {
            // It fails if the group is gone already, which is what is wanted.
            let _ = rustix::process::kill_process_group(*id, signal);
        }
    }
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        self.signal(rustix::process::Signal::KILL);
    }
}

/// Where there are no process groups, only the command itself is ended.
#[cfg(not(unix))]
pub struct Group;

#[cfg(not(unix))]
impl Group {
    pub fn of(_child: &Child, _guard: &Guard) -> Self {
        Self
    }

    pub fn terminate(&self, child: &mut Child) {
        let _ = child.start_kill();
    }

    pub fn kill(&self, child: &mut Child) {
        let _ = child.start_kill();
    }
}
