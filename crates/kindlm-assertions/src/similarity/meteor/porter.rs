//! The stem of an English word.
//!
//! The algorithm is that of M. F. Porter, "An algorithm for suffix stripping", Program 14 (3), 1980, with the two
//! changes of his later program (`bli` for `abli`, and `logi`). Stemming crates implement his revised "English"
//! algorithm, which gives other stems. For example, the stem of `quickly` is `quick` in the revised algorithm, and
//! `quickli` here.

/// The suffixes of step 2, with their replacements.
///
/// A suffix is replaced after a stem with a measure above 0.
const DERIVED: [(&str, &str); 21] = [
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
];

/// The suffixes of step 3, with their replacements. The condition is the same as in step 2.
const NESTED: [(&str, &str); 7] = [
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

/// The suffixes of step 4, which are removed after a stem with a measure above 1.
///
/// `ion` is removed only after `s` or `t`.
const BARE: [&str; 19] = [
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou",
    "ism", "ate", "iti", "ous", "ive", "ize",
];

/// Returns the stem of a word in lower case.
///
/// Words of fewer than three letters, and words with letters other than `a` to `z`, do not change.
pub(super) fn stem(word: &str) -> String {
    if word.len() < 3 || !word.bytes().all(|it| it.is_ascii_lowercase()) {
        return word.to_owned();
    }
    let word = past(&plural(word));
    let word = match word.strip_suffix('y') {
        Some(stem) if has_vowel(stem) => format!("{stem}i"),
        _ => word,
    };
    let word = replace(word, &DERIVED);
    let word = replace(word, &NESTED);
    last(bare(word))
}

/// Applies step 1a: plurals.
fn plural(word: &str) -> String {
    if let Some(stem) = word.strip_suffix("sses") {
        format!("{stem}ss")
    } else if let Some(stem) = word.strip_suffix("ies") {
        format!("{stem}i")
    } else if word.ends_with("ss") {
        word.to_owned()
    } else {
        word.strip_suffix('s').unwrap_or(word).to_owned()
    }
}

/// Applies step 1b: past tense and `-ing`.
fn past(word: &str) -> String {
    if let Some(stem) = word.strip_suffix("eed") {
        let ending = if measure(stem) > 0 { "ee" } else { "eed" };
        return format!("{stem}{ending}");
    }
    let stem = word.strip_suffix("ed").or_else(|| word.strip_suffix("ing"));
    let Some(stem) = stem.filter(|it| has_vowel(it)) else { return word.to_owned() };
    if ["at", "bl", "iz"].iter().any(|it| stem.ends_with(it)) {
        return format!("{stem}e");
    }
    if ends_doubled(stem) && !stem.ends_with(['l', 's', 'z']) {
        return stem[..stem.len() - 1].to_owned();
    }
    if measure(stem) == 1 && ends_short(stem) { format!("{stem}e") } else { stem.to_owned() }
}

/// Applies step 2 or 3; only the longest matching suffix of the list counts.
fn replace(word: String, endings: &[(&str, &str)]) -> String {
    let longest =
        endings.iter().filter(|(ending, _)| word.ends_with(ending)).max_by_key(|it| it.0.len());
    let Some((ending, replacement)) = longest else { return word };
    let stem = &word[..word.len() - ending.len()];
    if measure(stem) > 0 { format!("{stem}{replacement}") } else { word }
}

/// Applies step 4: removes suffixes.
fn bare(word: String) -> String {
    let longest = BARE.iter().filter(|ending| word.ends_with(*ending)).max_by_key(|it| it.len());
    let Some(ending) = longest else { return word };
    let stem = &word[..word.len() - ending.len()];
    let falls = measure(stem) > 1 && (*ending != "ion" || stem.ends_with(['s', 't']));
    if falls { stem.to_owned() } else { word }
}

/// Applies step 5: a final `e`, and a double `l`.
fn last(mut word: String) -> String {
    if let Some(stem) = word.strip_suffix('e')
        && (measure(stem) > 1 || measure(stem) == 1 && !ends_short(stem))
    {
        word.pop();
    }
    if word.ends_with("ll") && measure(&word) > 1 {
        word.pop();
    }
    word
}

/// Returns one item for each letter, which is true for a vowel. `y` is a vowel after a consonant.
fn vowels(word: &str) -> Vec<bool> {
    let mut vowels: Vec<bool> = Vec::with_capacity(word.len());
    for letter in word.bytes() {
        let after_consonant = vowels.last() == Some(&false);
        vowels.push(b"aeiou".contains(&letter) || letter == b'y' && after_consonant);
    }
    vowels
}

fn has_vowel(word: &str) -> bool {
    vowels(word).contains(&true)
}

/// Returns the measure of a word: the number of times that a consonant follows a vowel.
fn measure(word: &str) -> usize {
    vowels(word).windows(2).filter(|pair| *pair == [true, false]).count()
}

/// Returns true if the word ends in two equal consonants.
fn ends_doubled(word: &str) -> bool {
    let equal = matches!(word.as_bytes(), [.., a, b] if a == b);
    equal && vowels(word).last() == Some(&false)
}

/// Returns true if the word ends in consonant, vowel, consonant.
///
/// The last consonant must not be `w`, `x` or `y`.
fn ends_short(word: &str) -> bool {
    vowels(word).ends_with(&[false, true, false]) && !word.ends_with(['w', 'x', 'y'])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares stems with examples of the paper and of Porter's vocabulary.
    #[test]
    fn strips_suffixes_like_the_paper() {
        for (word, expected) in [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("ties", "ti"),
            ("cats", "cat"),
            ("feed", "feed"),
            ("agreed", "agre"),
            ("plastered", "plaster"),
            ("bled", "bled"),
            ("motoring", "motor"),
            ("sing", "sing"),
            ("conflated", "conflat"),
            ("troubled", "troubl"),
            ("sized", "size"),
            ("hopping", "hop"),
            ("falling", "fall"),
            ("hissing", "hiss"),
            ("failing", "fail"),
            ("filing", "file"),
            ("happy", "happi"),
            ("sky", "sky"),
            ("relational", "relat"),
            ("conditional", "condit"),
            ("rational", "ration"),
            ("digitizer", "digit"),
            ("radicalli", "radic"),
            ("vietnamization", "vietnam"),
            ("hopefulness", "hope"),
            ("triplicate", "triplic"),
            ("formative", "form"),
            ("electrical", "electr"),
            ("goodness", "good"),
            ("revival", "reviv"),
            ("replacement", "replac"),
            ("adoption", "adopt"),
            ("communism", "commun"),
            ("probate", "probat"),
            ("rate", "rate"),
            ("cease", "ceas"),
            ("controll", "control"),
            ("roll", "roll"),
            ("generalizations", "gener"),
            ("oscillators", "oscil"),
            ("running", "run"),
            ("quickly", "quickli"),
            ("archaeology", "archaeolog"),
            ("is", "is"),
            ("naïve", "naïve"),
        ] {
            assert_eq!(stem(word), expected, "{word}");
        }
    }
}
