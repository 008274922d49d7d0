//! Conversion of an inline script to a function body, by promptfoo's rules.
//!
//! Code of several lines is a complete body with its own `return`. A single line is an expression.
//!
//! If a single line starts with a declaration, the body returns the code after the last semicolon. Without a semicolon,
//! the body returns no value.

/// Returns the function body for a script.
pub(crate) fn body(code: &str) -> String {
    let code = code.trim_end_matches(is_space);
    if code.contains('\n') {
        return code.to_owned();
    }
    let code = code.trim_end_matches(|it| it == ';' || is_space(it));
    if !begins_with_declaration(code) {
        return format!("return {code}");
    }
    match last_semicolon(code) {
        Some(end) => {
            let (declarations, last) = code.split_at(end + 1);
            format!("{declarations} return {}", last.trim_start())
        }
        None => code.to_owned(),
    }
}

/// Returns true for white space of JavaScript.
fn is_space(it: char) -> bool {
    // Unlike in Unicode, U+0085 is not white space, and U+FEFF is.
    (it.is_whitespace() && it != '\u{85}') || it == '\u{feff}'
}

fn begins_with_declaration(code: &str) -> bool {
    ["const", "let", "var"]
        .iter()
        .filter_map(|word| code.strip_prefix(word))
        .any(|rest| rest.starts_with(is_space))
}

/// Returns the position of the last semicolon outside quoted texts; `None` without such a semicolon.
///
/// Comments and regular expressions are not recognized, as in promptfoo.
fn last_semicolon(code: &str) -> Option<usize> {
    let mut quote = None;
    let mut last = None;
    let mut chars = code.char_indices();
    while let Some((index, it)) = chars.next() {
        match (quote, it) {
            (Some(_), '\\') => _ = chars.next(),
            (Some(open), _) if open == it => quote = None,
            (None, '\'' | '"' | '`') => quote = Some(it),
            (None, ';') => last = Some(index),
            _ => {}
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_an_expression_and_several_are_a_body() {
        for (code, expected) in [
            ("output === 'a' ;;  ", "return output === 'a'"),
            ("  x", "return   x"),
            ("", "return "),
            ("\nx", "\nx"),
            ("x\n", "return x"),
            ("const a = 1;\rreturn a", "const a = 1; return return a"),
            ("const a = ';'; a === \";\"", "const a = ';'; return a === \";\""),
            ("let s = output.length; s > 3;", "let s = output.length; return s > 3"),
            ("var a = `;`", "var a = `;`"),
            ("const s = 'it\\'s;'; s", "const s = 'it\\'s;'; return s"),
            ("constant = 5; true", "return constant = 5; true"),
            ("const{a} = b; a", "return const{a} = b; a"),
        ] {
            assert_eq!(body(code), expected, "{code:?}");
        }
    }
}
