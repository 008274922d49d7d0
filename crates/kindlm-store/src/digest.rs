//! SHA-256 digests, shortened and complete.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The first 64 bits of a SHA-256 digest, which are enough to detect a change.
///
/// ```
/// use kindlm_store::Digest;
///
/// let digest = Digest::from_content("Where is my order?");
/// assert_eq!(digest.to_string().len(), 16);
/// assert_eq!(digest.to_string().parse(), Ok(digest));
/// assert_ne!(digest, Digest::from_content("Where is my parcel?"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Digest(u64);

/// The error of parsing a text that is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a digest: it needs 16 hexadecimal digits")]
pub struct DigestError(String);

impl Digest {
    /// Returns the digest of a text or of bytes.
    pub fn from_content(text: impl AsRef<[u8]>) -> Self {
        Self::shortened(&Sha256::digest(text))
    }

    /// Returns the bits, for example as a seed.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Creates a digest from the first 8 bytes of a SHA-256 digest.
    pub fn shortened(long: &[u8]) -> Self {
        Self(long.iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from(*self))
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let ok = text.len() == 16 && text.bytes().all(|it| it.is_ascii_hexdigit());
        let bits = if ok { u64::from_str_radix(text, 16).ok() } else { None };
        bits.map(Self).ok_or_else(|| DigestError(text.to_owned()))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        HEXLOWER.encode(&digest.0.to_be_bytes())
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

/// Returns the complete SHA-256 digest in lower-case hex digits.
pub(crate) fn sha256(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_beginning_of_the_sha256() {
        let long = sha256("abc");
        assert_eq!(long, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(Digest::from_content("abc").to_string(), long[..16]);
    }

    #[test]
    fn reads_only_its_own_format() {
        for text in ["0000000000000001", "ffffffffffffffff"] {
            assert_eq!(text.parse::<Digest>().unwrap().to_string(), text);
        }
        for text in ["", "1", "+000000000000001", "000000000000000g", "00000000000000011"] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
