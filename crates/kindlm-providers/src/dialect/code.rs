//! Scripts that are written into a configuration: a function, an expression, or the body of a function.

/// Returns true if the code is a function, not an expression.
pub(crate) fn is_function(code: &str) -> bool {
    let code = code.strip_prefix("async").map_or(code, str::trim_start);
    if code.starts_with("function") {
        return true;
    }
    let Some((before, _)) = code.split_once("=>") else { return false };
    let before = before.trim_end();
    let is_word = |it: char| it.is_alphanumeric() || matches!(it, '_' | '$');
    if !before.is_empty() && before.chars().all(is_word) {
        return true;
    }
    // Parameters in parentheses begin with `(`. The matching `)` is the last character before `=>`.
    let mut depth = 0_usize;
    let mut closed = None;
    for (at, c) in before.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            closed = Some(at + 1);
            break;
        }
    }
    before.starts_with('(') && closed == Some(before.len())
}

/// Returns code without the spaces around it, and without semicolons at its end.
pub(crate) fn trimmed(code: &str) -> &str {
    code.trim().trim_end_matches(';')
}

/// Converts code to the body of a function with these parameters. Code with a `return` stays unchanged. A function is
/// called with the parameters, and the value of an expression is returned.
pub(crate) fn body(code: &str, parameters: &[&str]) -> String {
    let code = trimmed(code);
    if is_function(code) {
        return format!("return ({code})({})", parameters.join(", "));
    }
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let has_return = code.split(|it: char| !is_word(it)).any(|word| word == "return");
    if has_return { code.to_owned() } else { format!("return ({code})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_functions_from_expressions() {
        for (code, expected) in [
            ("json.choices[0].text", false),
            ("json.items.map(it => it.text).join()", false),
            ("(json.a).map((x) => x)", false),
            ("{ output: json.text }", false),
            ("(json, text) => json.a", true),
            ("({ a }, text) => a", true),
            ("json => json.a", true),
            ("async (json) => json.a", true),
            ("function (json) { return json.a }", true),
        ] {
            assert_eq!(is_function(code), expected, "{code}");
        }
    }

    #[test]
    fn code_becomes_the_body_of_a_function() {
        for (code, expected) in [
            ("(a, b) => a + b;", "return ((a, b) => a + b)(a, b)"),
            ("a + b", "return (a + b)"),
            ("const c = a; return c;", "const c = a; return c"),
        ] {
            assert_eq!(body(code, &["a", "b"]), expected);
        }
    }
}
