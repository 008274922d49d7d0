//! Finds the quoting around each placeholder of a shell command line, and quotes the inserted values accordingly.
//!
//! An unquoted value in `sh -c` would run as code. Therefore every value becomes exactly one piece of text inside its
//! word. A value outside of quotes is quoted. Inside of quotes, the inserted text closes the quotes, contains the
//! quoted value, and opens the quotes again.
//!
//! Placeholders are refused where the shell has no such quoting: in comments, here-documents, back-ticks, `${…}`,
//! `$((…))` and `$'…'`, and directly after `\` or an unquoted `$`. They are also refused in text that a second program
//! parses as code (`eval`, `sh -c '…'`, `python -c '…'`). The quotes of this shell have no effect there.

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
const IN_SCRIPT: &str = "a script for another program (`sh -c`, `python -c`, `ssh`, `awk`)";
/// The description of the arguments of `eval`, for error messages.
const IN_EVAL: &str = "what `eval` reads";
/// The description of the place after a backslash, for error messages.
const AFTER_BACKSLASH: &str = "the place after a `\\`";
/// The description of the place after a dollar sign, for error messages.
const AFTER_DOLLAR: &str = "the place after a `$`";
/// Programs that run the argument of an option as code, with the letters of such options.
const INTERPRETERS: [(&str, &str); 12] = [
    ("python", "c"),
    ("pypy", "c"),
    ("node", "ep"),
    ("bun", "ep"),
    ("perl", "eE"),
    ("ruby", "e"),
    ("php", "r"),
    ("lua", "e"),
    ("luajit", "e"),
    ("julia", "eE"),
    ("Rscript", "e"),
    ("osascript", "e"),
];
/// Programs that run an argument as code with the option `-c` or `--command`.
const SHELLS: [&str; 8] = ["sh", "ash", "bash", "dash", "fish", "ksh", "su", "zsh"];
/// Programs whose first argument is code.
const AWKS: [&str; 4] = ["awk", "gawk", "mawk", "nawk"];
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
    /// The command line itself, or the inside of `$(…)` or `(…)`. The number is the offset of the current command.
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

    /// Returns a description of the program that would run the current word as code, such as `eval`; `None` if none would.
    fn read_again(&self) -> Option<&'static str> {
        let command = self.stack.iter().rev().find_map(|it| match it {
            Level::Bare(start) => Some(*start),
            Level::Double | Level::Single | Level::Comment => None,
        });
        let text = self.line.get(command.unwrap_or_default()..self.at).unwrap_or_default();
        let (words, start) = split_words(text);
        let is_name = |it: &&String| {
            let is_assignment = it.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.chars().all(|it| it.is_alphanumeric() || it == '_')
            });
            !is_assignment && !BEFORE_COMMANDS.contains(&it.as_str())
        };
        if words.iter().find(is_name).is_some_and(|it| it == "eval") {
            return Some(IN_EVAL);
        }
        let mut rest = words.as_slice();
        while let [program, before @ ..] = rest {
            if runs_next_word(program, before, &start) {
                return Some(IN_SCRIPT);
            }
            rest = before;
        }
        None
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
    /// `rest` ends before the next placeholder. Returns the number of bytes to skip, or `None` if the caller must
    /// handle the character.
    fn escape_or_expansion(&mut self, rest: &str) -> Option<usize> {
        if let Some(escaped) = rest.strip_prefix('\\') {
            let Some(next) = escaped.chars().next() else {
                // The backslash would escape the opening quote of the value, and the rest of the value would be code.
                self.spoil(AFTER_BACKSLASH);
                return Some(1);
            };
            return Some(1 + next.len_utf8());
        }
        if rest.starts_with('`') {
            self.spoil("back-ticks");
        } else if rest.starts_with("${") {
            self.spoil("`${…}`");
        } else if rest.starts_with("$((") {
            self.spoil("`$((…))`");
        } else if rest.starts_with("$'") && matches!(self.level(), Level::Bare(_)) {
            self.spoil("`$'…'`");
        } else if rest == "$" && matches!(self.level(), Level::Bare(_)) {
            // The shell would read the value as the name of a variable, or its quote as the start of `$'…'`.
            self.spoil(AFTER_DOLLAR);
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

/// Returns true if a program runs the next word of its command line as code.
///
/// `before` are the words between the name of the program and the next word. `start` is the start of the next word.
fn runs_next_word(program: &str, before: &[String], start: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    let name = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
    let last = before.last().map_or("", String::as_str);
    match name {
        // The remote shell runs all arguments.
        "ssh" => return true,
        "pwsh" | "powershell" => {
            return before.iter().any(|it| letters(it).starts_with(['c', 'C']));
        }
        "deno" => {
            let eval = before.iter().position(|it| it == "eval");
            return eval.is_some_and(|at| !has_operand(&before[at + 1..], |_| false));
        }
        _ if SHELLS.contains(&name) => {
            let is_script = |(at, it): (usize, &String)| {
                it == "--command"
                    || letters(it).ends_with('c')
                    || letters(it).contains('c') && !has_operand(&before[..at], is_set)
            };
            let at = before.iter().enumerate().position(is_script);
            return at.is_some_and(|at| !has_operand(&before[at..], is_set));
        }
        _ if AWKS.contains(&name) => {
            let has_value = |it: &str| ["-v", "-F", "-e"].contains(&it);
            let is_file = before.iter().any(|it| it.starts_with("-f"));
            let is_value = last == "-v" || last == "-F" || start.starts_with('-');
            return !is_file && !is_value && !has_operand(before, has_value);
        }
        _ => {}
    }
    let Some((_, options)) = INTERPRETERS.iter().find(|(it, _)| *it == name) else { return false };
    let is_code = |it: char| options.contains(it);
    let is_long =
        |it: &str| options.contains('p') && (it.starts_with("--eval") || it.starts_with("--print"));
    // The code may follow in the same word as the option: `perl -e'…'`.
    let is_joined = letters(start).ends_with(is_code)
        || start.strip_prefix('-').is_some_and(|it| it.starts_with(is_code));
    letters(last).ends_with(is_code)
        || is_long(last)
        || is_long(start)
        || is_joined && !has_operand(before, |_| false)
}

/// Returns the letters of an option such as `-ec`; empty for any other word.
fn letters(word: &str) -> &str {
    let letters = word.strip_prefix('-').filter(|it| it.chars().all(char::is_alphabetic));
    letters.unwrap_or_default()
}

/// Returns true if a shell's option has a value: `-o pipefail`.
fn is_set(option: &str) -> bool {
    option.starts_with(['-', '+']) && option.ends_with(['o', 'O'])
}

/// Returns true if one of the words is neither an option nor the value of an option.
fn has_operand(words: &[String], has_value: impl Fn(&str) -> bool) -> bool {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if has_value(word) {
            words.next();
        } else if !word.starts_with(['-', '+']) {
            return true;
        }
    }
    false
}

/// Returns the complete words of a text, without their quotes, and the start of an incomplete last word.
fn split_words(text: &str) -> (Vec<String>, String) {
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
    (words, word.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Template;

    fn filled(line: &str, value: &str) -> String {
        let template = Template::parse_plain(line);
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
            ("run \\\\{{v}}", "run \\\\'$(id); x'"),
            ("run \\{{v}}", "unsafe: the place after a `\\`"),
            ("run \"a\\{{v}}\"", "unsafe: the place after a `\\`"),
            ("run 'a\\{{v}}'", "run 'a\\''$(id); x'''"),
            ("run ${{v}}", "unsafe: the place after a `$`"),
            ("run \"${{v}}\"", "run \"$\"'$(id); x'\"\""),
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
            ("bash run.sh -count {{v}}", "bash run.sh -count '$(id); x'"),
            ("bash -ce 'run \"$1\"' _ {{v}}", "bash -ce 'run \"$1\"' _ '$(id); x'"),
            ("awk -v x={{v}} '{print x}'", "awk -v x='$(id); x' '{print x}'"),
            ("awk '{print}' {{v}}", "awk '{print}' '$(id); x'"),
            ("awk -f run.awk {{v}}", "awk -f run.awk '$(id); x'"),
            ("deno run x.ts {{v}}", "deno run x.ts '$(id); x'"),
            ("pwsh run.ps1 {{v}}", "pwsh run.ps1 '$(id); x'"),
            ("python agent.py -c{{v}}", "python agent.py -c'$(id); x'"),
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
            "sh -ce '{{v}}'",
            "bash -c -e '{{v}}'",
            "bash -c -o pipefail 'x {{v}}'",
            "bash -euo pipefail -c 'x {{v}}'",
            "bash -c -- 'x {{v}}'",
            "su me -c '{{v}}'",
            "true | xargs sh -c '{{v}}'",
            "ssh host 'echo {{v}}'",
            "ssh host echo {{v}}",
            "awk '{{v}}'",
            "awk -v x=1 -F : '{ print {{v}} }'",
            "gawk -e '{{v}}'",
            "lua5.4 -e '{{v}}'",
            "pwsh -Command 'echo {{v}}'",
            "pwsh -c echo {{v}}",
            "deno eval --ext=ts '{{v}}'",
            "pypy3 -c '{{v}}'",
            "python -c'{{v}}'",
            "perl -e'print {{v}}'",
            "node --eval='f({{v}})'",
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
