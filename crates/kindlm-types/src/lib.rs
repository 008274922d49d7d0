//! The words of KindLM.
//!
//! The actions of an agent are an [`Execution`]; the finding of a check in it is an [`AssertionResult`] with a
//! [`Verdict`]. All repeats of one case on one model are a [`CaseResult`]; the whole run is a [`Report`]. This crate
//! holds data and the few traits through which the other crates meet. It knows no YAML, no HTTP, no provider and no
//! assertion, and does no I/O.
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

pub mod ecma;
mod evidence;
pub mod pointer;
mod ports;
mod present;
mod problem;
mod registry;
mod report;
mod sum;
mod twice;
mod verdict;

pub use evidence::{
    Action, ActionState, ActionStatus, Channel, Coverage, DeclaredEvidence, Event, Execution,
    ExecutionError, ExecutionResult, Facts, InputOption, InputRequest, OpenWorkspace, Price, Span,
    SpanFilter, SpanMapping, Speaker, SubagentCall, ToolCall, ToolKind, Trace, TraceSettings,
    Transcript, Turn, Usage, UsageSum, WorkFor, Workspace, WorkspaceError, WorkspaceSpec,
    Workspaces, Written, exit_code, workspace,
};
pub use ports::{
    AgentEnd, AgentFolder, AgentKind, AgentReply, AgentSession, AgentSpec, AgentStart, AgentTurn,
    Answer, Answers, AskError, Backend, BoxFuture, CommandOutput, CommandSpec, FileError, FileTree,
    Files, FinishReason, HostPattern, Limits, Message, NoFiles, Params, Prompt, ProviderError,
    ProviderErrorKind, Purse, Question, Reply, ResponseFormat, Role, ToolChoice, ToolSpec,
    TreeLimits, ask, backend, reasons, script,
};
pub use present::present;
pub use problem::{Place, Problem, ProblemKind, nearest, nearest_few, suggest};
pub use registry::{DuplicateId, Registered, Registry};
pub use report::{
    AnyReport, AssertionSetInfo, AssertionSummary, Breakdown, CaseError, CaseMark, CaseResult,
    CaseSource, CheckCounts, ComplianceInfo, Cost, DerivedMetric, DerivedValue, ErrorFinding,
    ExitStatus, FailingCase, Finding, GateOutcome, GateResult, ModelInfo, ModelTotals,
    NAMED_FAILURES, NamedTotal, PROMPT_ASSERTION, PromptInfo, RateCount, RepeatCounts, Report,
    RunInfo, ScoreSummary, ShardInfo, SkippedCase, SuiteInfo, SuiteTotals, Summary, TagTotals,
    Tally, prompt_assertion_id,
};
pub use sum::{ExactSum, Mean};
pub use twice::{place_of_twice, twice, twice_of};
pub use verdict::{
    AGGREGATE_SCORE, ASSERT_SET, AssertionResult, Class, CodeFamily, FailureCode, NOT_ASSERT_SET,
    NamedScore, Outcome, Score, ScoreError, Severity, Verdict, named_scores, weighted_score,
};
