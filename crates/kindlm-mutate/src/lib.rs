//! Measures the strength of checks: changes one thing in a recorded execution, and counts the changes that the checks
//! notice.
//!
//! An [`Operator`] makes a mutant of an execution. Harmful mutants should fail a check; harmless mutants should pass
//! every check. The caller judges the mutants and adds the results to a [`Tally`], which computes the scores.
//!
//! The idea is mutation testing, applied to the outputs of models instead of to programs. See R. A. `DeMillo`,
//! R. J. Lipton and F. G. Sayward: "Hints on Test Data Selection", 1978.
//!
//! ```
//! use kindlm_mutate::{Original, find};
//! use kindlm_types::Execution;
//!
//! let output = "Your order 12345 has been shipped. You can follow it at any time.".to_owned();
//! let execution = Execution { output, ..Execution::default() };
//! let original = Original::new(&execution, &[], "case digest");
//! let mutant = find("negate").and_then(|it| it.mutant(&original)).expect("a sentence to negate");
//! assert!(mutant.output.contains("has not been shipped"));
//! ```
#![deny(clippy::disallowed_methods)]

mod choice;
mod edit;
mod evidence;
mod files;
mod harmless;
mod json;
mod operator;
mod prose;
mod registry;
mod tally;
mod text;
mod tools;

pub use evidence::{shown, unusable};
pub use kindlm_wire::mutation::{Family, MutatedEvidence};
pub use operator::{Operator, Original};
pub use registry::{OPERATORS, find};
pub use tally::{Tally, Verdict};
