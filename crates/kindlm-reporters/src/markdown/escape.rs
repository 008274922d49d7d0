//! Escapes text of users and models for a comment on GitHub or GitLab, so that the text is only shown.

use std::fmt::Write as _;

use askama::filters::Escaper as _;

use crate::compliance_document::Markdown;
use crate::plain::{head, one_line, visible};

/// A zero-width space.
///
/// GitHub and GitLab search the rendered text for patterns, and this space breaks the patterns.
const APART: &str = "&#8203;";

/// Returns at most the first `bytes` bytes of a text as one line of Markdown.
///
/// Markdown shows the line literally. A cut text ends with an ellipsis.
///
/// The text has no Markdown or HTML, mentions no user or team, refers to no issue, and becomes no link. Escaping alone
/// would not prevent mentions and links, because platforms detect them after they resolve escape sequences.
pub(super) fn shown(text: &str, bytes: usize) -> String {
    let beginning = head(text, bytes);
    let mut escaped = String::with_capacity(beginning.len() + 16);
    // Writing to a `String` does not fail, so the result can be ignored.
    let _ = Markdown.write_escaped_str(&mut escaped, beginning);
    let mut out = apart(&escaped);
    if beginning.len() < text.len() {
        out.push('…');
    }
    out
}

/// Returns the first `bytes` bytes of a text as one line that is shown literally both in HTML and in Markdown.
///
/// The text of a `<summary>` needs this form. The effect is otherwise that of [`shown`].
pub(super) fn shown_in_html(text: &str, bytes: usize) -> String {
    let beginning = head(text, bytes);
    let mut out = String::with_capacity(beginning.len() + 16);
    let separated = apart(&one_line(beginning));
    let mut rest = separated.as_str();
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        if rest.starts_with(APART) {
            out.push_str(APART);
            taken = APART.len();
        } else if c.is_ascii_punctuation() && !".,:;-/()!?%@$+=".contains(c) {
            // A character reference is never a part of the syntax of Markdown or HTML.
            // Writing to a `String` does not fail, so the result can be ignored.
            let _ = write!(out, "&#{};", u32::from(c));
        } else {
            out.push(c);
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    if beginning.len() < text.len() {
        out.push('…');
    }
    out
}

/// Returns the first `bytes` bytes of a text as a fenced block of code. `language` selects the highlighting.
///
/// Nothing in the text can end the block.
pub(super) fn fenced(language: &str, text: &str, bytes: usize) -> String {
    let beginning = head(text, bytes);
    let mut shown = visible(&beginning.replace("\r\n", "\n"));
    if beginning.len() < text.len() {
        shown.push('…');
    }
    let longest = shown.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", shown.trim_end_matches('\n'))
}

/// Adds a zero-width space after each [`token`] that the platforms would turn into a mention, a reference or a link.
fn apart(escaped: &str) -> String {
    let mut out = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(c) = rest.chars().next() {
        let taken = if let Some(token) = token(rest, out.chars().next_back()) {
            // Platforms decode entities before they detect mentions, so a plain `@` is equally safe.
            out.push_str(if token == "&#64;" { "@" } else { token });
            out.push_str(APART);
            token.len()
        } else {
            out.push(c);
            c.len_utf8()
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    out
}

/// Returns the token at the start of `text` after which a zero-width space is necessary.
///
/// Examples are `@` and the `:` of `://`. Returns `None` for any other text. `before` is the character before `text`:
/// inside a word such as `high-9`, `gh-` refers to no issue.
fn token(text: &str, before: Option<char>) -> Option<&str> {
    let starts = |token: &str| {
        text.get(..token.len()).filter(|it| it.eq_ignore_ascii_case(token)).map(str::len)
    };
    let digit_after =
        |at: usize| text.get(at..)?.starts_with(|c: char| c.is_ascii_digit()).then_some(at);
    let in_word = before.is_some_and(char::is_alphanumeric);
    let end = starts("&#64;")
        .or_else(|| starts("@"))
        .or_else(|| starts("://").map(|_| 1))
        .or_else(|| starts("\\#").and_then(digit_after))
        .or_else(|| starts("#").and_then(digit_after))
        .or_else(|| starts("gh-").filter(|_| !in_word).and_then(digit_after))
        .or_else(|| starts("www.").map(|_| 3))
        // In GitLab, these signs refer to merge requests, snippets and milestones.
        .or_else(|| starts("!").and_then(digit_after))
        .or_else(|| starts("\\$").and_then(digit_after))
        .or_else(|| starts("$").and_then(digit_after))
        .or_else(|| starts("%").and_then(digit_after))?;
    text.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_mentioned_linked_or_referred_to() {
        for (text, expected) in [
            ("plain, 7 % and 5!", "plain, 7 % and 5!"),
            ("@octocat and @org/team", "@&#8203;octocat and @&#8203;org/team"),
            ("a@b.example", "a@&#8203;b.example"),
            ("&#64;octocat", "&amp;\\#&#8203;64;octocat"),
            ("closes #12, a/b#3, #x", "closes \\#&#8203;12, a/b\\#&#8203;3, \\#x"),
            ("GH-7 gh-8 HIGH-9", "GH-&#8203;7 gh-&#8203;8 HIGH-9"),
            ("!42 $43 %44", "!&#8203;42 \\$&#8203;43 %&#8203;44"),
            (
                "https://evil.example www.evil.example",
                "https:&#8203;//evil.example www&#8203;.evil.example",
            ),
            ("HTTP://X WWW.X", "HTTP:&#8203;//X WWW&#8203;.X"),
            ("[a](javascript:b) ![c](d)", "\\[a\\](javascript:b) !\\[c\\](d)"),
            ("</details><script>", "&lt;/details&gt;&lt;script&gt;"),
            ("<!-- kindlm:report x -->", "&lt;!-- kindlm:report x --&gt;"),
            ("```\ncode\n```", "\\`\\`\\`<br>code<br>\\`\\`\\`"),
            ("a | b\n---|---", "a \\| b<br>---\\|---"),
            ("\n# title\n\n> quote", "<br>\\# title<br><br>&gt; quote"),
        ] {
            assert_eq!(shown(text, 1_000), expected);
        }
        assert_eq!(shown("héllo", 2), "h…");
    }

    #[test]
    fn html_shows_the_same_text() {
        for (text, expected) in [
            ("plain, 7 % and 5!", "plain, 7 % and 5!"),
            ("@octocat #12 !3", "@&#8203;octocat &#35;&#8203;12 !&#8203;3"),
            ("</summary><b>", "&#60;/summary&#62;&#60;b&#62;"),
            ("&lt; *a* [b](c) `d`", "&#38;lt; &#42;a&#42; &#91;b&#93;(c) &#96;d&#96;"),
            ("a_b\nc\u{1b}", "a&#95;b&#92;nc&#92;x1b"),
            ("https://x.example", "https:&#8203;//x.example"),
            ("&#8203;", "&#38;&#35;&#8203;8203;"),
        ] {
            assert_eq!(shown_in_html(text, 1_000), expected);
        }
        assert_eq!(shown_in_html("héllo", 3), "hé…");
    }

    #[test]
    fn no_text_ends_its_fence() {
        for (text, expected) in [
            ("a\n", "```text\na\n```\n"),
            ("```\n@x", "````text\n```\n@x\n````\n"),
            ("a `````` b", "```````text\na `````` b\n```````\n"),
            ("", "```text\n\n```\n"),
            ("\u{1b}c\r\nd", "```text\n\\x1bc\nd\n```\n"),
        ] {
            assert_eq!(fenced("text", text, 1_000), expected);
        }
        assert_eq!(fenced("text", "abc", 2), "```text\nab…\n```\n");
    }
}
