//! Checksums of lines: a line that has changed since it was written is never used.

use std::fmt::Write as _;

/// The text before the checksum, and the text behind it.
const BEFORE: &str = ",\"crc32\":\"";
const BEHIND: &str = "\"}";

/// The number of characters of a checksum.
const DIGITS: usize = 8;

/// Adds a checksum to each line of a journal and checks it.
///
/// A line is a JSON object; its last key, `crc32`, is over everything before it. The checksums of the lines that
/// follow the header begin with the header's, so that no line of another journal is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seal {
    /// The header's checksum; 0 for the header itself.
    header: u32,
}

/// Why a line differs from the written one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SealError {
    /// It has no checksum, or something follows it.
    #[error("it does not end with a checksum")]
    Missing,
    /// It has changed.
    #[error("its checksum does not match its content")]
    Mismatch,
}

impl Seal {
    /// Of the lines that follow this header, which must be sealed.
    pub(super) fn after(header: &[u8]) -> Result<Self, SealError> {
        let content = Self::default().content(header)?;
        Ok(Self { header: crc32fast::hash(content) })
    }

    /// Adds the checksum to the JSON object that begins at `start`, and ends the line.
    pub(super) fn close(self, line: &mut Vec<u8>, start: usize) {
        line.pop_if(|last| *last == b'}');
        let checksum = self.checksum(line.get(start..).unwrap_or_default());
        let mut end = String::with_capacity(BEFORE.len() + DIGITS + BEHIND.len() + 1);
        let _ = writeln!(end, "{BEFORE}{checksum:08x}{BEHIND}");
        line.extend_from_slice(end.as_bytes());
    }

    /// Checks a line, with or without its end.
    pub(super) fn check(self, line: &[u8]) -> Result<(), SealError> {
        self.content(line).map(drop)
    }

    /// The JSON object of a line as it was before the checksum was added.
    pub(super) fn open(self, line: &[u8]) -> Result<Vec<u8>, SealError> {
        let content = self.content(line)?;
        let mut object = Vec::with_capacity(content.len() + 1);
        object.extend_from_slice(content);
        object.push(b'}');
        Ok(object)
    }

    fn content(self, line: &[u8]) -> Result<&[u8], SealError> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let end = BEFORE.len() + DIGITS + BEHIND.len();
        let at = line.len().checked_sub(end).ok_or(SealError::Missing)?;
        let (content, end) = line.split_at(at);
        let digits = end.strip_prefix(BEFORE.as_bytes());
        let digits = digits.and_then(|it| it.strip_suffix(BEHIND.as_bytes()));
        let digits = digits.ok_or(SealError::Missing)?;
        // Compared as text, so that there is one way to write a checksum.
        if digits == format!("{:08x}", self.checksum(content)).as_bytes() {
            Ok(content)
        } else {
            Err(SealError::Mismatch)
        }
    }

    fn checksum(self, content: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.header);
        hasher.update(content);
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_a_line_as_it_was_written_and_no_other() {
        let mut header = br#"{"run":"r"}"#.to_vec();
        Seal::default().close(&mut header, 0);
        let seal = Seal::after(&header).unwrap();
        let mut lines = b"before".to_vec();
        lines.extend_from_slice(br#"{"a":1}"#);
        seal.close(&mut lines, 6);
        let line = &lines[6..];
        assert_eq!(line.last(), Some(&b'\n'));
        assert_eq!(seal.open(line).unwrap(), br#"{"a":1}"#);
        assert!(serde_json::from_slice::<serde_json::Value>(line).is_ok(), "still JSON");
        assert_eq!(Seal::default().check(line), Err(SealError::Mismatch), "of another journal");
        for at in 0..line.len() - 1 {
            for bit in 0..8 {
                let mut changed = line.to_vec();
                changed[at] ^= 1 << bit;
                assert!(seal.check(&changed).is_err(), "byte {at}, bit {bit}");
            }
            assert!(seal.check(&line[..at]).is_err(), "cut at {at}");
        }
        assert_eq!(seal.check(b"{}\n"), Err(SealError::Missing));
    }
}
