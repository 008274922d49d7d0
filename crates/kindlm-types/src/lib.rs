//! The data types and ports of KindLM.
//!
//! An [`Execution`] is the evidence of one run of a test case on a model. A check produces an [`AssertionResult`] with
//! a [`Verdict`]. All repeats of one case on one model form a [`CaseResult`], and all cases a [`Report`]. The ports are
//! the traits that connect the other crates. This crate has no code for YAML, HTTP, providers or assertions, and does
//! no I/O.
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
//! assert_eq!(Outcome::from_results(&results), Outcome::Scored);
//! ```
#![deny(clippy::disallowed_methods)]

mod definitions;
mod duplicate_key;
pub mod ecma;
mod evidence;
pub mod pointer;
mod ports;
mod present;
mod problem;
mod registry;
mod report;
mod source_place;
mod sum;
mod verdict;

pub use definitions::{Definitions, schema_of};
pub use duplicate_key::{duplicate_key, duplicate_key_among, duplicate_key_pointer};
pub use evidence::{
    Action, ActionState, ActionStatus, CallForm, Channel, CommandEnd, Completeness, Coverage,
    DeclaredEvidence, Event, Execution, ExecutionError, ExecutionResult, Facts, InputOption,
    InputRequest, JudgeSpending, LongPromptPrice, OpenWorkspace, Price, Span, SpanFilter,
    SpanMapping, Speaker, Spend, SubagentCall, ToolCall, ToolKind, Trace, TraceSettings,
    Transcript, Turn, UnsupportedPart, Usage, UsageSum, WorkFor, Workspace, WorkspaceError,
    WorkspaceSpec, Workspaces, Written, exit_code, workspace,
};
pub use kindlm_stats::{Decision, Interval};
pub use ports::{
    AgentEnd, AgentFolder, AgentKind, AgentReply, AgentSession, AgentSpec, AgentStart, AgentTurn,
    Agents, Answer, Answers, AskError, AttemptBudget, BoxFuture, CommandOutput, CommandSpec,
    Commands, ContentPart, Embedding, FileError, FileTree, Files, FinishReason, HostPattern,
    Limits, MalformedKind, Media, MediaKind, Message, Models, NoFiles, Params, Ports, Prompt,
    ProviderError, ProviderErrorKind, Question, RawPart, Reply, ResponseFormat, Role, ToolChoice,
    ToolSpec, TreeLimits, Unlimited, ask, image_type_of, media_type_of, reasons, script,
    shortened_data, without_long_data,
};
pub use present::present;
pub use problem::{MemberPart, Problem, ProblemKind, nearest, nearest_few, suggest};
pub use registry::{DuplicateId, Registered, Registry};
pub use report::{
    AnyReport, AssertionChange, AssertionSetInfo, AssertionSummary, Breakdown, CanaryWatch,
    CaseChange, CaseChangeKind, CaseError, CaseMark, CaseResult, CaseSource, CauseTotals,
    CheckCounts, CheckInfo, ComparedRun, Comparison, ComparisonVerdict, ComplianceInfo, Condition,
    ConditionChange, Cost, DerivedMetric, DerivedValue, Distribution, EarlyEnd, ErrorFinding,
    ExitStatus, FailingCase, FileDigest, Finding, GateOutcome, GateResult, InstructionsInfo,
    JudgeCalibration, JudgeIdentity, JudgeInfo, MAX_SPECIFIED_TESTS, MeasuredRate, ModelDifference,
    ModelInfo, ModelTotals, NAMED_FAILURES, NamedTotal, PROMPT_ASSERTION, PassRate, Percentiles,
    PromptInfo, Quantity, RateChange, RateCount, RateSum, RateTest, RepeatCounts, Report, RunInfo,
    ScoreSummary, ShardInfo, SkippedCase, SuiteInfo, SuiteTotals, Summary, TagTotals, Tally,
    TestInfo, cause_key, cluster_of, error_cause_key, interval_text, percent, prompt_assertion_id,
    thousands,
};
pub use source_place::SourcePlace;
pub use sum::{ExactSum, Mean};
pub use verdict::{
    AGGREGATE_SCORE, ASSERT_SET, AssertionResult, Bound, CheckedText, Class, CodeFamily,
    DiffFormat, FailedTest, FailureCode, JudgePanel, JudgeVote, Judging, Mismatch, NOT, NamedScore,
    Outcome, ResultEvidence, Score, ScoreError, SetRule, Severity, TextSpan, Verdict, VoteStatus,
    named_scores, weighted_score,
};
