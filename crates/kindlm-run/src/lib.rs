//! What KindLM does with a suite, as a library: open it, run it, resume a run, evaluate records, calibrate a judge, judge
//! traces.
//!
//! [`World`] holds what the library may use of the program around it: environment, clock, working folder, notices,
//! interrupts. Nothing here reads them by itself, and nothing prints. [`Project::open`] reads a suite, [`Prepared::new`]
//! plans a run of it, and [`Prepared::run`] executes the plan and hands over the report.
//! `examples/run_a_suite.rs` shows all of it.

pub mod baseline;
mod budget;
pub mod calibrate;
mod dry_run;
pub mod evaluate;
mod failure;
pub mod gates;
mod git;
pub mod identity;
pub mod interrupt;
mod judge_setup;
pub mod keys;
pub mod programs;
pub mod project;
mod registries;
pub mod reports;
pub mod responses;
pub mod resume;
mod run;
pub mod saved;
pub mod scripts;
pub mod secrets;
pub mod select;
mod session;
pub mod suite_files;
pub mod suites;
pub mod trace;
pub mod trust;
mod workspaces;
mod world;

pub use kindlm_engine::RunProgress;
pub use kindlm_reporters::Style;

pub use failure::{Failure, Outcome, given_twice};
pub use judge_setup::NamedJudge;
pub use programs::Purpose;
pub use project::{OpenOptions, Place, Project};
pub use registries::Registries;
pub use reports::{reporter, write_file};
pub use responses::ResponseSource;
pub use run::{Prepared, Progress, RunConfig, TakeReport};
pub use select::{Selection, Tag};
pub use session::Session;
pub use trace::run::{TraceConfig, judge_traces};
pub use world::{Env, Interrupt, World};
