//! The storage of KindLM: runs, baselines, calibrations and responses on disk, and the files of a suite.
//!
//! - [`Folder`] reads the files that a suite refers to. By default, it reads no file outside the suite's folder.
//! - [`Runs`] stores the report of each run.
//! - [`journal`] stores executions as they finish, so that a run can be resumed.
//! - [`responses`] stores the answers of models, so that no request is paid for again.
//! - [`Baselines`] stores results for [`Baseline::compare`], which compares later runs with them.
//! - [`Calibrations`] stores the agreement of judges with people.
//!
//! Data files are replaced atomically: a reader sees either the old file or the new file. Only the journal,
//! `runs/order` and the watches of judges are appended to.
//!
//! ```
//! use kindlm_store::{Folder, Runs};
//! use kindlm_types::{FileError, Files};
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("order.schema.json"), "{}")?;
//!
//! let files = Folder::open(folder.path())?;
//! assert_eq!(&*files.read_file("./order.schema.json")?, "{}");
//! assert!(matches!(files.read_file("../secrets.txt"), Err(FileError::Outside { .. })));
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
mod file_lock;
mod folder;
mod io_error;
pub mod journal;
mod name;
pub mod responses;
mod runs;
mod saved;
mod tree;
mod watches;

pub use atomic::{Draft, check_writable, remove_abandoned, write};
pub use baseline::{
    Baseline, BaselineError, Conditions, Entry, EntryCheck, EntryRate, EntryScore, TurnTexts,
};
pub use baselines::Baselines;
pub use calibration::{
    Calibration, Calibrations, CanarySource, Counts, CriterionCounts, Judge, JudgeModel, OwnNoise,
};
pub use compare::{ALPHA, CompareOptions, MARGIN};
pub use digest::{Digest, DigestError};
pub use error::StoreError;
pub use file_lock::FileLock;
pub use folder::{Folder, MAX_FILE_BYTES};
pub use io_error::describe_io_error;
pub use runs::Runs;
pub use saved::{ReportError, SavedCases, each_saved_case, open_report};
pub use watches::Watch;
