//! Receives the traces of an agent under test, or reads them from files, and judges them.

mod agent;
mod file;
mod gather;
mod observed;
pub(crate) mod prices;
mod receiver;
pub(crate) mod record;
pub(crate) mod run;

pub(crate) use file::read_files;
pub(crate) use gather::{Gathering, gather};
pub(crate) use observed::{Observations, Options, model};
pub(crate) use run::stand_in;

use kindlm_otlp::OtlpSpan;
use kindlm_types::{CommandOutput, ProviderError};

/// The id of the model under which reports list the results of traces.
pub(crate) const MODEL: &str = "trace";

/// The traces of an agent, and the result of its command.
#[derive(Debug, Default)]
pub(crate) struct GatheredTraces {
    /// The spans of each trace, in order of arrival.
    pub traces: Vec<Vec<OtlpSpan>>,
    /// The command's output; `None` if no command ran to its end.
    pub command: Option<CommandOutput>,
    /// The error that makes judging impossible, for example because no span arrived; `None` without such an error.
    pub failure: Option<ProviderError>,
    /// Messages about rejected data.
    pub rejected: Vec<String>,
    /// The reason why any trace may lack spans; `None` if no data was lost.
    pub lost: Option<String>,
    /// Notes about the transfer of the spans.
    pub notes: Vec<String>,
}

impl GatheredTraces {
    /// Returns the number of received spans.
    pub(crate) fn spans(&self) -> usize {
        self.traces.iter().map(Vec::len).sum()
    }
}
