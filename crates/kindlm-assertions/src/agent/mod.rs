//! The assertions about the actions of an agent: tool calls, events, sub-agents, spans.

mod called_subagent;
mod called_tool;
mod event;
mod event_order;
mod events_satisfy;
mod finish_reason;
mod function_calls;
mod is_valid_function_call;
mod is_valid_openai_function_call;
mod is_valid_openai_tools_call;
mod loaded_skill;
mod max_tool_calls;
mod message_includes;
mod named;
mod no_failed_actions;
mod parked;
mod skill_used;
mod skills;
mod succeeded;
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
mod used_no_tools;

use crate::Registration;

/// The assertions of this group, in the order of their evaluation.
pub(crate) static REGISTRY: &[&Registration] = &[
    &tool_calls::REGISTRATION,
    &finish_reason::REGISTRATION,
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
    &tool_trajectory::REGISTRATION,
];
