//! Agents, and the tests that name them.

use kindlm_engine::Model;
use kindlm_source::{Code, Piece, locate};
use kindlm_types::{AgentKind, AgentSpec, Place, Problem, Role, pointer, suggest};
use serde_json::Value;

use super::check::Checked;
use super::{Loader, object};

/// The agents of a suite.
#[derive(Debug, Default)]
pub(super) struct Agents {
    /// The names that tests may refer to, those of broken entries included.
    names: Vec<String>,
    /// What is to be run.
    pub(super) ready: Vec<Model>,
}

impl Loader<'_> {
    /// Reads the agents.
    pub(super) fn agents(&mut self, piece: Piece<'_>, checked: &Checked) {
        for (id, entry) in object(&checked.document, "agents").into_iter().flatten() {
            self.agents.names.push(id.clone());
            let at = format!("/agents/{}", pointer::segment(id));
            if [kindlm_engine::COMMAND, kindlm_engine::TRANSCRIPT].contains(&&**id) {
                let problem = Problem::key(&at, format!("`{id}` cannot be the name of an agent"))
                    .with_help(
                        "choose another one: reports and `--models` call tests of commands and transcripts by it",
                    );
                self.sink.report(piece, "", vec![problem]);
            }
            if checked.is_faulty(&at) {
                continue;
            }
            let Some(spec) = self.sink.read::<AgentSpec>(piece, &at, entry.clone()) else {
                continue;
            };
            self.sink.report(piece, &at, problems(&spec));
            self.agents.ready.push(priced(id, spec));
        }
    }

    /// Checks that no model has the name of an agent: reports tell them apart by it.
    pub(super) fn check_agent_names(&mut self, piece: Piece<'_>) {
        for name in &self.agents.names.clone() {
            let Some(first) = self.models.get(name) else { continue };
            let (source, span) = (first.source.clone(), first.span);
            let at = format!("/agents/{}", pointer::segment(name));
            let message = format!("the name `{name}` is taken by a model");
            let diagnostic = piece
                .error(Code::DUPLICATE, &at, Place::Key, message)
                .with_label("given again")
                .with_related(&source, span, "given first")
                .with_help(
                    "give the agent another name: reports tell models and agents apart by it",
                );
            self.sink.push(diagnostic);
        }
    }

    /// True if this is the name of an agent.
    pub(super) fn is_agent(&self, id: &str) -> bool {
        self.agents.names.iter().any(|it| it == id)
    }

    /// True if there is no agent.
    pub(super) fn agents_are_none(&self) -> bool {
        self.agents.names.is_empty()
    }

    /// Checks the agents that a test names.
    pub(super) fn check_agents(&mut self, piece: Piece<'_>, at: &str, value: &Value) {
        for (at, id) in named(at, value) {
            if id.is_empty() || self.is_agent(id) {
                continue;
            }
            let message = format!("there is no agent `{id}`");
            let help = if self.agents.names.is_empty() {
                format!("say how it is started: `agents: {{ {id}: {{ command: ./agent.py }} }}`")
            } else {
                suggest(id, "agents", self.agents.names.iter().map(String::as_str))
            };
            let mut diagnostic =
                piece.error(Code::UNKNOWN_REFERENCE, &at, Place::Value, message).with_help(help);
            if piece.prefix.is_empty() && piece.root.get("agents").is_some() {
                let place = locate(piece.source, piece.root, "/agents", Place::Key).span;
                diagnostic = diagnostic.with_related(piece.source, place, "the agents are here");
            }
            self.sink.push(diagnostic);
        }
    }

    /// Checks that the agents of a test with a workspace have no folder of their own: they cannot work in both.
    pub(super) fn check_works_there(&mut self, piece: Piece<'_>, at: &str, value: &Value) {
        let whose = match value.get("workspace") {
            Some(_) => "this test has a `workspace`",
            None => "this test has the `workspace` of `defaults`",
        };
        for (at, id) in named(at, value) {
            let spec = self.agents.ready.iter().find(|it| it.id == id);
            let Some(cwd) = spec.and_then(|it| it.agent.as_ref()?.cwd.as_ref()) else { continue };
            let message =
                format!("the agent `{id}` has a folder of its own (`cwd: {cwd}`), and {whose}");
            let mut diagnostic = piece.error(Code::INVALID_VALUE, &at, Place::Value, message).with_help(
                "an agent cannot work in both: remove the `cwd`, or name another agent that has none",
            );
            let cwd = format!("/agents/{}/cwd", pointer::segment(id));
            if piece.prefix.is_empty() && piece.root.get("agents").is_some() {
                let place = locate(piece.source, piece.root, &cwd, Place::Value).span;
                diagnostic = diagnostic.with_related(piece.source, place, "its folder");
            }
            self.sink.push(diagnostic);
        }
    }

    /// Checks what is said to an agent: it can be told instructions and messages, one for each turn.
    pub(super) fn check_said(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        value: &Value,
        roles: Option<&[Role]>,
    ) {
        let turns: Vec<&Value> = value
            .get("conversation")
            .and_then(Value::as_array)
            .map(|it| it.iter().collect())
            .unwrap_or_default();
        let says = |turn: &&Value| turn.get("user").is_some();
        let opens = turns.first().is_some_and(says);
        if value.get("prompt").is_none() && !opens {
            let message = "the agent gets no message";
            let help = "name a `prompt`, or let the first turn of `conversation` have a `user`";
            self.sink
                .push(piece.error(Code::MISSING_KEY, at, Place::Value, message).with_help(help));
        }
        for (index, _) in turns.iter().enumerate().skip(1).filter(|(_, turn)| !says(turn)) {
            let at = format!("{at}/conversation/{index}");
            let message =
                "this turn has no `user`, and one turn of an agent is all that follows a message";
            let help = "say what the user says, or check the whole in the turn before";
            self.sink
                .push(piece.error(Code::MISSING_KEY, &at, Place::Value, message).with_help(help));
        }
        let roles = roles.unwrap_or_default();
        let at = format!("{at}/prompt");
        if roles.contains(&Role::Assistant) {
            let message = "an agent cannot be told what it has said before, and this prompt has words of the assistant";
            let help = "use a prompt with `system` and `user` only";
            self.sink
                .push(piece.error(Code::INVALID_VALUE, &at, Place::Value, message).with_help(help));
        } else if !roles.is_empty() && !opens && !roles.contains(&Role::User) {
            let message = "this prompt has no user message, so the agent gets none";
            let help = "give the prompt a `user`, or let the first turn of `conversation` have one";
            self.sink
                .push(piece.error(Code::INVALID_VALUE, &at, Place::Value, message).with_help(help));
        }
    }
}

/// The agents that a test names, each with its place.
fn named<'v>(at: &str, test: &'v Value) -> Vec<(String, &'v str)> {
    match test.get("agent") {
        Some(Value::String(id)) => vec![(format!("{at}/agent"), id.as_str())],
        Some(Value::Array(ids)) => {
            let ids = ids.iter().enumerate();
            ids.filter_map(|(index, id)| Some((format!("{at}/agent/{index}"), id.as_str()?)))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// What is wrong with an agent beyond its shape.
fn problems(spec: &AgentSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    if spec.kind == AgentKind::Kindlm {
        if spec.command.is_none() {
            problems.push(
                Problem::new("", "the agent has no `command`").with_help(
                    "say how it is started, such as `command: ./agent.py`, or which one it is: `type: claude-code` or `type: codex`",
                ),
            );
        }
        if !spec.ignore_lines.is_empty() {
            let problem =
                Problem::key("/ignoreLines", "KindLM's own protocol has no lines to be ignored");
            problems.push(problem.with_help("remove it: it is for `claude-code` and `codex`"));
        }
    }
    if spec.command.as_ref().is_some_and(|it| it.trim().is_empty()) {
        problems.push(Problem::new("/command", "the command line is empty"));
    }
    let texts = spec.args.iter().enumerate().map(|(index, it)| (format!("/args/{index}"), it));
    let texts = texts.chain(spec.command.iter().map(|it| ("/command".to_owned(), it)));
    for (at, _) in texts.filter(|(_, it)| it.contains('\0')) {
        problems.push(Problem::new(at, "it has a NUL character, which no argument can have"));
    }
    for (index, name) in spec.env.iter().flatten().enumerate() {
        if name.contains('=') || name.contains(char::is_whitespace) {
            let problem = Problem::new(format!("/env/{index}"), "this is no name of a variable");
            problems.push(problem.with_help(
                "write the name alone: its value comes from the environment of `kindlm`",
            ));
        }
    }
    problems
}

/// An agent as it is run, with the price that is known for its model.
fn priced(id: &str, spec: AgentSpec) -> Model {
    let vendor = match spec.kind {
        AgentKind::Kindlm => None,
        AgentKind::ClaudeCode => Some("anthropic"),
        AgentKind::Codex => Some("openai"),
    };
    let known = vendor.zip(spec.model.as_deref());
    let known = known.and_then(|(vendor, model)| kindlm_providers::pricing::price(vendor, model));
    let mut model = Model::of_agent(id, spec);
    model.price = model.price.or(known);
    model
}
