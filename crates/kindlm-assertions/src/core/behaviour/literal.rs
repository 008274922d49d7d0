//! Detection of JavaScript regular expressions in places that take plain text.
//!
//! The slashes of `/order/i` would be compared as part of the text, so a negative check would nearly always pass.

use kindlm_types::Problem;

/// Splits a text such as `/order/i` into pattern and flags.
///
/// Returns `None` for any other text, and for a path of several parts.
fn parts(text: &str) -> Option<(&str, &str)> {
    let (pattern, flags) = text.strip_prefix('/')?.rsplit_once('/')?;
    let is_escaped = |at: usize| pattern[..at].ends_with('\\');
    let is_path = pattern.match_indices('/').any(|(at, _)| !is_escaped(at));
    let has_flags = flags.chars().all(|it| "dgimsuvy".contains(it));
    (!pattern.is_empty() && !pattern.contains('\n') && !is_path && has_flags)
        .then_some((pattern, flags))
}

/// Returns a problem if a plain text is written as a regular expression.
///
/// `is_whole` is true if the text is compared as a whole, not searched for in another text.
pub(crate) fn refused(text: &str, at: &str, is_whole: bool) -> Option<Problem> {
    let (pattern, flags) = parts(text)?;
    let message =
        format!("`{text}` is a text here, not a pattern: its slashes would be compared too");
    let quoted = |pattern: &str| format!("`{{ $regex: '{}' }}`", pattern.replace('\'', "''"));
    let escaped = regex::escape(text);
    let own = if is_whole { quoted(&format!("^{escaped}$")) } else { quoted(&escaped) };
    let note = if flags.contains('i') { " (case matters: `[Aa]` matches both)" } else { "" };
    let help = format!(
        "write {} for the pattern{note}, {own} for the text with its slashes",
        quoted(pattern)
    );
    Some(Problem::new(at, message).with_help(help))
}

/// Returns a problem if the name of a tool is written as a regular expression.
pub(crate) fn refused_name(name: &str, at: &str) -> Option<Problem> {
    parts(name)?;
    let message = format!("`{name}` is not a tool name: patterns are not supported here");
    let help = "write its name, or a kind of tools such as `shell`; `input` takes patterns: `{ $regex: … }`";
    Some(Problem::new(at, message).with_help(help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_expressions_are_distinguished_from_texts() {
        for (text, expected) in [
            ("/^pwd/", Some(("^pwd", ""))),
            ("/order/i", Some(("order", "i"))),
            (r"/a\/b/", Some((r"a\/b", ""))),
            ("/etc/", Some(("etc", ""))),
            ("/usr/bin/", None),
            ("/etc/passwd", None),
            ("//", None),
            ("/", None),
            ("a/b/", None),
            ("/a/x1", None),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
    }

    #[test]
    fn problems_suggest_a_replacement() {
        let help = |is_whole| refused("/it's/i", "/value", is_whole).unwrap().help.unwrap();
        assert_eq!(
            help(false),
            "write `{ $regex: 'it''s' }` for the pattern (case matters: `[Aa]` matches both), `{ $regex: '/it''s/i' \
             }` for the text with its slashes"
        );
        assert!(help(true).contains("`{ $regex: '^/it''s/i$' }`"));
    }
}
