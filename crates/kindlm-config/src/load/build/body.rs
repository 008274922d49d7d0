//! The compact form in which a test is stored until it is executed.
//!
//! A suite may have a hundred thousand rows. Each row is checked in full when the suite is read. Afterwards, its
//! variables are stored as JSON text. Everything that several rows have in common is stored once.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use kindlm_assertions::{Check, Setup};
use kindlm_engine::{
    BodyError, BodySource, CaseBody, ConversationTurn, Digest, Fingerprint, SimulatedAnswer,
    SimulatedResponse, SimulatedTool, Subject,
};
use kindlm_types::{ActionStatus, Channel, ToolSpec, Transcript, WorkspaceSpec};
use serde_json::{Map, Value, json};

use super::messages::{evidence, fill, opening_messages};
use crate::load::media::MediaFiles;
use crate::load::resolve::Opening;
use crate::template::Form;
use crate::written::{Response, Tool, ToolAnswer};

/// A part of a test, either compiled or, if the pool of compiled parts is full, as JSON.
#[derive(Debug)]
pub(super) enum Part<T: ?Sized> {
    Ready(Arc<T>),
    Written(Arc<str>),
}

/// A transcript that was read, and its digest.
#[derive(Clone, Debug)]
pub(super) struct ReadTranscript {
    pub(super) transcript: Arc<Transcript>,
    /// The digest of the value from which the transcript was read.
    pub(super) digest: Fingerprint,
}

/// The subject of a test: the prompt, command or transcript.
#[derive(Debug)]
pub(super) enum SubjectForm {
    Prompt(Arc<Opening>),
    Command(Form),
    Transcript(ReadTranscript),
}

/// A labelled turn of a conversation.
#[derive(Debug)]
pub(super) struct TurnForm {
    pub(super) label: String,
    pub(super) user: Option<Form>,
    pub(super) checks: Part<[Check]>,
}

/// The common parts of tests that differ only in their variables and expectations.
#[derive(Debug)]
pub(super) struct TestParts {
    pub(super) compiler: Arc<Compiler>,
    pub(super) subject: SubjectForm,
    pub(super) tools: Part<[SimulatedTool]>,
    pub(super) conversation: Vec<TurnForm>,
    pub(super) max_turns: u32,
    pub(super) answers_tools: bool,
    /// The evidence that the test declares complete.
    pub(super) declared: BTreeSet<Channel>,
    /// The working folder of the agent.
    pub(super) workspace: Option<Arc<WorkspaceSpec>>,
    /// The checks of the prompt and of assertion sets. If the own checks of a test are compiled again from JSON, the
    /// compiler adds these checks.
    pub(super) prompt_checks: Arc<[Check]>,
    /// The digests of these parts.
    pub(super) digests: SharedDigests,
}

/// The digests of the parts that tests share.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedDigests {
    /// The digest of the subject, turns, tools, limits, declared evidence, rules and the block `scripts`.
    pub(super) whole: Fingerprint,
    /// The digest of the same parts without the subject, which may differ between compared runs.
    pub(super) task: Fingerprint,
}

/// Compiles checks without reading files, because all files were read with the suite.
#[derive(Debug, Default)]
pub(super) struct Compiler {
    setup: OnceLock<Setup<'static>>,
    media: OnceLock<MediaFiles>,
}

/// One test: its own values, and the parts that it shares with other tests.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) shared: Arc<TestParts>,
    /// The variables as JSON; empty without variables.
    pub(super) vars: Box<str>,
    /// The values that few tests have; `None` if all are empty.
    pub(super) more: Option<Box<More>>,
    /// The checks of the whole test. A `Part::Ready` contains the checks of the prompt and of assertion sets too.
    pub(super) checks: Part<[Check]>,
    /// The `expect` block as JSON for scripts, if it has a list of checks.
    pub(super) expect: Option<Arc<str>>,
}

/// The values that few tests have.
#[derive(Debug)]
pub(super) struct More {
    pub(super) metadata: Map<String, Value>,
    /// The options of the test, which scripts can read.
    pub(super) options: Map<String, Value>,
    /// The recorded output; `None` if the test has no recorded output.
    pub(super) recorded: Option<Value>,
}

impl More {
    /// Returns the values in a box; `None` if all are empty.
    pub(super) fn boxed(
        metadata: Map<String, Value>,
        recorded: Option<Value>,
        options: Map<String, Value>,
    ) -> Option<Box<Self>> {
        let is_empty = metadata.is_empty() && options.is_empty() && recorded.is_none();
        (!is_empty).then(|| Box::new(Self { metadata, options, recorded }))
    }

    /// Adds the values to the digest of the test.
    pub(super) fn digest(&self, digest: Digest) -> Digest {
        let Self { metadata, options, recorded } = self;
        // Without options, the digest is the same as in versions that had no options.
        if options.is_empty() {
            return digest.value(&json!([metadata, recorded]));
        }
        digest.value(&json!([metadata, recorded, options]))
    }
}

impl Compiler {
    /// Stores the setup with all compiled files, and the files of prompts. [`build`](super::build) calls this function
    /// after the last test.
    pub(super) fn close(&self, setup: Setup<'_>, media: MediaFiles) {
        // A second call has no effect.
        let _ = self.setup.set(setup.without_files());
        let _ = self.media.set(media);
    }

    fn checks(
        &self,
        part: &Part<[Check]>,
        vars: &Map<String, Value>,
        more: &Arc<[Check]>,
    ) -> Result<Arc<[Check]>, BodyError> {
        let text = match part {
            Part::Ready(checks) => return Ok(Arc::clone(checks)),
            Part::Written(text) => text,
        };
        let Some(setup) = self.setup.get() else {
            return Err(BodyError("its suite is not read to the end".to_owned()));
        };
        let (checks, problems) = kindlm_assertions::compile_with(&parse(text)?, setup, vars);
        match problems.first() {
            Some(problem) => Err(BodyError(format!("{}: {}", problem.pointer, problem.message))),
            None => Ok(checks.into_iter().chain(more.iter().cloned()).collect()),
        }
    }
}

impl BodySource for Row {
    fn workspace(&self) -> Option<Arc<WorkspaceSpec>> {
        self.shared.workspace.clone()
    }

    fn body(&self) -> Result<Cow<'_, CaseBody>, BodyError> {
        self.body_with(&Map::new())
    }

    fn body_with(&self, replaced: &Map<String, Value>) -> Result<Cow<'_, CaseBody>, BodyError> {
        let shared = &*self.shared;
        let mut vars: Map<String, Value> =
            if self.vars.is_empty() { Map::new() } else { parse(&self.vars)? };
        vars.extend(replaced.iter().map(|(name, it)| (name.clone(), it.clone())));
        let mut is_chat = false;
        let subject = match &shared.subject {
            SubjectForm::Prompt(opening) => {
                let none = MediaFiles::default();
                let media = shared.compiler.media.get().unwrap_or(&none);
                let (messages, reads_chat) = opening_messages(opening, &vars, media)?;
                is_chat = opening.is_chat || reads_chat;
                Subject::Prompt { messages }
            }
            SubjectForm::Command(form) => Subject::Command { command_line: fill(form, &vars)? },
            SubjectForm::Transcript(known) => Subject::Transcript(Arc::clone(&known.transcript)),
        };
        let turn = |turn: &TurnForm| -> Result<ConversationTurn, BodyError> {
            let user = turn.user.as_ref().map(|it| fill(it, &vars)).transpose()?;
            let checks = shared.compiler.checks(&turn.checks, &vars, &Arc::default())?;
            Ok(ConversationTurn::new(turn.label.clone(), user, checks))
        };
        let conversation = shared.conversation.iter().map(turn).collect::<Result<_, _>>()?;
        let tools = match &shared.tools {
            Part::Ready(tools) => Arc::clone(tools),
            Part::Written(text) => simulated(parse(text)?),
        };
        let checks = shared.compiler.checks(&self.checks, &vars, &shared.prompt_checks)?;
        let opening = match &shared.subject {
            SubjectForm::Prompt(opening) => Some(opening),
            SubjectForm::Command(_) | SubjectForm::Transcript(_) => None,
        };
        let vars = match opening {
            Some(opening) => evidence(opening, vars),
            None => vars,
        };
        Ok(Cow::Owned(CaseBody {
            subject,
            tools,
            conversation,
            max_turns: shared.max_turns,
            answers_tools: shared.answers_tools,
            declared: shared.declared.clone(),
            checks,
            vars,
            metadata: self.more.as_ref().map(|it| it.metadata.clone()).unwrap_or_default(),
            options: self.more.as_ref().map(|it| it.options.clone()).unwrap_or_default(),
            prompt_name: opening.and_then(|it| it.name.clone()),
            is_chat,
            expect: self.expect.clone(),
            recorded: self.more.as_ref().and_then(|it| it.recorded.clone()),
            workspace: shared.workspace.clone(),
        }))
    }
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, BodyError> {
    serde_json::from_str(text).map_err(|err| BodyError(err.to_string()))
}

fn simulated_response(written: Response) -> SimulatedResponse {
    let answer = |it: ToolAnswer| {
        SimulatedAnswer::new(it.then, it.status.unwrap_or(ActionStatus::Completed))
    };
    let only = written.then.map(|then| ToolAnswer { then, status: written.status });
    let answers = only.into_iter().chain(written.answers).map(answer).collect();
    SimulatedResponse { when: written.when, answers }
}

/// Converts the tools to the types of the engine.
pub(super) fn simulated(tools: Vec<Tool>) -> Arc<[SimulatedTool]> {
    let tool = |tool: Tool| SimulatedTool {
        spec: ToolSpec {
            name: tool.name,
            description: tool.description,
            parameters: tool.parameters.map(Value::Object),
        },
        responses: tool.responses.into_iter().map(simulated_response).collect(),
        default_response: tool.default_response,
    };
    tools.into_iter().map(tool).collect()
}
