//! Makes untrusted text harmless. A model's output must not move the cursor, hide text or send commands to CI.

use std::fmt::Write as _;

/// Returns the text as one harmless line.
///
/// Line breaks become `\n`, and other characters are escaped by [`visible`].
pub fn one_line(text: &str) -> String {
    visible(&text.replace("\r\n", "\n")).replace('\n', "\\n")
}

/// Returns the lines of the text, escaped by [`visible`].
///
/// A final empty line is left out.
pub(crate) fn lines(text: &str) -> Vec<String> {
    let text = visible(&text.replace("\r\n", "\n"));
    text.strip_suffix('\n').unwrap_or(&text).split('\n').map(str::to_owned).collect()
}

/// Returns the text in a form that is safe for a terminal or a CI log.
///
/// Characters that move the cursor, color, hide or reorder text become escape sequences such as `\x1b`. CI commands
/// that begin with `##` are changed, so that they have no effect. Line breaks stay; a tab becomes four spaces.
///
/// ```
/// assert_eq!(kindlm_reporters::visible("a\u{1b}[31mb\u{202e}c"), "a\\x1b[31mb\\u{202e}c");
/// ```
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c if c.is_control() || is_deceptive(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    defused(out)
}

/// The prefixes of CI commands that work anywhere in a line.
///
/// The prefixes belong to GitHub (old commands), Azure Pipelines and `TeamCity`.
const COMMANDS: [&str; 3] = ["##[", "##vso[", "##teamcity["];

fn defused(text: String) -> String {
    if !text.contains("##") {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text.as_str();
    while let Some(at) = rest.find("##") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        // Azure Pipelines ignores the case of letters in commands.
        let command = COMMANDS.iter().find(|command| {
            from.get(..command.len()).is_some_and(|it| it.eq_ignore_ascii_case(command))
        });
        out.push_str(if command.is_some() { "\\x23" } else { "#" });
        rest = &from[1..];
    }
    out.push_str(rest);
    out
}

/// Returns true for characters that reorder, hide or break text.
///
/// Returns false for control characters, and for the joiners that some scripts and emoji need.
fn is_deceptive(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns at most the first `bytes` bytes of the text, cut between characters.
pub(crate) fn head(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let mut end = bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_escaped() {
        for (text, expected) in [
            ("a\u{1b}[31mb", "a\\x1b[31mb"),
            ("a\r\nb", "a\\nb"),
            ("a\rb", "a\\x0db"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("x\u{202e}y", "x\\u{202e}y"),
            ("a\tb", "a    b"),
            ("👩\u{200d}🚀 é", "👩\u{200d}🚀 é"),
            ("a ##[error]b", "a \\x23#[error]b"),
            ("a ##vso[task.setvariable]b", "a \\x23#vso[task.setvariable]b"),
            ("a ##VSO[x]", "a \\x23#VSO[x]"),
            ("###teamcity[x", "#\\x23#teamcity[x"),
            ("## heading [x]", "## heading [x]"),
        ] {
            assert_eq!(one_line(text), expected);
        }
    }

    #[test]
    fn cuts_between_characters() {
        assert_eq!(head("héllo", 2), "h");
        assert_eq!(head("héllo", 3), "hé");
        assert_eq!(head("hi", 9), "hi");
    }

    #[test]
    fn a_last_line_break_makes_no_empty_line() {
        assert_eq!(lines("a\nb\n"), ["a", "b"]);
        assert_eq!(lines(""), [""]);
    }
}
