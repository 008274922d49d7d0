//! The commands of KindLM as a library.
//!
//! | to | use |
//! |---|---|
//! | open a suite | [`Project::open`] |
//! | run a suite, or resume a run | [`Prepared::new`], then [`Prepared::run`]; `examples/run_a_suite.rs` shows both |
//! | judge the traces of an agent | [`judge_traces`] |
//! | evaluate recorded outputs | [`evaluate::evaluate`] |
//! | list or remove stored runs | [`stored_runs`] |
//! | follow a case over the stored runs | [`history::history`] |
//! | find the commit that made a case fail | [`bisect::PreparedBisection`] |
//! | show runs in a browser | [`view::view`] |
//! | start the server | [`serve::serve`] |
//! | explain an id, a failure code or a key | [`explain::text`] |
//! | complete names in a shell | [`completions::names`] |
//! | create a first suite | [`init::NewSuite`] |
//! | calibrate a judge | [`calibrate::Subject`] |
//! | measure the strength of checks | [`mutate::mutate`] |
//! | plan the size of runs | [`plan::plan`] |
//!
//! [`World`] holds the environment, the clock, the working folder, the notices and the interrupts. The library accesses
//! these only through `World`, and prints nothing. [`Session`] opens providers and stores.

pub mod baseline;
pub mod baselines;
pub mod bisect;
mod budget;
pub mod calibrate;
pub mod compare;
pub mod completions;
pub mod compliance;
pub mod contents;
mod dry_run;
mod env_file;
pub mod evaluate;
pub mod explain;
mod failed_case;
mod failure;
pub mod gates;
mod git;
pub mod history;
mod hook_results;
mod hooks;
mod http;
pub mod identity;
pub mod init;
mod inline;
mod interrupt;
mod judge_setup;
pub mod keys;
mod listing;
pub mod mutate;
pub mod plan;
mod programs;
mod progress;
pub mod project;
mod registries;
pub mod reports;
mod responses;
pub mod resume;
mod run;
pub mod saved;
mod scripts;
pub mod secrets;
mod select;
pub mod serve;
mod session;
pub mod stored_runs;
pub mod suite_digest;
pub mod suite_files;
pub mod suites;
mod trace;
pub mod trust;
pub mod view;
pub mod watched_files;
mod workspaces;
mod world;

pub use kindlm_config::yaml;
pub use kindlm_engine::RunProgress;
pub use kindlm_reporters::Style;

pub use failed_case::FailedCase;
pub use failure::{Failure, Outcome, duplicate_key_message};
pub use inline::ServerModels;
pub use judge_setup::NamedJudge;
pub use programs::Purpose;
pub use progress::Progress;
pub use project::{OpenOptions, Project, SuiteFolder};
pub use registries::Registries;
pub use reports::{reporter, write_file};
pub use responses::ResponseSource;
pub use run::{Prepared, RunConfig, TakeReport};
pub use select::{Selection, Tag};
pub use session::Session;
pub use trace::prices::TracePrices;
pub use trace::record::{TraceRecord, record_of_trace};
pub use trace::run::{TraceConfig, judge_traces};
pub use world::{Env, Interrupt, Interrupts, SCRIPT_WORKER, World};
