//! Sends the questions of a calibration or a watch to the judge.

use kindlm_engine::{Judges, Model};
use kindlm_providers::transport::Waits;
use kindlm_types::Ports;
use tokio::runtime::Runtime;

use super::ask::{self, Answers, Case};
use crate::Progress;
use crate::interrupt::report_waits;

/// The offset that is added to the sample number of a second answer. The offset is above the highest number of samples
/// of a judge, so first and second answers have different keys in the response store.
const SECOND: u32 = 1_000;

/// The models, ports and settings for asking a judge.
pub(super) struct Asking<'a> {
    /// The models that can be named as judge.
    pub(super) models: &'a [Model],
    /// The id of the judge for questions that name no judge; `None` if there is no default judge.
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
        self.ask_with(0, cases, self.budget_usd)
    }

    /// Asks about the output of each case again. `spent_usd` US dollars of the budget are already spent.
    pub(super) fn ask_again<'p>(&self, cases: Vec<&'p Case>, spent_usd: f64) -> Answers<'p> {
        let budget = self.budget_usd.map(|it| (it - spent_usd).max(0.0));
        self.ask_with(SECOND, cases, budget)
    }

    fn ask_with<'p>(
        &self,
        first_sample: u32,
        cases: Vec<&'p Case>,
        budget_usd: Option<f64>,
    ) -> Answers<'p> {
        let judges = Judges::new(self.ports, self.models, self.default)
            .with_first_sample(first_sample)
            .with_concurrency(self.concurrency)
            .with_budget(budget_usd);
        let on_judged = |is_judged| self.progress.output_judged(is_judged);
        let asking = ask::ask(cases, &judges, self.concurrency, &on_judged);
        let show = |text: &str| self.progress.show_notice(text);
        self.runtime.block_on(report_waits(asking, self.waits, show))
    }
}
