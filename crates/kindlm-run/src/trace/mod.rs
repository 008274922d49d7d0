//! Traces of an agent under test: received or read, and made into what a run judges.

mod agent;
mod file;
mod gather;
mod observed;
mod receiver;
pub(crate) mod run;

pub(crate) use file::read_files;
pub(crate) use gather::{Gathering, gather};
pub(crate) use observed::{Observations, Options, model};

use kindlm_otlp::OtlpSpan;
use kindlm_types::{CommandOutput, ProviderError};

/// The model's id under which traces are reported.
pub(crate) const MODEL: &str = "trace";

/// What an agent has told, and what became of its command.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The spans of each trace, in the order in which they came.
    pub traces: Vec<Vec<OtlpSpan>>,
    /// What the command did, if one was run and came to its end.
    pub command: Option<CommandOutput>,
    /// Why nothing of it can be judged: the command failed, or no span came.
    pub failure: Option<ProviderError>,
    /// What could not be taken in, in words.
    pub rejected: Vec<String>,
    /// Why spans may be missing, whichever trace they would have been of.
    pub lost: Option<String>,
    /// What else should be known of how it came, in words.
    pub notes: Vec<String>,
}

impl Told {
    /// How many spans came.
    pub(crate) fn spans(&self) -> usize {
        self.traces.iter().map(Vec::len).sum()
    }
}
