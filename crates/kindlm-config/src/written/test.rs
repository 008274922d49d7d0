//! Tests.

use std::collections::BTreeMap;

use kindlm_types::{ActionStatus, DeclaredEvidence};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{WorkspaceBlock, present};

/// A named behaviour with its expectations.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TestEntry {
    /// Names the test in reports; unique in the suite.
    #[schemars(length(min = 1))]
    pub(crate) name: String,
    /// The prompt to send: one of the keys of `prompts`. Either this or `command`; a test with an `agent` may do without.
    #[serde(default)]
    #[schemars(length(min = 1))]
    #[expect(dead_code, reason = "resolved from the tree, where it has a place")]
    pub(crate) prompt: Option<String>,
    /// The agents to run it on instead of models: one of the keys of `agents`, or a list of them. The agent gets the prompt's
    /// texts, or the user messages of the turns of `conversation`.
    #[serde(default)]
    pub(crate) agent: Option<Named>,
    /// A program to run instead of a prompt, by `sh -c` in the folder of this file. `{{name}}` is put in quoted.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) command: Option<String>,
    /// A conversation that was recorded elsewhere, to check instead of running anything: `file://` and the path of a JSON
    /// or YAML file, or the value itself. It is a list of messages as OpenAI's or Anthropic's API has them, or an object
    /// with `messages`.
    #[serde(default)]
    #[schemars(schema_with = "transcript")]
    pub(crate) transcript: Option<Value>,
    /// Values for the `{{name}}` places of the prompt or command: texts, or anything else as JSON.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub(crate) vars: Map<String, Value>,
    /// The models to test: ids from `models`, or `provider:model`; all of `models` if absent.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub(crate) models: Option<Vec<String>>,
    /// The number of runs on each model; `defaults.repeat` if absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) repeat: Option<u32>,
    /// The share of the repeats that must pass, from 0 to 1; `defaults.passRateMin` if absent.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) pass_rate_min: Option<f64>,
    /// The weighted mean score from which an execution passes, whichever of its checks failed; that of the prompt or of
    /// `defaults` if absent.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) threshold: Option<f64>,
    /// Tests with the same text are compared with each other by `select-best` and `max-score`, repeat by repeat; without
    /// it, the test's own models are.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) compare: Option<String>,
    /// A script that makes what the checks see as the output: an expression, the body of a function of `output`
    /// and `context`, or `file://` and a file. Of several, each is given what the one before it has made.
    #[serde(default)]
    pub(crate) transform: Transforms,
    /// The output to check, a text or any other value, instead of asking the models for one.
    #[serde(default, deserialize_with = "present")]
    pub(crate) output: Option<Value>,
    /// Anything about the test that scripts want to know; they see it as `context.test.metadata`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub(crate) metadata: Map<String, Value>,
    /// Anything that scripts find as `context.test.options`, as promptfoo has it; nothing else reads it.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub(crate) options: Map<String, Value>,
    /// Tools that the model may call, with answers made up here.
    #[serde(default)]
    pub(crate) tools: Vec<Tool>,
    /// True if tool calls are answered, with the answers made up here. If not, the test ends when the model calls one.
    #[serde(default = "yes")]
    pub(crate) answer_tools: bool,
    /// Labelled turns with checks of their own.
    #[serde(default)]
    pub(crate) conversation: Vec<Turn>,
    /// The most requests in one execution.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 20))]
    pub(crate) max_turns: u32,
    /// Which evidence is complete, where its source does not say so. Reports show that it was declared, not observed.
    #[serde(default)]
    pub(crate) evidence: Option<DeclaredEvidence>,
    /// The time limit of one request or command, in milliseconds; `defaults.timeoutMs` if absent.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub(crate) timeout_ms: Option<u64>,
    /// Names of `assertionSets` whose rules must be kept as well, judged in the same call as those of the prompt.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    #[expect(dead_code, reason = "resolved from the tree, where it has a place")]
    pub(crate) assertion_sets: Vec<String>,
    /// A folder of its own for each execution, instead of that of `defaults`; what changes in it is evidence. For tests
    /// with a `command` or an `agent`, which runs in it.
    #[serde(default)]
    pub(crate) workspace: Option<WorkspaceBlock>,
    /// The checks.
    #[schemars(schema_with = "expect_block")]
    #[expect(dead_code, reason = "compiled from the tree, where it has a place")]
    pub(crate) expect: Value,
    /// Words to select tests by.
    #[serde(default)]
    pub(crate) tags: Vec<String>,
    /// True to skip the test, or the reason for it.
    #[serde(default)]
    pub(crate) skip: Skip,
}

fn ten() -> u32 {
    10
}

fn yes() -> bool {
    true
}

/// A transcript: its reader checks it.
fn transcript(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [
        {"type": "string", "pattern": "^file://.+"},
        {"type": "array", "minItems": 1},
        {"type": "object"},
    ]})
}

/// The checks, as a block that the assertions read key by key.
fn expect_block(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "description": "What must hold."})
}

/// One name, or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Named {
    /// One.
    One(#[schemars(length(min = 1))] String),
    /// Several.
    Several(#[schemars(length(min = 1), inner(length(min = 1)))] Vec<String>),
}

impl Named {
    /// The names, in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::One(name) => vec![name.clone()],
            Self::Several(names) => names.clone(),
        }
    }
}

/// Scripts, in the order in which they are run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Transforms {
    /// One.
    One(#[schemars(length(min = 1))] String),
    /// Several.
    Several(#[schemars(inner(length(min = 1)))] Vec<String>),
}

impl Default for Transforms {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Transforms {
    /// The scripts, each with its pointer.
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

/// A test that is skipped or not.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Skip {
    /// Yes or no.
    Plain(bool),
    /// Yes, and why.
    Because(#[schemars(length(min = 1))] String),
}

impl Skip {
    /// Why the test is skipped, if it is.
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

/// A tool that the model may call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Tool {
    /// The tool's name.
    #[schemars(length(min = 1))]
    pub(crate) name: String,
    /// The description, for the model.
    #[serde(default)]
    pub(crate) description: Option<String>,
    /// JSON Schema of its arguments.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    pub(crate) parameters: Option<Map<String, Value>>,
    /// Answers for certain arguments; the first whose `when` matches is given.
    #[serde(default)]
    pub(crate) responses: Vec<Response>,
    /// The answer when none fits; an error object if absent.
    #[serde(default, deserialize_with = "present")]
    pub(crate) default_response: Option<Value>,
}

/// An answer for certain arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Response {
    /// Arguments that must all be there and be equal; any arguments if absent.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub(crate) when: Map<String, Value>,
    /// The answer.
    #[serde(default, deserialize_with = "present")]
    pub(crate) then: Option<Value>,
    /// The status of the call at its end; `completed` if absent.
    #[serde(default)]
    pub(crate) status: Option<ActionStatus>,
    /// Several answers instead of `then`: one for each call, and the last one for all further calls.
    #[serde(default)]
    pub(crate) answers: Vec<ToolAnswer>,
}

/// One answer of a simulated tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ToolAnswer {
    /// The answer.
    pub(crate) then: Value,
    /// The status of the call at its end; `completed` if absent.
    #[serde(default)]
    pub(crate) status: Option<ActionStatus>,
}

/// A turn of a conversation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Turn {
    /// Names the turn in reports; unique in the test.
    #[schemars(length(min = 1))]
    #[expect(dead_code, reason = "resolved from the tree, where it has a place")]
    #[serde(rename = "turn")]
    pub(crate) label: String,
    /// The user message; if absent, the model continues without one.
    #[serde(default)]
    #[expect(dead_code, reason = "resolved from the tree, where it has a place")]
    pub(crate) user: Option<String>,
    /// The checks of this turn.
    #[serde(default)]
    #[schemars(schema_with = "expect_block")]
    #[expect(dead_code, reason = "compiled from the tree, where it has a place")]
    pub(crate) expect: Option<Value>,
}
