//! Keys that somebody has pasted where they do not belong.
//!
//! Secrets have no place in any type of this crate. But a user can paste one into a config file, and a
//! message that quotes the file must not carry it into a CI log.

use std::borrow::Cow;

/// How the keys of well-known services begin.
const PREFIXES: [&str; 14] = [
    "sk-",
    "sk_",
    "rk_",
    "gsk_",
    "AIza",
    "xai-",
    "hf_",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "xox",
    "AKIA",
    "eyJ",
];

/// Shorter runs behind a prefix are words, not keys.
const LEAST: usize = 12;

/// The text with everything that looks like a key covered: the prefix stays, each byte behind it is `*`.
///
/// The length in bytes stays the same, so that places in the text stay where they are.
///
/// ```
/// use kindlm_types::mask_secrets;
///
/// assert_eq!(mask_secrets("apiKeyEnv: sk-proj-abcdefghijklmnop"), "apiKeyEnv: sk-*********************");
/// assert_eq!(mask_secrets("task-oriented"), "task-oriented");
/// ```
pub fn mask_secrets(text: &str) -> Cow<'_, str> {
    let mut masked: Option<String> = None;
    for prefix in PREFIXES {
        let mut from = 0;
        while let Some(found) = text[from..].find(prefix) {
            let start = from + found;
            let tail = start + prefix.len();
            let length = text[tail..].bytes().take_while(|&it| is_key_byte(it)).count();
            let inside_a_word =
                text[..start].bytes().next_back().is_some_and(|it| it.is_ascii_alphanumeric());
            if length >= LEAST && !inside_a_word {
                masked
                    .get_or_insert_with(|| text.to_owned())
                    .replace_range(tail..tail + length, &"*".repeat(length));
            }
            from = tail + length;
        }
    }
    masked.map_or(Cow::Borrowed(text), Cow::Owned)
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers_keys_and_leaves_words_alone() {
        for (text, expected) in [
            ("key: sk-test-SECRETSECRET, next", "key: sk-*****************, next"),
            ("AKIAIOSFODNN7EXAMPLE", "AKIA****************"),
            (
                "two sk-aaaaaaaaaaaaaaaa sk-bbbbbbbbbbbbbbbb",
                "two sk-**************** sk-****************",
            ),
            ("risk-averse-investments", "risk-averse-investments"),
            ("sk-short", "sk-short"),
            ("č sk-aaaaaaaaaaaaaaaač", "č sk-****************č"),
            ("", ""),
        ] {
            let masked = mask_secrets(text);
            assert_eq!(masked, expected);
            assert_eq!(masked.len(), text.len());
        }
    }
}
