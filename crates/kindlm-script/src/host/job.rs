//! A question that waits for a worker.

use kindlm_types::script::{ScriptAnswer, ScriptError, ScriptQuestion};
use tokio::sync::oneshot;

/// A question, with the channel for its answer. A question is a request to run a script.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) question: ScriptQuestion,
    /// True to compile the script without running it.
    pub(crate) compile_only: bool,
    pub(crate) answer: oneshot::Sender<Result<ScriptAnswer, ScriptError>>,
}
