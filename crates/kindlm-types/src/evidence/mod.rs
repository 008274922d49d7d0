//! The evidence of one execution: messages, actions, and the completeness of the record.

mod call_form;
mod event;
mod execution;
mod judge_spending;
mod price;
mod tool_call;
mod trace;
mod trace_settings;
mod transcript;
mod unsupported;
mod usage;
pub mod workspace;

pub use call_form::CallForm;
pub use event::{
    Action, ActionState, ActionStatus, Channel, Coverage, DeclaredEvidence, Event, Facts,
    InputOption, InputRequest, Speaker, SubagentCall, ToolKind, exit_code,
};
pub use execution::{
    CommandEnd, Completeness, Execution, ExecutionError, ExecutionResult, Spend, Turn, Written,
};
pub use judge_spending::JudgeSpending;
pub use price::{LongPromptPrice, Price};
pub use tool_call::ToolCall;
pub use trace::{Span, Trace};
pub use trace_settings::{SpanFilter, SpanMapping, TraceSettings};
pub use transcript::Transcript;
pub use unsupported::UnsupportedPart;
pub use usage::{Usage, UsageSum};
pub use workspace::{OpenWorkspace, WorkFor, Workspace, WorkspaceError, WorkspaceSpec, Workspaces};
