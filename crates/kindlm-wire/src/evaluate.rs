//! The input and output of `kindlm evaluate`: one record of an agent's messages and actions, one evaluation of it.
//!
//! Keys are in `snake_case`, as in the logs such records come from. Every field of a [`Record`] is optional, and
//! unknown keys are stored in [`Record::extra`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use kindlm_types::{AssertionResult, FailureCode, Outcome, Score, Severity, Verdict};

/// The evidence of an agent, and the checks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Record {
    /// Comes back in the evaluation; normally a text or a number.
    #[serde(deserialize_with = "kindlm_types::present", skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    /// The input of the agent: a text, or any JSON value.
    #[serde(deserialize_with = "kindlm_types::present", skip_serializing_if = "Option::is_none")]
    pub agent_input: Option<Value>,
    /// The output of the agent: a text, or any JSON value that a provider with structured output returned.
    #[serde(deserialize_with = "kindlm_types::present", skip_serializing_if = "Option::is_none")]
    pub agent_output: Option<Value>,
    /// The whole conversation instead of `agent_input`, `agent_output`, `tool_calls` and `events`: a list of messages as
    /// OpenAI's or Anthropic's API has them, or an object with `messages`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript: Option<Value>,
    /// Atomic prompt assertions: each names its criteria, and all of them must be met.
    #[serde(deserialize_with = "super::null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub assertions: Vec<PromptAssertion>,
    /// The tool calls that the agent made, in order.
    #[serde(deserialize_with = "super::null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<RecordedToolCall>,
    /// The events in order.
    #[serde(deserialize_with = "super::null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<kindlm_types::Event>,
    /// The kinds of evidence that are complete; if absent, those of which the record has something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete_for: Option<std::collections::BTreeSet<kindlm_types::Channel>>,
    /// The output to measure drift against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The variables that the prompt was made with.
    #[serde(deserialize_with = "super::null_as_default", skip_serializing_if = "Map::is_empty")]
    pub vars: Map<String, Value>,
    /// Tokens that the agent used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<RecordedUsage>,
    /// The duration of the agent in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// The cost of the agent in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Why the model stopped: `stop`, `length`, `tool_calls`, `content_filter`, `refusal`, or the provider's word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// The natural logarithms of the probabilities of the answer's tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_probs: Option<Vec<f64>>,
    /// Further data of the source: `guardrails`, `skillCalls`, …
    #[serde(deserialize_with = "super::null_as_default", skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The provider's own account of its answer, with promptfoo's keys: `cost`, `logProbs`, `finishReason`,
    /// `guardrails`, `isRefusal`, `metadata`.
    #[serde(deserialize_with = "kindlm_types::present", skip_serializing_if = "Option::is_none")]
    pub provider_response: Option<Value>,
    /// The spans of an instrumented agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<kindlm_types::Trace>>,
    /// The changes in the folder in which the agent worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Box<kindlm_types::Workspace>>,
    /// The tools that the model might call, each as `{name, parameters}` or in the form of OpenAI's API.
    #[serde(deserialize_with = "super::null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<RecordedTool>,
    /// An `expect` block as in `kindlm.yaml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Value>,
    /// The weighted mean score from which the record passes, whichever checks failed that are not required; from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// All other keys, untouched.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// One atomic prompt assertion: a behaviour with its criteria, judged by a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptAssertion {
    /// Names it in the judge's reply and in the results.
    pub id: String,
    /// The instruction that the agent was given.
    #[serde(default)]
    pub instruction: String,
    /// Questions that must all be answered with yes.
    #[serde(default)]
    pub criteria: Vec<String>,
    /// The share in the weighted mean score; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// When it applies: a script that says `true` or `false`, or values that `vars` must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Value>,
}

/// A tool call of a record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedToolCall {
    /// The provider's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The arguments; normally an object.
    #[serde(default)]
    pub arguments: Value,
    /// The answer of the tool.
    #[serde(
        default,
        deserialize_with = "kindlm_types::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub response: Option<Value>,
}

impl From<RecordedToolCall> for kindlm_types::ToolCall {
    fn from(call: RecordedToolCall) -> Self {
        // OpenAI's API has the arguments as JSON in a text.
        let (arguments, malformed_arguments) = match call.arguments {
            Value::String(text) => match serde_json::from_str(&text) {
                Ok(arguments @ Value::Object(_)) => (arguments, None),
                _ => (Value::Null, Some(text)),
            },
            arguments => (arguments, None),
        };
        Self {
            id: call.id.unwrap_or_default(),
            name: call.name,
            arguments,
            malformed_arguments,
            response: call.response,
        }
    }
}

/// A tool of a record: as it is, or under `function` as in OpenAI's API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RecordedTool {
    /// In the form of OpenAI's API.
    Function {
        /// The tool.
        function: kindlm_types::ToolSpec,
    },
    /// As it is.
    Plain(kindlm_types::ToolSpec),
}

impl From<RecordedTool> for kindlm_types::ToolSpec {
    fn from(tool: RecordedTool) -> Self {
        match tool {
            RecordedTool::Function { function } => function,
            RecordedTool::Plain(tool) => tool,
        }
    }
}

/// The tokens of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RecordedUsage {
    /// Tokens of the prompt, cached ones included.
    #[serde(
        alias = "inputTokens",
        alias = "prompt_tokens",
        skip_serializing_if = "Option::is_none"
    )]
    pub input_tokens: Option<u64>,
    /// Tokens of the answer.
    #[serde(
        alias = "outputTokens",
        alias = "completion_tokens",
        skip_serializing_if = "Option::is_none"
    )]
    pub output_tokens: Option<u64>,
    /// All tokens; input plus output if absent.
    #[serde(alias = "totalTokens", skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// The part of the input tokens that was read from the provider's prompt cache.
    #[serde(alias = "cachedInputTokens", skip_serializing_if = "Option::is_none")]
    pub cached_input_tokens: Option<u64>,
}

impl From<RecordedUsage> for kindlm_types::Usage {
    fn from(usage: RecordedUsage) -> Self {
        let RecordedUsage { input_tokens, output_tokens, total_tokens, cached_input_tokens } =
            usage;
        Self::counted(input_tokens, output_tokens, total_tokens, cached_input_tokens)
    }
}

/// The results of the checks of one record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evaluation {
    /// The record's id.
    #[serde(
        default,
        deserialize_with = "kindlm_types::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub id: Option<Value>,
    /// `passed / total`; `null` when no check applied or none could be judged, because nothing was measured.
    pub score: Option<f64>,
    /// The number of checks that passed.
    pub passed: u64,
    /// The number of checks that failed.
    pub failed: u64,
    /// The number of checks that apply: passed, failed or errored. Skipped ones are left out.
    pub total: u64,
    /// The outcome of the record.
    pub outcome: Outcome,
    /// Where the record has a `threshold`: the mean of the scores of its checks, weighted by their weights, which is
    /// held against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weighted_score: Option<f64>,
    /// The weighted mean of each named score.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub named_scores: Map<String, Value>,
    /// The result of each check, in the order of the record.
    pub results: Vec<EvaluatedResult>,
    /// The record's extra keys, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Map<String, Value>>,
    /// Changes when the record does, or what it is judged by; where results are kept to go on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The result of one check of one record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluatedResult {
    /// The id of a prompt assertion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Passed, or skipped.
    pub pass: bool,
    /// `passed`, `failed`, `errored` or `skipped`.
    pub status: super::v1::Status,
    /// The assertion's id.
    #[serde(rename = "type")]
    pub assertion: String,
    /// Names this very check.
    pub label: String,
    /// The score; `null` if nothing could be measured.
    pub score: Option<f64>,
    /// The meaning of a failure.
    pub severity: Severity,
    /// The code of a failed or errored check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<FailureCode>,
    /// The code of the obstacle, where an errored check has a code of its own: that of a provider, for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<FailureCode>,
    /// The expected and the actual value, or the obstacle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// The reason in words: the assertion's own, or why a check was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The share of this check in a weighted mean, unless it is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// The named score that this check contributes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Everything else worth keeping; `component_results` are what the check is made of, in this form too, and
    /// `named_scores` what it gives by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The totals of a stream of records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchSummary {
    /// The project of the suite, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The name of the suite, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_suite: Option<String>,
    /// Why judges were not asked to the end: the budget was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// The numbers.
    pub results: BatchResults,
}

/// The numbers of a [`BatchSummary`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchResults {
    /// Records that were checked.
    pub total_cases: u64,
    /// Records that hold: passed or scored.
    pub passed_cases: u64,
    /// Records that failed.
    pub failed_cases: u64,
    /// Records that could not be judged.
    pub errored_cases: u64,
    /// Records in which nothing was to be checked; not in `total_cases`.
    pub skipped_cases: u64,
    /// Lines that are no records; not in `total_cases`.
    pub malformed_lines: u64,
    /// The mean of the records' scores; `null` if none has one.
    pub average_score: Option<f64>,
    /// The counts of each prompt assertion, by its id.
    pub assertion_breakdown: BTreeMap<String, AssertionBreakdown>,
    /// Results of prompt assertions beyond those that are told apart.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub results_left_out: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The counts of one prompt assertion over all records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AssertionBreakdown {
    /// The share of its judgements in which it was kept, from 0 to 1; `null` if it was never judged.
    pub pass_rate: Option<f64>,
    /// The number of judgements: passed or failed.
    pub n: u64,
    /// The number of times without a verdict of the judge.
    pub errored: u64,
    /// The number of times that it did not apply.
    pub skipped: u64,
    /// The ids, or lines, of the first records that broke it.
    pub failing: Vec<String>,
    /// The number of further records that broke it.
    pub more_failing: u64,
    /// Why the first of them broke it, in the judge's words; or, if none did, why there was no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}

impl From<kindlm_types::AssertionSummary> for AssertionBreakdown {
    fn from(summary: kindlm_types::AssertionSummary) -> Self {
        Self {
            pass_rate: summary.kept.rate(),
            n: summary.kept.total,
            errored: summary.errored,
            skipped: summary.skipped,
            more_failing: summary.unnamed(),
            failing: summary.failing.into_iter().map(|it| it.case).collect(),
            example: summary.example,
        }
    }
}

/// The result for a line that could not be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineError {
    /// The record's id, if that much of the line could be read.
    #[serde(
        default,
        deserialize_with = "kindlm_types::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub id: Option<Value>,
    /// The problem of the line, and what to do.
    pub error: String,
    /// Which line, from 1.
    pub line: u64,
}

pub use kindlm_types::PROMPT_ASSERTION;

impl From<&AssertionResult> for EvaluatedResult {
    #[expect(clippy::float_cmp, reason = "1 is the weight that nobody changed")]
    fn from(result: &AssertionResult) -> Self {
        let (failure_message, skip_reason) = match &result.verdict {
            Verdict::Pass => (None, None),
            Verdict::Fail { message, .. } | Verdict::Errored { message, .. } => {
                (Some(message.clone()), None)
            }
            Verdict::Skipped { reason } => (None, Some(reason.clone())),
        };
        Self {
            id: (result.assertion == PROMPT_ASSERTION)
                .then(|| kindlm_types::prompt_assertion_id(result).to_owned()),
            pass: result.verdict.held(),
            status: (&result.verdict).into(),
            assertion: result.assertion.clone(),
            label: result.label.clone(),
            score: result.score.map(Score::get),
            severity: result.severity,
            failure_code: result.verdict.code().cloned(),
            cause: result.cause.clone(),
            failure_message,
            reasoning: result.reasoning.clone().or(skip_reason),
            weight: (result.weight != 1.0).then_some(result.weight),
            metric: result.metric.clone(),
            metadata: metadata(result),
        }
    }
}

/// The metadata, with the components of a result.
fn metadata(result: &AssertionResult) -> Map<String, Value> {
    let mut metadata = result.metadata.clone();
    if !result.components.is_empty() {
        let parts = result.components.iter().map(EvaluatedResult::from);
        let parts = parts.filter_map(|it| serde_json::to_value(it).ok()).collect();
        metadata.insert("component_results".to_owned(), Value::Array(parts));
    }
    if !result.named_scores.is_empty() {
        let named = result.named_scores.iter().map(|it| (it.name.clone(), it.score.get().into()));
        metadata.insert("named_scores".to_owned(), Value::Object(named.collect()));
    }
    metadata
}

impl Evaluation {
    /// Adds up the results of the checks of one record.
    ///
    /// The score is `passed / total`; errored checks are in `total`, skipped ones are not. If every check is errored,
    /// there is no score. An errored check makes the outcome `errored`. With a `threshold` a record passes if the weighted mean of its scores reaches
    /// it, whichever checks failed, unless one of them is required (`fails_required`). Without any result nothing was
    /// checked, and the outcome is `skipped`.
    #[expect(clippy::cast_precision_loss, reason = "counts of checks stay far below 2^52")]
    pub fn new(
        id: Option<Value>,
        results: &[AssertionResult],
        threshold: Option<f64>,
        fails_required: bool,
    ) -> Self {
        let count =
            |status: &str| results.iter().filter(|it| it.verdict.status() == status).count() as u64;
        let (passed, failed) = (count("passed"), count("failed"));
        let total = passed + failed + count("errored");
        let score = (passed + failed > 0).then(|| passed as f64 / total as f64);
        let outcome = if results.is_empty() {
            Outcome::Skipped
        } else {
            Outcome::concluded(threshold, results, fails_required)
        };
        let weighted_score = threshold.and_then(|_| kindlm_types::weighted_score(results));
        let named_scores = kindlm_types::named_scores(results);
        Self {
            id,
            score,
            passed,
            failed,
            total,
            outcome,
            weighted_score,
            named_scores: named_scores
                .into_iter()
                .map(|it| (it.name, it.score.get().into()))
                .collect(),
            results: results.iter().map(EvaluatedResult::from).collect(),
            input: None,
            digest: None,
        }
    }
}
