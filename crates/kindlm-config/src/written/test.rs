//! Tests and their parts.

use std::collections::BTreeMap;

use kindlm_types::{ActionStatus, CallForm, DeclaredEvidence};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{RepeatEntry, WorkspaceBlock, present};

/// A test: a named behaviour with its expectations.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TestEntry {
    /// The name of the test in reports. It must be unique in the suite.
    #[schemars(length(min = 1))]
    pub(crate) name: String,
    /// The prompt to send: a key of `prompts`. A test has either `prompt`, `command`, `agent` or `transcript`; a test
    /// with an `agent` may also have a `prompt`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    #[expect(dead_code, reason = "resolved from the tree, where it has a place")]
    pub(crate) prompt: Option<String>,
    /// Several prompts in place of `prompt`. The test runs with each prompt. The key of the prompt is added to the name
    /// of the test, as in `greets · formal`.
    #[serde(default)]
    #[schemars(length(min = 1), inner(length(min = 1)))]
    #[expect(dead_code, reason = "the test is built for each prompt")]
    pub(crate) prompts: Option<Vec<String>>,
    /// The agents to run instead of models: a key of `agents`, or a list of keys. An agent gets the texts of the
    /// prompt, or the user messages of `conversation`.
    #[serde(default)]
    pub(crate) agent: Option<Named>,
    /// A command line to run with `sh -c`, instead of sending a prompt. Values for `{{name}}` are quoted. It runs in
    /// the workspace or, without one, in the folder of this file.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) command: Option<String>,
    /// A recorded conversation to check; nothing is run. It is `file://` with the path of a JSON or YAML file, or the
    /// value itself. The value is a list of messages in the format of OpenAI or Anthropic, or an object with
    /// `messages`.
    #[serde(default)]
    #[schemars(schema_with = "transcript")]
    pub(crate) transcript: Option<Value>,
    /// Values for the placeholders `{{name}}` in the prompt, the turns, the command and the checks. Values other than
    /// texts are inserted as JSON.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub(crate) vars: Map<String, Value>,
    /// Lists of values for variables. The test runs with every combination of them, as `name, variant 1` and so on. The
    /// last variable changes fastest. A variable is either in `vars` or in `matrix`.
    #[serde(default)]
    #[schemars(schema_with = "matrix")]
    #[expect(dead_code, reason = "the test is built for each combination")]
    pub(crate) matrix: Option<Map<String, Value>>,
    /// The models to test: ids from `models`, or `provider:model`. Default: all of `models`.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub(crate) models: Option<Vec<String>>,
    /// The number of repeats on each model, or an object with `max` that ends the repeats early. Default:
    /// `defaults.repeat`; for a `transcript`, 1.
    #[serde(default)]
    pub(crate) repeat: Option<RepeatEntry>,
    /// The share of the repeats that must pass, from 0 to 1. Default: `defaults.passRateMin`.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) pass_rate_min: Option<f64>,
    /// The weighted mean score at which an execution passes, even if some checks fail. Default: the `threshold` of the
    /// prompt, or else of `defaults`.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) threshold: Option<f64>,
    /// The name of a comparison group for `select-best` and `max-score`. Tests of the same group are compared, repeat
    /// by repeat. Default: the models of this test are compared.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) compare: Option<String>,
    /// The name of a history. On each model, the tests with the same history run one after another. Each test gets the
    /// earlier exchanges as the variable `_conversation`: a list of objects with `prompt`, `input`, `output` and
    /// `metadata`. Default: the test does not depend on earlier tests.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) history: Option<String>,
    /// The variable that stores the output of this test for the later tests of the `history`. The later tests also need
    /// a value for this variable under `vars`, which applies until the output is stored.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) store_output_as: Option<String>,
    /// The name of a cluster of tests that depend on each other, such as questions about one document. Comparisons and
    /// intervals count a cluster as one observation. Default: this test alone, with all its models, is a cluster.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) cluster: Option<String>,
    /// Checks and `transform` get the tool calls as the output, in the form of this vendor's API. Calls that the test
    /// answers are included, but calls of `hostedTools` are not. Default: the output is the text of the answer.
    #[serde(default)]
    pub(crate) calls_as_output: Option<CallForm>,
    /// A script that changes the output before it is checked. It is an expression, or a function body that uses
    /// `output` and `context`, or `file://` with a path. In a list, each script gets the result of the one before it.
    #[serde(default)]
    pub(crate) transform: Transforms,
    /// The output to check, as a text or any other value. No request is sent to the models.
    #[serde(default, deserialize_with = "present")]
    pub(crate) output: Option<Value>,
    /// Free-form data about the test for scripts, which read it as `context.test.metadata`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub(crate) metadata: Map<String, Value>,
    /// Free-form data for scripts, which read it as `context.test.options`. It exists for promptfoo configs.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub(crate) options: Map<String, Value>,
    /// Simulated tools that the model may call, with their answers.
    #[serde(default)]
    pub(crate) tools: Vec<Tool>,
    /// True to answer tool calls with the simulated answers. If false, a tool call gets no answer, and the next user
    /// message follows. Default: true.
    #[serde(default = "yes")]
    pub(crate) answer_tools: bool,
    /// The turns of the conversation. Each has a label and may have its own checks.
    #[serde(default)]
    pub(crate) conversation: Vec<Turn>,
    /// The maximum number of requests to the model in one execution, from 1 to 20. Default: 10.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 20))]
    pub(crate) max_turns: u32,
    /// The kinds of evidence that you declare complete, because the recorded data does not. Reports mark them as
    /// declared.
    #[serde(default)]
    pub(crate) evidence: Option<DeclaredEvidence>,
    /// The time limit of one request or command, in milliseconds. Default: the `timeoutMs` of the agent, or else of
    /// `defaults`.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub(crate) timeout_ms: Option<u64>,
    /// Names of `assertionSets` whose rules also apply. They are judged in the same request as the rules of the prompt.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    #[expect(dead_code, reason = "resolved from the tree, where it has a place")]
    pub(crate) assertion_sets: Vec<String>,
    /// The workspace: a new folder for each execution, in which the `command` or `agent` runs. Changes in this folder
    /// are evidence. Default: `defaults.workspace`.
    #[serde(default)]
    pub(crate) workspace: Option<WorkspaceBlock>,
    /// The checks.
    #[schemars(schema_with = "expect_block")]
    #[expect(dead_code, reason = "compiled from the tree, where it has a place")]
    pub(crate) expect: Value,
    /// Labels for selecting tests, such as with `--tags`.
    #[serde(default)]
    pub(crate) tags: Vec<String>,
    /// True, or a reason, to skip the test. Default: false.
    #[serde(default)]
    pub(crate) skip: Skip,
}

fn ten() -> u32 {
    10
}

fn yes() -> bool {
    true
}

/// The schema of a transcript. The transcript reader checks the rest.
fn transcript(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [
        {"type": "string", "pattern": "^file://.+"},
        {"type": "array", "minItems": 1},
        {"type": "object"},
    ]})
}

/// The schema of a `matrix`: lists by the name of their variable.
fn matrix(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"type": "array", "minItems": 1},
    })
}

/// The schema of an `expect` block. The assertions check its keys.
fn expect_block(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "description": "The checks of the test."})
}

/// One name, or a list of names.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Named {
    /// One name.
    One(#[schemars(length(min = 1))] String),
    /// A list of names.
    Several(#[schemars(length(min = 1), inner(length(min = 1)))] Vec<String>),
}

impl Named {
    /// Returns the names in order.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::One(name) => vec![name.clone()],
            Self::Several(names) => names.clone(),
        }
    }
}

/// One script, or a list of scripts that run in order.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Transforms {
    /// One script.
    One(#[schemars(length(min = 1))] String),
    /// A list of scripts.
    Several(#[schemars(inner(length(min = 1)))] Vec<String>),
}

impl Default for Transforms {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Transforms {
    /// Returns the scripts with their pointers.
    pub(crate) fn all(&self) -> Vec<(String, &str)> {
        match self {
            Self::One(script) => vec![("/transform".to_owned(), script)],
            Self::Several(scripts) => scripts
                .iter()
                .enumerate()
                .map(|(index, it)| (format!("/transform/{index}"), it.as_str()))
                .collect(),
        }
    }
}

/// The setting that skips a test.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Skip {
    /// True to skip the test.
    Plain(bool),
    /// The reason for skipping the test.
    Because(#[schemars(length(min = 1))] String),
}

impl Skip {
    /// Returns the reason for skipping the test, or `None` if the test is not skipped.
    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Self::Plain(false) => None,
            Self::Plain(true) => Some("skipped in the config file"),
            Self::Because(why) => Some(why),
        }
    }
}

impl Default for Skip {
    fn default() -> Self {
        Self::Plain(false)
    }
}

/// A simulated tool that the model may call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Tool {
    /// The tool's name.
    #[schemars(length(min = 1))]
    pub(crate) name: String,
    /// The description of the tool for the model.
    #[serde(default)]
    pub(crate) description: Option<String>,
    /// The JSON Schema of the arguments.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    pub(crate) parameters: Option<Map<String, Value>>,
    /// Answers for certain arguments. The first entry whose `when` matches the call applies.
    #[serde(default)]
    pub(crate) responses: Vec<Response>,
    /// The answer if no entry of `responses` matches. Default: an error object.
    #[serde(default, deserialize_with = "present")]
    pub(crate) default_response: Option<Value>,
}

/// The answers of a tool for certain arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Response {
    /// The arguments that a call must contain with equal values. If absent, every call matches.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub(crate) when: Map<String, Value>,
    /// The answer to every matching call.
    #[serde(default, deserialize_with = "present")]
    pub(crate) then: Option<Value>,
    /// The final status of the call. Default: `completed`.
    #[serde(default)]
    pub(crate) status: Option<ActionStatus>,
    /// Several answers instead of `then`, one for each matching call. The last one also answers all further calls.
    #[serde(default)]
    pub(crate) answers: Vec<ToolAnswer>,
}

/// One answer of a simulated tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ToolAnswer {
    /// The answer.
    pub(crate) then: Value,
    /// The final status of the call. Default: `completed`.
    #[serde(default)]
    pub(crate) status: Option<ActionStatus>,
}

/// A turn of a conversation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Turn {
    /// The label of the turn in reports. It must be unique in the test.
    #[schemars(length(min = 1))]
    #[expect(dead_code, reason = "resolved from the tree, where it has a place")]
    #[serde(rename = "turn")]
    pub(crate) label: String,
    /// The user message of this turn. If absent, the model continues without a user message.
    #[serde(default)]
    #[expect(dead_code, reason = "resolved from the tree, where it has a place")]
    pub(crate) user: Option<String>,
    /// The checks of this turn.
    #[serde(default)]
    #[schemars(schema_with = "expect_block")]
    #[expect(dead_code, reason = "compiled from the tree, where it has a place")]
    pub(crate) expect: Option<Value>,
}
