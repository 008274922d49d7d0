//! The ports of a run, one for each capability.

use crate::script::{ScriptAnswer, ScriptError, ScriptErrorKind, ScriptQuestion, ScriptRunner};
use crate::{
    AgentSession, AgentStart, Agents, BoxFuture, CommandOutput, CommandSpec, Commands, Models,
    ProviderError, ProviderErrorKind,
};

/// The ports of a run, one for each capability.
///
/// The engine does no I/O. It uses the network and starts processes only through these ports.
#[derive(Clone, Copy)]
pub struct Ports<'a> {
    /// The models under test, judges and embeddings.
    pub models: &'a dyn Models,
    /// The programs that run once.
    pub commands: &'a dyn Commands,
    /// The agents that are programs.
    pub agents: &'a dyn Agents,
    /// The scripts of users.
    pub scripts: &'a dyn ScriptRunner,
}

impl<'a> Ports<'a> {
    /// Creates ports with models only. All commands, agents and scripts fail.
    pub fn new(models: &'a dyn Models) -> Self {
        Self { models, commands: &Unavailable, agents: &Unavailable, scripts: &Unavailable }
    }

    /// Sets the port for commands.
    #[must_use]
    pub fn with_commands(self, commands: &'a dyn Commands) -> Self {
        Self { commands, ..self }
    }

    /// Sets the port for agents.
    #[must_use]
    pub fn with_agents(self, agents: &'a dyn Agents) -> Self {
        Self { agents, ..self }
    }

    /// Sets the port for scripts.
    #[must_use]
    pub fn with_scripts(self, scripts: &'a dyn ScriptRunner) -> Self {
        Self { scripts, ..self }
    }
}

/// Ports for commands, agents and scripts that are not available.
struct Unavailable;

impl Commands for Unavailable {
    fn run_command<'a>(
        &'a self,
        _command: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<CommandOutput, ProviderError>> {
        Box::pin(std::future::ready(Err(unavailable("command", "commands cannot be run here"))))
    }
}

impl Agents for Unavailable {
    fn start_agent<'a>(
        &'a self,
        start: &'a AgentStart,
    ) -> BoxFuture<'a, Result<Box<dyn AgentSession + 'a>, ProviderError>> {
        Box::pin(std::future::ready(Err(unavailable(&start.id, "agents cannot be started here"))))
    }
}

impl ScriptRunner for Unavailable {
    fn run<'a>(
        &'a self,
        _question: &'a ScriptQuestion,
    ) -> BoxFuture<'a, Result<ScriptAnswer, ScriptError>> {
        let message = "scripts cannot be run here: there is no script host";
        let err = ScriptError::new(ScriptErrorKind::Runtime, message);
        Box::pin(std::future::ready(Err(err)))
    }
}

fn unavailable(provider: &str, message: &str) -> ProviderError {
    let err = ProviderError::new(ProviderErrorKind::Unsupported, provider, message);
    ProviderError { attempts: 0, ..err }
}
