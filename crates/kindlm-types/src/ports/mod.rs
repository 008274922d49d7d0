//! The ports: traits for models, commands, agents, scripts and files, with the data that they use.

mod agent;
pub mod ask;
mod command;
mod content;
mod files;
mod future;
mod host;
mod limits;
mod models;
mod outside;
mod prompt;
mod provider_error;
pub mod script;

pub use agent::{
    AgentEnd, AgentFolder, AgentKind, AgentReply, AgentSession, AgentSpec, AgentStart, AgentTurn,
    Agents,
};
pub use ask::{Answer, Answers, AskError, Question};
pub use command::{CommandOutput, CommandSpec, Commands};
pub use content::{
    ContentPart, Media, MediaKind, RawPart, image_type_of, media_type_of, shortened_data,
    without_long_data,
};
pub use files::{FileError, FileTree, Files, NoFiles, TreeLimits};
pub use future::BoxFuture;
pub use host::HostPattern;
pub use limits::Limits;
pub use models::{AttemptBudget, Embedding, Models, Unlimited};
pub use outside::Ports;
pub use prompt::{
    FinishReason, Message, Params, Prompt, Reply, ResponseFormat, Role, ToolChoice, ToolSpec,
    reasons,
};
pub use provider_error::{MalformedKind, ProviderError, ProviderErrorKind};
