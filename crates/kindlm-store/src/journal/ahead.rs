//! Reads pieces of a file, mostly in the order in which they stand there.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _};

/// A file that is read in pieces.
#[derive(Debug)]
pub(super) struct Ahead {
    file: BufReader<File>,
    /// Where the next byte comes from.
    at: u64,
}

impl Ahead {
    /// So many bytes are read at once: what stands close by is then there. What it has read ahead must not change. With
    /// 0 nothing is read ahead.
    pub(super) fn new(mut file: File, bytes: usize) -> io::Result<Self> {
        file.rewind()?;
        Ok(Self { file: BufReader::with_capacity(bytes, file), at: 0 })
    }

    /// Reads a piece; less of it where the file ends before.
    pub(super) fn read(&mut self, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        // Backwards is a step too: its two's complement is the negative number.
        self.file.seek_relative(offset.wrapping_sub(self.at).cast_signed())?;
        self.at = offset;
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
        let read = (&mut self.file).take(len).read_to_end(&mut bytes)?;
        self.at += read as u64;
        Ok(bytes)
    }
}
