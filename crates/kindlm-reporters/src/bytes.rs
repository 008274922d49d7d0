//! Lets writers of bytes write text.

use std::{fmt, io};

/// Bytes on their way to a writer of text: whole pieces of UTF-8, as formats of text write them.
pub(crate) struct Bytes<'a>(pub(crate) &'a mut dyn fmt::Write);

impl io::Write for Bytes<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes)
            .map_err(|err| io::Error::new(io::ErrorKind::InvalidData, err))?;
        self.0.write_str(text).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
