//! Tests with published examples, property tests, and simulations.

mod change;
mod correlation;
mod detector;
mod error_rates;
mod planned_power;
mod properties;
mod sequential;
mod simulated;
mod vectors;
