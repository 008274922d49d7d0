//! Estimates the similarity of two texts with `MinHash` over three-word sequences.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The maximum number of hashes per text.
const SIZE: usize = 64;
/// The maximum number of bytes of a text that the sketch covers.
const LOOKED_AT: usize = 256 << 10;

/// The smallest hashes of a text's three-word sequences.
///
/// Similar texts share many of these hashes.
#[derive(Clone, Debug, Default)]
pub(super) struct Sketch(Vec<u64>);

impl Sketch {
    pub(super) fn from_text(text: &str) -> Self {
        let text = &text[..text.floor_char_boundary(LOOKED_AT)];
        let words: Vec<&str> =
            text.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()).collect();
        let mut smallest = BTreeSet::new();
        for run in words.windows(3.min(words.len().max(1))) {
            let mut hasher = DefaultHasher::new();
            run.hash(&mut hasher);
            smallest.insert(hasher.finish());
            if smallest.len() > SIZE {
                smallest.pop_last();
            }
        }
        Self(smallest.into_iter().collect())
    }

    /// Returns the number of hashes that both sketches have, among the 64 smallest hashes of both texts together.
    pub(super) fn in_common(&self, other: &Self) -> usize {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = 0;
        for _ in 0..SIZE {
            match (ours.peek(), theirs.peek()) {
                (Some(a), Some(b)) if a == b => {
                    common += 1;
                    ours.next();
                    theirs.next();
                }
                (Some(a), Some(b)) if a < b => drop(ours.next()),
                (Some(_), Some(_)) => drop(theirs.next()),
                _ => break,
            }
        }
        common
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_more_in_common_have_more_in_common() {
        let words: Vec<String> = (0..400).map(|it| format!("word{it}")).collect();
        let asked = Sketch::from_text(&words.join(" "));
        let like = |from: usize| asked.in_common(&Sketch::from_text(&words[from..].join(" ")));
        let counts = [0, 40, 200, 360, 398].map(like);
        assert_eq!(counts[0], 64);
        assert!(counts.is_sorted_by(|a, b| a > b), "{counts:?}");
        assert_eq!(Sketch::from_text("").in_common(&asked), 0);
        assert_eq!(Sketch::from_text("a b").in_common(&Sketch::from_text("a, b!")), 1);
    }
}
