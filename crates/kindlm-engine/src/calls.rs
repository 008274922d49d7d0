//! Calls of models, agents, programs and scripts through the ports.
//!
//! The calls have a budget, a limit on concurrent calls, and a maximum time.

use std::future::Future;
use std::time::Duration;

use kindlm_types::script::{ScriptAnswer, ScriptError, ScriptQuestion};
use kindlm_types::{
    AgentReply, AgentSession, AgentStart, AgentTurn, AskError, CommandOutput, CommandSpec,
    Embedding, Ports, Prompt, ProviderError, ProviderErrorKind, Reply, Unlimited,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::Model;
use crate::budget::{Budget, worst_case, worst_embedding};

/// The ports with a limit on concurrent calls and a budget.
pub(crate) struct Calls<'a> {
    ports: Ports<'a>,
    limit: Semaphore,
    /// The limit on agents that run at the same time.
    agents: Semaphore,
    budget: Option<Budget>,
}

/// The reason why a request has no reply.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The provider failed.
    Provider(ProviderError),
    /// The request was not sent because of the budget. Holds the error message.
    Budget(String),
}

impl From<ProviderError> for Unanswered {
    fn from(err: ProviderError) -> Self {
        Self::Provider(err)
    }
}

impl From<Unanswered> for AskError {
    fn from(why: Unanswered) -> Self {
        match why {
            Unanswered::Provider(err) => Self::Provider(err),
            Unanswered::Budget(message) => Self::Budget { message },
        }
    }
}

impl<'a> Calls<'a> {
    pub(crate) fn new(ports: Ports<'a>, concurrency: usize) -> Self {
        Self { ports, limit: slots(concurrency), agents: slots(concurrency), budget: None }
    }

    pub(crate) fn with_concurrency(self, concurrency: usize) -> Self {
        Self { limit: slots(concurrency), agents: slots(concurrency), ..self }
    }

    /// Sets the budget in US dollars.
    ///
    /// For a model without a price, the reported cost of each answer counts.
    pub(crate) fn with_budget(self, usd: f64) -> Self {
        Self { budget: Some(Budget::new(usd)), ..self }
    }

    /// Counts money that was spent before the run, or outside of these calls. Does nothing without a budget or an
    /// amount.
    pub(crate) fn spend(&self, usd: Option<f64>) {
        if let (Some(budget), Some(usd)) = (&self.budget, usd) {
            budget.spend(usd);
        }
    }

    /// Returns the reason why no further request is sent.
    ///
    /// Returns `None` while the budget is not exhausted.
    pub(crate) fn exhausted(&self) -> Option<&str> {
        self.budget.as_ref()?.exhausted()
    }

    pub(crate) async fn complete(
        &self,
        model: &Model,
        prompt: &Prompt,
        timeout: Duration,
    ) -> Result<Reply, Unanswered> {
        let provider = &model.provider;
        let budget =
            self.budget.as_ref().filter(|_| !self.ports.models.has_answer(provider, prompt));
        let Some(budget) = budget else {
            let call = self.ports.models.complete(provider, prompt, timeout, &Unlimited);
            return Ok(self.guarded(provider, patience(timeout), call).await?);
        };
        // Without a price, the amount to reserve is unknown. The answer may still report its cost.
        let most = model.price.map_or(0.0, |price| worst_case(prompt, &price));
        // Reserve before taking a permit, so that waiting for the budget does not block other calls.
        let paid = budget.pay(most).await.map_err(Unanswered::Budget)?;
        let call = self.ports.models.complete(provider, prompt, timeout, &paid);
        let result = self.guarded(provider, patience(timeout), call).await;
        match &result {
            Ok(reply) if reply.cached => paid.settle(Some(0.0)),
            // The reported cost takes precedence over the price.
            Ok(reply) => paid.settle(model.cost_of(reply.cost_usd, &reply.usage)),
            Err(err) => paid.failed(err),
        }
        Ok(result?)
    }

    /// Returns the number of attempts whose answers were lost, and their cost.
    ///
    /// The cost is in US dollars, and counts as spent. Returns `None` without lost answers, or if the run has no
    /// budget.
    pub(crate) fn lost(&self) -> Option<(u64, f64)> {
        self.budget.as_ref()?.lost()
    }

    /// Embeds a text. A stored vector costs nothing.
    pub(crate) async fn embed(
        &self,
        model: &Model,
        text: &str,
        timeout: Duration,
    ) -> Result<Embedding, Unanswered> {
        let (provider, name) = (&model.provider, &model.name);
        let call = || self.ports.models.embed(provider, name, text, timeout);
        let stored = || self.ports.models.has_vector(provider, name, text);
        let Some(budget) = self.budget.as_ref().filter(|_| !stored()) else {
            return Ok(self.guarded(provider, patience(timeout), call()).await?);
        };
        let most = model.price.map_or(0.0, |price| worst_embedding(text, &price));
        let paid = budget.pay(most).await.map_err(Unanswered::Budget)?;
        let result = self.guarded(provider, patience(timeout), call()).await;
        match &result {
            Ok(embedding) => paid.settle(model.cost_of_embedding(embedding)),
            Err(err) => paid.failed(err),
        }
        Ok(result?)
    }

    pub(crate) async fn run(&self, command: &CommandSpec) -> Result<CommandOutput, ProviderError> {
        // A command is run once. The additional time is for ending its process group.
        let patience = command.timeout.saturating_add(Duration::from_secs(30));
        self.guarded(crate::COMMAND, patience, self.ports.commands.run_command(command)).await
    }

    /// Waits until another agent may run. The caller keeps the permit until the agent has ended.
    ///
    /// Returns `None` if the ports limit concurrent calls, because such ports also limit agents.
    ///
    /// Agents have their own limit, because a judge may be asked between two turns of an agent. If agents and judges
    /// shared a limit, the running agents could hold all permits, and wait for their judges forever.
    pub(crate) async fn agent_permit(&self) -> Option<SemaphorePermit<'_>> {
        if self.ports.models.limits_calls() {
            return None;
        }
        // The semaphore is never closed, so `acquire` cannot fail; a failure would only lift the limit.
        self.agents.acquire().await.ok()
    }

    /// Starts an agent. The caller has an [`agent_permit`](Self::agent_permit).
    ///
    /// If the ports limit concurrent calls, they keep a permit until the agent has ended.
    pub(crate) async fn start_agent<'s>(
        &'s self,
        start: &'s AgentStart,
    ) -> Result<Box<dyn AgentSession + 's>, ProviderError> {
        let patience = start.timeout.saturating_add(Duration::from_secs(30));
        self.guarded(&start.id, patience, self.ports.agents.start_agent(start)).await
    }

    /// Sends a message to an agent and waits for its reply.
    ///
    /// If the ports limit concurrent calls, the permit from the start of the agent also covers its turns.
    pub(crate) async fn send_turn(
        &self,
        agent: &str,
        session: &mut dyn AgentSession,
        turn: AgentTurn,
    ) -> Result<AgentReply, ProviderError> {
        // The additional time is for reporting how the process ended.
        let patience = turn.timeout.saturating_add(Duration::from_secs(30));
        let _permit = self.permit().await;
        give_up_after(agent, patience, session.turn(turn)).await
    }

    /// Runs a script. The script host limits the number of scripts and their time.
    pub(crate) async fn script(
        &self,
        question: &ScriptQuestion,
    ) -> Result<ScriptAnswer, ScriptError> {
        self.ports.scripts.run(question).await
    }

    async fn guarded<T>(
        &self,
        provider: &str,
        patience: Duration,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        let _permit = self.permit().await;
        // Ports with rate limits may delay a call for a long time.
        let is_limited = self.ports.models.limits_calls();
        let patience = if is_limited { patience.max(DAY) } else { patience };
        give_up_after(provider, patience, call).await
    }

    /// Waits until another call may be made. Returns `None` if the ports limit concurrent calls themselves.
    async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        if self.ports.models.limits_calls() {
            return None;
        }
        // The semaphore is never closed, so `acquire` cannot fail; a failure would only lift the limit.
        self.limit.acquire().await.ok()
    }
}

/// Waits for a call, and fails if it takes longer than `patience`.
///
/// A call that takes longer probably hangs.
async fn give_up_after<T>(
    provider: &str,
    patience: Duration,
    call: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    match tokio::time::timeout(patience, call).await {
        Ok(result) => result,
        Err(_) => Err(ProviderError::new(
            ProviderErrorKind::Timeout,
            provider,
            format!("no answer and no error within {} s", patience.as_secs()),
        )),
    }
}

/// The maximum time for calls that wait for rate limits. Real calls never wait this long.
const DAY: Duration = Duration::from_hours(24);

fn slots(concurrency: usize) -> Semaphore {
    Semaphore::new(concurrency.clamp(1, Semaphore::MAX_PERMITS))
}

/// Returns the maximum time for a call. `timeout` is the time limit of one attempt.
///
/// The time includes retries and the waits that the provider demands. Only a call that hangs takes longer.
fn patience(timeout: Duration) -> Duration {
    timeout.saturating_mul(10).saturating_add(Duration::from_mins(15))
}
