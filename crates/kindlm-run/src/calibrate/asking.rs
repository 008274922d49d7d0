//! Sends the questions of a calibration or a watch to the judge.

use std::sync::Arc;
use std::time::Duration;

use kindlm_engine::{Judges, Model};
use kindlm_providers::transport::Waits;
use kindlm_types::{AttemptBudget, BoxFuture, Models, Ports, Prompt, ProviderError, Reply};
use tokio::runtime::Runtime;

use super::ask::{self, Answers, Case};
use crate::Progress;
use crate::interrupt::report_waits;

/// The offset that is added to the sample number of a second answer. It is above the highest number of samples of a
/// judge, so the response store keeps first and second answers apart.
const SECOND: u32 = 1_000;

/// An open judge, and the means to ask it.
pub(super) struct Asking<'a> {
    /// The models that can be named as judge.
    pub(super) models: &'a [Model],
    /// The id of the judge for questions that name none.
    pub(super) default: Option<&'a str>,
    pub(super) concurrency: usize,
    pub(super) budget_usd: Option<f64>,
    pub(super) ports: Ports<'a>,
    pub(super) waits: &'a Waits,
    pub(super) runtime: &'a Runtime,
    pub(super) progress: &'a (dyn Progress + 'a),
}

impl Asking<'_> {
    /// Asks about the output of each case for the first time.
    pub(super) fn ask<'p>(&self, cases: Vec<&'p Case>) -> Answers<'p> {
        self.ask_with(self.ports, cases, self.budget_usd)
    }

    /// Asks about the output of each case again, after `spent_usd` US dollars of the budget.
    pub(super) fn ask_again<'p>(&self, cases: Vec<&'p Case>, spent_usd: f64) -> Answers<'p> {
        let again = Again(self.ports.models);
        let budget = self.budget_usd.map(|it| (it - spent_usd).max(0.0));
        self.ask_with(Ports { models: &again, ..self.ports }, cases, budget)
    }

    fn ask_with<'p>(
        &self,
        ports: Ports<'_>,
        cases: Vec<&'p Case>,
        budget_usd: Option<f64>,
    ) -> Answers<'p> {
        let judges = Judges::new(ports, self.models, self.default)
            .with_concurrency(self.concurrency)
            .with_budget(budget_usd);
        let on_judged = |is_judged| self.progress.output_judged(is_judged);
        let asking = ask::ask(cases, &judges, self.concurrency, &on_judged);
        let show = |text: &str| self.progress.show_notice(text);
        self.runtime.block_on(report_waits(asking, self.waits, show))
    }
}

/// Models whose second answers are stored apart from their first ones. Providers receive the same requests.
struct Again<'a>(&'a dyn Models);

impl Again<'_> {
    fn second(prompt: &Prompt) -> Prompt {
        Prompt { sample: prompt.sample.saturating_add(SECOND), ..prompt.clone() }
    }
}

impl Models for Again<'_> {
    fn complete<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
        budget: &'a dyn AttemptBudget,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        let prompt = Self::second(prompt);
        Box::pin(async move { self.0.complete(provider, &prompt, timeout, budget).await })
    }

    fn embed<'a>(
        &'a self,
        provider: &'a str,
        model: &'a str,
        text: &'a str,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Arc<[f64]>, ProviderError>> {
        self.0.embed(provider, model, text, timeout)
    }

    fn has_answer(&self, provider: &str, prompt: &Prompt) -> bool {
        self.0.has_answer(provider, &Self::second(prompt))
    }

    fn limits_calls(&self) -> bool {
        self.0.limits_calls()
    }
}
