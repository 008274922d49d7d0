//! An input that ends when the evaluation is stopped, even during a blocked read.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use kindlm_engine::Control;

use crate::Failure;

/// The interval between two checks for a stop.
const LOOK: Duration = Duration::from_millis(100);

/// The maximum number of bytes per read.
const BLOCK: usize = 64 * 1024;

/// A reader that ends when `control` requests a stop.
pub(super) struct Stoppable {
    blocks: Receiver<io::Result<Vec<u8>>>,
    block: io::Cursor<Vec<u8>>,
    control: Control,
}

impl Stoppable {
    /// Starts a thread that reads the input.
    ///
    /// The thread is needed because a blocked read cannot be cancelled.
    pub(super) fn new(mut input: Box<dyn Read + Send>, control: Control) -> Result<Self, Failure> {
        let (sender, blocks) = sync_channel(1);
        let read = move || {
            loop {
                let mut block = vec![0; BLOCK];
                let read = match input.read(&mut block) {
                    Err(err) if err.kind() == io::ErrorKind::Interrupted => continue,
                    read => read,
                };
                let is_last = !matches!(read, Ok(1..));
                let sent = sender.send(read.map(|count| {
                    block.truncate(count);
                    block
                }));
                if is_last || sent.is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("records".to_owned()).spawn(read);
        thread.map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
        Ok(Self { blocks, block: io::Cursor::default(), control })
    }
}

impl Read for Stoppable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.control.reason().is_some() {
                return Ok(0);
            }
            let count = self.block.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            match self.blocks.recv_timeout(LOOK) {
                Ok(block) => {
                    let block = block?;
                    if block.is_empty() {
                        return Ok(0);
                    }
                    self.block = io::Cursor::new(block);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
    }
}
