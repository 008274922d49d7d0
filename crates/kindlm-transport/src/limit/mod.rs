//! Rate limits for providers.
//!
//! Each model of a provider has a rate limiter ([`RateLimiter`]). The limiter admits requests in the order of their
//! calls. It limits their concurrency to the provider's capacity, and their rate to the model's [`Limits`]. A refusal
//! for too many requests lowers the concurrency; answers raise it again.
//!
//! The circuit opens for all models of a provider if the account has no credit left, or if the provider refuses the
//! key. A refusal with status 403 opens the circuit only for one model. Later requests then fail with the same error.
//! Repeated failures also open the circuit. The circuit stays open, or closes after the time of
//! [`RateLimiters::close_circuits_after`].

#[cfg(feature = "http")]
mod bucket;
#[cfg(feature = "http")]
mod estimate;
#[cfg(feature = "http")]
mod limiter;
#[cfg(feature = "http")]
mod limiters;
#[cfg(all(test, feature = "http"))]
mod tests;
#[cfg(feature = "http")]
mod window;

pub use kindlm_types::Limits;

#[cfg(feature = "http")]
pub use limiter::{Permit, QueuedCall, RateLimiter};
#[cfg(feature = "http")]
pub use {
    estimate::{estimate, tokens_of},
    limiters::RateLimiters,
};
