//! Checksums of journal lines, which detect damaged lines.

use std::fmt::Write as _;

/// The text before the checksum of a line.
const BEFORE: &str = ",\"crc32\":\"";
/// The text after the checksum of a line.
const BEHIND: &str = "\"}";

/// The number of hex digits of a checksum.
const DIGITS: usize = 8;

/// The checksum function of a journal's lines.
///
/// A line is a JSON object whose last key is `crc32`, the checksum of everything before it. The checksums of all lines
/// after the header depend on the header's checksum. So a line of another journal does not match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seal {
    /// The checksum of the header; 0 for the header line itself.
    header: u32,
}

/// The error of a damaged line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SealError {
    /// The line has no checksum at its end.
    #[error("it does not end with a checksum")]
    Missing,
    /// The content does not match the checksum.
    #[error("its checksum does not match its content")]
    Mismatch,
}

impl Seal {
    /// Returns the checksum function for the lines after this header.
    ///
    /// Fails if the header does not match its checksum.
    pub(super) fn after(header: &[u8]) -> Result<Self, SealError> {
        let content = Self::default().content(header)?;
        Ok(Self { header: crc32fast::hash(content) })
    }

    /// Adds the checksum and a line break to the JSON object that begins at `start`.
    pub(super) fn close(self, line: &mut Vec<u8>, start: usize) {
        line.pop_if(|last| *last == b'}');
        let checksum = self.checksum(line.get(start..).unwrap_or_default());
        let mut end = String::with_capacity(BEFORE.len() + DIGITS + BEHIND.len() + 1);
        let _ = writeln!(end, "{BEFORE}{checksum:08x}{BEHIND}");
        line.extend_from_slice(end.as_bytes());
    }

    /// Checks a line, with or without its line break. Fails if the line does not match its checksum.
    pub(super) fn check(self, line: &[u8]) -> Result<(), SealError> {
        self.content(line).map(drop)
    }

    /// Returns the JSON object of a line without the checksum.
    ///
    /// Fails if the line does not match its checksum.
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
        // Compare the text, so that only one spelling of a checksum is valid.
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
