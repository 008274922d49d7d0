//! Where in a shell command line a value may be put, and how it must be quoted there.
//!
//! A value that is pasted into `sh -c` unquoted is a program. So every value becomes exactly one piece of
//! text of the word it stands in: quoted where it stands alone, and by ending and reopening the quotes where
//! it stands inside of some. Where the shell has no way to quote (comments, here-documents, back-ticks,
//! `${…}` and `$((…))`), a placeholder is refused.

use std::ops::Range;

/// What surrounds a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// No quotes.
    Bare,
    /// `"…"`.
    Double,
    /// `'…'`.
    Single,
    /// A place where nothing can be quoted.
    Unsafe(&'static str),
}

/// Why a value cannot be put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a command line cannot contain a NUL character")]
pub(crate) struct NulError;

/// Quotes a value for its context.
pub(crate) fn quote(value: &str, context: Context) -> Result<String, NulError> {
    let quoted = shlex::try_quote(value).map_err(|_| NulError)?;
    Ok(match context {
        Context::Double => format!("\"{quoted}\""),
        Context::Single => format!("'{quoted}'"),
        Context::Bare | Context::Unsafe(_) => quoted.into_owned(),
    })
}

/// What surrounds each of the places, which must be in order.
pub(crate) fn contexts<'a>(
    line: &str,
    places: impl Iterator<Item = &'a Range<usize>>,
) -> Vec<Context> {
    let mut scanner = Scanner { line, at: 0, stack: vec![Level::Bare], spoilt: None };
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
    /// The command line itself, or the inside of `$(…)` or `(…)`.
    Bare,
    Double,
    Single,
    Comment,
}

struct Scanner<'a> {
    line: &'a str,
    at: usize,
    stack: Vec<Level>,
    /// Something was seen after which the quoting is not certain.
    spoilt: Option<&'static str>,
}

impl Scanner<'_> {
    fn context(&self) -> Context {
        match (self.spoilt, self.level()) {
            (Some(why), _) => Context::Unsafe(why),
            (None, Level::Bare) => Context::Bare,
            (None, Level::Double) => Context::Double,
            (None, Level::Single) => Context::Single,
            (None, Level::Comment) => Context::Unsafe("a comment"),
        }
    }

    fn level(&self) -> Level {
        self.stack.last().copied().unwrap_or(Level::Bare)
    }

    /// Moves behind a placeholder, which is part of a word.
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
                Level::Bare => self.bare(rest, width),
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
            Some(b'(') => self.stack.push(Level::Bare),
            Some(b')') if self.stack.len() > 1 => {
                self.stack.pop();
            }
            Some(b'#') if self.starts_word() => self.stack.push(Level::Comment),
            Some(b'<') if rest.starts_with("<<") => self.spoil("a here-document"),
            _ => {}
        }
        width
    }

    /// What is special both in double quotes and outside of quotes; how many bytes it takes.
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
        } else if rest.starts_with("$'") && self.level() == Level::Bare {
            self.spoil("`$'…'`");
        } else if rest.starts_with("$(") {
            self.stack.push(Level::Bare);
            return Some(2);
        }
        None
    }

    fn spoil(&mut self, why: &'static str) {
        self.spoilt.get_or_insert(why);
    }

    fn starts_word(&self) -> bool {
        let before = self.line.get(..self.at).unwrap_or_default();
        before.chars().next_back().is_none_or(|it| it.is_whitespace() || ";&|()".contains(it))
    }
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
        ] {
            assert_eq!(filled(line, "$(id); x"), expected, "{line}");
        }
    }

    #[test]
    fn an_empty_value_is_an_empty_argument() {
        assert_eq!(filled("run {{v}} x", ""), "run '' x");
        assert_eq!(quote("a\0b", Context::Bare), Err(NulError));
    }
}
