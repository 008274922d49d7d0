//! The assertions about the words of the output.

mod contains;
mod contains_all;
mod contains_any;
mod equals;
mod excludes;
mod icontains;
mod icontains_all;
mod icontains_any;
mod includes;
mod regex;
mod starts_with;
mod word_count;

use crate::Registration;

/// The assertions of this group, in the order of their evaluation.
pub(crate) static REGISTRY: &[&Registration] = &[
    &equals::REGISTRATION,
    &contains::REGISTRATION,
    &icontains::REGISTRATION,
    &contains_any::REGISTRATION,
    &icontains_any::REGISTRATION,
    &contains_all::REGISTRATION,
    &icontains_all::REGISTRATION,
    &starts_with::REGISTRATION,
    &regex::REGISTRATION,
    &word_count::REGISTRATION,
    &includes::REGISTRATION,
    &excludes::REGISTRATION,
];
