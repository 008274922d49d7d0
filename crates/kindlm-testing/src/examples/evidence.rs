//! Parses the evidence of an example: the recorded execution, and the answers of a judge.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kindlm_types::ask::mark_in;
use kindlm_types::script::{
    ScriptAnswer, ScriptError, ScriptErrorKind, ScriptOutcome, ScriptValue,
};
use kindlm_types::{
    Answer, AskError, Channel, CommandEnd, Completeness, Coverage, Event, Execution, FinishReason,
    Message, ProviderError, ProviderErrorKind, Question, Role, Spend, ToolCall, ToolSpec, Trace,
    Usage, Workspace,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Example;

/// The judge's model name in examples.
const JUDGE: &str = "judge";

/// The content of a `yaml execution` block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// The execution.
    pub execution: Execution,
    /// The output in the baseline; `None` if the block has none.
    pub baseline: Option<String>,
    /// The outputs with which a check compares the output of the execution.
    pub others: Vec<Other>,
}

/// The output of another model in a comparison.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Other {
    /// The name of the model.
    pub name: String,
    /// The output; `None` if the execution of the model did not finish.
    pub output: Option<String>,
    /// The scores of other checks, by the ids of the checks.
    pub scores: BTreeMap<String, f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Written {
    input: Option<String>,
    output: String,
    output_json: Option<Value>,
    tool_calls: Vec<ToolCall>,
    latency_ms: Option<f64>,
    first_token_ms: Option<f64>,
    cost_usd: Option<f64>,
    usage: Usage,
    exit_code: Option<i32>,
    truncated: bool,
    vars: Map<String, Value>,
    baseline: Option<String>,
    requests: Option<u32>,
    finish_reason: Option<String>,
    log_probs: Option<Vec<f64>>,
    metadata: Map<String, Value>,
    provider_response: Option<Value>,
    trace: Option<Box<Trace>>,
    events: Vec<Event>,
    complete_for: Option<BTreeSet<Channel>>,
    tools: Vec<ToolSpec>,
    others: Vec<Other>,
    workspace: Option<Box<Workspace>>,
}

impl Recorded {
    /// Parses the text of a `yaml execution` block. An empty text is an empty execution. Fails for an invalid block.
    pub fn parse(yaml: &str) -> Result<Self, String> {
        let written: Written = if yaml.trim().is_empty() {
            Written::default()
        } else {
            serde_yaml::from_str(yaml)
                .map_err(|err| format!("the execution cannot be read: {err}"))?
        };
        let execution = Execution {
            input: written.input.map(|it| Message::new(Role::User, it)).into_iter().collect(),
            output: written.output,
            output_json: written.output_json,
            tool_calls: written.tool_calls,
            latency_ms: written.latency_ms,
            first_token_ms: written.first_token_ms,
            spend: Spend { cost_usd: written.cost_usd, ..Spend::default() },
            usage: written.usage,
            command: CommandEnd::from_parts(written.exit_code, String::new()),
            completeness: Completeness {
                truncated: written.truncated,
                coverage: written.complete_for.map_or(Coverage::Complete, Coverage::Only),
                ..Completeness::default()
            },
            vars: written.vars,
            requests: written.requests.unwrap_or(1),
            finish_reason: written.finish_reason.map(FinishReason::from),
            log_probs: written.log_probs,
            metadata: written.metadata,
            provider_response: written.provider_response,
            trace: written.trace,
            recorded_events: written.events,
            tools: written.tools,
            workspace: written.workspace,
            ..Execution::default()
        };
        Ok(Self { execution, baseline: written.baseline, others: written.others })
    }
}

/// Parses the text of a YAML block. Fails if the text is not YAML.
pub fn yaml(text: &str) -> Result<Value, String> {
    serde_yaml::from_str(text).map_err(|err| format!("the block is not YAML: {err}"))
}

/// Converts an answer block to the answer to a question.
///
/// Fails if the block cannot be parsed.
///
/// An `answer` block is a reply, a vector as a JSON list, or the JSON that a script returns. A `no-answer` block is the
/// error message of a provider, or of a script that timed out.
pub fn answer(question: &Question, block: &Example) -> Result<Result<Answer, AskError>, String> {
    let text = block.text.trim_end().to_owned();
    if let (Question::Script(_), "no-answer") = (question, block.info.as_str()) {
        return Ok(Err(ScriptError::new(ScriptErrorKind::Timeout, text).into()));
    }
    if block.info == "no-answer" {
        return Ok(Err(ProviderError::new(ProviderErrorKind::Server, JUDGE, text).into()));
    }
    match question {
        Question::Judge(question) => {
            Ok(Ok(Answer::from_text(with_marks(&text, &question.user), JUDGE)))
        }
        Question::Embedding(_) => {
            let vector: Vec<f64> = serde_json::from_str(&text).map_err(|err| {
                format!("the answer on line {} is not a vector: {err}", block.line)
            })?;
            Ok(Ok(Answer::from_vector(vector)))
        }
        Question::Script(_) => {
            let value: Value = serde_json::from_str(&text).map_err(|err| {
                format!("the answer on line {} is not what a script returns: {err}", block.line)
            })?;
            let outcome = ScriptOutcome::Returned(ScriptValue::from(value));
            Ok(Ok(Answer::Script(ScriptAnswer::new(outcome))))
        }
    }
}

/// Adds the mark of the question to each top-level JSON object in a reply.
///
/// Returns the reply unchanged if the question has no mark.
///
/// A mark is a token in a question that the judge must repeat. The author of a documentation page does not know it.
pub fn with_marks(reply: &str, question: &str) -> String {
    let Some(mark) = mark_in(question) else { return reply.to_owned() };
    let (mut marked, mut at) = (String::new(), 0);
    while let Some(brace) = reply[at..].find('{') {
        let start = at + brace;
        let mut values = serde_json::Deserializer::from_str(&reply[start..]).into_iter::<Value>();
        let end = if let Some(Ok(Value::Object(object))) = values.next() {
            marked.push_str(&reply[at..=start]);
            let comma = if object.is_empty() { "" } else { "," };
            let _ = write!(marked, r#""mark":"{mark}"{comma}"#);
            start + values.byte_offset()
        } else {
            marked.push_str(&reply[at..=start]);
            start + 1
        };
        marked.push_str(&reply[start + 1..end]);
        at = end;
    }
    marked + &reply[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_known_keys_and_refuses_unknown_ones() {
        let recorded =
            Recorded::parse("output: hi\ntoolCalls:\n  - { name: a }\nbaseline: ho\n").unwrap();
        assert_eq!(recorded.execution.output, "hi");
        assert_eq!(recorded.execution.tool_calls[0].name, "a");
        assert_eq!(recorded.baseline.as_deref(), Some("ho"));
        assert!(Recorded::parse("outptu: hi\n").unwrap_err().contains("outptu"));
        assert_eq!(
            Recorded::parse(""),
            Ok(Recorded {
                execution: Execution { requests: 1, ..Execution::default() },
                baseline: None,
                others: Vec::new(),
            })
        );
    }
}
