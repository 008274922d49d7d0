//! The assertions that a judge model or a scoring service decides, and `max-score`, which compares scores of checks.

mod answer_relevance;
mod classifier;
mod closed_qa;
mod context_faithfulness;
mod context_recall;
mod context_relevance;
mod conversation_relevance;
mod factual;
mod factuality;
mod g_eval;
#[expect(clippy::module_inception, reason = "the module of an assertion has the name of its id")]
mod judge;
mod judge_closedqa;
mod judge_factuality;
mod judge_summarizes;
mod llm_rubric;
mod max_score;
mod model_graded_closedqa;
mod model_graded_factuality;
mod pi;
mod prompt_assertion;
mod select_best;

use crate::Registration;

/// The assertions of this group, in the order of their evaluation.
pub(crate) static REGISTRY: &[&Registration] = &[
    &judge::REGISTRATION,
    &prompt_assertion::REGISTRATION,
    &pi::REGISTRATION,
    &llm_rubric::REGISTRATION,
    &factuality::REGISTRATION,
    &model_graded_factuality::REGISTRATION,
    &model_graded_closedqa::REGISTRATION,
    &g_eval::REGISTRATION,
    &answer_relevance::REGISTRATION,
    &context_faithfulness::REGISTRATION,
    &context_recall::REGISTRATION,
    &context_relevance::REGISTRATION,
    &conversation_relevance::REGISTRATION,
    &select_best::REGISTRATION,
    &max_score::REGISTRATION,
    &classifier::REGISTRATION,
    &judge_factuality::REGISTRATION,
    &judge_closedqa::REGISTRATION,
    &judge_summarizes::REGISTRATION,
];
