//! Detects secrets by their format: keys of known services, and pairs such as `password=…`.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, MatchKind};

/// The key prefixes of well-known services.
const PREFIXES: [&str; 21] = [
    "sk-",
    "sk_",
    "rk_",
    "gsk_",
    "AIza",
    "xai-",
    "hf_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xox",
    "xapp-",
    "AKIA",
    "ASIA",
    "pplx-",
    "nvapi-",
    "eyJ",
];

/// The minimum length after a prefix in bytes. Shorter texts are words, not keys.
const LEAST: usize = 12;

/// The endings of the names that mark the value after `=` or `:` as a secret.
///
/// The endings are in lower case and without `-` and `_`.
const PAIRS: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "secret",
    "secretkey",
    "clientsecret",
    "accesskey",
    "privatekey",
    "accesstoken",
    "authtoken",
    "refreshtoken",
    "apitoken",
    "secretaccesskey",
];

/// The texts of a fast pre-filter, which ignores case. [`pairs`] finds nothing in a text without one of these texts.
///
/// Each name of [`PAIRS`] contains one of these texts, with and without `-` or `_` between its words.
const SIGNS: [&str; 13] = [
    "passw", "passp", "pass-", "pass_", "api", "secret", "access", "private", "auth", "refresh",
    "://", "earer ", "asic ",
];

/// The minimum length of a pair's value in bytes. Shorter values are words.
const LEAST_OF_PAIR: usize = 8;

/// Returns true if a text starts with the key prefix of a well-known service, such as `sk-`.
pub fn looks_like_key(text: &str) -> bool {
    PREFIXES.iter().any(|it| text.starts_with(it))
}

/// Replaces each byte of the service keys in a text by `*`, except for their prefixes.
///
/// A key has at least 12 characters after its prefix. The length of the text in bytes is unchanged, so that offsets
/// into the text stay valid.
///
/// ```
/// use kindlm_redact::mask_keys;
///
/// assert_eq!(mask_keys("apiKeyEnv: sk-proj-abcdefghijklmnop"), "apiKeyEnv: sk-*********************");
/// assert_eq!(mask_keys("task-oriented"), "task-oriented");
/// ```
pub fn mask_keys(text: &str) -> Cow<'_, str> {
    let mut masked: Option<String> = None;
    for rest in prefixed(text) {
        let stars = "*".repeat(rest.len());
        masked.get_or_insert_with(|| text.to_owned()).replace_range(rest, &stars);
    }
    masked.map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Returns the range after the prefix of each key in a text.
///
/// A key is one of [`PREFIXES`], followed by at least [`LEAST`] characters. No letter or digit precedes a key.
fn prefixed(text: &str) -> impl Iterator<Item = Range<usize>> {
    static SEARCH: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    let search = SEARCH.get_or_init(|| {
        AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(PREFIXES).ok()
    });
    let found = search.iter().flat_map(move |it| it.find_iter(text));
    found.filter_map(|found| {
        let before = text.as_bytes().get(found.start().wrapping_sub(1));
        if before.is_some_and(u8::is_ascii_alphanumeric) {
            return None;
        }
        // Some keys are Base64, so allow Base64 characters.
        let inside = |it: &u8| it.is_ascii_alphanumeric() || b"-_.+/=".contains(it);
        let rest = &text[found.end()..];
        let length = rest.bytes().take_while(inside).count();
        let length = rest[..length].trim_end_matches(['.', '/']).len();
        (length >= LEAST).then(|| found.end()..found.end() + length)
    })
}

/// Returns the range after the prefix of each service key in a text, by stricter rules than [`prefixed`].
///
/// A key has at least 16 characters after its prefix, with a digit or an upper-case letter among them. Names such as
/// `sk-name-in-kebab-case` are not keys.
pub(crate) fn keys(text: &str) -> impl Iterator<Item = Range<usize>> {
    prefixed(text).filter(|rest| {
        text[rest.clone()].bytes().any(|it| it.is_ascii_digit() || it.is_ascii_uppercase())
            && rest.len() >= 16
    })
}

/// Returns the ranges of secret values in a text.
///
/// The secret values are the values of pairs such as `password=…`, tokens after `Bearer` and `Basic`, and passwords in
/// URLs. The value of a pair has at least [`LEAST_OF_PAIR`] bytes, with a letter and a digit among them.
pub(crate) fn pairs(text: &str) -> Vec<Range<usize>> {
    static SEARCH: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    let search = SEARCH
        .get_or_init(|| AhoCorasick::builder().ascii_case_insensitive(true).build(SIGNS).ok());
    let mut found = Vec::new();
    // Most texts have no pair, so search for all names at once first.
    if search.as_ref().is_some_and(|it| !it.is_match(text)) {
        return found;
    }
    for (at, _) in text.match_indices([':', '=']) {
        let before = text[..at].trim_end_matches([' ', '"', '\'', '\\']);
        let name = before.len()
            - before
                .bytes()
                .rev()
                .take_while(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_'))
                .count();
        let name = before[name..].to_ascii_lowercase().replace(['-', '_'], "");
        if PAIRS.iter().any(|it| name.ends_with(it)) {
            let value = &text[at + 1..];
            let rest = value.trim_start_matches([' ', '"', '\'', '\\', '>']);
            let from = at + 1 + value.len() - rest.len();
            let end = rest.find(|it: char| it.is_whitespace() || "\"'`\\,;&<>(){}[]|".contains(it));
            let value = &rest[..end.unwrap_or(rest.len())];
            let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
            let is_random = has(u8::is_ascii_alphabetic) && has(u8::is_ascii_digit);
            if value.len() >= LEAST_OF_PAIR && is_random && !value.starts_with(['$', '*', '%']) {
                found.push(from..from + value.len());
            }
        } else if text[at..].starts_with("://") {
            found.extend(password_of(text, at + 3));
        }
    }
    found.extend(bearers(text));
    found
}

/// Returns the range of the password in a URL; `from` is the offset after `://`.
///
/// Returns `None` if the URL has no password, or only a placeholder such as `${PASS}`.
fn password_of(text: &str, from: usize) -> Option<Range<usize>> {
    let rest = &text[from..];
    let host = rest.split(|it: char| it.is_whitespace() || "/?#\"'`<>\\".contains(it)).next()?;
    let user = &host[..host.rfind('@')?];
    let colon = user.find(':')?;
    let password = from + colon + 1..from + user.len();
    // A shell variable, a template or a masked text is not a password.
    let is_filled_in = text[password.clone()].starts_with(['$', '{', '*', '[']);
    (!password.is_empty() && !is_filled_in).then_some(password)
}

/// Returns the ranges of the credentials after `Bearer` and `Basic`. The first letter of these words may be lower-case.
///
/// A credential has at least 16 characters, with a digit among them.
fn bearers(text: &str) -> impl Iterator<Item = Range<usize>> {
    ["earer ", "asic "].into_iter().flat_map(|scheme| {
        text.match_indices(scheme).filter_map(|(at, scheme)| {
            let from = at + scheme.len();
            let rest = &text[from..];
            let inside = |it: char| it.is_ascii_alphanumeric() || "-_.~+/=".contains(it);
            let end = rest.find(|it| !inside(it)).unwrap_or(rest.len());
            let token = &rest[..end];
            let is_random = token.bytes().any(|it| it.is_ascii_digit());
            (token.len() >= 16 && is_random).then_some(from..from + token.len())
        })
    })
}

/// Returns the password in a URL, for example in the value of `DATABASE_URL`.
///
/// Returns `None` if the URL has no password, or only a placeholder such as `${PASS}`.
pub(crate) fn password_of_address(value: &str) -> Option<&str> {
    let from = value.find("://")? + 3;
    if let Some(password) = password_of(value, from) {
        return value.get(password);
    }
    // A password in a URL may contain a `/` that is not escaped.
    let user = &value[from..from + value[from..].rfind('@')?];
    let (name, password) = user.split_once(':')?;
    let is_port =
        password.split('/').next().is_none_or(|it| it.bytes().all(|it| it.is_ascii_digit()));
    let is_plain = |text: &str| !text.contains(|it: char| it.is_whitespace() || it == '?');
    let is_password = !is_port && !name.contains('/') && is_plain(password);
    (is_password && !password.starts_with(['$', '{', '*', '['])).then_some(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_masked_and_words_are_not() {
        for (text, expected) in [
            ("key: sk-test-SECRETSECRET, next", "key: sk-*****************, next"),
            ("AKIAIOSFODNN7EXAMPLE", "AKIA****************"),
            ("key=sk-aaaaaaaaaaaaaaaa", "key=sk-****************"),
            (
                "two sk-aaaaaaaaaaaaaaaa sk-bbbbbbbbbbbbbbbb",
                "two sk-**************** sk-****************",
            ),
            ("sk-CANARY7-q9Zx/T+w3vLm=Kd }", "sk-*********************** }"),
            ("https://host/sk-aaaaaaaaaaaaaaaa/", "https://host/sk-****************/"),
            ("risk-averse-investments", "risk-averse-investments"),
            ("sk-short", "sk-short"),
            ("č sk-aaaaaaaaaaaaaaaač", "č sk-****************č"),
            ("", ""),
        ] {
            let masked = mask_keys(text);
            assert_eq!(masked, expected);
            assert_eq!(masked.len(), text.len());
        }
    }

    #[test]
    fn the_keys_of_every_service_are_masked() {
        for prefix in PREFIXES {
            let masked = mask_keys(&format!("key {prefix}AbCdEf0123456789xyz.")).into_owned();
            assert_eq!(masked, format!("key {prefix}{}.", "*".repeat(19)));
        }
    }

    #[test]
    fn pairs_are_found_and_words_are_not() {
        for (text, secret) in [
            ("password=hunter2hunter2", "hunter2hunter2"),
            ("DB_PASSWORD: hunter2hunter2, next", "hunter2hunter2"),
            (r#"{"api_key": "abc12345xyz"}"#, "abc12345xyz"),
            (r#"{\"clientSecret\":\"abc12345xyz\"}"#, "abc12345xyz"),
            ("secret => 'abc12345xyz'", "abc12345xyz"),
            ("pass_phrase=abc12345xyz", "abc12345xyz"),
            ("pass-word=abc12345xyz", "abc12345xyz"),
            ("PASSPHRASE=abc12345xyz", "abc12345xyz"),
            ("postgres://user:pw1@db/x", "pw1"),
            ("Authorization: Bearer abcdefghijklmnop1", "abcdefghijklmnop1"),
        ] {
            let found: Vec<&str> = pairs(text).into_iter().map(|it| &text[it]).collect();
            assert_eq!(found, [secret], "{text}");
        }
        for text in [
            "password: please enter it",
            "password: required",
            "the secret: 42",
            "password=${PASSWORD1}",
            "password={{env.PASSWORD1}}",
            "tokens: 12345678a",
            "https://example.com:8080/a@b",
            "https://${USER}:${PASS}@host",
            "bearer of bad news",
            "a: b = c",
            "",
        ] {
            assert!(pairs(text).is_empty(), "{text}");
        }
    }
}
