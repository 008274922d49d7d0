//! Tests of the public interface.

mod conformance;
mod conventions;
mod hostile;
mod incomplete;
