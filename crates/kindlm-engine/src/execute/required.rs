//! Evaluates required checks during a conversation.

use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt;
use kindlm_types::{BoxFuture, Execution, ExecutionResult, JudgeSpending, UsageSum};

use super::Running;
use super::conversation::GoesOn;
use super::turns;
use crate::judge::{CheckEvidence, Judgement, judge_evidence as judge, up_to_the_last_required};
use crate::{ConversationTurn, Model};

/// The rule that a conversation continues only while required checks hold.
pub(super) struct Required<'a> {
    pub(super) running: &'a Running<'a>,
    pub(super) model: &'a Model,
    pub(super) early: &'a Early,
}

impl GoesOn for Required<'_> {
    fn after<'a>(
        &'a self,
        so_far: &'a Execution,
        turn: &'a ConversationTurn,
    ) -> BoxFuture<'a, bool> {
        Box::pin(self.running.goes_on(so_far, turn, self.model, self.early))
    }
}

/// The cost of judging before the end of an execution.
///
/// The fields are the known cost in US dollars, a flag for unknown costs, the tokens, and the spending by judge.
#[derive(Default)]
pub(super) struct Early(Mutex<(f64, bool, UsageSum, Vec<JudgeSpending>)>);

impl Early {
    fn add(&self, judged: &Judgement) {
        let mut sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, unknown, usage, spending) = &mut *sum;
        *known += judged.cost_usd.unwrap_or_default();
        *unknown |= judged.cost_usd.is_none();
        usage.extend(judged.usage);
        judged.spending.iter().cloned().for_each(|it| it.add_to(spending));
    }

    /// Marks the cost as unknown.
    fn lose_cost(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
    }

    pub(super) fn added_to(self, mut result: Box<ExecutionResult>) -> Box<ExecutionResult> {
        let (known, unknown, usage, spending) =
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        result.judge_cost_usd = result.judge_cost_usd.filter(|_| !unknown).map(|it| it + known);
        let mut sum = UsageSum::from(result.judge_usage);
        sum.extend(usage);
        result.judge_usage = sum.total();
        for it in spending {
            it.add_to(&mut result.judge_spending);
        }
        result
    }
}

impl Running<'_> {
    /// Returns true if no required check of a turn failed or is errored.
    ///
    /// The next turn is then sent. Also returns true if the turn was not reached.
    async fn goes_on(
        &self,
        so_far: &Execution,
        turn: &ConversationTurn,
        model: &Model,
        early: &Early,
    ) -> bool {
        let reached = so_far.turns.iter().position(|it| it.label == turn.label);
        let evidence = reached.and_then(|it| turns::evidence(so_far, it, Some(model)));
        let Some(evidence) = evidence else { return true };
        let baseline =
            self.run.baseline.and_then(|it| it.turn(&so_far.case, &so_far.model, &turn.label));
        let checks = up_to_the_last_required(&turn.checks);
        let evidence = CheckEvidence::new(&evidence, baseline);
        let work = judge(checks, evidence, &self.judges);
        // The judgement at the end of the conversation reports the panic, with the evidence so far.
        let Ok(judged) = AssertUnwindSafe(work).catch_unwind().await else {
            early.lose_cost();
            return false;
        };
        early.add(&judged);
        judged.halt.is_none()
    }
}
