//! Finds known secret values in a text, also in encoded forms such as Base64.

use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER};
use serde_json::Value;

use crate::SHORTEST;
use crate::decode::{decode, has_escapes, without_separators};
use crate::names::is_secret_setting;

/// The maximum number of nested escapings, for example JSON in JSON in a URL.
const ROUNDS: usize = 3;

/// If all forms together exceed this size in bytes, the search uses a slower automaton that is quick to build. For a
/// value that repeats itself, the build time of the faster automaton grows with the square of the size.
const LARGE: usize = 8 * 1024;

/// A set of known secret values.
#[derive(Clone, Default)]
pub(crate) struct KnownSecrets {
    forms: Vec<Form>,
    /// True if a value is a number. Then numbers in JSON are searched too.
    has_number: bool,
    /// The search automaton for all forms, built at the first use.
    search: OnceLock<Option<AhoCorasick>>,
}

/// One form of a secret value, such as its text in Base64.
#[derive(Clone, PartialEq, Eq)]
struct Form {
    bytes: Vec<u8>,
    encoding: Encoding,
}

/// The encoding of a form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    Hex,
    /// A part of a Base64 text. The surrounding Base64 characters are masked too.
    Base64,
}

impl KnownSecrets {
    /// Adds a value and each of its lines, and the secret settings of a JSON object.
    pub(crate) fn add(&mut self, value: &str) {
        // A key from a file often ends with a line break, which requests do not contain.
        let value = value.trim();
        self.add_one(value);
        if value.contains('\n') {
            // The first and last lines of all PEM files are the same, so skip these lines.
            value.lines().map(str::trim).filter(|it| !it.starts_with("-----")).for_each(|line| {
                self.add_one(line);
            });
        }
        if value.starts_with('{')
            && let Ok(Value::Object(map)) = serde_json::from_str(value)
        {
            for (name, value) in &map {
                if let (true, Value::String(text)) = (is_secret_setting(name), value) {
                    self.add(text);
                }
            }
        }
    }

    fn add_one(&mut self, value: &str) {
        if value.len() < SHORTEST {
            return;
        }
        self.search = OnceLock::new();
        self.has_number |= value.parse::<f64>().is_ok();
        let bytes = value.as_bytes();
        let mut forms = vec![Form { bytes: bytes.to_vec(), encoding: Encoding::Plain }];
        forms.push(Form { bytes: HEXLOWER.encode(bytes).into_bytes(), encoding: Encoding::Hex });
        if let Some(decoded) = decode(bytes) {
            // Decoding a text also changes a secret with escape sequences, so search for its decoded form too.
            forms.push(Form { bytes: decoded.bytes, encoding: Encoding::Plain });
        }
        for skipped in 0..3 {
            forms.extend(
                base64(bytes, skipped).map(|bytes| Form { bytes, encoding: Encoding::Base64 }),
            );
        }
        for form in forms {
            if form.bytes.len() >= SHORTEST && !self.forms.contains(&form) {
                self.forms.push(form);
            }
        }
    }

    /// Adds all values of another set.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.search = OnceLock::new();
        self.has_number |= other.has_number;
        for form in &other.forms {
            if !self.forms.contains(form) {
                self.forms.push(form.clone());
            }
        }
    }

    /// Returns true if the set has no values.
    pub(crate) fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Returns the number of forms of all values.
    pub(crate) fn len(&self) -> usize {
        self.forms.len()
    }

    /// Returns true if a value is a number.
    pub(crate) fn has_number(&self) -> bool {
        self.has_number
    }

    /// Returns the ranges of all values in a text.
    pub(crate) fn places(&self, text: &str) -> Vec<Range<usize>> {
        let Some(search) = self.search.get_or_init(|| self.search()) else { return Vec::new() };
        let mut places: Vec<Range<usize>> = self.matches(search, text.as_bytes()).collect();
        places.extend(self.wrapped(search, text.as_bytes()));
        if !has_escapes(text.as_bytes()) {
            return places;
        }
        let mut decoded = decode(text.as_bytes());
        for _ in 0..ROUNDS {
            let Some(now) = decoded else { break };
            places.extend(self.matches(search, &now.bytes).map(|it| now.place(&it)));
            places.extend(self.wrapped(search, &now.bytes).map(|it| now.place(&it)));
            decoded = now.again();
        }
        places
    }

    fn search(&self) -> Option<AhoCorasick> {
        let patterns = self.forms.iter().map(|it| it.bytes.as_slice());
        let size: usize = self.forms.iter().map(|it| it.bytes.len()).sum();
        let search = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostLongest)
            .kind((size > LARGE).then_some(AhoCorasickKind::ContiguousNFA))
            .build(patterns);
        search.ok().filter(|_| !self.forms.is_empty())
    }

    fn matches<'a>(
        &'a self,
        search: &'a AhoCorasick,
        text: &'a [u8],
    ) -> impl Iterator<Item = Range<usize>> + 'a {
        search.find_iter(text).map(|found| {
            let range = found.range();
            match self.forms.get(found.pattern().as_usize()) {
                Some(form) if form.encoding == Encoding::Base64 => around(text, &range),
                _ => range,
            }
        })
    }

    /// Returns the ranges of encoded values with white space or colons between their characters.
    ///
    /// An example is the output of `base64`, which has a line break after 76 characters.
    fn wrapped<'a>(
        &'a self,
        search: &'a AhoCorasick,
        text: &'a [u8],
    ) -> impl Iterator<Item = Range<usize>> + 'a {
        let joined = without_separators(text);
        let places: Vec<Range<usize>> = joined.map_or_else(Vec::new, |joined| {
            let is_encoded = |pattern: usize| {
                self.forms.get(pattern).is_some_and(|it| it.encoding != Encoding::Plain)
            };
            let found = search.find_iter(&joined.bytes);
            found
                .filter(|it| is_encoded(it.pattern().as_usize()))
                .map(|it| {
                    let start = joined.place(&(it.start()..it.end())).start;
                    // The range must end after the last byte, before the separators that follow.
                    let last = joined.place(&(it.end() - 1..it.end())).start;
                    around(text, &(start..last + 1))
                })
                .collect()
        });
        places.into_iter()
    }
}

/// Returns the Base64 text of a value that starts after `skipped` bytes of a three-byte group, in both alphabets.
///
/// Characters that also depend on the bytes around the value are left out.
fn base64(value: &[u8], skipped: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut bytes = vec![0; skipped];
    bytes.extend_from_slice(value);
    let from = (skipped * 8).div_ceil(6);
    let to = bytes.len() * 8 / 6;
    [BASE64_NOPAD.encode(&bytes), BASE64URL_NOPAD.encode(&bytes)]
        .into_iter()
        .filter_map(move |text| text.as_bytes().get(from..to).map(<[u8]>::to_vec))
}

/// Extends a range to all adjacent Base64 characters.
fn around(text: &[u8], range: &Range<usize>) -> Range<usize> {
    let inside =
        |it: &&u8| it.is_ascii_alphanumeric() || matches!(it, b'+' | b'/' | b'-' | b'_' | b'=');
    let before = text[..range.start].iter().rev().take_while(inside).count();
    let after = text[range.end..].iter().take_while(inside).count();
    range.start - before..range.end + after
}
