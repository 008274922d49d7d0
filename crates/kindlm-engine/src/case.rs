//! Test cases: the data for planning, execution and reports.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kindlm_assertions::{Check, Transform, View};
use kindlm_types::{
    ActionStatus, CallForm, Channel, Message, Role, SourcePlace, ToolSpec, Transcript,
    WorkspaceSpec,
};
use serde_json::{Map, Value};

use crate::{CheckPlaces, Fingerprint, Until};

/// The model id for command tests in reports.
pub const COMMAND: &str = "command";

/// The variable with the earlier exchanges of a history: a list of objects with `prompt`, `input`, `output` and
/// `metadata`.
pub const HISTORY: &str = "_conversation";

/// The model id for transcript tests in reports.
pub const TRANSCRIPT: &str = "transcript";

/// A named behaviour with its expectations.
///
/// A suite holds all cases during the whole run, so a case is small. The input and the checks are in the
/// [`body`](Self::body), which may be created only when the case is executed. Lists that are equal in many cases are
/// shared.
///
/// ```
/// use kindlm_engine::{CaseBody, TestCase};
///
/// let case = TestCase {
///     repeat: 3,
///     ..TestCase::new("greets", CaseBody::prompt("Say hello.")).on(&["support"])
/// };
/// assert_eq!(case.body.body().unwrap().checks.len(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct TestCase {
    /// The name, which is unique in the suite.
    pub name: String,
    /// The kind of the case: prompt, command or transcript.
    pub kind: CaseKind,
    /// The ids of the models that run the case; ignored for commands and transcripts.
    pub models: Arc<[String]>,
    /// The number of repeats on each model, at least 1. With [`until`](Self::until), it is the maximum.
    pub repeat: u32,
    /// The rule that ends the repeats early; `None` if their number is fixed.
    pub until: Option<Until>,
    /// The minimum share of repeats that must pass, from 0 to 1.
    pub pass_rate_min: f64,
    /// The minimum weighted mean score of a passing execution, from 0 to 1. If set, a failed check lowers this mean,
    /// but does not fail the execution by itself. If absent, every check must hold.
    pub threshold: Option<f64>,
    /// The history that the case belongs to; `None` for a case that does not depend on earlier cases.
    ///
    /// On each model and in each repeat, the cases of a history are carried out one after another. Each of them gets the
    /// exchanges of the earlier cases as the variable [`HISTORY`]. A case of a history belongs to no comparison group.
    pub history: Option<Arc<str>>,
    /// The variable that passes the output of this case to later cases of the history; `None` for no variable.
    pub stores: Option<Arc<str>>,
    /// The comparison group, if a check of the case [compares](Check::compares) outputs.
    pub compared: Option<Comparison>,
    /// The format of tool calls that become the output for checks; `None` if tool calls do not become the output.
    pub calls_as_output: Option<CallForm>,
    /// Scripts that transform the output for all checks, in order.
    pub transforms: Arc<[Arc<Transform>]>,
    /// The tags, for the selection of cases and for totals in reports.
    pub tags: Arc<[String]>,
    /// The reason for skipping the case, if it is skipped.
    pub skip: Option<Arc<str>>,
    /// The time limit of one request or command. If absent, the agent's limit or the suite's default applies.
    pub timeout: Option<Duration>,
    /// The digest of the case's input and checks; `None` if it was not computed.
    pub digest: Option<Fingerprint>,
    /// The digest of the case without the prompt or command that is tested; `None` if it was not computed.
    pub task_digest: Option<Fingerprint>,
    /// The name of the cluster of cases that depend on each other; `None` for an independent case.
    pub cluster: Option<Arc<str>>,
    /// The place of the test in the files of the suite; `None` for suites that are not read from files.
    pub source: Option<SourcePlace>,
    /// The places of the test's checks; `None` if the place of the test is enough.
    pub check_places: Option<Arc<CheckPlaces>>,
    /// The source of the input and the checks.
    pub body: Arc<dyn BodySource>,
}

/// A group of executions that are compared, repeat by repeat.
///
/// All cases with equal `Comparison` values form one group, on all their models.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// The models of one case, given by its name.
    Case(Arc<str>),
    /// All cases that use this name for their group.
    ///
    /// This is the name of the group, not of a case.
    Named(Arc<str>),
}

/// The kind of a case: the source of the evidence that is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseKind {
    /// The messages of a prompt, sent to each of the case's models.
    Prompt,
    /// A command line to run.
    Command,
    /// A conversation that was recorded elsewhere.
    Transcript,
}

impl CaseKind {
    /// Returns the model id in reports for a kind that runs on no model.
    ///
    /// Returns `None` for prompts.
    pub const fn alone(self) -> Option<&'static str> {
        match self {
            Self::Prompt => None,
            Self::Command => Some(COMMAND),
            Self::Transcript => Some(TRANSCRIPT),
        }
    }
}

impl TestCase {
    /// Creates a case that runs once, without models; see [`on`](Self::on).
    pub fn new(name: impl Into<String>, body: CaseBody) -> Self {
        Self {
            name: name.into(),
            kind: body.subject.kind(),
            models: Arc::default(),
            repeat: 1,
            until: None,
            pass_rate_min: 1.0,
            threshold: None,
            history: None,
            stores: None,
            compared: None,
            calls_as_output: None,
            transforms: Arc::default(),
            tags: Arc::default(),
            skip: None,
            timeout: None,
            digest: None,
            task_digest: None,
            cluster: None,
            source: None,
            check_places: None,
            body: Arc::new(body),
        }
    }

    /// Sets the models of the case.
    #[must_use]
    pub fn on(self, models: &[&str]) -> Self {
        Self { models: models.iter().map(|&it| it.to_owned()).collect(), ..self }
    }

    /// Creates a case that sends one user message to `models`, once, without checks.
    pub fn prompt(name: impl Into<String>, user: impl Into<String>, models: &[&str]) -> Self {
        Self::new(name, CaseBody::prompt(user)).on(models)
    }

    /// Creates a case that runs a command, once, without checks.
    pub fn command(name: impl Into<String>, command_line: impl Into<String>) -> Self {
        Self::new(name, CaseBody::command(command_line))
    }
}

/// The source of a case's body: the body itself, or a smaller value that creates the body.
///
/// The engine calls the source before each execution, and expects an equal body each time.
pub trait BodySource: fmt::Debug + Send + Sync {
    /// Returns the input and the checks of the case.
    ///
    /// Fails if the body cannot be created again.
    fn body(&self) -> Result<Cow<'_, CaseBody>, BodyError>;

    /// Returns the body in which these variables replace variables with the same name.
    ///
    /// The default implementation ignores the variables. It suits a body whose variables are already filled in.
    fn body_with(&self, _vars: &Map<String, Value>) -> Result<Cow<'_, CaseBody>, BodyError> {
        self.body()
    }

    /// Returns the [workspace](CaseBody::workspace) of the body.
    ///
    /// Returns `None` without a workspace, or if the body cannot be created.
    ///
    /// A source may return the workspace without creating the body.
    fn workspace(&self) -> Option<Arc<WorkspaceSpec>> {
        self.body().ok()?.workspace.clone()
    }
}

/// The error for a body that could not be created again after the suite was loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the test case could be loaded with its suite, but not a second time: {0}")]
pub struct BodyError(pub String);

/// The input and the checks of a case, with variables filled in.
#[derive(Clone, Debug)]
pub struct CaseBody {
    /// The subject: a prompt, a command or a transcript.
    pub subject: Subject,
    /// The tools that the model may call, with simulated answers.
    pub tools: Arc<[SimulatedTool]>,
    /// The labelled turns with their own checks; empty for a test without a `conversation`.
    pub conversation: Vec<ConversationTurn>,
    /// The maximum number of requests in one execution.
    pub max_turns: u32,
    /// True if tool calls are answered. If false, the calls get no results, and the user's next message follows.
    pub answers_tools: bool,
    /// The kinds of evidence that the case declares complete.
    pub declared: BTreeSet<Channel>,
    /// The checks of the whole execution.
    pub checks: Arc<[Check]>,
    /// The variables of the test, which are a part of the evidence.
    pub vars: Map<String, Value>,
    /// The metadata of the case, for scripts and the evidence.
    pub metadata: Map<String, Value>,
    /// The options of the case, for scripts.
    pub options: Map<String, Value>,
    /// The name of the prompt in the suite; `None` without a name.
    pub prompt_name: Option<Arc<str>>,
    /// True if the prompt is written as messages.
    ///
    /// Providers that take one text then get the messages as JSON.
    pub is_chat: bool,
    /// The `expect` block as written, as JSON, for scripts; `None` without such a block.
    pub expect: Option<Arc<str>>,
    /// The recorded output in the suite; `None` without a recorded output.
    pub recorded: Option<Value>,
    /// The agent's workspace; `None` without a workspace.
    pub workspace: Option<Arc<WorkspaceSpec>>,
}

impl CaseBody {
    /// Creates a body with one user message.
    pub fn prompt(user: impl Into<String>) -> Self {
        Self::new(Subject::Prompt { messages: vec![Message::new(Role::User, user)] })
    }

    /// Creates a body with a command line.
    pub fn command(command_line: impl Into<String>) -> Self {
        Self::new(Subject::Command { command_line: command_line.into() })
    }

    /// Creates a body without checks.
    pub fn new(subject: Subject) -> Self {
        Self {
            subject,
            tools: Arc::default(),
            conversation: Vec::new(),
            max_turns: 10,
            answers_tools: true,
            declared: BTreeSet::new(),
            checks: Arc::default(),
            vars: Map::new(),
            metadata: Map::new(),
            options: Map::new(),
            prompt_name: None,
            is_chat: false,
            expect: None,
            recorded: None,
            workspace: None,
        }
    }
}

impl TestCase {
    /// Returns the case's body, with the conversions of the output for each check: tool calls become the output, and
    /// scripts transform the output.
    ///
    /// `vars` replace variables of the case with the same name.
    pub(crate) fn made_body(
        &self,
        vars: &Map<String, Value>,
    ) -> Result<Cow<'_, CaseBody>, BodyError> {
        let body = if vars.is_empty() { self.body.body()? } else { self.body.body_with(vars)? };
        if self.transforms.is_empty() && self.calls_as_output.is_none() {
            return Ok(body);
        }
        let first = |check: &Check| {
            let mut check = check.clone();
            let calls = self.calls_as_output.map(View::Calls);
            let scripts = self.transforms.iter().map(|it| View::Script(Arc::clone(it)));
            check.views.splice(0..0, calls.into_iter().chain(scripts));
            check
        };
        let mut body = body.into_owned();
        body.checks = body.checks.iter().map(first).collect();
        for turn in &mut body.conversation {
            turn.checks = turn.checks.iter().map(first).collect();
        }
        Ok(Cow::Owned(body))
    }
}

impl BodySource for CaseBody {
    fn body(&self) -> Result<Cow<'_, CaseBody>, BodyError> {
        Ok(Cow::Borrowed(self))
    }
}

/// The subject of a test case, with variables filled in.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A prompt, sent to each of the case's models.
    Prompt {
        /// The initial messages: system, user, and an assistant prefill.
        messages: Vec<Message>,
    },
    /// A program, run by `sh -c` in the workspace or, without a workspace, in the folder of the config file.
    Command {
        /// The command line, for `sh -c`.
        command_line: String,
    },
    /// A conversation that was recorded elsewhere.
    Transcript(Arc<Transcript>),
}

impl Subject {
    /// Returns the kind of the subject.
    pub fn kind(&self) -> CaseKind {
        match self {
            Self::Prompt { .. } => CaseKind::Prompt,
            Self::Command { .. } => CaseKind::Command,
            Self::Transcript(_) => CaseKind::Transcript,
        }
    }
}

/// A simulated tool: the suite answers its calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatedTool {
    /// The definition of the tool for the model.
    pub spec: ToolSpec,
    /// The answers for certain arguments. The first response that matches is used.
    pub responses: Vec<SimulatedResponse>,
    /// The answer for other arguments; an error object if absent.
    pub default_response: Option<Value>,
}

/// The answers for certain arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedResponse {
    /// The arguments that a call must contain with equal values.
    pub when: Map<String, Value>,
    /// The answers for successive calls; the last answer repeats.
    pub answers: Vec<SimulatedAnswer>,
}

/// One answer of a simulated tool.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SimulatedAnswer {
    /// The answer that the model gets.
    pub then: Value,
    /// The status of the call.
    pub status: ActionStatus,
}

impl SimulatedAnswer {
    /// Creates an answer from its content and the status of the call.
    pub fn new(then: Value, status: ActionStatus) -> Self {
        Self { then, status }
    }
}

impl SimulatedResponse {
    /// Creates a response with the same answer for each call.
    pub fn new(when: Map<String, Value>, then: Value) -> Self {
        Self { when, answers: vec![SimulatedAnswer { then, status: ActionStatus::Completed }] }
    }
}

/// One labelled turn of a conversation, with checks that see only this turn.
///
/// * A turn with a message sends this message. In the first turn, the message replaces the prompt's last user message.
///   In a later turn, it is sent when the previous turn has ended. The turn lasts until the model calls no more tools.
/// * A turn without a message continues the previous turn. If the first turn has no message, it is the reply to the
///   prompt. If several turns share a message, each turn is one request, and the last turn has all remaining requests.
///
/// `maxTurns` limits the requests of the whole conversation. The checks of a turn that was not reached are errored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConversationTurn {
    /// The label, which is unique in the case.
    pub label: String,
    /// The user's message; `None` if the turn continues the previous turn.
    pub user: Option<String>,
    /// The checks of this turn.
    pub checks: Arc<[Check]>,
}

impl ConversationTurn {
    /// Creates a turn with its checks; `user` is `None` if the turn continues the previous turn.
    pub fn new(label: impl Into<String>, user: Option<String>, checks: Arc<[Check]>) -> Self {
        Self { label: label.into(), user, checks }
    }

    /// Returns true if the turn has a required check, on which later turns depend.
    pub(crate) fn requires(&self) -> bool {
        self.checks.iter().any(|it| it.options.require)
    }
}
