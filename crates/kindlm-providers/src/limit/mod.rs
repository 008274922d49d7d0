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

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "http")]
pub use lane::{Lane, Permit, Ticket};
#[cfg(feature = "http")]
pub(crate) use {
    estimate::{estimate, tokens_of},
    lanes::Lanes,
};

/// What may be asked of one model of a provider. What is absent is found out by asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Requests per minute. They are spread evenly: at most those of one second are sent at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rpm: Option<NonZeroU32>,
    /// Tokens per minute, of prompts and answers together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm: Option<NonZeroU32>,
    /// Requests at the same time, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<NonZeroU32>,
}
