//! A question that waits for a worker.

use kindlm_types::script::{ScriptAnswer, ScriptError, ScriptQuestion};
use tokio::sync::oneshot;

/// A question, and where its answer goes.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) question: ScriptQuestion,
    /// Only to compile it.
    pub(crate) compile_only: bool,
    pub(crate) answer: oneshot::Sender<Result<ScriptAnswer, ScriptError>>,
}
