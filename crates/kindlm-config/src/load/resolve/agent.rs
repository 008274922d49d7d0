//! The agents of a suite.

use kindlm_engine::Model;
use kindlm_source::{Code, Piece};
use kindlm_types::{AgentKind, AgentSpec, MemberPart, Problem, pointer};

use super::Resolved;
use crate::load::check::Checked;
use crate::load::object;

/// The agents of a suite.
#[derive(Debug, Default)]
pub(in crate::load) struct Agents {
    /// The names of all agents, including those with errors.
    pub(in crate::load) names: Vec<String>,
    /// The agents whose blocks match the schema, as models for the runner.
    pub(in crate::load) ready: Vec<Model>,
}

impl Resolved<'_> {
    /// Reads the agents of the document, and reports their problems.
    pub(in crate::load) fn agents(&mut self, piece: Piece<'_>, checked: &Checked) {
        for (id, entry) in object(&checked.document, "agents").into_iter().flatten() {
            self.agents.names.push(id.clone());
            let at = format!("/agents/{}", pointer::segment(id));
            if [kindlm_engine::COMMAND, kindlm_engine::TRANSCRIPT].contains(&&**id) {
                let problem = Problem::key(&at, format!("`{id}` cannot be the name of an agent"))
                    .with_help(
                        "choose another one: reports and `--models` use it for tests of commands and transcripts",
                    );
                self.sink.report(piece, "", vec![problem]);
            }
            if checked.is_faulty(&at) {
                continue;
            }
            let Some(spec) = self.sink.parse_value::<AgentSpec>(piece, &at, entry.clone()) else {
                continue;
            };
            self.sink.report(piece, &at, problems(&spec));
            self.agents.ready.push(priced(id, spec));
        }
    }

    /// Reports agents that have the id of a model, because results identify models and agents by this id.
    pub(in crate::load) fn check_agent_names(&mut self, piece: Piece<'_>) {
        for name in &self.agents.names.clone() {
            let Some(first) = self.models.get(name) else { continue };
            let (source, span) = (first.source.clone(), first.span);
            let at = format!("/agents/{}", pointer::segment(name));
            let message = format!("the name `{name}` is taken by a model");
            let diagnostic = piece
                .error(Code::DUPLICATE, &at, MemberPart::Key, message)
                .with_label("given again")
                .with_related(&source, span, "given first")
                .with_help(
                    "give the agent another name: reports identify models and agents by name",
                );
            self.sink.push(diagnostic);
        }
    }

    /// True if an agent has this name.
    pub(in crate::load) fn is_agent(&self, id: &str) -> bool {
        self.agents.names.iter().any(|it| it == id)
    }

    /// True if the suite has no agents.
    pub(in crate::load) fn agents_are_none(&self) -> bool {
        self.agents.names.is_empty()
    }
}

/// Returns the problems of an agent that its schema cannot express.
fn problems(spec: &AgentSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    if spec.kind == AgentKind::Kindlm {
        if spec.command.is_none() {
            problems.push(
                Problem::new("", "the agent has no `command`").with_help(
                    "add a `command`, such as `command: ./agent.py`, or a type: `type: claude-code` or `type: codex`",
                ),
            );
        }
        if !spec.ignore_lines.is_empty() {
            let problem =
                Problem::key("/ignoreLines", "KindLM's own protocol has no lines to be ignored");
            problems.push(problem.with_help("remove it: it is for `claude-code` and `codex`"));
        }
        if spec.output_schema.is_some() {
            let problem = Problem::key("/outputSchema", "KindLM's own protocol has no schema");
            problems.push(problem.with_help("remove it: it is for `claude-code` and `codex`"));
        }
    }
    problems.extend(problems_of_start(spec));
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
            let problem =
                Problem::new(format!("/env/{index}"), "this is not the name of a variable");
            problems.push(problem.with_help(
                "write the name alone: its value comes from the environment of `kindlm`",
            ));
        }
    }
    problems
}

/// Returns the problems of an agent's folder, and of the variables that are set for it.
fn problems_of_start(spec: &AgentSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    if spec.empty_folder && spec.cwd.is_some() {
        let problem = Problem::key("/emptyFolder", "the agent has a `cwd` already");
        problems.push(problem.with_help("remove one of the two"));
    }
    if spec.empty_folder && spec.kind == AgentKind::Codex {
        let message = "each turn of Codex is a process, which would get another empty folder";
        let help = "remove it, or use a `workspace`";
        problems.push(Problem::key("/emptyFolder", message).with_help(help));
    }
    for name in spec.set_env.keys() {
        let at = format!("/setEnv/{}", pointer::segment(name));
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            let problem = Problem::key(at, "this is not the name of a variable");
            problems.push(problem.with_help("use letters, digits and `_`"));
        } else if kindlm_redact::is_certain_secret(name) {
            let problem = Problem::key(at, "a secret must not be in a file");
            problems.push(problem.with_help("set it in the environment, and name it in `env`"));
        }
    }
    problems
}

/// Converts an agent to a model.
///
/// An agent without a price gets the built-in price of its `model`, if this price is known.
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
