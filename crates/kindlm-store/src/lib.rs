//! The storage of KindLM: runs, baselines, calibrations and responses on disk, and access to a suite's files.
//!
//! - [`Folder`] reads the files that a suite refers to, and none outside its folder.
//! - [`Runs`] stores the report of each run.
//! - [`journal`] stores executions as they finish, so that a run can be resumed.
//! - [`responses`] stores the answers of models, so that no request is paid for again.
//! - [`Baselines`] stores the results that later runs are compared with; [`Baseline::compare`] compares them.
//! - [`Calibrations`] stores the agreement of judges with people.
//!
//! Every write except the journal's is atomic: a reader sees the old file or the new one.
//!
//! ```
//! use kindlm_store::{Folder, Runs};
//! use kindlm_types::{FileError, Files};
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("order.schema.json"), "{}")?;
//!
//! let files = Folder::open(folder.path())?;
//! assert_eq!(&*files.read("./order.schema.json")?, "{}");
//! assert!(matches!(files.read("../secrets.txt"), Err(FileError::Outside { .. })));
//!
//! let runs = Runs::new(folder.path().join(".kindlm"));
//! runs.save("20261120-140912-001-7f3a", r#"{"schemaVersion":1}"#)?;
//! assert_eq!(runs.list()?, ["20261120-140912-001-7f3a"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod atomic;
mod baseline;
mod baselines;
mod calibration;
mod compare;
mod digest;
mod error;
mod folder;
mod io_error;
pub mod journal;
mod name;
pub mod responses;
mod runs;
mod saved;
mod tree;

pub use atomic::{Draft, check_writable, remove_abandoned, write};
pub use baseline::{Baseline, BaselineError, Conditions, Entry, EntryCheck, EntryScore, TurnTexts};
pub use baselines::Baselines;
pub use calibration::{Calibration, Calibrations, Counts, CriterionCounts, Judge, JudgeModel};
pub use compare::{Change, Comparison, Difference, ScoreChange};
pub use digest::{Digest, DigestError};
pub use error::StoreError;
pub use folder::{Folder, MAX_FILE_BYTES};
pub use io_error::words;
pub use runs::Runs;
pub use saved::{ReportError, SavedCases, each_saved_case, open_report};
