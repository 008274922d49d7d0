//! Sets of characters, and the case-insensitive comparison of ECMAScript.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

/// A set of Unicode scalar values as sorted, disjoint ranges.
///
/// A set may also contain surrogates, which have no effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CharSet(Vec<(u32, u32)>);

const LAST: u32 = 0x10_FFFF;
const DIGIT: &[(u32, u32)] = &[(0x30, 0x39)];
const WORD: &[(u32, u32)] = &[(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)];
const LINE_END: &[(u32, u32)] = &[(0xA, 0xA), (0xD, 0xD), (0x2028, 0x2029)];
const SPACE: &[(u32, u32)] = &[
    (0x9, 0xD),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
];

impl CharSet {
    /// Returns the set of `\d`, `\w` or `\s`; in upper case, the complement.
    ///
    /// Returns `None` for any other letter.
    pub(super) fn named(letter: char) -> Option<Self> {
        let ranges = match letter.to_ascii_lowercase() {
            'd' => DIGIT,
            'w' => WORD,
            's' => SPACE,
            _ => return None,
        };
        let set = Self(ranges.to_vec());
        Some(if letter.is_ascii_uppercase() { set.complement() } else { set })
    }

    /// Returns the characters that end a line: `\n`, `\r`, U+2028 and U+2029.
    pub(super) fn line_ends() -> Self {
        Self(LINE_END.to_vec())
    }

    /// Returns the set of all characters.
    pub(super) fn all() -> Self {
        Self(vec![(0, LAST)])
    }

    pub(super) fn from_code(code: u32) -> Self {
        Self(vec![(code, code)])
    }

    /// Returns all characters that equal this one when ECMAScript ignores case.
    pub(super) fn equal_ignoring_case(code: u32) -> Self {
        match char::from_u32(code) {
            // No character outside ASCII equals an ASCII character, so ASCII letters do not need the table.
            Some(c) if c.is_ascii_alphabetic() => {
                let [upper, lower] =
                    [c.to_ascii_uppercase(), c.to_ascii_lowercase()].map(u32::from);
                Self(vec![(upper, upper), (lower, lower)])
            }
            Some(c) if !c.is_ascii() => match SAME_IGNORING_CASE.get(&u32::from(canonical(c))) {
                Some(members) => Self(members.iter().map(|&it| (it, it)).collect()),
                None => Self::from_code(code),
            },
            _ => Self::from_code(code),
        }
    }

    pub(super) fn add(&mut self, first: u32, last: u32) {
        self.0.push((first, last));
        self.normalise();
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
        self.normalise();
    }

    fn normalise(&mut self) {
        self.0.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(self.0.len());
        for &(first, last) in &self.0 {
            match merged.last_mut() {
                Some(previous) if first <= previous.1.saturating_add(1) => {
                    previous.1 = previous.1.max(last);
                }
                _ => merged.push((first, last)),
            }
        }
        self.0 = merged;
    }

    pub(super) fn complement(&self) -> Self {
        let mut rest = Vec::with_capacity(self.0.len() + 1);
        let mut next = 0;
        for &(first, last) in &self.0 {
            if first > next {
                rest.push((next, first - 1));
            }
            next = last + 1;
        }
        if next <= LAST {
            rest.push((next, LAST));
        }
        Self(rest)
    }

    pub(super) fn contains(&self, code: u32) -> bool {
        let after = self.0.partition_point(|&(first, _)| first <= code);
        after > 0 && self.0[after - 1].1 >= code
    }

    /// Adds all characters that ECMAScript treats as equal when it ignores case.
    pub(super) fn ignoring_case(mut self) -> Self {
        let letters = ('a'..='z').map(u32::from).map(|lower| (lower - 32, lower));
        let ascii = letters.flat_map(|(upper, lower)| {
            let is_in = self.contains(upper) || self.contains(lower);
            is_in.then_some([(upper, upper), (lower, lower)]).into_iter().flatten()
        });
        let ascii: Vec<(u32, u32)> = ascii.collect();
        if self.0.last().is_none_or(|&(_, last)| last < 0x80) {
            self.0.extend(ascii);
            self.normalise();
            return self;
        }
        let additions: Vec<u32> = SAME_IGNORING_CASE
            .values()
            .filter(|members| members.iter().any(|&member| self.contains(member)))
            .flatten()
            .copied()
            .collect();
        self.0.extend(ascii);
        self.0.extend(additions.into_iter().map(|code| (code, code)));
        self.normalise();
        self
    }

    /// Writes the set as a bracket expression that has the same meaning in `regex` and `fancy-regex`.
    pub(super) fn write(&self, out: &mut String) {
        out.push('[');
        let scalars: Vec<(u32, u32)> =
            self.0.iter().copied().flat_map(without_surrogates).collect();
        if scalars.is_empty() {
            // The empty set is the complement of all characters.
            out.push_str(r"^\x{0}-\x{10FFFF}");
        }
        for (first, last) in scalars {
            // Writing to a string cannot fail, so the result can be ignored.
            let _ = write!(out, r"\x{{{first:X}}}-\x{{{last:X}}}");
        }
        out.push(']');
    }
}

/// Returns the parts of a range without surrogates.
///
/// No engine for UTF-8 can match half a surrogate pair.
fn without_surrogates((first, last): (u32, u32)) -> impl Iterator<Item = (u32, u32)> {
    [(first, last.min(0xD7FF)), (first.max(0xE000), last)].into_iter().filter(|(a, b)| a <= b)
}

/// The non-ASCII characters that are equal for ECMAScript with flag `i`, without `u`.
///
/// The characters are grouped by their canonical form, without groups of a single character. The table follows the
/// `Canonicalize` operation of ECMA-262, 22.2.2.7.3. The table takes 1 to 2 milliseconds to build, so pure ASCII patterns
/// do not use it.
static SAME_IGNORING_CASE: LazyLock<BTreeMap<u32, Vec<u32>>> = LazyLock::new(|| {
    let mut classes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for c in '\u{80}'..='\u{FFFF}' {
        let form = canonical(c);
        if form != c {
            let form = u32::from(form);
            classes.entry(form).or_insert_with(|| vec![form]).push(u32::from(c));
        }
    }
    for members in classes.values_mut() {
        members.sort_unstable();
    }
    classes
});

/// Returns the canonical form of a character, which is its upper case.
///
/// The character itself is returned in two cases: its upper case is not a single UTF-16 unit, or its upper case is
/// ASCII and the character is not.
fn canonical(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_uppercase();
    }
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) if one.len_utf16() == 1 && !one.is_ascii() => one,
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_folding_agrees_with_javascript() {
        for (a, b, equal) in [
            ('a', 'A', true),
            ('é', 'É', true),
            ('σ', 'ς', true),
            ('µ', 'Μ', true),
            ('s', 'ſ', false),
            ('k', '\u{212A}', false),
            ('å', '\u{212B}', false),
            ('ß', 'ẞ', false),
            ('i', 'ı', false),
            ('i', 'İ', false),
            ('\u{10400}', '\u{10428}', false),
        ] {
            let set = CharSet::from_code(u32::from(a)).ignoring_case();
            assert_eq!(set.contains(u32::from(b)), equal, "{a} and {b}");
            let class = CharSet::equal_ignoring_case(u32::from(a));
            assert_eq!(class.contains(u32::from(b)), equal, "{a} and {b}");
        }
    }

    #[test]
    fn a_complement_has_exactly_the_rest() {
        for set in
            [CharSet::default(), CharSet::all(), CharSet(WORD.to_vec()), CharSet(SPACE.to_vec())]
        {
            let rest = set.complement();
            for code in (0..0x3100).chain([LAST]) {
                assert_ne!(set.contains(code), rest.contains(code), "{code:x}");
            }
            assert_eq!(rest.complement(), set);
        }
    }
}
