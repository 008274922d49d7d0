//! Removal of comments from source code.

/// Removes `//` and `/* … */` comments from source code.
///
/// C, JavaScript, TypeScript, Java, Go and Rust have such comments. A comment mark between quotes stays, so that
/// URLs stay intact. Line breaks stay, and a `/* … */` comment leaves a space between the words around it.
pub(crate) fn without_comments(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '"' | '\'' | '`' => quoted(rest, c),
            '/' if rest.starts_with("//") => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            '/' if rest.starts_with("/*") => {
                let end =
                    rest.get(2..).and_then(|it| it.find("*/")).map_or(rest.len(), |it| it + 4);
                let (comment, after) = rest.split_at(end);
                out.push(' ');
                out.extend(comment.chars().filter(|it| *it == '\n'));
                rest = after;
                continue;
            }
            c => c.len_utf8(),
        };
        let (kept, after) = rest.split_at(taken);
        out.push_str(kept);
        rest = after;
    }
    out
}

/// Returns the length of the quoted text at the start of `rest`, in bytes.
///
/// A quote that is not closed on its line is an apostrophe of length 1. Only text in backquotes may span lines.
fn quoted(rest: &str, quote: char) -> usize {
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => _ = chars.next(),
            '\n' if quote != '`' => break,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn comments_are_removed_outside_of_texts_only() {
        for (source, expected) in [
            ("a(); // TODO\nb();", "a(); \nb();"),
            ("a /* x\ny */ b", "a  \n b"),
            ("fetch('https://a.b') // why", "fetch('https://a.b') "),
            (r#"x = "a\"//b"; // c"#, r#"x = "a\"//b"; "#),
            ("`// ${a}\n// b`", "`// ${a}\n// b`"),
            ("it's // gone\nstays", "it's \nstays"),
            ("a / b /* open", "a / b  "),
            ("/**/a/*/b", " a "),
            ("", ""),
        ] {
            assert_eq!(without_comments(source), expected, "{source}");
        }
    }

    proptest! {
        #[test]
        fn nothing_but_comments_is_lost(source in "[a-c \\n/*\"'`\\\\ü]{0,40}") {
            let left = without_comments(&source);
            prop_assert!(left.len() <= source.len() + source.matches("/*").count());
            prop_assert_eq!(left.matches('\n').count() <= source.matches('\n').count(), true);
            if !source.contains('/') {
                prop_assert_eq!(left, source);
            }
        }
    }
}
