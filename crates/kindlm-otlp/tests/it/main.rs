//! Tests of the crate as its users see it.

mod conformance;
mod conventions;
mod hostile;
mod incomplete;
