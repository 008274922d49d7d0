//! The core: assertions, their options, their evidence, and their compilation from configuration.

pub(crate) mod assertion;
pub(crate) mod behaviour;
pub(crate) mod check;
pub mod codes;
pub(crate) mod comparison;
pub(crate) mod config;
pub(crate) mod entry_options;
pub(crate) mod expect;
pub(crate) mod files;
pub(crate) mod gap;
pub(crate) mod grade;
pub(crate) mod judging;
pub(crate) mod missing_evidence;
pub(crate) mod nearness;
pub(crate) mod needles;
pub(crate) mod occurs;
pub(crate) mod on;
pub(crate) mod output;
pub(crate) mod range;
pub(crate) mod recorded;
pub(crate) mod result_evidence;
pub(crate) mod schema_file;
pub(crate) mod schema_value;
pub(crate) mod scripting;
pub(crate) mod service;
pub(crate) mod workspace;
