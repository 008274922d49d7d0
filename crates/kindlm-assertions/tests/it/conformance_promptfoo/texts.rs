//! The checks that look at the text.

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
    "a `transform` is a script, which nobody runs here: the list form has tests of its own";

#[rustfmt::skip]
const DIFFERENCES: Differences<'_> = &[
    (TRANSFORM, &["contains/15", "is-json/48"]),
    ("the list form reads `file://` as a whole value, not in the items of a list", &["contains-all/16"]),
    ("checks read no YAML: values come from the config file, or from text and JSON", &["contains-json/15", "contains-all/17"]),
    ("a check without a value is a mistake: a problem of the configuration", &["equals/20"]),
    ("a character outside the basic plane is one character, not two", &["regex/12"]),
    ("synonyms need a dictionary (WordNet) that is not part of KindLM", &["not-meteor/1"]),
];

#[test]
fn checks_of_the_text_agree() {
    agree(TYPES, 208, DIFFERENCES);
}
