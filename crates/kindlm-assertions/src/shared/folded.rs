//! Folding of texts: variants of letters become plain (NFKC), invisible characters disappear.

use std::ops::Range;

use icu_normalizer::ComposingNormalizerBorrowed;

/// A text with plain letters and without invisible characters.
///
/// Full-width and decomposed letters become plain letters.
#[derive(Debug)]
pub(crate) struct Folded {
    pub(crate) text: String,
    /// The range of the original text for each byte of the folded text.
    from: Vec<Range<usize>>,
}

impl Folded {
    /// Folds a text; returns `None` if the text does not change.
    pub(crate) fn new(original: &str) -> Option<Self> {
        if original.is_ascii() {
            return None;
        }
        let normalizer = ComposingNormalizerBorrowed::new_nfkc();
        let mut folded = Self { text: String::with_capacity(original.len()), from: Vec::new() };
        let mut chars = original.char_indices().filter(|(_, it)| !is_invisible(*it)).peekable();
        let mut letter = String::new();
        while let Some((start, first)) = chars.next() {
            letter.clear();
            letter.push(first);
            let mut end = start + first.len_utf8();
            // Add combining marks and the further parts of a Korean syllable to the letter.
            while let Some((at, next)) = chars.next_if(|(_, it)| belongs_to_letter(*it)) {
                letter.push(next);
                end = at + next.len_utf8();
            }
            let plain = normalizer.normalize(&letter);
            folded.text.push_str(&plain);
            folded.from.extend(std::iter::repeat_n(start..end, plain.len()));
        }
        (folded.text != original).then_some(folded)
    }

    /// Maps a range of the folded text to the original; an empty range becomes `0..0`.
    pub(crate) fn place(&self, range: &Range<usize>) -> Range<usize> {
        match (self.from.get(range.start), self.from.get(range.end.saturating_sub(1))) {
            (Some(first), Some(last)) if !range.is_empty() => first.start..last.end,
            _ => 0..0,
        }
    }
}

/// Returns true for invisible characters, such as zero-width characters, soft hyphens, direction marks and tags.
fn is_invisible(it: char) -> bool {
    matches!(it,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Returns true if a character is a part of the letter before it.
fn belongs_to_letter(it: char) -> bool {
    matches!(it,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{487}' | '\u{591}'..='\u{5bd}' | '\u{64b}'..='\u{65f}'
        | '\u{93c}' | '\u{1161}'..='\u{11ff}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{3099}' | '\u{309a}' | '\u{ff9e}' | '\u{ff9f}'
        | '\u{fe20}'..='\u{fe2f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_folded_and_places_kept() {
        for (text, expected) in [
            ("id\u{200b}iot", "idiot"),
            ("idio\u{301}ta", "idióta"),
            ("４２４２", "4242"),
            ("Ａｄｍｉｎ", "Admin"),
            ("a\u{ad}b\u{feff}c\u{2060}d", "abcd"),
            ("e\u{200b}\u{301}", "é"),
            ("\u{1112}\u{1161}\u{11ab}", "한"),
            ("ﬁne", "fine"),
        ] {
            let folded = Folded::new(text).unwrap();
            assert_eq!(folded.text, expected);
            assert_eq!(folded.place(&(0..expected.len())), 0..text.len(), "{text}");
        }
        for text in ["", "plain", "idióta", "日本語", "😀"] {
            assert!(Folded::new(text).is_none(), "{text}");
        }
        let text = "x ４\u{200b}２ y";
        let folded = Folded::new(text).unwrap();
        assert_eq!(&text[folded.place(&(2..4))], "４\u{200b}２");
    }
}
