//! Finds the quoting around each placeholder of a shell command line, and quotes the value for it.
//!
//! An unquoted value in `sh -c` would run as code. Therefore every value becomes exactly one piece of text inside its
//! word. A value outside of quotes is quoted. Inside of quotes, the quotes are closed before the value and opened again
//! after the value, which gets its own quotes. Placeholders are refused where the shell has no such quoting: in
//! comments, here-documents, back-ticks, `${…}`, `$((…))` and `$'…'`. They are also refused in text that a second
//! program parses as code (`eval`, `sh -c '…'`, `python -c '…'`). The quotes of this shell have no effect there.

use std::ops::Range;

/// The quoting around a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// No quotes.
    Bare,
    /// `"…"`.
    Double,
    /// `'…'`.
    Single,
    /// A position without shell quoting, with its description for error messages.
    Unsafe(&'static str),
}

/// The error for a value that contains a NUL character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a command line cannot contain a NUL character")]
pub(crate) struct NulError;

/// Quotes a value for its context. Returns an error if the value contains a NUL character.
pub(crate) fn quote(value: &str, context: Context) -> Result<String, NulError> {
    let quoted = shlex::try_quote(value).map_err(|_| NulError)?;
    Ok(match context {
        Context::Double => format!("\"{quoted}\""),
        Context::Single => format!("'{quoted}'"),
        Context::Bare | Context::Unsafe(_) => quoted.into_owned(),
    })
}

/// The description of a script of `sh -c` or similar, for error messages.
const IN_SCRIPT: &str = "a script for another program (`sh -c`, `python -c`, `node -e`)";
/// The description of the arguments of `eval`, for error messages.
const IN_EVAL: &str = "what `eval` reads";
/// Programs that run an argument as code, with the option letter before it.
const INTERPRETERS: [(&str, char); 12] = [
    ("sh", 'c'),
    ("ash", 'c'),
    ("bash", 'c'),
    ("dash", 'c'),
    ("ksh", 'c'),
    ("zsh", 'c'),
    ("python", 'c'),
    ("node", 'e'),
    ("node", 'p'),
    ("perl", 'e'),
    ("ruby", 'e'),
    ("php", 'r'),
];
/// Shell keywords and wrapper programs that may stand before a command's name.
const BEFORE_COMMANDS: [&str; 16] = [
    "!", "{", "builtin", "command", "do", "elif", "else", "env", "exec", "if", "nohup", "sudo",
    "then", "time", "until", "while",
];

/// Returns the context of each placeholder. The ranges must be in ascending order.
pub(crate) fn contexts<'a>(
    line: &str,
    places: impl Iterator<Item = &'a Range<usize>>,
) -> Vec<Context> {
    let mut scanner = Scanner { line, at: 0, stack: vec![Level::Bare(0)], spoilt: None };
    places
        .map(|place| {
            scanner.advance(place.start);
            let context = scanner.context();
            scanner.skip(place.end);
            context
        })
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// The command line itself, or the inside of `$(…)` or `(…)`. The number is the start of its current command.
    Bare(usize),
    Double,
    Single,
    Comment,
}

struct Scanner<'a> {
    line: &'a str,
    at: usize,
    stack: Vec<Level>,
    /// The first construct after which the quoting is uncertain, for error messages; `None` without such a construct.
    spoilt: Option<&'static str>,
}

impl Scanner<'_> {
    fn context(&self) -> Context {
        match (self.spoilt.or_else(|| self.read_again()), self.level()) {
            (Some(why), _) => Context::Unsafe(why),
            (None, Level::Bare(_)) => Context::Bare,
            (None, Level::Double) => Context::Double,
            (None, Level::Single) => Context::Single,
            (None, Level::Comment) => Context::Unsafe("a comment"),
        }
    }

    fn level(&self) -> Level {
        self.stack.last().copied().unwrap_or(Level::Bare(0))
    }

    /// Returns a description of the program that runs the current word as code; `None` if no program does.
    fn read_again(&self) -> Option<&'static str> {
        let start = self.stack.iter().rev().find_map(|it| match it {
            Level::Bare(start) => Some(*start),
            Level::Double | Level::Single | Level::Comment => None,
        });
        let words = words(self.line.get(start.unwrap_or_default()..self.at).unwrap_or_default());
        let is_name = |it: &&String| {
            let is_assignment = it.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.chars().all(|it| it.is_alphanumeric() || it == '_')
            });
            !is_assignment && !BEFORE_COMMANDS.contains(&it.as_str())
        };
        if words.iter().find(is_name).is_some_and(|it| it == "eval") {
            return Some(IN_EVAL);
        }
        let (option, before) = words.split_last()?;
        let is_long = option == "--eval" || option == "--print";
        let letters = option.strip_prefix('-').filter(|it| it.chars().all(char::is_alphabetic));
        let reads = |program: &String| {
            let name = program.rsplit('/').next().unwrap_or(program);
            let name = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
            INTERPRETERS.iter().any(|(it, letter)| {
                *it == name
                    && (letters.is_some_and(|it| it.ends_with(*letter))
                        || (is_long && name == "node"))
            })
        };
        before.iter().any(reads).then_some(IN_SCRIPT)
    }

    /// Moves past a placeholder. The placeholder is part of a word.
    fn skip(&mut self, end: usize) {
        self.at = end;
    }

    fn advance(&mut self, to: usize) {
        while self.at < to {
            let rest = self.line.get(self.at..to).unwrap_or_default();
            let width = rest.chars().next().map_or(1, char::len_utf8);
            self.at += match self.level() {
                Level::Single => self.single(rest, width),
                Level::Double => self.double(rest, width),
                Level::Bare(_) => self.bare(rest, width),
                Level::Comment => self.comment(rest, width),
            };
        }
    }

    fn comment(&mut self, rest: &str, width: usize) -> usize {
        if rest.starts_with('\n') {
            self.stack.pop();
        }
        width
    }

    fn single(&mut self, rest: &str, width: usize) -> usize {
        if rest.starts_with('\'') {
            self.stack.pop();
        }
        width
    }

    fn double(&mut self, rest: &str, width: usize) -> usize {
        if rest.starts_with('"') {
            self.stack.pop();
        } else if let Some(skipped) = self.escape_or_expansion(rest) {
            return skipped;
        }
        width
    }

    fn bare(&mut self, rest: &str, width: usize) -> usize {
        if let Some(skipped) = self.escape_or_expansion(rest) {
            return skipped;
        }
        match rest.as_bytes().first() {
            Some(b'\'') => self.stack.push(Level::Single),
            Some(b'"') => self.stack.push(Level::Double),
            Some(b'(') => self.stack.push(Level::Bare(self.at + 1)),
            Some(b';' | b'&' | b'|' | b'\n') => self.begin_command(self.at + 1),
            Some(b')') if self.stack.len() > 1 => {
                self.stack.pop();
            }
            Some(b'#') if self.starts_word() => self.stack.push(Level::Comment),
            Some(b'<') if rest.starts_with("<<") => self.spoil("a here-document"),
            _ => {}
        }
        width
    }

    /// Handles escape sequences and expansions inside and outside of double quotes.
    ///
    /// Returns the number of bytes to skip. Returns `None` if the caller must handle the character.
    fn escape_or_expansion(&mut self, rest: &str) -> Option<usize> {
        if let Some(escaped) = rest.strip_prefix('\\') {
            return Some(1 + escaped.chars().next().map_or(0, char::len_utf8));
        }
        if rest.starts_with('`') {
            self.spoil("back-ticks");
        } else if rest.starts_with("${") {
            self.spoil("`${…}`");
        } else if rest.starts_with("$((") {
            self.spoil("`$((…))`");
        } else if rest.starts_with("$'") && matches!(self.level(), Level::Bare(_)) {
            self.spoil("`$'…'`");
        } else if rest.starts_with("$(") {
            self.stack.push(Level::Bare(self.at + 2));
            return Some(2);
        }
        None
    }

    fn begin_command(&mut self, at: usize) {
        if let Some(Level::Bare(start)) = self.stack.last_mut() {
            *start = at;
        }
    }

    fn spoil(&mut self, why: &'static str) {
        self.spoilt.get_or_insert(why);
    }

    fn starts_word(&self) -> bool {
        let before = self.line.get(..self.at).unwrap_or_default();
        before.chars().next_back().is_none_or(|it| it.is_whitespace() || ";&|()".contains(it))
    }
}

/// Returns the complete words of a text, without their quotes.
///
/// The last word may be incomplete and is left out.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(it) = chars.next() {
        match (quote, it) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (None, '\'' | '"') => {
                quote = Some(it);
                word.get_or_insert_default();
            }
            (None, it) if it.is_whitespace() => words.extend(word.take()),
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            _ => word.get_or_insert_default().push(it),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Template;

    fn filled(line: &str, value: &str) -> String {
        let template = Template::read(line);
        let places: Vec<_> = template.placeholders().map(|(range, _)| range.clone()).collect();
        let contexts = contexts(line, places.iter());
        if let Some(why) = contexts.iter().find_map(|it| match it {
            Context::Unsafe(why) => Some(why),
            _ => None,
        }) {
            return format!("unsafe: {why}");
        }
        let mut text = line.to_owned();
        for (place, context) in places.iter().zip(&contexts).rev() {
            text.replace_range(place.clone(), &quote(value, *context).unwrap());
        }
        text
    }

    #[test]
    fn a_value_stays_one_piece_of_text() {
        for (line, expected) in [
            ("run {{v}}", "run '$(id); x'"),
            ("run --x={{v}} y", "run --x='$(id); x' y"),
            ("run \"a {{v}}\"", "run \"a \"'$(id); x'\"\""),
            ("run 'a {{v}}' {{v}}", "run 'a ''$(id); x''' '$(id); x'"),
            ("run \"$(echo \"{{v}}\" {{v}})\"", "run \"$(echo \"\"'$(id); x'\"\" '$(id); x')\""),
            ("run \\' {{v}}", "run \\' '$(id); x'"),
            ("run \\\" {{v}}", "run \\\" '$(id); x'"),
            ("(run {{v}}) && x", "(run '$(id); x') && x"),
            ("a # b\nrun {{v}}", "a # b\nrun '$(id); x'"),
            ("a#b {{v}}", "a#b '$(id); x'"),
            ("run # {{v}}", "unsafe: a comment"),
            ("run `x {{v}}`", "unsafe: back-ticks"),
            ("run ${x:-{{v}}}", "unsafe: `${…}`"),
            ("run $(( {{v}} ))", "unsafe: `$((…))`"),
            ("run $'a {{v}}'", "unsafe: `$'…'`"),
            ("cat <<END\n{{v}}\nEND", "unsafe: a here-document"),
            ("sh -c 'run \"$1\"' _ {{v}}", "sh -c 'run \"$1\"' _ '$(id); x'"),
            ("promptfoo eval {{v}}", "promptfoo eval '$(id); x'"),
            ("sh run.sh -c {{v}}; x {{v}}", "unsafe: a script"),
            ("sh -c 'a'; run -c {{v}}", "sh -c 'a'; run -c '$(id); x'"),
            ("grep -c {{v}}", "grep -c '$(id); x'"),
        ] {
            let filled = filled(line, "$(id); x");
            let is_expected = match expected {
                "unsafe: a script" => filled.starts_with(expected),
                expected => filled == expected,
            };
            assert!(is_expected, "{line}: {filled}");
        }
    }

    #[test]
    fn no_value_gets_into_a_program_that_is_a_word() {
        for line in [
            "sh -c 'echo {{v}}'",
            "sh -c \"echo {{v}}\"",
            "sh -c {{v}}",
            "cd x && /bin/bash -lc 'a; b {{v}}'",
            "docker exec x sh -ec 'echo {{v}}'",
            "echo \"$(sh -c 'echo {{v}}')\"",
            "X=1 sh -c 'echo {{v}}'",
            "python3 -c 'print(\"{{v}}\")'",
            "python3.12 -c 'print(\"{{v}}\")'",
            "node -e 'f(\"{{v}}\")'",
            "node --eval 'f(\"{{v}}\")'",
            "perl -ne '{{v}}'",
            "eval echo {{v}}",
            "eval \"echo {{v}}\"",
            "X=1 eval 'echo {{v}}'",
            "if true; then eval {{v}}; fi",
            "true | eval {{v}}",
            "(eval {{v}})",
        ] {
            assert!(filled(line, "x").starts_with("unsafe: "), "{line}");
        }
    }

    #[test]
    fn an_empty_value_is_an_empty_argument() {
        assert_eq!(filled("run {{v}} x", ""), "run '' x");
        assert_eq!(quote("a\0b", Context::Bare), Err(NulError));
    }
}
