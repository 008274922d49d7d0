//! The types of checks of the text.

use super::{Differences, agree};

pub(super) const TYPES: &[&str] = &[
    "equals",
    "contains",
    "icontains",
    "contains-any",
    "icontains-any",
    "contains-all",
    "icontains-all",
    "starts-with",
    "regex",
    "is-json",
    "contains-json",
    "is-xml",
    "contains-xml",
    "is-html",
    "contains-html",
    "is-sql",
    "contains-sql",
    "levenshtein",
    "rouge-n",
    "bleu",
    "gleu",
    "meteor",
    "word-count",
];

const TRANSFORM: &str =
    "a `transform` is a script, and these tests run no scripts: the tests of `kindlm-cli` do";

#[rustfmt::skip]
const DIFFERENCES: Differences<'_> = &[
    (TRANSFORM, &["contains/15", "is-json/48"]),
    ("a check without a value is a mistake: a problem of the configuration", &["equals/20"]),
    ("a character outside the basic plane is one character, not two", &["regex/12"]),
    ("synonyms need a dictionary (WordNet) that is not part of KindLM", &["not-meteor/1"]),
];

#[test]
fn checks_of_the_text_agree() {
    agree(TYPES, 208, DIFFERENCES);
}
