//! The traces of an agent under test, received or read from files, as executions.

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

/// The model id of traces in reports.
pub(crate) const MODEL: &str = "trace";

/// The traces of an agent, and the result of its command.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The spans of each trace, in order of arrival.
    pub traces: Vec<Vec<OtlpSpan>>,
    /// The command's output, if a command ran and ended.
    pub command: Option<CommandOutput>,
    /// The error that prevents all judging: the command failed, or no span arrived.
    pub failure: Option<ProviderError>,
    /// Messages about rejected data.
    pub rejected: Vec<String>,
    /// The reason why spans of any trace may be missing.
    pub lost: Option<String>,
    /// Notes about the transfer.
    pub notes: Vec<String>,
}

impl Told {
    /// Returns the number of received spans.
    pub(crate) fn spans(&self) -> usize {
        self.traces.iter().map(Vec::len).sum()
    }
}
