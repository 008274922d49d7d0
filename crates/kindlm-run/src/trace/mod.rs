//! Traces of an agent under test: received or read, and converted to executions.

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

/// The traces that an agent sent, and the result of its command.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The spans of each trace, in the order in which they came.
    pub traces: Vec<Vec<OtlpSpan>>,
    /// The command's output, if one was run and ended.
    pub command: Option<CommandOutput>,
    /// Why nothing of it can be judged: the command failed, or no span came.
    pub failure: Option<ProviderError>,
    /// Descriptions of the data that was rejected.
    pub rejected: Vec<String>,
    /// Why spans may be missing, whichever trace they would have been of.
    pub lost: Option<String>,
    /// Notes about the transmission.
    pub notes: Vec<String>,
}

impl Told {
    /// The number of spans that arrived.
    pub(crate) fn spans(&self) -> usize {
        self.traces.iter().map(Vec::len).sum()
    }
}
