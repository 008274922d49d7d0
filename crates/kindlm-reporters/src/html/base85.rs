//! Bytes as ASCII text for a `script` element. Four bytes take five characters, where Base64 needs 5⅓.
//!
//! This is Ascii85 without its abbreviations, with other digits: `*` to `~`, and `!` instead of `<`. So the text cannot
//! end the element. The page's script decodes it.

/// The digit zero. The other digits follow it in ASCII.
const ZERO: u8 = b'*';

/// Encodes bytes. The last group of 1 to 3 bytes takes one character more than it has bytes.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(4) * 5);
    for group in bytes.chunks(4) {
        let mut word = [0; 4];
        word[..group.len()].copy_from_slice(group);
        let number = u32::from_be_bytes(word);
        let digits = [85 * 85 * 85 * 85, 85 * 85 * 85, 85 * 85, 85, 1].map(|it| number / it % 85);
        text.extend(digits.iter().take(group.len() + 1).map(|it| digit(*it)));
    }
    text
}

fn digit(value: u32) -> char {
    let value = u8::try_from(value).unwrap_or_default();
    match char::from(ZERO + value) {
        '<' => '!',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_characters_that_cannot_end_an_element() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"\0", "**"),
            (b"\xff", "{{"),
            (b"\xff\xff\xff\xff", "|A`6*"),
            (b"\0\0\0\x12", "****!"),
        ] {
            assert_eq!(encode(bytes), text, "{bytes:?}");
        }
        let all: Vec<u8> =
            (0..=u8::MAX).flat_map(|it| [it, 255 - it, it.reverse_bits(), it / 3]).collect();
        assert!(encode(&all).bytes().all(|it| it.is_ascii_graphic() && !b"<&\"'".contains(&it)));
    }
}
