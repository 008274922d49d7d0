//! Translation of ECMAScript regular expressions to the syntax of Rust's engines.
//!
//! The meaning stays the same. Characters and classes become explicit sets, so the engines' own rules for case and `\w`
//! do not matter. The translation is a single pass without recursion, so nesting cannot exhaust the stack.

use std::fmt::Write as _;

use super::Flags;
use super::class::CharSet;
use super::scanner::Scanner;

/// The engine that runs the translated pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// `regex`: linear time, without look-around and back-references.
    Linear,
    /// `fancy-regex`: all features, with a step limit.
    Backtracking,
}

/// A translated pattern.
#[derive(Debug)]
pub(super) struct Translated {
    /// The pattern in the engine's syntax.
    ///
    /// For [`Engine::Linear`], the text is not usable if `needs_backtracking` is set.
    pub(super) text: String,
    /// True if the pattern has look-around, back-references or similar features.
    pub(super) needs_backtracking: bool,
}

/// Translates a valid pattern. The error is the reason why the pattern is not supported.
pub(super) fn translate(source: &str, flags: Flags, engine: Engine) -> Result<Translated, String> {
    let scan = Scanner::new(source);
    let groups = group_names(scan.rest());
    let mode = Mode { ignore_case: flags.ignore_case, dot_all: false, multiline: false };
    let mut translator = Translator {
        scan,
        groups,
        engine,
        mode,
        outer: Vec::new(),
        out: String::with_capacity(source.len() * 2),
        needs_backtracking: false,
    };
    translator.run()?;
    Ok(Translated { text: translator.out, needs_backtracking: translator.needs_backtracking })
}

#[derive(Clone, Copy, Debug)]
struct Mode {
    ignore_case: bool,
    dot_all: bool,
    multiline: bool,
}

struct Translator {
    scan: Scanner,
    /// The names of the capturing groups, in order; `None` for unnamed groups.
    groups: Vec<Option<String>>,
    engine: Engine,
    mode: Mode,
    /// The modes to restore at each closing parenthesis.
    outer: Vec<Mode>,
    out: String,
    needs_backtracking: bool,
}

const WORD_BOUNDARY: (&str, &str) =
    (r"(?-u:\b)", "(?:(?<=[0-9A-Z_a-z])(?![0-9A-Z_a-z])|(?<![0-9A-Z_a-z])(?=[0-9A-Z_a-z]))");
const NOT_WORD_BOUNDARY: &str =
    "(?:(?<=[0-9A-Z_a-z])(?=[0-9A-Z_a-z])|(?<![0-9A-Z_a-z])(?![0-9A-Z_a-z]))";
const LINE_START: &str = r"(?:\A|(?<=[\n\r\x{2028}\x{2029}]))";
const LINE_END: &str = r"(?:\z|(?=[\n\r\x{2028}\x{2029}]))";

impl Translator {
    fn run(&mut self) -> Result<(), String> {
        while let Some(c) = self.scan.next() {
            match c {
                '\\' => self.escape()?,
                '[' => self.class(),
                '(' => self.group()?,
                ')' => {
                    self.mode = self.outer.pop().ok_or("unbalanced parenthesis")?;
                    self.out.push(')');
                }
                '.' if self.mode.dot_all => CharSet::all().write(&mut self.out),
                '.' => CharSet::line_ends().complement().write(&mut self.out),
                '^' if self.mode.multiline => self.hard(LINE_START),
                '^' => self.out.push_str(r"\A"),
                '$' if self.mode.multiline => self.hard(LINE_END),
                '$' => self.out.push_str(r"\z"),
                '|' | '*' | '+' | '?' => self.out.push(c),
                '{' => self.repetition(),
                _ => self.literal(u32::from(c)),
            }
        }
        Ok(())
    }

    /// Writes syntax that only the backtracking engine supports.
    fn hard(&mut self, text: &str) {
        self.needs_backtracking = true;
        self.out.push_str(text);
    }

    fn literal(&mut self, code: u32) {
        let set = if self.mode.ignore_case {
            CharSet::equal_ignoring_case(code)
        } else {
            CharSet::from_code(code)
        };
        match char::from_u32(code) {
            Some(c) if set == CharSet::from_code(code) => {
                if c.is_ascii_alphanumeric() || !c.is_ascii() {
                    self.out.push(c);
                } else {
                    // Writing to a string cannot fail, so the result can be ignored.
                    let _ = write!(self.out, r"\x{{{code:X}}}");
                }
            }
            _ => set.write(&mut self.out),
        }
    }

    /// Writes a repetition, or a literal `{` where no repetition is possible (Annex B).
    fn repetition(&mut self) {
        match self.scan.bounds() {
            Some(bounds) => {
                // Writing to a string cannot fail, so the result can be ignored.
                let _ = write!(self.out, "{{{bounds}}}");
            }
            None => self.literal(u32::from('{')),
        }
    }

    fn group(&mut self) -> Result<(), String> {
        self.outer.push(self.mode);
        for (open, hard) in
            [("?:", false), ("?=", true), ("?!", true), ("?<=", true), ("?<!", true)]
        {
            if self.scan.skip(open) {
                self.needs_backtracking |= hard;
                self.out.push('(');
                self.out.push_str(open);
                return Ok(());
            }
        }
        if self.scan.skip("?<") {
            let _ = self.scan.until('>');
        } else if self.scan.skip("?") {
            self.modifiers()?;
            self.out.push_str("(?:");
            return Ok(());
        }
        // Only back-references need the match of a group, and the linear engine has no back-references.
        self.out.push_str(if self.engine == Engine::Linear { "(?:" } else { "(" });
        Ok(())
    }

    /// Reads the flags of `(?i-s:…)` and applies them to the mode. Fails for an unknown flag.
    fn modifiers(&mut self) -> Result<(), String> {
        let mut on = true;
        loop {
            match self.scan.next() {
                Some('-') => on = false,
                Some('i') => self.mode.ignore_case = on,
                Some('m') => self.mode.multiline = on,
                Some('s') => self.mode.dot_all = on,
                Some(':') => return Ok(()),
                _ => return Err("it has a group of an unknown kind".to_owned()),
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        let Some(c) = self.scan.next() else { return Err("it ends with a backslash".to_owned()) };
        match c {
            'b' | 'B' if self.scan.repetition_follows() => {
                return Err("nothing to repeat".to_owned());
            }
            'b' if self.engine == Engine::Linear => self.out.push_str(WORD_BOUNDARY.0),
            'b' => self.out.push_str(WORD_BOUNDARY.1),
            'B' => self.hard(NOT_WORD_BOUNDARY),
            'k' if self.groups.iter().any(Option::is_some) => self.named_reference(),
            _ => {
                let groups = self.groups.len();
                let number = matches!(c, '1'..='9').then(|| self.scan.number_up_to(groups));
                if let Some(number) = number.flatten() {
                    self.reference(number);
                } else if let Some(set) = CharSet::named(c) {
                    set.write(&mut self.out);
                } else {
                    let code = self.scan.character_escape(c, false);
                    self.literal(code);
                }
            }
        }
        Ok(())
    }

    fn named_reference(&mut self) {
        let _ = self.scan.skip("<");
        let name = self.scan.until('>');
        let numbers: Vec<usize> = (1..=self.groups.len())
            .filter(|number| self.groups[number - 1].as_deref() == Some(&name))
            .collect();
        // At most one of several groups with the same name has matched.
        for number in numbers {
            self.reference(number);
        }
    }

    /// Writes a reference to the match of a group. If the group has no match, the reference matches the empty text.
    fn reference(&mut self, number: usize) {
        let flag = if self.mode.ignore_case { "i" } else { "" };
        self.hard(&format!("(?({number})(?{flag}:\\{number})|)"));
    }

    fn class(&mut self) {
        let negated = self.scan.skip("^");
        let mut set = CharSet::default();
        while let Some(c) = self.scan.next() {
            if c == ']' {
                break;
            }
            let first = self.class_atom(c);
            if !matches!(self.scan.rest(), ['-', after, ..] if *after != ']') {
                first.add_to(&mut set);
                continue;
            }
            let _ = self.scan.skip("-");
            let Some(c) = self.scan.next() else { break };
            let last = self.class_atom(c);
            if let (Atom::One(first), Atom::One(last)) = (&first, &last) {
                set.add(*first, *last);
            } else {
                // A class cannot be the end of a range, so the `-` is a literal (Annex B).
                first.add_to(&mut set);
                Atom::One(u32::from('-')).add_to(&mut set);
                last.add_to(&mut set);
            }
        }
        let set = if self.mode.ignore_case { set.ignoring_case() } else { set };
        let set = if negated { set.complement() } else { set };
        set.write(&mut self.out);
    }

    fn class_atom(&mut self, c: char) -> Atom {
        if c != '\\' {
            return Atom::One(u32::from(c));
        }
        let Some(c) = self.scan.next() else { return Atom::One(u32::from('\\')) };
        match CharSet::named(c) {
            Some(set) => Atom::Many(set),
            None => Atom::One(self.scan.character_escape(c, true)),
        }
    }
}

enum Atom {
    One(u32),
    Many(CharSet),
}

impl Atom {
    fn add_to(&self, set: &mut CharSet) {
        match self {
            Self::One(code) => set.add(*code, *code),
            Self::Many(more) => set.add_all(more),
        }
    }
}

/// Returns the names of the capturing groups in order; `None` for an unnamed group.
fn group_names(chars: &[char]) -> Vec<Option<String>> {
    let mut groups = Vec::new();
    let mut in_class = false;
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        match c {
            '\\' => at += 1,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => match &chars[at + 1..] {
                ['?', '<', next, ..] if !matches!(next, '=' | '!') => {
                    let name = chars[at + 3..].iter().take_while(|&&c| c != '>').collect();
                    groups.push(Some(name));
                }
                ['?', ..] => {}
                _ => groups.push(None),
            },
            _ => {}
        }
        at += 1;
    }
    groups
}
