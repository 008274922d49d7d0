//! JSON Schema for KindLM: compiles schemas, and reports all errors of values.
//!
//! [`Schema`] checks a model's answer against a schema of the user, offline. [`Shape`] checks a configuration against a
//! schema that is generated from Rust types. It turns every violation into a [`Problem`](kindlm_types::Problem) in the
//! user's terms.
//!
//! The validator is generic and slow to compile. Therefore the signatures of this crate contain no types of the
//! validator.
//!
//! ```
//! use kindlm_schema::Schema;
//! use serde_json::json;
//!
//! let schema = Schema::compile(&json!({"properties": {"total": {"minimum": 0}}, "required": ["id"]}))?;
//! let violations = schema.violations(&json!({"total": -1}));
//! let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
//! assert_eq!(lines, ["/: `id` is required", "/total: must be at least 0, found -1"]);
//! # Ok::<(), kindlm_schema::SchemaError>(())
//! ```
#![deny(clippy::disallowed_methods)]

mod ajv;
mod branch;
mod compile;
mod formats;
mod generate;
mod lint;
mod numbers;
mod order;
mod shape;
mod walk;
mod words;

pub use compile::{Schema, SchemaError, Violation};
pub use generate::finish;
pub use lint::{Lint, faults_of_parameters, lint};
pub use numbers::normalise_numbers;
pub use shape::Shape;
