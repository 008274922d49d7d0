//! A suite: everything that a run needs to know, resolved.

use std::time::Duration;

use kindlm_assertions::Check;
use kindlm_types::{ComplianceInfo, Message, Params, Price, SuiteInfo, ToolSpec};
use serde_json::{Map, Value};

use crate::gates::Gate;

/// One resolved suite. `kindlm-config` makes it out of `kindlm.yaml`; Rust code can build it directly.
#[derive(Debug, Default)]
pub struct Suite {
    /// Names and digests for reports.
    pub info: SuiteInfo,
    /// The configuration of each provider by its key, as its registry entry takes it.
    pub providers: Map<String, Value>,
    /// The models, in the order of the file.
    pub models: Vec<Model>,
    /// The test cases, in the order of the file.
    pub cases: Vec<TestCase>,
    /// The gates, in the order of the registry.
    pub gates: Vec<Box<dyn Gate>>,
    /// What holds where a test case does not say.
    pub defaults: Defaults,
    /// The `compliance` block.
    pub compliance: Option<Compliance>,
    /// Things that are accepted but that the user should know, in words.
    pub warnings: Vec<String>,
}

/// A model with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Its id in the suite.
    pub id: String,
    /// The provider's key in [`Suite::providers`].
    pub provider: String,
    /// The vendor's name of the model.
    pub name: String,
    /// Sampling parameters.
    pub params: Params,
    /// What its tokens cost, if known.
    pub price: Option<Price>,
}

/// What holds where a test case does not say.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// How many executions run at once.
    pub concurrency: usize,
    /// How long one request or command may take.
    pub timeout: Duration,
    /// The id of the model that judges; the first model if absent.
    pub judge_model: Option<String>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { concurrency: 4, timeout: Duration::from_mins(1), judge_model: None }
    }
}

/// What a test case runs. Variables are already filled in.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A prompt, sent to each of the case's models.
    Prompt {
        /// The opening messages: system, user, and an assistant prefill.
        messages: Vec<Message>,
    },
    /// A program, run by `sh -c` in the folder of the config file.
    Command {
        /// The command line.
        command_line: String,
    },
}

/// A named behaviour with its expectations.
#[derive(Clone, Debug)]
pub struct TestCase {
    /// Unique in the suite.
    pub name: String,
    /// What is run.
    pub subject: Subject,
    /// Ids of the models to run it on; ignored for commands.
    pub models: Vec<String>,
    /// How often it is run on each model, from 1.
    pub repeat: u32,
    /// The least share of repeats that must pass, 0 to 1.
    pub pass_rate_min: f64,
    /// The tools that the model may call, with simulated answers.
    pub tools: Vec<SimulatedTool>,
    /// Labelled turns with checks of their own.
    pub conversation: Vec<ConversationTurn>,
    /// The most requests in one execution.
    pub max_turns: u32,
    /// What must hold at the end.
    pub checks: Vec<Check>,
    /// For selection and for coverage in reports.
    pub tags: Vec<String>,
    /// Why the case is not run, if it is not.
    pub skip: Option<String>,
    /// The variables, kept as evidence.
    pub vars: Map<String, Value>,
    /// How long one request or command may take; the suite's default if absent.
    pub timeout: Option<Duration>,
    /// Changes when what the case sends or expects changes; `None` if nobody worked it out.
    pub digest: Option<String>,
}

impl TestCase {
    /// A case that sends one user message to `models`, once.
    pub fn prompt(name: impl Into<String>, user: impl Into<String>, models: &[&str]) -> Self {
        let messages = vec![Message::new(kindlm_types::Role::User, user)];
        Self {
            models: models.iter().map(|&it| it.to_owned()).collect(),
            ..Self::new(name, Subject::Prompt { messages })
        }
    }

    /// A case that runs a command, once.
    pub fn command(name: impl Into<String>, command_line: impl Into<String>) -> Self {
        Self::new(name, Subject::Command { command_line: command_line.into() })
    }

    fn new(name: impl Into<String>, subject: Subject) -> Self {
        Self {
            name: name.into(),
            subject,
            models: Vec::new(),
            repeat: 1,
            pass_rate_min: 1.0,
            tools: Vec::new(),
            conversation: Vec::new(),
            max_turns: 10,
            checks: Vec::new(),
            tags: Vec::new(),
            skip: None,
            vars: Map::new(),
            timeout: None,
            digest: None,
        }
    }
}

/// A tool whose answers the suite makes up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatedTool {
    /// What the model is told about it.
    pub spec: ToolSpec,
    /// Answers for certain arguments; the first that matches wins.
    pub responses: Vec<SimulatedResponse>,
    /// The answer when none matches; an error object if absent.
    pub default_response: Option<Value>,
}

/// An answer for certain arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedResponse {
    /// Matches when each of these arguments is present and equal.
    pub when: Map<String, Value>,
    /// The answer.
    pub then: Value,
}

/// One labelled turn of a conversation, with checks that see this turn alone.
///
/// * A turn with a message sends it: the first turn's takes the place of the prompt's user message, a later
///   one's follows when the turn before has ended. The turn lasts until the model calls no more tools.
/// * A turn without a message continues the one before (or, as the first, is the reply to the prompt): of the
///   turns that share a message, each is one request, and the last has all that remain.
///
/// `maxTurns` counts the requests of the whole conversation. The checks of a turn that never came are errored.
#[derive(Clone, Debug)]
pub struct ConversationTurn {
    /// Unique in the case.
    pub label: String,
    /// What the user says; `None` continues the turn before.
    pub user: Option<String>,
    /// What must hold for this turn alone.
    pub checks: Vec<Check>,
}

/// The `compliance` block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compliance {
    /// Whether a compliance report is written without being asked for on the command line.
    pub enabled: bool,
    /// The folder for it, relative to the config file.
    pub output_dir: String,
    /// What the report says about the system under test.
    pub info: ComplianceInfo,
}
