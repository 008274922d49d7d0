//! The commands, each in its own file.

pub(crate) mod assertions;
pub(crate) mod baseline;
pub(crate) mod bisect;
pub(crate) mod calibrate;
pub(crate) mod clean;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod compliance;
pub(crate) mod evaluate;
pub(crate) mod explain;
pub(crate) mod gate;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod mutate;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod test;
pub(crate) mod trace;
pub(crate) mod validate;
pub(crate) mod view;
