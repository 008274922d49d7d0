//! Words and n-grams for the checks that compare texts word by word.

use std::collections::HashMap;
use std::hash::Hash;

/// Splits a text into words at white space, as defined by JavaScript's `\s`.
pub(crate) fn split_words(text: &str) -> impl Iterator<Item = &str> {
    let space = |c: char| c == '\u{feff}' || c.is_whitespace() && c != '\u{85}';
    text.split(space).filter(|word| !word.is_empty())
}

/// Returns the count of each n-gram of `length` words, and the number of n-grams.
pub(crate) fn runs<T: Eq + Hash>(words: &[T], length: usize) -> (HashMap<&[T], usize>, usize) {
    let mut counts = HashMap::new();
    for run in words.windows(length) {
        *counts.entry(run).or_insert(0) += 1;
    }
    (counts, (words.len() + 1).saturating_sub(length))
}

/// Returns the size of the multiset intersection of two counts.
pub(crate) fn common<K: Eq + Hash>(left: &HashMap<K, usize>, right: &HashMap<K, usize>) -> usize {
    left.iter().map(|(run, &count)| count.min(right.get(run).copied().unwrap_or(0))).sum()
}

/// Returns the share of a part in a whole; 0 if the whole is 0.
#[expect(clippy::cast_precision_loss, reason = "no text has 2^53 words")]
pub(crate) fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Returns the words as GLEU and METEOR compare them: in lower case, without final full stops.
pub(crate) fn plain_words(text: &str) -> Vec<String> {
    split_words(text).map(|word| word.to_lowercase().trim_end_matches('.').to_owned()).collect()
}

/// Returns the words as BLEU compares them: in lower case, with their punctuation.
pub(crate) fn lower_words(text: &str) -> Vec<String> {
    split_words(text).map(str::to_lowercase).collect()
}

/// Returns up to 20 names and the number of further names; `(none)` without names.
pub(crate) fn names<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    const SHOWN: usize = 20;
    let mut names = names.into_iter();
    let shown: Vec<&str> = names.by_ref().take(SHOWN).collect();
    match (shown.is_empty(), names.count()) {
        (true, _) => "(none)".to_owned(),
        (false, 0) => shown.join(", "),
        (false, more) => format!("{} and {more} more", shown.join(", ")),
    }
}
