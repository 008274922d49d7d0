//! Tests, from a list or from datasets.

use std::time::Duration;

use kindlm_assertions::Check;
use kindlm_engine::{ConversationTurn, SimulatedResponse, SimulatedTool, Subject, TestCase};
use kindlm_schema::Schema;
use kindlm_types::{Message, Place, ProblemKind, ToolSpec};
use serde_json::{Map, Value};

use super::advice::check_something;
use super::prompt::{Prompt, Prompts};
use super::vars::{Missing, Written};
use super::{Loader, Spot, object, text};
use crate::diagnostic::{Code, Piece, meant_key};
use crate::schema::SHAPES;
use crate::template::Template;
use crate::tree::{Node, locate};
use crate::written::{Skip, TestEntry, Tool};

/// How an entry of the list names a dataset.
pub(super) const FILE: &str = "file://";

/// What could be resolved of a test without its own type.
struct Parts {
    subject: Option<Subject>,
    checks: Vec<Check>,
    conversation: Vec<ConversationTurn>,
    /// Tells whether something of it has changed.
    digest: Option<String>,
}

impl Loader<'_> {
    pub(super) fn tests(&mut self, piece: Piece<'_>, prompts: &Prompts) {
        let Some(tests) = piece.root.get("tests") else { return };
        if let Some(text) = tests.text() {
            self.dataset(piece, "/tests", text, prompts);
            return;
        }
        for (index, item) in tests.items().iter().enumerate() {
            let at = format!("/tests/{index}");
            if self.found.is_full {
                let diagnostic = piece.error(
                    Code::INVALID_VALUE,
                    &at,
                    Place::Value,
                    "too many problems: the tests from here on are not checked",
                );
                self.found.errors.push(diagnostic);
                return;
            }
            match item.text() {
                Some(text) => self.dataset(piece, &at, text, prompts),
                None => self.test(piece, &at, item, prompts),
            }
        }
    }

    /// Reads one test. `at` leads to it from the piece.
    pub(super) fn test(&mut self, piece: Piece<'_>, at: &str, node: &Node, prompts: &Prompts) {
        let value = node.to_json();
        let problems = SHAPES.test.problems(&value);
        let is_broken = !problems.is_empty();
        let is_misspelt = problems
            .iter()
            .filter_map(meant_key)
            .any(|(parent, meant)| parent.is_empty() && (meant == "prompt" || meant == "command"));
        self.report(piece, at, problems);
        if !is_misspelt {
            self.check_subject(piece, at, &value, prompts);
        }
        if !value.is_object() {
            return;
        }
        self.check_name(piece, at, &value);
        self.check_models(piece, at, &value);
        let parts = self.parts(piece, at, node, &value, prompts);
        if is_broken {
            return;
        }
        self.check_tools(piece, at, &value);
        self.check_called(piece, at, &value);
        let Some(entry) = self.read::<TestEntry>(piece, at, value) else { return };
        self.check_effect(piece, at, &entry);
        let Some(subject) = parts.subject else { return };
        let mut case = self.case(entry, subject, parts.checks, parts.conversation);
        case.digest = parts.digest;
        self.suite.cases.push(case);
    }

    fn case(
        &self,
        entry: TestEntry,
        subject: Subject,
        checks: Vec<Check>,
        conversation: Vec<ConversationTurn>,
    ) -> TestCase {
        let models = match (&subject, entry.models) {
            (Subject::Command { .. }, _) => Vec::new(),
            (Subject::Prompt { .. }, Some(models)) => unique(models),
            (Subject::Prompt { .. }, None) => self.listed.clone(),
        };
        TestCase {
            name: entry.name,
            subject,
            models,
            repeat: entry.repeat.unwrap_or(self.defaults.repeat),
            pass_rate_min: entry.pass_rate_min.unwrap_or(self.defaults.pass_rate_min),
            tools: entry.tools.into_iter().map(simulated).collect(),
            conversation,
            max_turns: entry.max_turns,
            checks,
            tags: entry.tags,
            skip: match entry.skip {
                Skip::Plain(false) => None,
                Skip::Plain(true) => Some("skipped in the config file".to_owned()),
                Skip::Because(why) => Some(why),
            },
            vars: entry.vars,
            timeout: entry.timeout_ms.map(Duration::from_millis),
            digest: None,
        }
    }

    fn check_name(&mut self, piece: Piece<'_>, at: &str, value: &Value) {
        let Some(name) = text(value, "name").filter(|it| !it.is_empty()) else { return };
        let at = format!("{at}/name");
        let span = locate(piece.source, piece.root, &at, Place::Value).span;
        if let Some(first) = self.names.get(name) {
            let diagnostic = piece
                .error(
                    Code::DUPLICATE,
                    &at,
                    Place::Value,
                    format!("the test name `{name}` is taken"),
                )
                .with_label("given again")
                .with_related(&first.source, first.span, "given first")
                .with_help("give each test a name of its own: reports and baselines go by it");
            self.push(diagnostic);
        } else {
            let spot = Spot { source: piece.source.clone(), span };
            self.names.insert(name.to_owned(), spot);
        }
    }

    /// A test runs either a prompt or a command.
    fn check_subject(&mut self, piece: Piece<'_>, at: &str, value: &Value, prompts: &Prompts) {
        let (code, message, help) = match (value.get("prompt"), value.get("command")) {
            (Some(_), Some(_)) => (
                Code::INVALID_VALUE,
                "a test has either a `prompt` or a `command`, not both",
                "remove one of the two".to_owned(),
            ),
            (None, None) if value.is_object() => (
                Code::MISSING_KEY,
                "the test has neither a `prompt` nor a `command`",
                match prompts.names().first() {
                    Some(name) => format!("say what to run, such as `prompt: {name}`"),
                    None => "say what to run: `prompt` or `command`".to_owned(),
                },
            ),
            _ => return,
        };
        self.push(piece.error(code, at, Place::Value, message).with_help(help));
    }

    fn check_models(&mut self, piece: Piece<'_>, at: &str, value: &Value) {
        let models = value.get("models").and_then(Value::as_array).into_iter().flatten();
        for (index, id) in models.enumerate() {
            if let Some(id) = id.as_str() {
                self.refer(piece, &format!("{at}/models/{index}"), id);
            }
        }
    }

    /// Resolves what has places of its own: the prompt or command, the checks, the turns.
    fn parts(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        node: &Node,
        value: &Value,
        prompts: &Prompts,
    ) -> Parts {
        let no_vars = Map::new();
        let vars = object(value, "vars");
        let mut missing = Missing::default();
        let given = vars.unwrap_or(&no_vars);
        let (subject, prompt) = self.subject(piece, at, node, value, prompts, given, &mut missing);
        let errors = self.found.errors.len();
        let conversation = self.turns(piece, at, node, value, given, &mut missing);
        let turns_are_whole = self.found.errors.len() == errors;
        // `vars` that are not a mapping are reported by the shape, and then nothing is known about them.
        if vars.is_some() || value.get("vars").is_none() {
            self.report_missing(piece, at, vars, &missing);
        }
        let errors = self.found.errors.len();
        let mut checks = match value.get("expect") {
            Some(expect @ Value::Object(_)) => self.expect(piece, &format!("{at}/expect"), expect),
            _ => Vec::new(),
        };
        checks.extend(prompt.into_iter().flat_map(|it| it.checks.iter().cloned()));
        let in_turns = conversation.iter().flat_map(|it| &it.checks);
        // Of what is broken nobody knows whether it would check something.
        let is_whole = turns_are_whole && self.found.errors.len() == errors;
        if is_whole
            && object(value, "expect").is_some()
            && !check_something(checks.iter().chain(in_turns))
        {
            self.idle.1 += 1;
            if self.idle.0.is_none() {
                let name = text(value, "name").unwrap_or_default();
                let diagnostic = piece
                    .error(Code::NO_EFFECT, &format!("{at}/expect"), Place::Value, name)
                    .with_help("say under `expect` what must hold: without checks it always passes")
                    .into_warning();
                self.idle.0 = Some(diagnostic);
            }
        }
        let rules = prompt.map_or(&Value::Null, |it| &it.rules);
        let digest = subject.as_ref().map(|it| self.digest(value, it, &conversation, rules));
        Parts { subject, checks, conversation, digest }
    }

    #[expect(clippy::too_many_arguments, reason = "one test, taken apart by its caller")]
    fn subject<'p>(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        node: &Node,
        value: &Value,
        prompts: &'p Prompts,
        vars: &Map<String, Value>,
        missing: &mut Missing,
    ) -> (Option<Subject>, Option<&'p Prompt>) {
        match (value.get("prompt"), value.get("command")) {
            (Some(_), Some(_)) | (None, None) => (None, None),
            (Some(prompt), None) => {
                let Some(name) = prompt.as_str().filter(|it| !it.is_empty()) else {
                    return (None, None);
                };
                if !prompts.has(name) && !prompts.is_empty() {
                    self.unknown_prompt(piece, &format!("{at}/prompt"), name, &prompts.names());
                }
                let Some(prompt) = prompts.get(name) else { return (None, None) };
                let messages = prompt
                    .parts
                    .iter()
                    .map(|part| {
                        let written = Written {
                            template: &part.template,
                            source: &part.source,
                            span: part.span,
                        };
                        Message::new(part.role, self.fill(written, vars, missing))
                    })
                    .collect();
                (Some(Subject::Prompt { messages }), Some(prompt))
            }
            (None, Some(command)) => {
                let Some(line) = command.as_str() else { return (None, None) };
                let template = Template::read(line);
                let span = node.get("command").map_or(node.span, |it| it.span);
                let written = Written { template: &template, source: piece.source, span };
                let command_line = self.fill_command(written, vars, missing);
                (Some(Subject::Command { command_line }), None)
            }
        }
    }

    pub(super) fn expect(&mut self, piece: Piece<'_>, at: &str, expect: &Value) -> Vec<Check> {
        if expect.as_object().is_some_and(Map::is_empty) {
            return Vec::new();
        }
        let (checks, problems) = kindlm_assertions::compile(expect, self.setup);
        if problems.is_empty() {
            self.lint_schemas(piece, at, expect);
        }
        for problem in problems {
            let outside = problem.kind == ProblemKind::File { outside: true };
            let mut diagnostic = piece.problem(problem.under(at));
            if outside {
                diagnostic.help = Some(super::OUTSIDE_HELP.to_owned());
            }
            self.push(diagnostic);
        }
        self.refer_judges(piece, at, expect);
        checks
    }

    /// Warns of what a test has and cannot use.
    fn check_effect(&mut self, piece: Piece<'_>, at: &str, entry: &TestEntry) {
        if entry.command.is_none() {
            return;
        }
        for (key, is_there) in [
            ("tools", !entry.tools.is_empty()),
            ("conversation", !entry.conversation.is_empty()),
            ("models", entry.models.is_some()),
        ] {
            if is_there {
                let message = format!("`{key}` does nothing in a test with a `command`");
                self.no_effect(piece, &format!("{at}/{key}"), &message);
            }
        }
    }

    /// Warns of tools whose `parameters` are not a JSON Schema: providers refuse them.
    fn check_tools(&mut self, piece: Piece<'_>, at: &str, value: &Value) {
        let tools = value.get("tools").and_then(Value::as_array).into_iter().flatten();
        for (index, tool) in tools.enumerate() {
            let Some(parameters) = tool.get("parameters") else { continue };
            let fault = self
                .tool_schemas
                .entry(parameters.to_string())
                .or_insert_with(|| Schema::compile(parameters).err().map(|it| it.to_string()))
                .clone();
            if let Some(fault) = fault {
                let at = format!("{at}/tools/{index}/parameters");
                let message = format!("these parameters are not a usable JSON Schema: {fault}");
                let diagnostic =
                    piece.error(Code::INVALID_VALUE, &at, Place::Key, message).into_warning();
                self.push(diagnostic);
            }
        }
    }
}

/// Each id once.
fn unique(ids: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(ids.len());
    for id in ids {
        if !kept.contains(&id) {
            kept.push(id);
        }
    }
    kept
}

fn simulated(tool: Tool) -> SimulatedTool {
    SimulatedTool {
        spec: ToolSpec {
            name: tool.name,
            description: tool.description,
            parameters: tool.parameters.map(Value::Object),
        },
        responses: tool
            .responses
            .into_iter()
            .map(|it| SimulatedResponse { when: it.when, then: it.then })
            .collect(),
        default_response: tool.default_response,
    }
}
