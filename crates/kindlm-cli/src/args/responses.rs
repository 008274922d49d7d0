//! The source of answers, as an argument.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kindlm_run::ResponseSource;
use kindlm_store::responses::Mode;

/// Where the answers of models come from.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResponsesArgs {
    /// Where the answers of models come from, judges and embeddings included [default: live]
    ///
    /// A stored answer matches by provider, model, messages, parameters, tools, the provider's configuration, the content
    /// of its files, and the repeat. Tests of commands always run.
    #[arg(long, value_name = "MODE", value_enum)]
    pub(crate) responses: Option<Source>,

    /// The folder of stored answers [default: `.kindlm/responses` beside the suite]
    #[arg(long, value_name = "DIR", requires = "responses")]
    pub(crate) responses_dir: Option<PathBuf>,
}

/// Where the answers of models come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    /// Request each answer; store none
    Live,
    /// Read stored answers; request and store the others
    Cache,
    /// Request each answer, and replace the stored one
    Record,
    /// Request none: an answer that is not stored is an error
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
    /// The source that is meant; without arguments, models are asked for each answer.
    pub(crate) fn source(&self) -> ResponseSource {
        ResponseSource {
            mode: self.responses.unwrap_or(Source::Live).into(),
            folder: self.responses_dir.clone(),
        }
    }
}
