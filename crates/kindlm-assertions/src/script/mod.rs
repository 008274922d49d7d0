//! The assertions by the user's own rules: scripts, services, sets of checks.

mod assert_set;
mod javascript;
mod python;
mod ruby;
mod satisfies;
mod webhook;

use crate::Registration;

/// The assertions of this group, in the order of their evaluation.
pub(crate) static REGISTRY: &[&Registration] = &[
    &assert_set::REGISTRATION,
    &javascript::REGISTRATION,
    &python::REGISTRATION,
    &ruby::REGISTRATION,
    &webhook::REGISTRATION,
    &satisfies::REGISTRATION,
];
