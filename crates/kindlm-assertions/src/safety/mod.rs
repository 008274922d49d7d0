//! The assertions about safety: personal data, denied words, refusals, guardrails.

mod guardrails;
mod is_refusal;
mod keywords;
mod moderation;
mod pii;

use crate::Registration;

pub use pii::Redactor;

/// The assertions of this group, in the order of their evaluation.
pub(crate) static REGISTRY: &[&Registration] = &[
    &pii::REGISTRATION,
    &keywords::REGISTRATION,
    &is_refusal::REGISTRATION,
    &guardrails::REGISTRATION,
    &moderation::REGISTRATION,
];
