//! The words of KindLM.
//!
//! What an agent did is an [`Execution`]; what a check found in it is an [`AssertionResult`] with a
//! [`Verdict`]; all repeats of one case on one model are a [`CaseResult`]; the whole run is a [`Report`].
//! This crate holds data and the few traits through which the other crates meet. It knows no YAML, no
//! HTTP, no provider and no assertion, and does no I/O.
//!
//! ```
//! use kindlm_types::{AssertionResult, FailureCode, Outcome, Severity};
//!
//! const MISSING: FailureCode = FailureCode::new("KEYWORD_MISSING");
//! let results = [
//!     AssertionResult::pass("keywords", "Keyword deny list"),
//!     AssertionResult::fail("keywords", "Keyword allow list", MISSING, "no `refund` in the output")
//!         .with_severity(Severity::Soft),
//! ];
//! assert_eq!(Outcome::of(&results), Outcome::Scored);
//! ```
#![deny(clippy::disallowed_methods)]

mod agent;
pub mod ask;
pub mod backend;
mod cases;
pub mod ecma;
mod event;
mod execution;
mod exit;
mod files;
mod future;
mod host;
mod limits;
pub mod pointer;
mod present;
mod price;
mod problem;
mod prompt;
mod provider_error;
mod registry;
mod report;
mod result;
mod scores;
pub mod script;
mod sum;
mod summary;
mod trace;
mod trace_settings;
mod transcript;
mod twice;
mod usage;
mod verdict;
pub mod workspace;

pub use agent::{
    AgentEnd, AgentFolder, AgentKind, AgentReply, AgentSession, AgentSpec, AgentStart, AgentTurn,
};
pub use ask::{Answer, Answers, AskError, Question};
pub use backend::{Backend, CommandOutput, CommandSpec, Purse};
pub use cases::{CaseError, CaseMark, CaseSource};
pub use event::{
    Action, ActionState, ActionStatus, Channel, Coverage, DeclaredEvidence, Event, Facts,
    InputOption, InputRequest, Speaker, SubagentCall, ToolKind, exit_code,
};
pub use execution::{Execution, ExecutionError, ExecutionResult, ToolCall, Turn, Written};
pub use exit::ExitStatus;
pub use files::{FileError, FileTree, Files, NoFiles, TreeLimits};
pub use future::BoxFuture;
pub use host::HostPattern;
pub use limits::Limits;
pub use present::present;
pub use price::Price;
pub use problem::{Place, Problem, ProblemKind, nearest, nearest_few, suggest};
pub use prompt::{
    FinishReason, Message, Params, Prompt, Reply, ResponseFormat, Role, ToolChoice, ToolSpec,
    reasons,
};
pub use provider_error::{ProviderError, ProviderErrorKind};
pub use registry::{DuplicateId, Registered, Registry};
pub use report::{
    AnyReport, AssertionSetInfo, ComplianceInfo, DerivedMetric, DerivedValue, ModelInfo,
    PromptInfo, RateCount, Report, RunInfo, ShardInfo, SkippedCase, SuiteInfo,
};
pub use result::{
    AGGREGATE_SCORE, ASSERT_SET, AssertionResult, CaseResult, CheckCounts, Cost, GateOutcome,
    GateResult, NOT_ASSERT_SET, NamedScore, ScoreSummary,
};
pub use scores::{named_scores, weighted_score};
pub use sum::{ExactSum, Mean};
pub use summary::{
    AssertionSummary, Breakdown, ErrorFinding, FailingCase, Finding, ModelTotals, NAMED_FAILURES,
    NamedTotal, PROMPT_ASSERTION, RepeatCounts, SuiteTotals, Summary, TagTotals, Tally,
    prompt_assertion_id,
};
pub use trace::{Span, Trace};
pub use trace_settings::{SpanFilter, SpanMapping, TraceSettings};
pub use transcript::Transcript;
pub use twice::{place_of_twice, twice, twice_of};
pub use usage::{Usage, UsageSum};
pub use verdict::{Class, CodeFamily, FailureCode, Outcome, Score, ScoreError, Severity, Verdict};
pub use workspace::{OpenWorkspace, WorkFor, Workspace, WorkspaceError, WorkspaceSpec, Workspaces};
