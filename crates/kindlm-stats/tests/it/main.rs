//! Tests with published examples, and property tests.

mod properties;
mod vectors;
