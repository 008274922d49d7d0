//! How fast a provider may be asked.
//!
//! Each provider and model has a [`Lane`]: requests enter it in the order of their calls, as many at once as
//! the provider can take, and no faster than its [`Limits`] allow. A provider that says "too much" narrows
//! its lane; answers widen it again. All lanes of a provider are shut for good when it refuses the key or
//! the account has nothing left to spend: what would be sent after that is answered with the same error.

#[cfg(feature = "http")]
mod bucket;
#[cfg(feature = "http")]
mod estimate;
#[cfg(feature = "http")]
mod lane;
#[cfg(feature = "http")]
mod lanes;
#[cfg(all(test, feature = "http"))]
mod tests;
#[cfg(feature = "http")]
mod window;

pub use kindlm_types::Limits;

#[cfg(feature = "http")]
pub use lane::{Lane, Permit, Ticket};
#[cfg(feature = "http")]
pub use {
    estimate::{estimate, tokens_of},
    lanes::Lanes,
};
