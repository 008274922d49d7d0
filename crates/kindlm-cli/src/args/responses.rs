//! Where answers come from, as an argument.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kindlm_run::ResponseSource;
use kindlm_store::responses::Mode;

/// Where the answers of models come from.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResponsesArgs {
    /// Where the answers of models come from, judges and embeddings included [default: live]
    ///
    /// An answer is found again by what was asked: provider, model, messages, parameters and tools, what the provider's
    /// configuration adds to that, and the content of its files, for each repeat apart. Tests of commands are run each
    /// time.
    #[arg(long, value_name = "MODE", value_enum)]
    pub(crate) responses: Option<Source>,

    /// Where answers are kept [default: `.kindlm/responses` beside the suite]
    #[arg(long, value_name = "DIR", requires = "responses")]
    pub(crate) responses_dir: Option<PathBuf>,
}

/// Where the answers of models come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    /// Ask for each; keep none
    Live,
    /// Ask only for what was not asked before, and keep it
    Cache,
    /// Ask for each, and keep it in the place of an older one
    Record,
    /// Ask for none: an answer that was not kept is an error
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
