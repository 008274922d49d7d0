//! A scanner that reads a regular expression character by character, including escapes.

/// A scanner at a position of a pattern.
pub(super) struct Scanner {
    chars: Vec<char>,
    at: usize,
}

impl Scanner {
    pub(super) fn new(source: &str) -> Self {
        Self { chars: source.chars().collect(), at: 0 }
    }

    /// Returns the characters that were not read yet.
    pub(super) fn rest(&self) -> &[char] {
        self.chars.get(self.at..).unwrap_or_default()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    /// Skips this text if it comes next, and returns true if it was skipped.
    pub(super) fn skip(&mut self, text: &str) -> bool {
        let mut rest = self.rest().iter();
        let found = text.chars().all(|c| rest.next() == Some(&c));
        if found {
            self.at += text.chars().count();
        }
        found
    }

    /// Reads the rest of a number whose first digit was just read.
    ///
    /// If the number is larger than `most`, the scanner reads nothing more and returns `None`.
    pub(super) fn number_up_to(&mut self, most: usize) -> Option<usize> {
        let start = self.at.checked_sub(1)?;
        let digits: String =
            self.chars.get(start..)?.iter().take_while(|c| c.is_ascii_digit()).collect();
        let number = digits.parse().ok().filter(|&number| number <= most)?;
        self.at = start + digits.len();
        Some(number)
    }

    /// Reads the text up to the next `end` character, and skips that character.
    pub(super) fn until(&mut self, end: char) -> String {
        let text: String = self.rest().iter().take_while(|&&c| c != end).collect();
        self.at += text.chars().count() + 1;
        text
    }

    /// Reads the content of braces that were just opened, if they are a repetition.
    pub(super) fn bounds(&mut self) -> Option<String> {
        let bounds = self.bounds_at(self.at)?;
        self.at += bounds.len() + 1;
        Some(bounds)
    }

    fn bounds_at(&self, at: usize) -> Option<String> {
        let rest = self.chars.get(at..)?;
        let bounds = &rest[..rest.iter().position(|&c| c == '}')?];
        let is_number = |part: &[char]| part.iter().all(char::is_ascii_digit);
        let mut parts = bounds.splitn(2, |&c| c == ',');
        let low = parts.next()?;
        let high = parts.next().unwrap_or_default();
        (!low.is_empty() && is_number(low) && is_number(high)).then(|| bounds.iter().collect())
    }

    /// Returns true if a repetition comes next.
    pub(super) fn repetition_follows(&self) -> bool {
        match self.peek() {
            Some('*' | '+' | '?') => true,
            Some('{') => self.bounds_at(self.at + 1).is_some(),
            _ => false,
        }
    }

    /// Reads the rest of a character escape and returns the code of its character.
    ///
    /// `c`, the character after the backslash, has already been read.
    pub(super) fn character_escape(&mut self, c: char, in_class: bool) -> u32 {
        match c {
            't' => 0x9,
            'n' => 0xA,
            'v' => 0xB,
            'f' => 0xC,
            'r' => 0xD,
            'b' if in_class => 0x8,
            'x' => self.hex(2).unwrap_or(u32::from('x')),
            'u' => self.unicode(),
            'c' => self.control(in_class),
            '0'..='7' => self.octal(),
            _ => u32::from(c),
        }
    }

    fn hex(&mut self, digits: usize) -> Option<u32> {
        let text: String = self.chars.get(self.at..self.at + digits)?.iter().collect();
        if !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        self.at += digits;
        u32::from_str_radix(&text, 16).ok()
    }

    /// Reads the digits of `\uXXXX`; without four digits, the escape is the letter `u`.
    ///
    /// Two escapes that form a surrogate pair are one character.
    fn unicode(&mut self) -> u32 {
        let Some(high) = self.hex(4) else { return u32::from('u') };
        let back = self.at;
        if (0xD800..0xDC00).contains(&high) && self.skip("\\u") {
            if let Some(low @ 0xDC00..=0xDFFF) = self.hex(4) {
                return 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00);
            }
            self.at = back;
        }
        high
    }

    /// Reads `\cX`. If `X` is not valid, the backslash is a literal (Annex B).
    fn control(&mut self, in_class: bool) -> u32 {
        match self.peek() {
            Some(c) if c.is_ascii_alphabetic() || in_class && (c.is_ascii_digit() || c == '_') => {
                self.at += 1;
                u32::from(c) % 32
            }
            _ => {
                self.at -= 1;
                u32::from('\\')
            }
        }
    }

    /// Reads up to three octal digits, at most 377 (Annex B). The first digit has been read.
    fn octal(&mut self) -> u32 {
        self.at -= 1;
        let mut value = 0;
        for _ in 0..3 {
            match self.peek().and_then(|c| c.to_digit(8)) {
                Some(digit) if value * 8 + digit <= 0o377 => {
                    value = value * 8 + digit;
                    self.at += 1;
                }
                _ => break,
            }
        }
        value
    }
}
