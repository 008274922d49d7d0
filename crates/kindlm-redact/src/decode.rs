//! Decodes escape sequences, so that secrets with escape sequences are found.

use std::ops::Range;

/// A decoded text, with the original position of each byte.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) bytes: Vec<u8>,
    /// The offset in the original text for each byte.
    ///
    /// The last entry is the length of the original text.
    from: Vec<usize>,
}

impl Decoded {
    /// Returns the range in the original text for a range of decoded bytes.
    pub(crate) fn place(&self, range: &Range<usize>) -> Range<usize> {
        let at = |index: usize| self.from.get(index).copied().unwrap_or_default();
        at(range.start)..at(range.end)
    }

    /// Decodes the text once more; returns `None` if it has no more escape sequences.
    pub(crate) fn again(&self) -> Option<Self> {
        let next = decode(&self.bytes)?;
        let from = next.from.iter().map(|it| self.from.get(*it).copied().unwrap_or_default());
        let from = from.collect();
        Some(Self { bytes: next.bytes, from })
    }
}

/// Returns true if a text may have escape sequences or zero-width characters.
pub(crate) fn has_escapes(text: &[u8]) -> bool {
    text.iter().any(|it| matches!(it, b'\\' | b'%' | b'&' | 0xE2 | 0xEF))
}

/// Decodes the escape sequences of JSON, JavaScript, URLs and HTML.
///
/// Zero-width characters are removed. Returns `None` if the text has neither escape sequences nor zero-width
/// characters.
pub(crate) fn decode(text: &[u8]) -> Option<Decoded> {
    if !has_escapes(text) {
        return None;
    }
    let mut decoded =
        Decoded { bytes: Vec::with_capacity(text.len()), from: Vec::with_capacity(text.len() + 1) };
    let mut at = 0;
    let mut found = false;
    while let Some(rest) = text.get(at..).filter(|it| !it.is_empty()) {
        let mut buffer = [0; 4];
        let (length, bytes): (usize, &[u8]) = match escape(rest) {
            Some((length, Escape::Byte(byte))) => {
                buffer[0] = byte;
                (length, &buffer[..1])
            }
            Some((length, Escape::Char(char))) => {
                (length, char.encode_utf8(&mut buffer).as_bytes())
            }
            Some((length, Escape::Nothing)) => (length, &[]),
            None => (1, &rest[..1]),
        };
        found |= length > 1;
        decoded.bytes.extend_from_slice(bytes);
        decoded.from.extend(std::iter::repeat_n(at, bytes.len()));
        at += length;
    }
    decoded.from.push(text.len());
    found.then_some(decoded)
}

/// Removes white space and colons from a text; returns `None` for a text without white space and colons.
pub(crate) fn without_separators(text: &[u8]) -> Option<Decoded> {
    let is_separator = |it: &u8| it.is_ascii_whitespace() || *it == b':';
    if !text.iter().any(is_separator) {
        return None;
    }
    let kept = text.iter().enumerate().filter(|(_, it)| !is_separator(it));
    let (mut from, bytes): (Vec<usize>, Vec<u8>) = kept.unzip();
    from.push(text.len());
    Some(Decoded { bytes, from })
}

enum Escape {
    Byte(u8),
    Char(char),
    Nothing,
}

/// Parses the escape sequence at the start of a text.
///
/// Returns the length and meaning of the sequence, or `None` if the text begins with no escape sequence.
fn escape(text: &[u8]) -> Option<(usize, Escape)> {
    match text {
        [b'%', rest @ ..] => Some((3, Escape::Byte(u8::try_from(hex(rest, 2)?).ok()?))),
        [b'\\', b'u', b'{', rest @ ..] => {
            let length = rest.iter().take(8).position(|it| *it == b'}')?;
            Some((length + 4, Escape::Char(char::from_u32(hex(rest, length)?)?)))
        }
        [b'\\', b'u', rest @ ..] => unicode(rest),
        [b'\\', b'x', rest @ ..] => Some((4, Escape::Char(char::from_u32(hex(rest, 2)?)?))),
        [b'\\', letter, ..] => {
            let char = match letter {
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'"' | b'\'' | b'\\' | b'/' | b'`' => char::from(*letter),
                _ => return None,
            };
            Some((2, Escape::Char(char)))
        }
        [b'&', rest @ ..] => entity(rest),
        // Zero-width characters, direction marks and the byte order mark.
        [0xE2, 0x80, 0x8B..=0x8F, ..] | [0xE2, 0x81, 0xA0..=0xA4, ..] | [0xEF, 0xBB, 0xBF, ..] => {
            Some((3, Escape::Nothing))
        }
        _ => None,
    }
}

/// Parses the text after `\u`, which is four digits or a surrogate pair; `None` for any other text.
///
/// Returns the length of the whole escape sequence with its character.
fn unicode(rest: &[u8]) -> Option<(usize, Escape)> {
    let high = hex(rest, 4)?;
    if let Some(char) = char::from_u32(high) {
        return Some((6, Escape::Char(char)));
    }
    let low = hex(rest.get(4..)?.strip_prefix(b"\\u")?, 4)?;
    let high = high.checked_sub(0xD800)?;
    let low = low.checked_sub(0xDC00).filter(|it| *it < 0x400)?;
    Some((12, Escape::Char(char::from_u32(0x1_0000 + (high << 10) + low)?)))
}

/// Parses the text after the `&` of an HTML entity; `None` for any other text.
///
/// Returns the length of the whole entity with its character.
fn entity(rest: &[u8]) -> Option<(usize, Escape)> {
    let end = rest.iter().take(10).position(|it| *it == b';')?;
    let char = match &rest[..end] {
        b"amp" => '&',
        b"lt" => '<',
        b"gt" => '>',
        b"quot" => '"',
        b"apos" => '\'',
        [b'#', b'x' | b'X', digits @ ..] => char::from_u32(hex(digits, digits.len())?)?,
        [b'#', digits @ ..] => char::from_u32(str::from_utf8(digits).ok()?.parse().ok()?)?,
        _ => return None,
    };
    Some((end + 2, Escape::Char(char)))
}

/// Parses a hexadecimal number with exactly `length` digits; `None` for any other text.
fn hex(text: &[u8], length: usize) -> Option<u32> {
    let digits = text.get(..length).filter(|it| it.iter().all(u8::is_ascii_hexdigit))?;
    u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_with_their_places() {
        for (text, expected) in [
            (r"a\u0062c", "abc"),
            (r"\ud83d\ude00\x41\u{42}", "😀AB"),
            ("%61%62%C3%A9", "abé"),
            ("&#97;&#x62;&amp;&quot;", "ab&\""),
            (r#"\"\\\n\/"#, "\"\\\n/"),
            ("a\u{200b}b\u{feff}c", "abc"),
        ] {
            let decoded = decode(text.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(decoded.bytes.clone()).unwrap(), expected);
            assert_eq!(decoded.place(&(0..expected.len())), 0..text.len());
        }
        for text in ["", "plain", "100% & more", r"C:\dir", "&nope;", "\\u12", "%zz", "\\ud800"] {
            assert!(decode(text.as_bytes()).is_none(), "{text}");
        }
        let decoded = decode(br"x \u0061 y").unwrap();
        assert_eq!(decoded.place(&(2..3)), 2..8);
        let twice = decode(br"%5Cu0061").unwrap().again().unwrap();
        assert_eq!((twice.bytes.as_slice(), twice.place(&(0..1))), (&b"a"[..], 0..8));
    }
}
