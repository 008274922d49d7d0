//! Checks names that become file names.

use crate::StoreError;

const MAX: usize = 100;

/// Fails unless a name has 1 to 100 characters: ASCII letters, digits, `.`, `_` and `-`.
///
/// A name must begin with a letter or a digit, and must not end with a `.`.
pub(crate) fn check(kind: &'static str, name: &str) -> Result<(), StoreError> {
    let ok = name.len() <= MAX
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !name.ends_with('.')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    if ok { Ok(()) } else { Err(StoreError::BadName { kind, name: name.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_names_of_files_only() {
        for (name, ok) in [
            ("default", true),
            ("release-1.2", true),
            ("2026_11", true),
            ("", false),
            (".", false),
            ("..", false),
            ("../x", false),
            ("a/b", false),
            ("a\\b", false),
            ("a.", false),
            (".hidden", false),
            ("-flag", false),
            ("né", false),
            ("a b", false),
            ("a\0", false),
        ] {
            assert_eq!(check("label", name).is_ok(), ok, "{name:?}");
        }
        assert!(check("label", &"a".repeat(101)).is_err());
    }
}
