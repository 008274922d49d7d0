//! The arguments for the source of answers.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kindlm_run::ResponseSource;
use kindlm_store::responses::Mode;

/// The arguments for the source of answers.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResponsesArgs {
    /// The source of models' answers, including those of judges and embeddings [default: live]
    ///
    /// A stored answer matches by provider, model, messages, parameters, tools, the provider's configuration, the
    /// content of its files, and the repeat. Commands of tests always run.
    #[arg(help_heading = "Stored answers", long, value_name = "MODE", value_enum)]
    pub(crate) responses: Option<Source>,

    /// The folder of stored answers [default: `.kindlm/responses` next to the suite]
    #[arg(help_heading = "Stored answers", long, value_name = "DIR", requires = "responses")]
    pub(crate) responses_dir: Option<PathBuf>,
}

/// A source of models' answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    /// Request all answers; store none
    Live,
    /// Read stored answers; request and store the others
    Cache,
    /// Request all answers, and replace the stored ones
    Record,
    /// Read stored answers only; a missing answer is an error
    Replay,
}

impl From<Source> for Mode {
    fn from(source: Source) -> Self {
        match source {
            Source::Live => Self::Live,
            Source::Cache => Self::Cache,
            Source::Record => Self::Record,
            Source::Replay => Self::Replay,
        }
    }
}

impl ResponsesArgs {
    /// Returns the source that the arguments select; by default, all answers are requested.
    pub(crate) fn source(&self) -> ResponseSource {
        ResponseSource {
            mode: self.responses.unwrap_or(Source::Live).into(),
            folder: self.responses_dir.clone(),
        }
    }
}
