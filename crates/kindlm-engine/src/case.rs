//! A test case: what planning and reports need of it, and where the rest comes from when it is executed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kindlm_assertions::{Check, Transform, View};
use kindlm_types::{ActionStatus, Channel, Message, Role, ToolSpec, Transcript, WorkspaceSpec};
use serde_json::{Map, Value};

use crate::Fingerprint;

/// The model id under which command tests are reported.
pub const COMMAND: &str = "command";

/// The model id under which tests of transcripts are reported.
pub const TRANSCRIPT: &str = "transcript";

/// A named behaviour with its expectations.
///
/// A suite holds every case for the whole run, so a case itself is small: what it sends and expects is its
/// [`body`](Self::body), which may be made only when the case is executed. Lists that many cases have in common are
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
    /// Unique in the suite.
    pub name: String,
    /// The thing that is run: a prompt, a command, a transcript, an agent.
    pub kind: CaseKind,
    /// Ids of the models to run it on; ignored for commands and transcripts.
    pub models: Arc<[String]>,
    /// The number of repeats on each model, from 1.
    pub repeat: u32,
    /// The least share of repeats that must pass, 0 to 1.
    pub pass_rate_min: f64,
    /// The weighted mean score from which an execution passes, whichever of its checks failed.
    pub threshold: Option<f64>,
    /// Whom the executions of the case are compared with, if a check of it [compares](Check::compares).
    pub compared: Option<Comparison>,
    /// Scripts that make what all checks see as the output, one after the other.
    pub transforms: Arc<[Arc<Transform>]>,
    /// For selection and for coverage in reports.
    pub tags: Arc<[String]>,
    /// Why the case is not run, if it is not.
    pub skip: Option<Arc<str>>,
    /// The time limit of one request or command; the suite's default if absent.
    pub timeout: Option<Duration>,
    /// A digest of what the case sends and expects; `None` if it was not computed.
    pub digest: Option<Fingerprint>,
    /// The input and the expectations.
    pub body: Arc<dyn BodySource>,
}

/// Who is compared with each other, repeat by repeat: all cases that say the same here, on all their models.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// The models of one case, by its name.
    Case(Arc<str>),
    /// All cases that give this name to what they take part in. It may be the name of a case, which then takes no part.
    Named(Arc<str>),
}

/// The kind of a case: it sends a prompt, runs a program or an agent, or reads a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseKind {
    /// Messages, sent to each of the case's models.
    Prompt,
    /// A command line.
    Command,
    /// A conversation that was recorded elsewhere.
    Transcript,
}

impl CaseKind {
    /// The model id of cases that run on no model.
    pub const fn alone(self) -> Option<&'static str> {
        match self {
            Self::Prompt => None,
            Self::Command => Some(COMMAND),
            Self::Transcript => Some(TRANSCRIPT),
        }
    }
}

impl TestCase {
    /// A case that runs once, on no model yet; see [`on`](Self::on).
    pub fn new(name: impl Into<String>, body: CaseBody) -> Self {
        Self {
            name: name.into(),
            kind: body.subject.kind(),
            models: Arc::default(),
            repeat: 1,
            pass_rate_min: 1.0,
            threshold: None,
            compared: None,
            transforms: Arc::default(),
            tags: Arc::default(),
            skip: None,
            timeout: None,
            digest: None,
            body: Arc::new(body),
        }
    }

    /// The same case on these models.
    #[must_use]
    pub fn on(self, models: &[&str]) -> Self {
        Self { models: models.iter().map(|&it| it.to_owned()).collect(), ..self }
    }

    /// A case that sends one user message to `models`, once, and expects nothing.
    pub fn prompt(name: impl Into<String>, user: impl Into<String>, models: &[&str]) -> Self {
        Self::new(name, CaseBody::prompt(user)).on(models)
    }

    /// A case that runs a command, once, and expects nothing.
    pub fn command(name: impl Into<String>, command_line: impl Into<String>) -> Self {
        Self::new(name, CaseBody::command(command_line))
    }
}

/// The source of a case's body: the body itself, or something smaller that makes it.
///
/// It is asked before each execution, and gives the same body each time.
pub trait BodySource: fmt::Debug + Send + Sync {
    /// The input and the expectations of the case.
    fn body(&self) -> Result<Cow<'_, CaseBody>, BodyError>;

    /// The [workspace](CaseBody::workspace) of the body, which may be known before the rest is made.
    fn workspace(&self) -> Option<Arc<WorkspaceSpec>> {
        self.body().ok()?.workspace.clone()
    }
}

/// A body that could not be made, although it could be when the suite was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the test case could be read with its suite, but not again: {0}")]
pub struct BodyError(pub String);

/// The input and the expectations of a case. Variables are already filled in.
#[derive(Clone, Debug)]
pub struct CaseBody {
    /// The thing that is run: a prompt, a command, a transcript, an agent.
    pub subject: Subject,
    /// The tools that the model may call, with simulated answers.
    pub tools: Arc<[SimulatedTool]>,
    /// Labelled turns with checks of their own.
    pub conversation: Vec<ConversationTurn>,
    /// The most requests in one execution.
    pub max_turns: u32,
    /// True if tool calls are answered. If not, a reply that asks for tools is the last one, as it is.
    pub answers_tools: bool,
    /// The evidence that the case declares complete.
    pub declared: BTreeSet<Channel>,
    /// The checks at the end.
    pub checks: Arc<[Check]>,
    /// The variables, kept as evidence.
    pub vars: Map<String, Value>,
    /// The case as scripts see it, stored as evidence.
    pub metadata: Map<String, Value>,
    /// The options of the case, for scripts.
    pub options: Map<String, Value>,
    /// The name of its prompt in the suite.
    pub prompt_name: Option<Arc<str>>,
    /// True if its prompt is written as messages: who is given it as one text is given JSON.
    pub is_chat: bool,
    /// The `expect` block as it is written, as JSON: scripts see it.
    pub expect: Option<Arc<str>>,
    /// The output, if it is recorded already.
    pub recorded: Option<Value>,
    /// The folder of its own in which the agent works, if it has one.
    pub workspace: Option<Arc<WorkspaceSpec>>,
}

impl CaseBody {
    /// One user message.
    pub fn prompt(user: impl Into<String>) -> Self {
        Self::new(Subject::Prompt { messages: vec![Message::new(Role::User, user)] })
    }

    /// A command line.
    pub fn command(command_line: impl Into<String>) -> Self {
        Self::new(Subject::Command { command_line: command_line.into() })
    }

    /// A body that expects nothing.
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
    /// The case's body, whose checks see the output that the case's transform makes.
    pub(crate) fn made_body(&self) -> Result<Cow<'_, CaseBody>, BodyError> {
        let body = self.body.body()?;
        if self.transforms.is_empty() {
            return Ok(body);
        }
        let first = |check: &Check| {
            let mut check = check.clone();
            let views = self.transforms.iter().map(|it| View::Script(Arc::clone(it)));
            check.views.splice(0..0, views);
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

/// The subject of a test case. Variables are already filled in.
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
    /// A conversation that was recorded elsewhere.
    Transcript(Arc<Transcript>),
}

impl Subject {
    /// Which of the two it is.
    pub fn kind(&self) -> CaseKind {
        match self {
            Self::Prompt { .. } => CaseKind::Prompt,
            Self::Command { .. } => CaseKind::Command,
            Self::Transcript(_) => CaseKind::Transcript,
        }
    }
}

/// A tool whose answers the suite makes up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatedTool {
    /// The tool as the model sees it.
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
    /// The answers, given one after the other; the last one stays.
    pub answers: Vec<SimulatedAnswer>,
}

/// One answer of a simulated tool.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedAnswer {
    /// The answer.
    pub then: Value,
    /// The status of the call.
    pub status: ActionStatus,
}

impl SimulatedResponse {
    /// The same answer each time.
    pub fn new(when: Map<String, Value>, then: Value) -> Self {
        Self { when, answers: vec![SimulatedAnswer { then, status: ActionStatus::Completed }] }
    }
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
    /// The user's message; `None` continues the turn before.
    pub user: Option<String>,
    /// The checks of this turn alone.
    pub checks: Arc<[Check]>,
}

impl ConversationTurn {
    /// True if later turns depend on a check of this one.
    pub(crate) fn requires(&self) -> bool {
        self.checks.iter().any(|it| it.options.require)
    }
}
