//! Tests, from a list or from datasets.

use std::sync::Arc;
use std::time::Duration;

use kindlm_assertions::{Check, Transform};
use kindlm_engine::{CaseKind, Comparison, Digest, Fingerprint, TestCase};
use kindlm_schema::Schema;
use kindlm_types::{Place, Role};
use serde_json::{Map, Value};

use super::body::{Kit, More, Part, Row, SubjectForm, simulated};
use super::pool::Block;
use super::prompt::{Prompt, PromptPart, Prompts};
use super::sets::{Rules, judging_of};
use super::turn::Turns;
use super::vars::{Missing, Written};
use super::workspace::Resolved;
use super::{Loader, Spot, object, text};
use crate::diagnostic::{Code, Piece, meant_key};
use crate::schema::SHAPES;
use crate::template::Template;
use crate::tree::{Node, locate};
use crate::written::{TestEntry, Transforms};

/// How an entry of the list names a dataset.
pub(super) const FILE: &str = "file://";

/// What could be resolved of a test without its own type.
struct Parts<'p> {
    subject: Option<SubjectForm>,
    /// The prompt, if it is a test of one.
    prompt: Option<&'p Prompt>,
    /// The rules of the prompt and of sets.
    rules: Arc<Rules>,
    checks: Part<[Check]>,
    conversation: Turns,
    /// Of what must hold at the end, and of the folder in which it must.
    expect: Fingerprint,
    /// Whether the suite's own judge is asked about it.
    asks_judge: bool,
    /// Whether it is compared with others.
    compares: bool,
    /// The folder of its own in which the agent works.
    workspace: Option<Resolved>,
    /// The `expect` block as JSON, if it has a list of checks.
    written: Option<Arc<str>>,
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
        let is_misspelt = problems.iter().filter_map(meant_key).any(|(parent, meant)| {
            parent.is_empty() && ["prompt", "command", "agent", "transcript"].contains(&&*meant)
        });
        self.report(piece, at, problems);
        if !is_misspelt {
            self.check_subject(piece, at, &value, prompts);
        }
        if !value.is_object() {
            return;
        }
        self.check_name(piece, at, &value);
        self.check_models(piece, at, &value);
        self.check_agents(piece, at, &value);
        let parts = self.parts(piece, at, node, &value, prompts);
        if is_broken {
            return;
        }
        self.check_tools(piece, at, &value);
        self.check_called(piece, at, &value);
        let mut key = kit_key(&value);
        let turns = value.get("conversation").and_then(Value::as_array).into_iter().flatten();
        if turns.filter_map(|it| it.get("expect")).any(|it| self.setup.has_templates(it)) {
            key = Value::Array(vec![key, value.get("vars").cloned().unwrap_or_default()]);
        }
        let tools = value.get("tools").cloned();
        let Some(entry) = self.read::<TestEntry>(piece, at, value) else { return };
        self.check_effect(piece, at, &entry);
        let case = self.case((piece, at), entry, parts, &key, tools);
        self.suite.cases.extend(case);
    }

    /// Puts a test together; `None` if it is broken. `key` tells its kit from those of others.
    fn case(
        &mut self,
        (piece, at): (Piece<'_>, &str),
        entry: TestEntry,
        parts: Parts<'_>,
        key: &Value,
        tools: Option<Value>,
    ) -> Option<TestCase> {
        let transforms = self.transforms(piece, at, &entry.transform)?;
        let subject = parts.subject?;
        let (kind, models) = self.run_on(&subject, &entry);
        if parts.asks_judge {
            self.note_self_judged(piece, at, &entry.name, &models);
        }
        let compared =
            self.compared(piece, at, &entry.name, entry.compare, parts.compares, &models);
        let skip = entry.skip.reason().map(|why| self.pool.text(why));
        let tags = self.pool.list(&entry.tags);
        let compiler = Arc::clone(&self.pool.compiler);
        let max_turns = entry.max_turns;
        let limits = (max_turns, entry.answer_tools);
        let scripts = self.setup.scripts.deciding();
        let kit = self.pool.kit(key.to_string(), |is_kept| Kit {
            compiler,
            digest: digest(
                &subject,
                &parts.conversation,
                tools.as_ref(),
                limits,
                (&parts.rules, scripts.as_ref()),
            ),
            subject,
            tools: match tools {
                Some(tools) if !is_kept => Part::Written(tools.to_string().into()),
                _ => Part::Ready(simulated(entry.tools)),
            },
            conversation: parts.conversation.forms,
            max_turns,
            answers_tools: limits.1,
            workspace: parts.workspace.as_ref().map(|it| Arc::clone(&it.spec)),
            prompt_checks: Arc::clone(&parts.rules.checks),
        });
        let vars = Value::Object(entry.vars);
        let digest =
            Digest::default().fingerprint(kit.digest).value(&vars).fingerprint(parts.expect);
        // Conditions of rules may be in files, and so is what a command runs.
        let digest = parts.rules.files.iter().copied().fold(digest, Digest::fingerprint);
        let digest =
            self.command_files(&kit.subject, &vars).into_iter().fold(digest, Digest::fingerprint);
        let threshold = entry
            .threshold
            .or(parts.prompt.and_then(|it| it.threshold))
            .or(self.defaults.threshold);
        let scripts: Vec<&str> = entry.transform.all().into_iter().map(|(_, it)| it).collect();
        let digest = self.with_rules(digest, threshold, &scripts);
        let digest = match &compared {
            Some(Comparison::Named(group)) => digest.text(group),
            _ => digest,
        };
        let more =
            More { metadata: entry.metadata, recorded: entry.output, options: entry.options };
        let more = (!more.is_empty()).then(|| Box::new(more));
        let digest = more.iter().fold(digest, |digest, it| it.digest(digest));
        let vars = if vars.as_object().is_none_or(Map::is_empty) {
            Box::default()
        } else {
            vars.to_string().into()
        };
        Some(TestCase {
            name: entry.name,
            kind,
            models,
            // What was recorded does not come out differently.
            repeat: entry.repeat.unwrap_or(if kind == CaseKind::Transcript {
                1
            } else {
                self.defaults.repeat
            }),
            threshold,
            compared,
            transforms,
            pass_rate_min: entry.pass_rate_min.unwrap_or(self.defaults.pass_rate_min),
            tags,
            skip,
            timeout: entry.timeout_ms.map(Duration::from_millis),
            digest: Some(digest.finish()),
            body: Arc::new(Row { kit, vars, more, checks: parts.checks, expect: parts.written }),
        })
    }

    /// The digest of the files that the command of a test names; `None` for other tests.
    fn command_files(&self, subject: &SubjectForm, vars: &Value) -> Option<Fingerprint> {
        let SubjectForm::Command(form) = subject else { return None };
        // What is missing is told where the command is read.
        let line = form.fill(vars.as_object()?).ok()?;
        self.referred.of_command(&line)
    }

    /// The scripts that make what checks see; `None` if one of them is broken, which is told.
    fn transforms(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        written: &Transforms,
    ) -> Option<Arc<[Arc<Transform>]>> {
        let mut transforms = Vec::new();
        for (pointer, script) in written.all() {
            match Transform::new(script, &self.setup) {
                Ok(transform) => transforms.push(Arc::new(transform)),
                Err(problem) => {
                    self.push(piece.problem(problem.under(&format!("{at}{pointer}"))));
                    return None;
                }
            }
        }
        Some(transforms.into())
    }

    /// Adds what decides over an output beside its checks, if there is anything.
    fn with_rules(&self, digest: Digest, threshold: Option<f64>, transforms: &[&str]) -> Digest {
        if threshold.is_none() && transforms.is_empty() {
            return digest;
        }
        // One script counts as it did before there could be several.
        let transform = match transforms {
            [] => Value::Null,
            [only] => Value::from(*only),
            several => several.iter().copied().collect(),
        };
        let decides = serde_json::json!({"threshold": threshold, "transform": transform});
        digest.fingerprint(self.digest_with_files(&decides))
    }

    /// Whom a test is run on.
    fn run_on(&mut self, subject: &SubjectForm, entry: &TestEntry) -> (CaseKind, Arc<[String]>) {
        let models = match (subject, &entry.agent, &entry.models) {
            (SubjectForm::Command(_), ..) => return (CaseKind::Command, Arc::default()),
            (SubjectForm::Transcript(_), ..) => return (CaseKind::Transcript, Arc::default()),
            (SubjectForm::Prompt(_), Some(agents), _) => self.pool.list(&unique(agents.names())),
            (SubjectForm::Prompt(_), None, Some(models)) => self.pool.list(&unique(models.clone())),
            (SubjectForm::Prompt(_), None, None) => self.pool.list(&self.listed),
        };
        (CaseKind::Prompt, models)
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

    /// A test runs either a prompt or a command; one with an agent may do without a prompt, and one with a transcript runs
    /// nothing.
    fn check_subject(&mut self, piece: Piece<'_>, at: &str, value: &Value, prompts: &Prompts) {
        if value.get("transcript").is_some() {
            if let Some(other) =
                ["prompt", "command", "agent"].iter().find(|it| value.get(**it).is_some())
            {
                let message = format!(
                    "a test has either a `transcript` or something to run (`{other}`), not both"
                );
                let at = format!("{at}/{other}");
                let diagnostic = piece.error(Code::INVALID_VALUE, &at, Place::Key, message);
                self.push(diagnostic.with_help("remove one of the two"));
            }
            return;
        }
        if value.get("agent").is_some() {
            if value.get("command").is_some() {
                let message = "a test has either an `agent` or a `command`, not both";
                let diagnostic = piece.error(Code::INVALID_VALUE, at, Place::Value, message);
                self.push(diagnostic.with_help("remove one of the two"));
                return;
            }
            let prompt = text(value, "prompt").and_then(|it| prompts.get(it));
            let roles: Option<Vec<Role>> =
                prompt.map(|it| it.opening.parts.iter().map(|(role, _)| *role).collect());
            self.check_said(piece, at, value, roles.as_deref());
            return;
        }
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
    fn parts<'p>(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        node: &Node,
        value: &Value,
        prompts: &'p Prompts,
    ) -> Parts<'p> {
        let no_vars = Map::new();
        let vars = object(value, "vars");
        let mut missing = Missing::default();
        let given = vars.unwrap_or(&no_vars);
        self.wanted.retain(|(name, _)| !given.contains_key(name));
        let (subject, prompt) = self.subject(piece, at, node, value, prompts, given, &mut missing);
        let errors = self.found.errors.len();
        let conversation = self.turns(piece, at, node, value, given, &mut missing);
        let turns_are_whole = self.found.errors.len() == errors;
        // `vars` that are not a mapping are reported by the shape, and then nothing is known about them.
        if vars.is_some() || value.get("vars").is_none() {
            self.report_missing(piece, at, vars, &missing);
        }
        let errors = self.found.errors.len();
        let expect = value.get("expect").filter(|it| it.is_object()).unwrap_or(&Value::Null);
        let base = prompt.map(|it| Arc::clone(&it.rules)).unwrap_or_default();
        let rules = self.with_sets(piece, at, value, &base);
        let rules = self.judged_as(value, rules);
        self.check_named(piece, at, &rules, given);
        let (checks, block) = self.expect(piece, &format!("{at}/expect"), expect, &rules, given);
        // Of what is broken nobody knows whether it would check something.
        let is_whole = turns_are_whole && self.found.errors.len() == errors;
        if is_whole
            && object(value, "expect").is_some()
            && !block.is_active
            && !conversation.is_active
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
        if is_whole && conversation.forms.is_empty() {
            let own = prompt.and_then(|it| it.threshold);
            self.check_threshold(piece, at, value, own, block.checks.iter().chain(&*rules.checks));
        }
        let workspace = self.workspace(piece, at, value);
        let is_wanted = (value.get("command").is_some() || value.get("agent").is_some())
            && (value.get("workspace").is_some() || self.defaults.workspace.is_some());
        if is_wanted {
            self.check_works_there(piece, at, value);
        } else {
            self.check_has_workspace(piece, at, (value, &block.checks));
        }
        let written = expect.get("assert").is_some().then(|| Arc::clone(&block.text));
        let expect = match &workspace {
            None => block.digest,
            Some(it) => Digest::default().fingerprint(block.digest).fingerprint(it.digest).finish(),
        };
        let Block { asks_judge, compares, .. } = block;
        Parts {
            subject,
            prompt,
            rules,
            checks,
            conversation,
            expect,
            asks_judge,
            compares,
            workspace,
            written,
        }
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
    ) -> (Option<SubjectForm>, Option<&'p Prompt>) {
        if let Some(transcript) = node.get("transcript") {
            return (self.transcript(piece, &format!("{at}/transcript"), transcript), None);
        }
        match (value.get("prompt"), value.get("command")) {
            (None, None) if value.get("agent").is_some() => {
                (Some(SubjectForm::Prompt(Arc::default())), None)
            }
            (Some(_), Some(_)) | (None, None) => (None, None),
            (Some(prompt), None) => {
                let Some(name) = prompt.as_str().filter(|it| !it.is_empty()) else {
                    return (None, None);
                };
                if !prompts.has(name) && !prompts.is_empty() {
                    self.unknown_prompt(piece, &format!("{at}/prompt"), name, &prompts.names());
                }
                let Some(prompt) = prompts.get(name) else { return (None, None) };
                for part in &prompt.parts {
                    let PromptPart { template, source, span, .. } = part;
                    self.check_text(Written { template, source, span: *span }, vars, missing);
                }
                (Some(SubjectForm::Prompt(Arc::clone(&prompt.opening))), Some(prompt))
            }
            (None, Some(command)) => {
                let Some(line) = command.as_str() else { return (None, None) };
                let template = Template::read(line);
                let span = node.get("command").map_or(node.span, |it| it.span);
                let written = Written { template: &template, source: piece.source, span };
                (self.check_command(written, vars, missing).map(SubjectForm::Command), None)
            }
        }
    }

    /// Warns of what a test has and cannot use.
    fn check_effect(&mut self, piece: Piece<'_>, at: &str, entry: &TestEntry) {
        let why = match (&entry.transcript, &entry.output, &entry.agent, &entry.command) {
            (Some(_), ..) => Some(("a `transcript`", "nothing is run")),
            (None, Some(_), Some(_), _) => Some(("an `output`", "nothing is run")),
            (None, _, None, None) => Some(("a `prompt`", "models have no folder")),
            (None, None, Some(_), _) | (None, _, None, Some(_)) => None,
        };
        if let Some((what, why)) = why.filter(|_| entry.workspace.is_some()) {
            let message = format!("`workspace` does nothing in a test with {what}: {why}");
            self.no_effect(piece, &format!("{at}/workspace"), &message);
        }
        let (what, own) = match (&entry.command, &entry.agent, &entry.transcript) {
            (.., Some(_)) => ("a `transcript`", ("answerTools", !entry.answer_tools)),
            (Some(_), _, None) => ("a `command`", ("conversation", !entry.conversation.is_empty())),
            (None, Some(_), None) => ("an `agent`", ("answerTools", !entry.answer_tools)),
            (None, None, None) => return,
        };
        for (key, is_there) in [
            ("tools", !entry.tools.is_empty() && entry.transcript.is_none()),
            own,
            ("models", entry.models.is_some()),
            ("output", entry.output.is_some() && entry.agent.is_none()),
        ] {
            if is_there {
                let message = format!("`{key}` does nothing in a test with {what}");
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

/// What a test has in common with others that may share a kit.
fn kit_key(test: &Value) -> Value {
    const KEYS: [&str; 9] = [
        "prompt",
        "command",
        "transcript",
        "tools",
        "answerTools",
        "conversation",
        "maxTurns",
        "assertionSets",
        "workspace",
    ];
    let judging = judging_of(test).cloned();
    // A workspace of `defaults` is one for agents, and none for models.
    let has_agent = test.get("agent").map(|_| Value::Bool(true));
    KEYS.iter()
        .map(|key| test.get(*key).cloned())
        .chain([judging, has_agent])
        .map(Option::unwrap_or_default)
        .collect()
}

/// Tells whether something has changed that is not in the variables or in what must hold at the end.
fn digest(
    subject: &SubjectForm,
    conversation: &Turns,
    tools: Option<&Value>,
    (max_turns, answers_tools): (u32, bool),
    (rules, scripts): (&Rules, Option<&Value>),
) -> Fingerprint {
    let mut digest = match subject {
        SubjectForm::Prompt(opening) => {
            let parts = &opening.parts;
            let first = Digest::default().text("prompt").number(parts.len() as u64);
            parts
                .iter()
                .fold(first, |digest, (role, form)| form.digest(digest.text(&format!("{role:?}"))))
        }
        SubjectForm::Command(form) => form.digest(Digest::default().text("command")),
        SubjectForm::Transcript(known) => {
            Digest::default().text("transcript").fingerprint(known.digest)
        }
    };
    for (turn, expect) in conversation.forms.iter().zip(&conversation.digests) {
        digest = digest.text(&turn.label).number(turn.user.is_some().into()).fingerprint(*expect);
        digest = turn.user.iter().fold(digest, |digest, form| form.digest(digest));
    }
    let null = Value::Null;
    // A suite that says nothing of scripts counts as it did before they did.
    let digest = scripts.into_iter().fold(digest, |digest, it| digest.text("scripts").value(it));
    digest
        .value(tools.unwrap_or(&null))
        .number(max_turns.into())
        .number(answers_tools.into())
        .value(&rules.value)
        .finish()
}
