//! Checks of what a model or an agent said and did.
//!
//! Each assertion is a folder of its own; [`REGISTRY`] lists them. An assertion is a pure function of
//! [`Evidence`]: no I/O, no `async`. One that needs a model *asks* ([`Assertion::questions`]); whoever runs
//! the checks answers and then calls [`Assertion::evaluate`].
//!
//! ```
//! use kindlm_assertions::{Evidence, Setup, compile};
//! use kindlm_types::{Answers, Execution, NoFiles, ToolCall};
//! use serde_json::json;
//!
//! let expect = json!({
//!     "toolCalls": [{ "tool": "lookup_order", "argsMatch": { "order_id": "12345" } }],
//!     "assert": [{ "type": "not-schema", "contains": ["I cannot"] }],
//! });
//! let (checks, problems) = compile(&expect, &Setup::new(&NoFiles, None));
//! assert!(problems.is_empty());
//!
//! let call = ToolCall {
//!     name: "lookup_order".to_owned(),
//!     arguments: json!({ "order_id": 12345 }),
//!     ..ToolCall::default()
//! };
//! let execution = Execution {
//!     output: "It is on its way.".to_owned(),
//!     tool_calls: vec![call],
//!     ..Execution::default()
//! };
//! let evidence = Evidence { execution: &execution, answers: &Answers::default(), baseline: None, contest: None };
//! let results: Vec<_> = checks.iter().flat_map(|check| check.evaluate(&evidence)).collect();
//! let failed: Vec<_> = results.iter().filter_map(|it| it.verdict.message()).collect();
//! assert_eq!(failed, ["Argument mismatches: order_id: expected \"12345\", got 12345"]);
//! ```
#![deny(clippy::disallowed_methods)]

mod answer_relevance;
mod assert_set;
mod behaviour;
mod bleu;
mod called_subagent;
mod called_tool;
mod check;
mod classifier;
mod closed_qa;
pub mod codes;
mod command_succeeded;
mod comments;
mod compare;
mod config;
mod contains;
mod contains_all;
mod contains_any;
mod contains_html;
mod contains_json;
mod contains_sql;
mod contains_xml;
mod contest;
mod context_faithfulness;
mod context_recall;
mod context_relevance;
mod conversation_relevance;
mod cost;
mod diff_empty;
mod drift;
mod edit_distance;
mod equals;
mod event;
mod event_order;
mod events_satisfy;
mod evidence;
mod excludes;
mod expect;
mod factual;
mod factuality;
mod file_changed;
mod file_deleted;
mod file_matches;
mod finish_reason;
mod folded;
mod function_calls;
mod g_eval;
mod gleu;
mod glob;
mod grade;
mod guardrails;
mod html;
mod icontains;
mod icontains_all;
mod icontains_any;
mod in_diff;
mod includes;
mod is_html;
mod is_json;
mod is_refusal;
mod is_sql;
mod is_valid_function_call;
mod is_valid_openai_function_call;
mod is_valid_openai_tools_call;
mod is_xml;
mod javascript;
mod judge;
mod judge_closedqa;
mod judge_factuality;
mod judge_summarizes;
mod judging;
mod keywords;
mod latency;
mod levenshtein;
mod likeness;
mod llm_rubric;
mod loaded_skill;
mod matches;
mod max_cost;
mod max_latency;
mod max_score;
mod max_tokens;
mod max_tool_calls;
mod max_turns;
mod message_includes;
mod meteor;
mod model_graded_closedqa;
mod model_graded_factuality;
mod moderation;
mod named;
mod nearness;
mod needles;
mod no_failed_actions;
mod no_failed_shell_commands;
mod occurs;
mod on;
mod output_equals;
mod output_matches;
mod parked;
pub mod pattern;
mod perplexity;
mod perplexity_score;
mod pi;
mod pii;
mod prompt_assertion;
mod python;
mod range;
mod regex;
mod registry;
mod rouge_n;
mod ruby;
mod satisfies;
mod schema;
mod schema_file;
mod schema_value;
mod scripting;
mod select_best;
mod service;
mod similar;
mod similar_cosine;
mod similar_dot;
mod similar_euclidean;
mod similarity;
mod skill_used;
mod skills;
mod sql;
mod starts_with;
mod succeeded;
pub mod template;
mod tests;
mod tool_call_f1;
mod tool_calls;
mod tool_order;
mod tool_trajectory;
mod trace_error_spans;
mod trace_span_count;
mod trace_span_duration;
mod trajectory;
mod trajectory_goal_success;
mod trajectory_step_count;
mod trajectory_tool_args_match;
mod trajectory_tool_sequence;
mod trajectory_tool_used;
mod untold;
mod used_no_tools;
mod webhook;
mod word_count;
mod words;
mod workspace;
mod xml;

pub use check::{Check, Options};
pub use contest::{Candidate, Contest, first_questions};
pub use expect::{compile, compile_with, expect_schema};
pub use judging::{Agg, Criterion, Instructions, JudgeBlock, Jury, answered_by, judged_by};
pub use registry::{
    Assertion, Build, Built, Code, Evidence, ExpectPath, Meta, Own, ReadYaml, Registration, Setup,
};

pub use on::Selector;
pub use scripting::{ScriptSettings, ScriptsBlock, Transform, View};

// Every assertion is one folder, one `mod` line and one line in the slice below.

/// Every assertion, in the order in which an `expect` block evaluates them.
pub static REGISTRY: &[&Registration] = &[
    &tool_calls::REGISTRATION,
    &schema::REGISTRATION,
    &pii::REGISTRATION,
    &keywords::REGISTRATION,
    &judge::REGISTRATION,
    &drift::REGISTRATION,
    &latency::REGISTRATION,
    &cost::REGISTRATION,
    &prompt_assertion::REGISTRATION,
    &equals::REGISTRATION,
    &assert_set::REGISTRATION,
    &javascript::REGISTRATION,
    &python::REGISTRATION,
    &ruby::REGISTRATION,
    &webhook::REGISTRATION,
    &pi::REGISTRATION,
    &contains::REGISTRATION,
    &icontains::REGISTRATION,
    &contains_any::REGISTRATION,
    &icontains_any::REGISTRATION,
    &contains_all::REGISTRATION,
    &icontains_all::REGISTRATION,
    &starts_with::REGISTRATION,
    &regex::REGISTRATION,
    &is_json::REGISTRATION,
    &contains_json::REGISTRATION,
    &is_xml::REGISTRATION,
    &contains_xml::REGISTRATION,
    &is_html::REGISTRATION,
    &contains_html::REGISTRATION,
    &is_sql::REGISTRATION,
    &contains_sql::REGISTRATION,
    &levenshtein::REGISTRATION,
    &rouge_n::REGISTRATION,
    &bleu::REGISTRATION,
    &gleu::REGISTRATION,
    &meteor::REGISTRATION,
    &word_count::REGISTRATION,
    &perplexity::REGISTRATION,
    &perplexity_score::REGISTRATION,
    &is_refusal::REGISTRATION,
    &finish_reason::REGISTRATION,
    &guardrails::REGISTRATION,
    &trajectory_tool_used::REGISTRATION,
    &trajectory_tool_sequence::REGISTRATION,
    &trajectory_tool_args_match::REGISTRATION,
    &trajectory_step_count::REGISTRATION,
    &trajectory_goal_success::REGISTRATION,
    &trace_span_count::REGISTRATION,
    &trace_span_duration::REGISTRATION,
    &trace_error_spans::REGISTRATION,
    &skill_used::REGISTRATION,
    &tool_call_f1::REGISTRATION,
    &is_valid_function_call::REGISTRATION,
    &is_valid_openai_function_call::REGISTRATION,
    &is_valid_openai_tools_call::REGISTRATION,
    &similar::REGISTRATION,
    &similar_cosine::REGISTRATION,
    &similar_dot::REGISTRATION,
    &similar_euclidean::REGISTRATION,
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
    &moderation::REGISTRATION,
    &classifier::REGISTRATION,
    &judge_factuality::REGISTRATION,
    &judge_closedqa::REGISTRATION,
    &judge_summarizes::REGISTRATION,
    &includes::REGISTRATION,
    &excludes::REGISTRATION,
    &matches::REGISTRATION,
    &similarity::REGISTRATION,
    &satisfies::REGISTRATION,
    &output_equals::REGISTRATION,
    &output_matches::REGISTRATION,
    &succeeded::REGISTRATION,
    &parked::REGISTRATION,
    &message_includes::REGISTRATION,
    &called_tool::REGISTRATION,
    &tool_order::REGISTRATION,
    &used_no_tools::REGISTRATION,
    &max_tool_calls::REGISTRATION,
    &no_failed_actions::REGISTRATION,
    &loaded_skill::REGISTRATION,
    &called_subagent::REGISTRATION,
    &event::REGISTRATION,
    &event_order::REGISTRATION,
    &events_satisfy::REGISTRATION,
    &max_tokens::REGISTRATION,
    &max_cost::REGISTRATION,
    &max_latency::REGISTRATION,
    &max_turns::REGISTRATION,
    &tool_trajectory::REGISTRATION,
    &file_changed::REGISTRATION,
    &file_deleted::REGISTRATION,
    &diff_empty::REGISTRATION,
    &in_diff::REGISTRATION,
    &file_matches::REGISTRATION,
    &no_failed_shell_commands::REGISTRATION,
    &command_succeeded::REGISTRATION,
    &tests::REGISTRATION,
];

/// The assertion with this id.
pub fn find(id: &str) -> Option<&'static Registration> {
    REGISTRY.iter().copied().find(|it| it.meta.id == id)
}
