//! Patterns for whole names: `*` matches any text and `?` one character, both without line ends. Case is ignored.

/// Returns true if a name matches a pattern.
///
/// The time is at most proportional to the product of the two lengths.
pub(crate) fn matches(name: &str, pattern: &str) -> bool {
    let name: Vec<char> = name.chars().flat_map(char::to_lowercase).collect();
    let pattern: Vec<char> = pattern.chars().flat_map(char::to_lowercase).collect();
    let (mut at, mut next) = (0, 0);
    // For the last `*` so far: the end of its match in the name, and its place in the pattern. A retry extends the
    // match.
    let mut star: Option<(usize, usize)> = None;
    while at < name.len() {
        match pattern.get(next) {
            Some('*') => {
                star = Some((at, next));
                next += 1;
            }
            Some('?') if !is_line_end(name[at]) => (at, next) = (at + 1, next + 1),
            Some(it) if *it == name[at] => (at, next) = (at + 1, next + 1),
            _ => match star {
                Some((from, back)) if !is_line_end(name[from]) => {
                    star = Some((from + 1, back));
                    (at, next) = (from + 1, back + 1);
                }
                _ => return false,
            },
        }
    }
    pattern[next..].iter().all(|it| *it == '*')
}

/// Returns true for the characters that `.` in JavaScript does not match.
fn is_line_end(it: char) -> bool {
    matches!(it, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn matches_whole_names() {
        for (name, pattern, expected) in [
            ("llm.call", "llm.*", true),
            ("llm.call", "LLM.CAL?", true),
            ("llm.call", "llm", false),
            ("llmxcall", "llm.*", false),
            ("abcabd", "*abd", true),
            ("aaab", "a*a*b", true),
            ("ab", "a?b", false),
            ("", "*", true),
            ("", "", true),
            ("a", "", false),
            ("a\nb", "a*b", false),
            ("[x]", "[x]", true),
            ("x", "[x]", false),
            ("tool", "*", true),
            ("tool", "**?**", true),
        ] {
            assert_eq!(matches(name, pattern), expected, "{name} {pattern}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_expression_that_promptfoo_makes(name in "[a-c.]{0,8}", pattern in "[a-c.*?]{0,6}") {
            let expression = regex::escape(&pattern).replace("\\*", ".*").replace("\\?", ".");
            let expression = regex::Regex::new(&format!("(?i)^{expression}$")).unwrap();
            prop_assert_eq!(matches(&name, &pattern), expression.is_match(&name));
        }
    }
}
