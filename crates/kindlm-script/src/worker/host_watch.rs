//! Detects that the host is gone, whatever the script is doing.

use std::io;

/// Waits for the end of the host or of the work.
pub(crate) struct Watch {
    #[cfg(unix)]
    work: io::PipeReader,
}

/// Held while there is work.
pub(crate) struct AtWork {
    #[cfg(unix)]
    _pipe: io::PipeWriter,
}

/// One who waits, and what the other holds.
pub(crate) fn pair() -> io::Result<(Watch, AtWork)> {
    #[cfg(unix)]
    {
        let (work, pipe) = io::pipe()?;
        Ok((Watch { work }, AtWork { _pipe: pipe }))
    }
    #[cfg(not(unix))]
    Ok((Watch {}, AtWork {}))
}

impl Watch {
    /// Waits until the host has gone, or the work has ended; returns true if it was the host.
    ///
    /// The host holds the other end of stdin; when its process ends, however it ends, the system hangs up. On systems
    /// other than Unix there is no such wait: there the next read reports it.
    #[cfg(unix)]
    pub(crate) fn is_host_gone(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};

        let stdin = io::stdin();
        loop {
            // Without a requested event, `poll` reports only that the host has hung up.
            let mut waited = [
                PollFd::new(&stdin, PollFlags::empty()),
                PollFd::new(&self.work, PollFlags::empty()),
            ];
            match poll(&mut waited, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
                Ok(_) => {
                    let [host, work] = waited.map(|it| !it.revents().is_empty());
                    if work || host {
                        return !work;
                    }
                }
            }
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn is_host_gone(&self) -> bool {
        false
    }
}
