//! The assertions about limits: time, tokens, turns and money.

mod cost;
mod latency;
mod max_cost;
mod max_first_token;
mod max_latency;
mod max_tokens;
mod max_turns;
mod perplexity;
mod perplexity_score;

use crate::Registration;

/// The assertions of this group, in the order of their evaluation.
pub(crate) static REGISTRY: &[&Registration] = &[
    &latency::REGISTRATION,
    &cost::REGISTRATION,
    &perplexity::REGISTRATION,
    &perplexity_score::REGISTRATION,
    &max_tokens::REGISTRATION,
    &max_cost::REGISTRATION,
    &max_latency::REGISTRATION,
    &max_first_token::REGISTRATION,
    &max_turns::REGISTRATION,
];
