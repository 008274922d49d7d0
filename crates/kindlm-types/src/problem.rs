//! Problems in a user's input, before they are located in a file.

/// The part of an object member that causes a problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemberPart {
    /// The value.
    #[default]
    Value,
    /// The key: it is unknown, has a typo, or is not allowed here.
    Key,
}

/// The kind of a problem, for code that handles some kinds specially.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProblemKind {
    /// A value of the wrong type, out of range, or not one of the allowed values.
    #[default]
    InvalidValue,
    /// An unknown key.
    UnknownKey {
        /// The known key that the user probably meant; `None` if no known key is similar.
        meant: Option<String>,
    },
    /// A required key that is missing.
    MissingKey {
        /// The name of the key.
        key: String,
    },
    /// A reference to a name that is not defined.
    UnknownReference,
    /// A template variable without a value. The template remains usable: the variable is empty.
    MissingVariable {
        /// The variable's name in templates.
        name: String,
        /// True if the variable is defined as `null`.
        is_null: bool,
    },
    /// A setting without any effect. The input remains usable.
    NoEffect,
    /// A referenced file that cannot be used.
    File {
        /// True if the file is outside the folders that the suite may read.
        outside: bool,
    },
}

impl ProblemKind {
    /// Returns true for a warning-level problem.
    ///
    /// Such a problem is a missing variable or a setting without effect. The input remains usable.
    pub fn is_warning(&self) -> bool {
        matches!(self, Self::MissingVariable { .. } | Self::NoEffect)
    }
}

/// A problem in a configuration value, located by its JSON pointer.
///
/// A crate that parses a part of the configuration reports problems relative to that part. The config crate maps
/// pointers to file, line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The JSON pointer (RFC 6901), relative to the parsed value; empty for the value itself.
    pub pointer: String,
    /// The part that causes the problem: the key or the value at the pointer.
    pub place: MemberPart,
    /// The kind of problem.
    pub kind: ProblemKind,
    /// The error message: a lower-case fragment without a full stop.
    pub message: String,
    /// The advice for the user; `None` without advice.
    pub help: Option<String>,
}

impl Problem {
    /// Returns a problem of the value at `pointer`.
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            place: MemberPart::Value,
            kind: ProblemKind::InvalidValue,
            message: message.into(),
            help: None,
        }
    }

    /// Returns a problem of the key at `pointer`.
    pub fn key(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: MemberPart::Key, ..Self::new(pointer, message) }
    }

    /// Returns the problem of an unknown key, with a suggestion.
    pub fn unknown_key<'a>(
        pointer: impl Into<String>,
        key: &str,
        known: impl IntoIterator<Item = &'a str> + Clone,
    ) -> Self {
        let meant = nearest(key, known.clone()).map(str::to_owned);
        Self::key(pointer, format!("unknown key `{key}`"))
            .with_help(suggest(key, "known keys", known))
            .with_kind(ProblemKind::UnknownKey { meant })
    }

    /// Replaces the kind.
    #[must_use]
    pub fn with_kind(mut self, kind: ProblemKind) -> Self {
        self.kind = kind;
        self
    }

    /// Adds the advice.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Prepends a prefix to the pointer. `prefix` is a JSON pointer such as `/tests/0`.
    #[must_use]
    pub fn under(mut self, prefix: &str) -> Self {
        self.pointer.insert_str(0, prefix);
        self
    }
}

/// Returns the candidate that is most similar to an unknown word; `None` if no candidate is similar enough.
///
/// The Damerau–Levenshtein distance, ignoring case, must be at most a third of the characters of the longer word. A
/// distance of 1 is always accepted. Of equally similar candidates, the first is returned.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            let lower = candidate.to_lowercase();
            (strsim::damerau_levenshtein(&word, &lower), tolerated(&word, &lower), candidate)
        })
        .filter(|(distance, most, _)| distance <= most)
        .min_by_key(|(distance, _, _)| *distance)
        .map(|(_, _, candidate)| candidate)
}

/// Returns the largest distance at which two words are similar. Like the distance, it counts characters, not bytes.
fn tolerated(one: &str, other: &str) -> usize {
    (one.chars().count().max(other.chars().count()) / 3).max(1)
}

/// Returns up to `most` candidates that are similar to an unknown word.
///
/// The result has two groups. Within each group, the most similar candidates come first.
///
/// 1. Candidates that are similar enough for [`nearest`]. Their distance is at most 1 above the smallest distance.
/// 2. Other candidates that share a part with the word. Parts are separated by `-`, `:`, `_` or a space. Parts of one
///    or two characters and the part `not` do not count.
pub fn nearest_few<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    most: usize,
) -> Vec<&'a str> {
    let word = word.to_lowercase();
    let parts = |of: &str| -> Vec<String> {
        let telling = |it: &&str| it.chars().count() > 2 && *it != "not";
        of.split(['-', ':', '_', ' ']).filter(telling).map(str::to_owned).collect()
    };
    let own = parts(&word);
    let rank = |candidate: &str| {
        let lower = candidate.to_lowercase();
        let distance = strsim::damerau_levenshtein(&word, &lower);
        let is_near = distance <= tolerated(&word, &lower);
        let shares = parts(&lower).iter().any(|it| own.contains(it));
        (is_near || shares).then_some((!is_near, distance))
    };
    let ranked = candidates.into_iter().filter_map(|it| Some((rank(it)?, it)));
    let mut ranked: Vec<((bool, usize), &str)> = ranked.collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    // Candidates that are much less similar than the best one are unlikely.
    let best = ranked.first().map_or(0, |((_, distance), _)| *distance);
    ranked.retain(|((is_far, distance), _)| *is_far || *distance <= best + 1);
    ranked.into_iter().map(|(_, it)| it).take(most).collect()
}

/// Returns the advice for an unknown word.
///
/// The advice names a similar known word, or lists all known words.
pub fn suggest<'a>(
    word: &str,
    known_as: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    if let Some(near) = nearest(word, candidates.clone()) {
        return format!("did you mean `{near}`?");
    }
    let all: Vec<String> = candidates.into_iter().map(|it| format!("`{it}`")).collect();
    if all.is_empty() {
        format!("there are no {known_as}")
    } else {
        format!("{known_as}: {}", all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_near_or_share_a_part() {
        let known = ["contains", "icontains", "contains-all", "is-json", "contains-json", "equals"];
        for (word, expected) in [
            ("contain", &["contains", "icontains"][..]),
            ("has-json", &["is-json", "contains-json"]),
            ("json", &["is-json", "contains-json"]),
            ("zzzzzzzz", &[]),
        ] {
            assert_eq!(nearest_few(word, known, 3), expected, "{word}");
        }
        assert_eq!(nearest_few("contains-any", known, 1), ["contains-all"]);
    }

    #[test]
    fn suggests_the_nearest_word_or_lists_all() {
        let known = ["cat", "car", "schemaFile"];
        for (word, help) in [
            ("caz", "did you mean `cat`?"),
            ("schemafile", "did you mean `schemaFile`?"),
            ("zzzzzzzz", "known keys: `cat`, `car`, `schemaFile`"),
        ] {
            assert_eq!(suggest(word, "known keys", known), help);
        }
        assert_eq!(suggest("x", "prompts", []), "there are no prompts");
        // The limit counts characters: each character here has three bytes.
        assert_eq!(nearest("東京都", ["大阪府"]), None);
        assert_eq!(nearest("東京都", ["東京府"]), Some("東京府"));
        assert_eq!(nearest_few("東京都", ["大阪府"], 3), [""; 0]);
    }
}
