//! The journal of a run: every execution is written to disk before it is counted.
//!
//! The first line of `.kindlm/runs/<run-id>/journal.jsonl` is the [`Header`], which describes the run. Each other line
//! is a finished execution, in the format of reports ([`Execution`](kindlm_wire::v1::Execution)).
//!
//! Lines never change. An execution that runs again is appended again, and its last line counts. One process may append
//! at a time; any process may read.
//!
//! Every line ends with a checksum under the key `crc32`. A line that does not match its checksum is not used.
//!
//! The caller must mask secrets before it appends an execution.
//!
//! A killed process leaves complete lines and at most one incomplete line. Readers ignore the incomplete line, and a
//! resumed run cuts it off.
//!
//! Any other damaged line affects only its execution. The index omits the line and reports it ([`Index::damaged`]), so
//! that the execution runs again. A journal without a header cannot be used.
//!
//! ```
//! use kindlm_store::Digest;
//! use kindlm_store::journal::{Durability, Header, Journal, JournalWriter, PlannedCase};
//! use kindlm_types::{Execution, ExecutionResult};
//!
//! let scratch = tempfile::tempdir()?;
//! let folder = scratch.path().join(".kindlm/runs/20261120-140912-001-7f3a");
//!
//! let mut header = Header::new("20261120-140912-001-7f3a", "0.1.0", "2026-11-20T14:09:12.001Z", "support");
//! header.models.insert("gpt".into(), Digest::from_content("openai gpt-4o temperature 0"));
//! header.cases.push(PlannedCase {
//!     prompt: Digest::from_content("Where is order {{id}}?"),
//!     vars: Digest::from_content(r#"{"id":7}"#),
//!     ..PlannedCase::new("finds the order", "gpt", 2)
//! });
//!
//! let execution =
//!     Execution { case: "finds the order".into(), model: "gpt".into(), ..Execution::default() };
//! let result = ExecutionResult::new(execution, Vec::new());
//! let writer = JournalWriter::create(&folder, &header, Durability::Flush)?;
//! writer.append(&result)?;
//! drop(writer); // Or the process is killed.
//!
//! let journal = Journal::open(&folder)?;
//! let differences = journal.header().compare(&header);
//! assert!(differences.is_empty(), "the run cannot be resumed: {differences}");
//! let (writer, index) = JournalWriter::resume(&journal, Durability::Flush)?;
//! assert!(index.is_done("finds the order", "gpt", 0));
//! assert!(!index.is_done("finds the order", "gpt", 1), "this one is to be run");
//! # drop(writer);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ahead;
mod differences;
mod disk;
mod error;
mod header;
mod holder;
mod index;
mod lock;
mod place;
mod reader;
mod seal;
mod summaries;
mod writer;

pub use differences::{ChangedCase, Differences};
pub use error::JournalError;
pub use header::{Header, PlannedCase, VERSION};
pub use holder::Holder;
pub use index::Index;
pub use place::EntryLocation;
pub use reader::{Entries, Entry, Journal, Reader};
pub use summaries::CaseSummaries;
pub use writer::{Durability, JournalWriter};

/// Returns the process that writes to the journal in a run's folder; `None` if no process writes.
///
/// Unlike [`Journal::holder`], this function also finds a process that has not written the header yet. Fails if the
/// lock file cannot be opened or locked.
pub fn holder_of(folder: &std::path::Path) -> Result<Option<Holder>, JournalError> {
    Holder::find(folder)
}

/// The name of the journal file in a run's folder.
pub const FILE: &str = "journal.jsonl";
