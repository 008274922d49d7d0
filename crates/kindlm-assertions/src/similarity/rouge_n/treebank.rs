//! Tokens in the style of the Penn Treebank: punctuation and contractions are separate tokens.

/// The suffixes that are split from the word before them.
const ENDINGS: [&str; 7] = ["'ll", "'re", "'ve", "n't", "'s", "'m", "'d"];

/// The contractions of two words, each with the index of the second word.
const JOINED: [(&str, usize); 10] = [
    ("cannot", 3),
    ("d'ye", 1),
    ("gimme", 3),
    ("gonna", 3),
    ("gotta", 3),
    ("lemme", 3),
    ("more'n", 4),
    ("'tis", 2),
    ("'twas", 2),
    ("wanna", 3),
];

/// Returns the tokens of a text, in lower case.
///
/// The rules come from Robert MacIntyre's `tokenizer.sed` for the Penn Treebank (1995), without the distinction of
/// opening and closing quotes. A comma or a single quote is punctuation only at the end of a word. A full stop is
/// punctuation only at the end of a line.
pub(super) fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for line in text.to_lowercase().split('\n') {
        let line = line.trim_end();
        let (line, stop) = match line.strip_suffix('.') {
            Some(rest) => (rest, true),
            None => (line, false),
        };
        for word in line.split_whitespace() {
            pieces(word, &mut tokens);
        }
        if stop {
            tokens.push(".".to_owned());
        }
    }
    tokens
}

/// Returns true if a character can be inside a word.
fn belongs(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_.'-/,&".contains(c)
}

/// Adds the tokens of a word, split at characters that cannot be inside a word.
fn pieces(word: &str, tokens: &mut Vec<String>) {
    let mut start = 0;
    for (at, c) in word.char_indices().filter(|&(_, c)| !belongs(c)) {
        piece(&word[start..at], tokens);
        tokens.push(c.to_string());
        start = at + c.len_utf8();
    }
    piece(&word[start..], tokens);
}

/// Adds the tokens of a piece: its word, contractions, and final commas and single quotes.
fn piece(piece: &str, tokens: &mut Vec<String>) {
    if piece.is_empty() {
        return;
    }
    let mut word = piece;
    let mut marks = Vec::new();
    while let Some((at, mark @ (',' | '\''))) = word.char_indices().next_back()
        && at > 0
    {
        marks.push(mark.to_string());
        word = &word[..at];
    }
    let mut endings = Vec::new();
    while let Some(at) = second_part(word) {
        endings.push(word[at..].to_owned());
        word = &word[..at];
    }
    tokens.push(word.to_owned());
    tokens.extend(endings.into_iter().rev());
    tokens.extend(marks.into_iter().rev());
}

/// Returns the index of the second part of a contraction; `None` if the word is not a contraction.
fn second_part(word: &str) -> Option<usize> {
    let joined = JOINED.iter().find(|(joined, _)| *joined == word).map(|&(_, at)| at);
    let ending = |it: &&str| -> Option<usize> {
        let at = word.len().checked_sub(it.len())?;
        (at > 0 && word.ends_with(it)).then_some(at)
    };
    joined.or_else(|| ENDINGS.iter().find_map(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctuation_and_contractions_are_tokens() {
        for (text, expected) in [
            ("", ""),
            ("The cat sat on the mat.", "the cat sat on the mat ."),
            ("Hello, world! It's fine.", "hello , world ! it 's fine ."),
            ("I can't, won't and cannot.", "i ca n't , wo n't and can not ."),
            ("e.g. 3.14 at 1,000/day\nDone.", "e.g. 3.14 at 1,000/day done ."),
            ("\"quoted\" (aside) x-y", "\" quoted \" ( aside ) x-y"),
            ("'tis the dogs' bowl", "'t is the dogs ' bowl"),
            ("I'd've gone", "i 'd 've gone"),
            ("né", "n é"),
        ] {
            assert_eq!(tokens(text).join(" "), expected, "{text}");
        }
    }
}
