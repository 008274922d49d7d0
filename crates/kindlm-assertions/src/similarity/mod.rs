//! The assertions about the similarity of the output to another text.

mod bleu;
mod drift;
mod gleu;
mod levenshtein;
mod likeness;
mod meteor;
mod rouge_n;
mod similar;
mod similar_cosine;
mod similar_dot;
mod similar_euclidean;
#[expect(clippy::module_inception, reason = "the module of an assertion has the name of its id")]
mod similarity;

use crate::Registration;

/// The assertions of this group, in the order of their evaluation.
pub(crate) static REGISTRY: &[&Registration] = &[
    &drift::REGISTRATION,
    &levenshtein::REGISTRATION,
    &rouge_n::REGISTRATION,
    &bleu::REGISTRATION,
    &gleu::REGISTRATION,
    &meteor::REGISTRATION,
    &similar::REGISTRATION,
    &similar_cosine::REGISTRATION,
    &similar_dot::REGISTRATION,
    &similar_euclidean::REGISTRATION,
    &similarity::REGISTRATION,
];
