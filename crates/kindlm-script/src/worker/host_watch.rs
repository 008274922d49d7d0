//! Detects the end of the host, even while a script runs.

use std::io;

/// Waits for the end of the host or of the work.
pub(crate) struct Watch {
    #[cfg(unix)]
    work: io::PipeReader,
}

/// A token that is held while there is work.
pub(crate) struct AtWork {
    #[cfg(unix)]
    _pipe: io::PipeWriter,
}

/// Creates a watch and its work token.
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
    /// Waits until the host or the work has ended; returns true if it was the host.
    ///
    /// The host holds the other end of stdin. When its process ends for any reason, the system closes it. On systems
    /// other than Unix there is no such wait; there the next read fails.
    #[cfg(unix)]
    pub(crate) fn is_host_gone(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};

        let stdin = io::stdin();
        loop {
            // With no requested events, `poll` only reports that the host has closed the pipe.
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
