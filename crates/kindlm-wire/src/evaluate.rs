//! The input and output of `kindlm evaluate`: records of agents, and their evaluations.
//!
//! Keys are in `snake_case`, as in common agent logs. All fields of a [`Record`] are optional, and unknown keys are
//! stored in [`Record::extra`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use kindlm_types::{AssertionResult, FailureCode, Outcome, Score, Severity, Verdict};

/// The evidence of one execution of an agent, with the checks for it. Every key may be absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Record {
    /// The record's id, which is copied to the evaluation; normally a string or a number.
    #[serde(deserialize_with = "kindlm_types::present", skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    /// The input of the agent: a string, or any JSON value.
    #[serde(deserialize_with = "kindlm_types::present", skip_serializing_if = "Option::is_none")]
    pub agent_input: Option<Value>,
    /// The output of the agent: a string, or any JSON value that a provider with structured output returned.
    #[serde(deserialize_with = "kindlm_types::present", skip_serializing_if = "Option::is_none")]
    pub agent_output: Option<Value>,
    /// The whole conversation; replaces `agent_input`, `agent_output`, `tool_calls` and `events`.
    ///
    /// The value is a list of messages as in the API of OpenAI or Anthropic, or an object with `messages`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript: Option<Value>,
    /// Atomic prompt assertions. Each one lists criteria that must all be met.
    #[serde(deserialize_with = "super::null_as_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("type" = ["array", "null"]))]
    pub assertions: Vec<PromptAssertion>,
    /// The tool calls that the agent made, in order.
    #[serde(deserialize_with = "super::null_as_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("type" = ["array", "null"]))]
    pub tool_calls: Vec<RecordedToolCall>,
    /// The events, in order.
    #[serde(deserialize_with = "super::null_as_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("type" = ["array", "null"]))]
    pub events: Vec<kindlm_types::Event>,
    /// The kinds of evidence that are complete; if absent, the kinds that occur in the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete_for: Option<std::collections::BTreeSet<kindlm_types::Channel>>,
    /// The reasons why evidence is missing, such as a lost span; empty if none is known to be missing.
    ///
    /// The checks that need the missing evidence are errored: checks of the output, of success and of absence.
    #[serde(deserialize_with = "super::null_as_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("type" = ["array", "null"]))]
    pub incomplete: Vec<String>,
    /// The reference output for the `drift` check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The variables of the prompt.
    #[serde(deserialize_with = "super::null_as_default", skip_serializing_if = "Map::is_empty")]
    #[schemars(extend("type" = ["object", "null"]))]
    pub vars: Map<String, Value>,
    /// The tokens that the agent used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<RecordedUsage>,
    /// The duration of the agent's work, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// The longest time from a request to the first part of its answer, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<f64>,
    /// The cost of the agent in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The reason why the model stopped: `stop`, `length`, `tool_calls`, `content_filter`, `refusal`, or the provider's
    /// own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// The natural logarithms of the probabilities of the answer's tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_probs: Option<Vec<f64>>,
    /// Other data of the source: `guardrails`, `skillCalls`, …
    #[serde(deserialize_with = "super::null_as_default", skip_serializing_if = "Map::is_empty")]
    #[schemars(extend("type" = ["object", "null"]))]
    pub metadata: Map<String, Value>,
    /// The provider's response with promptfoo's keys: `cost`, `logProbs`, `finishReason`, `guardrails`, `isRefusal`,
    /// `metadata`.
    #[serde(deserialize_with = "kindlm_types::present", skip_serializing_if = "Option::is_none")]
    pub provider_response: Option<Value>,
    /// The spans of an instrumented agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<kindlm_types::Trace>>,
    /// The changes in the agent's workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Box<kindlm_types::Workspace>>,
    /// The tools offered to the model.
    ///
    /// Each one is `{name, parameters}`, or in the format of OpenAI's API.
    #[serde(deserialize_with = "super::null_as_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("type" = ["array", "null"]))]
    pub tools: Vec<RecordedTool>,
    /// The checks: an `expect` block as in `kindlm.yaml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Value>,
    /// The minimum weighted mean score, from 0 to 1. A record that reaches this score passes, even if checks failed.
    /// But the record does not pass if a required check failed, or if a check is errored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// All other keys, unchanged.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// An atomic prompt assertion: a behaviour with its criteria, judged by a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptAssertion {
    /// The assertion's id in the judge's reply and in the results.
    pub id: String,
    /// The instruction that the agent was given.
    #[serde(default)]
    pub instruction: String,
    /// Questions that must all be answered with yes.
    #[serde(default)]
    pub criteria: Vec<String>,
    /// The weight in the mean score; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// The condition for the assertion: a script that returns `true` or `false`, or values that `vars` must have. If
    /// absent, the assertion always applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Value>,
}

/// A tool call of a record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedToolCall {
    /// The provider's id of the call; absent if it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The arguments, normally an object.
    #[serde(default)]
    pub arguments: Value,
    /// The result of the tool; absent if it was not recorded.
    #[serde(
        default,
        deserialize_with = "kindlm_types::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub response: Option<Value>,
}

impl From<RecordedToolCall> for kindlm_types::ToolCall {
    fn from(call: RecordedToolCall) -> Self {
        // OpenAI's API serializes the arguments as a JSON string.
        let (arguments, malformed_arguments) = match call.arguments {
            // Some models send an empty text or `null` for no arguments.
            Value::String(text) if matches!(text.trim(), "" | "null") => {
                (Value::Object(Map::new()), None)
            }
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

/// A tool of a record: `{name, parameters}`, or this object under `function` as in OpenAI's API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RecordedTool {
    /// A tool in the format of OpenAI's API.
    Function {
        /// The tool.
        function: kindlm_types::ToolSpec,
    },
    /// A tool as `{name, parameters}`.
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
    /// The tokens of the prompt, including cached ones.
    #[serde(
        alias = "inputTokens",
        alias = "prompt_tokens",
        skip_serializing_if = "Option::is_none"
    )]
    pub input_tokens: Option<u64>,
    /// The tokens of the answer.
    #[serde(
        alias = "outputTokens",
        alias = "completion_tokens",
        skip_serializing_if = "Option::is_none"
    )]
    pub output_tokens: Option<u64>,
    /// The total; input plus output if absent.
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
    /// The record's id; absent if the record has none.
    #[serde(
        default,
        deserialize_with = "kindlm_types::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub id: Option<Value>,
    /// The share of passed checks, `passed / total`, from 0 to 1; `null` if no check could be judged.
    pub score: Option<f64>,
    /// The number of checks that passed.
    pub passed: u64,
    /// The number of checks that failed.
    pub failed: u64,
    /// The number of checks that passed, failed or are errored, without skipped ones.
    pub total: u64,
    /// The outcome of the record.
    pub outcome: Outcome,
    /// The weighted mean of the scores of the checks; present only if the record has a `threshold`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weighted_score: Option<f64>,
    /// The weighted mean of each named score.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub named_scores: Map<String, Value>,
    /// The result of each check, in the order of the record.
    pub results: Vec<EvaluatedResult>,
    /// The record's unknown keys; absent unless `--echo` requests them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Map<String, Value>>,
    /// A digest of the record and its checks, for resuming an evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The result of one check of one record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct EvaluatedResult {
    /// The id of a prompt assertion; absent for other checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// True if the check passed or was skipped.
    pub pass: bool,
    /// The status: `passed`, `failed`, `errored` or `skipped`.
    pub status: super::v1::Status,
    /// The assertion's id.
    #[serde(rename = "type")]
    pub assertion: String,
    /// A label that identifies the check.
    pub label: String,
    /// The score, from 0 to 1 unless a script returned it; `null` if nothing was measured.
    pub score: Option<f64>,
    /// The effect of a failure on the outcome.
    pub severity: Severity,
    /// The code of a failed or errored check; absent for other checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<FailureCode>,
    /// The failure code of the error behind an errored check, such as the code of a provider error; otherwise absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<FailureCode>,
    /// The message of a failed check with the expected and the actual value, or the error message of an errored check;
    /// absent for other checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// The reason for the verdict, or for skipping the check; absent if none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The weight of the check in the mean score; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// The name of the score that this check contributes to; absent without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Other data. `component_results` are the results of the check's parts, in this format. `named_scores` are the
    /// check's further named scores.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The totals of a series of records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchSummary {
    /// The project of the suite, if there is a suite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The name of the suite, if there is a suite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_suite: Option<String>,
    /// The reason why judges were no longer asked: the budget is used up. Absent if all questions were asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// The totals.
    pub results: BatchResults,
}

/// The totals in a [`BatchSummary`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchResults {
    /// The number of records that were checked.
    pub total_cases: u64,
    /// The number of records that passed or are scored.
    pub passed_cases: u64,
    /// The number of records that failed.
    pub failed_cases: u64,
    /// The number of records that could not be judged.
    pub errored_cases: u64,
    /// The number of records without applicable checks; not included in `total_cases`.
    pub skipped_cases: u64,
    /// The number of lines that are not valid records; not included in `total_cases`.
    pub malformed_lines: u64,
    /// The mean of the records' scores, from 0 to 1; `null` if no record has a score.
    pub average_score: Option<f64>,
    /// The totals of each prompt assertion, by id.
    pub assertion_breakdown: BTreeMap<String, AssertionBreakdown>,
    /// The number of results that `assertion_breakdown` omits, because the number of ids is limited.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub results_left_out: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The totals of one prompt assertion over all records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct AssertionBreakdown {
    /// The share of passes among passes and failures, from 0 to 1; `null` without passes and failures.
    pub pass_rate: Option<f64>,
    /// The number of passes and failures.
    pub n: u64,
    /// The number of results without a verdict of the judge.
    pub errored: u64,
    /// The number of records in which the assertion did not apply.
    pub skipped: u64,
    /// The ids, or line numbers, of the first records that violated the assertion.
    pub failing: Vec<String>,
    /// The number of further records that violated the assertion.
    pub more_failing: u64,
    /// The judge's reason for the first violation; without violations, the reason for the first missing verdict.
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

/// The output for a line that could not be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct LineError {
    /// The record's id, if it could be parsed.
    #[serde(
        default,
        deserialize_with = "kindlm_types::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub id: Option<Value>,
    /// The error message, with advice.
    pub error: String,
    /// The line number, from 1.
    pub line: u64,
}

impl LineError {
    /// Creates the error of a line. `line` is its number, from 1.
    pub fn new(id: Option<Value>, error: impl Into<String>, line: u64) -> Self {
        Self { id, error: error.into(), line }
    }
}

pub use kindlm_types::PROMPT_ASSERTION;

impl From<&AssertionResult> for EvaluatedResult {
    #[expect(clippy::float_cmp, reason = "1 is the default weight")]
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

/// Returns the metadata of a result, including its components and named scores.
fn metadata(result: &AssertionResult) -> Map<String, Value> {
    let mut metadata = crate::v1::facts::metadata(result).into_owned();
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
    /// Summarizes the results of the checks of one record.
    ///
    /// The score is `passed / total`. `total` includes errored checks, but no skipped checks. Without a passed or
    /// failed check, there is no score.
    ///
    /// An errored check makes the outcome `errored`. With a `threshold`, a record passes if its weighted mean score
    /// reaches the threshold, unless a required check failed (`fails_required`). Without results, the outcome is
    /// `skipped`, because nothing was checked.
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
