//! A file reader with read-ahead, for pieces that are close together in the file.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

/// A file that is read in pieces, with read-ahead.
// perf: process, 10 % to 17 % less CPU time for an execution, together with one write for several executions
#[derive(Debug)]
pub(super) struct Ahead {
    file: File,
    /// The read-ahead in bytes.
    at_once: u64,
    /// The file offset of `window`.
    start: u64,
    /// The bytes of the last read with read-ahead.
    window: Vec<u8>,
}

impl Ahead {
    /// Creates a reader that reads `bytes` bytes at once, from the requested piece on.
    ///
    /// The reader also reads some bytes before the piece, because callers sometimes move back a little.
    ///
    /// The file must not change where it was read. A piece of at least `bytes` bytes is read without read-ahead. If
    /// `bytes` is 0, every piece is read without read-ahead.
    pub(super) fn new(file: File, bytes: u64) -> Self {
        Self { file, at_once: bytes, start: 0, window: Vec::new() }
    }

    /// Reads a piece; the piece is shorter if the file ends.
    pub(super) fn read_piece(&mut self, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        if len >= self.at_once {
            let mut piece = Vec::new();
            self.file.seek(SeekFrom::Start(offset))?;
            (&mut self.file).take(len).read_to_end(&mut piece)?;
            return Ok(piece);
        }
        let read = self.start.saturating_add(self.window.len() as u64);
        if offset < self.start || offset.saturating_add(len) > read {
            self.fill(offset)?;
        }
        let from = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let rest = self.window.get(from..).unwrap_or_default();
        let len = usize::try_from(len).map_or(rest.len(), |len| len.min(rest.len()));
        Ok(rest.get(..len).unwrap_or_default().to_vec())
    }

    fn fill(&mut self, offset: u64) -> io::Result<()> {
        self.window.clear();
        self.start = offset.saturating_sub(self.at_once / BEFORE);
        self.file.seek(SeekFrom::Start(self.start))?;
        // The requested piece fits into the window, because it is shorter than `at_once`.
        let at_once = self.at_once.saturating_add(self.at_once / BEFORE);
        let read = (&mut self.file).take(at_once).read_to_end(&mut self.window);
        if read.is_err() {
            self.window.clear();
        }
        read.map(|_| ())
    }
}

/// The read-ahead divided by this number is the number of bytes that are read before the requested piece.
const BEFORE: u64 = 8;

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_are_correct_in_any_order(
            at_once in 0..40_u64,
            pieces in proptest::collection::vec((0..120_usize, 0..50_usize), 1..20),
        ) {
            let all: Vec<u8> = (0..100).collect();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&all).unwrap();
            let mut ahead = Ahead::new(file, at_once);
            for (offset, len) in pieces {
                let piece = ahead.read_piece(offset as u64, len as u64).unwrap();
                let (from, to) = (offset.min(100), (offset + len).min(100));
                prop_assert_eq!(piece, &all[from..to]);
            }
        }
    }
}
