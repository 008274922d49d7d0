//! The journal of a run: every execution is on disk before it is counted.
//!
//! `.kindlm/runs/<run-id>/journal.jsonl` begins with a line about the run, its [`Header`], and has one line more
//! for each finished execution, in the form of the report
//! ([`Execution`](kindlm_wire::v1::Execution)). Nothing is ever changed in it: an execution that is made
//! again is appended again, and the last one counts. One process at a time may append; any may read.
//!
//! Every line ends with a checksum, its key `crc32`. A line that has changed since it was written is not used.
//!
//! Executions are stored as they are given: the caller masks secrets before it appends one.
//!
//! A killed process leaves whole lines and at most one that is torn. Readers ignore a torn line, and it is cut off
//! when the run is resumed. Any other damaged line affects its own execution only: the index leaves it out and names
//! it ([`Index::damaged`]), so the execution is run again. Without its header, a journal cannot be read.
//!
//! ```
//! use kindlm_store::Digest;
//! use kindlm_store::journal::{Durability, Header, Journal, JournalWriter, PlannedCase};
//! use kindlm_types::{Execution, ExecutionResult, Outcome, Usage};
//!
//! let scratch = tempfile::tempdir()?;
//! let folder = scratch.path().join(".kindlm/runs/20261120-140912-001-7f3a");
//!
//! let mut header = Header::new("20261120-140912-001-7f3a", "0.1.0", "2026-11-20T14:09:12.001Z", "support");
//! header.models.insert("gpt".into(), Digest::of("openai gpt-4o temperature 0"));
//! header.cases.push(PlannedCase {
//!     prompt: Digest::of("Where is order {{id}}?"),
//!     vars: Digest::of(r#"{"id":7}"#),
//!     ..PlannedCase::new("finds the order", "gpt", 2)
//! });
//!
//! let result = ExecutionResult {
//!     execution: Execution { case: "finds the order".into(), model: "gpt".into(), ..Execution::default() },
//!     results: Vec::new(),
//!     outcome: Outcome::Passed,
//!     error: None,
//!     judge_cost_usd: Some(0.0),
//!     judge_usage: Usage::default(),
//! };
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
mod heads;
mod holder;
mod index;
mod lock;
mod place;
mod reader;
mod seal;
mod writer;

pub use differences::{ChangedCase, Differences};
pub use error::JournalError;
pub use header::{Header, PlannedCase, VERSION};
pub use heads::Heads;
pub use holder::Holder;
pub use index::Index;
pub use place::Place;
pub use reader::{Entries, Entry, Journal, Reader};
pub use writer::{Durability, JournalWriter};

/// The name of the file in a run's folder.
pub const FILE: &str = "journal.jsonl";
