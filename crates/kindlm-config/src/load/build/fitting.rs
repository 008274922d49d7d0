//! Checks that the parts of a test fit each other and the rest of the suite.

use kindlm_schema::{Lint, faults_of_parameters};
use kindlm_source::{Code, Piece, locate};
use kindlm_types::{MemberPart, Role};
use serde_json::Value;

use super::Builder;
use crate::load::resolve::Prompts;
use crate::load::{Spot, text};
use crate::written::TestEntry;

impl Builder<'_> {
    pub(super) fn check_name(&mut self, piece: Piece<'_>, at: &str, value: &Value) {
        let Some(name) = text(value, "name").filter(|it| !it.is_empty()) else { return };
        let at = format!("{at}/name");
        let span = locate(piece.source, piece.root, &at, MemberPart::Value).span;
        if let Some(first) = self.names.get(name) {
            let diagnostic = piece
                .error(
                    Code::DUPLICATE,
                    &at,
                    MemberPart::Value,
                    format!("duplicate test name `{name}`"),
                )
                .with_label("given again")
                .with_related(&first.source, first.span, "given first")
                .with_help(
                    "give each test a unique name: reports and baselines identify it by name",
                );
            self.base.sink.push(diagnostic);
        } else {
            let spot = Spot { source: piece.source.clone(), span };
            self.names.insert(name.to_owned(), spot);
        }
    }

    /// Checks that a test has exactly one subject.
    ///
    /// The subject is a prompt, a command, an agent or a transcript. An agent may have a prompt too. A transcript
    /// excludes all other subjects.
    pub(super) fn check_subject(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        value: &Value,
        prompts: &Prompts,
    ) {
        if value.get("transcript").is_some() {
            if let Some(other) =
                ["prompt", "command", "agent"].iter().find(|it| value.get(**it).is_some())
            {
                let message = format!(
                    "a test has either a `transcript` or something to run (`{other}`), not both"
                );
                let at = format!("{at}/{other}");
                let diagnostic = piece.error(Code::INVALID_VALUE, &at, MemberPart::Key, message);
                self.base.sink.push(diagnostic.with_help("remove one of the two"));
            }
            return;
        }
        if value.get("agent").is_some() {
            if value.get("command").is_some() {
                let message = "a test has either an `agent` or a `command`, not both";
                let diagnostic = piece.error(Code::INVALID_VALUE, at, MemberPart::Value, message);
                self.base.sink.push(diagnostic.with_help("remove one of the two"));
                return;
            }
            let prompt = text(value, "prompt").and_then(|it| prompts.get(it));
            let roles: Option<Vec<Role>> =
                prompt.map(|it| it.opening.parts.iter().map(|(role, _)| *role).collect());
            self.check_messages(piece, at, value, roles.as_deref());
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
                    Some(name) => format!("name a prompt or a command, such as `prompt: {name}`"),
                    None => "add a `prompt` or a `command`".to_owned(),
                },
            ),
            _ => return,
        };
        self.base.sink.push(piece.error(code, at, MemberPart::Value, message).with_help(help));
    }

    pub(super) fn check_models(&mut self, piece: Piece<'_>, at: &str, value: &Value) {
        let models = value.get("models").and_then(Value::as_array).into_iter().flatten();
        for (index, id) in models.enumerate() {
            if let Some(id) = id.as_str() {
                self.base.refer_tested(piece, &format!("{at}/models/{index}"), id);
            }
        }
    }

    /// Warns of keys that have no effect in a test.
    pub(super) fn check_effect(&mut self, piece: Piece<'_>, at: &str, entry: &TestEntry) {
        let why = match (&entry.transcript, &entry.output, &entry.agent, &entry.command) {
            (Some(_), ..) => Some(("a `transcript`", "nothing is run")),
            (None, Some(_), Some(_), _) => Some(("an `output`", "nothing is run")),
            (None, _, None, None) => Some(("a `prompt`", "models have no folder")),
            (None, None, Some(_), _) | (None, _, None, Some(_)) => None,
        };
        if let Some((what, why)) = why.filter(|_| entry.workspace.is_some()) {
            let message = format!("`workspace` does nothing in a test with {what}: {why}");
            self.base.sink.no_effect(piece, &format!("{at}/workspace"), &message);
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
                self.base.sink.no_effect(piece, &format!("{at}/{key}"), &message);
            }
        }
    }

    /// Checks the tools of a test, and their simulated responses.
    ///
    /// Warns of `parameters` with unknown keywords, and of `parameters` that are not a valid JSON Schema. Providers
    /// refuse invalid schemas.
    pub(super) fn check_tools(&mut self, piece: Piece<'_>, at: &str, value: &Value) {
        let tools = value.get("tools").and_then(Value::as_array).into_iter().flatten();
        for (index, tool) in tools.enumerate() {
            self.check_responses(piece, &format!("{at}/tools/{index}"), tool);
            let Some(parameters) = tool.get("parameters") else { continue };
            let known = self.tool_schemas.entry(parameters.to_string());
            let faults = known.or_insert_with(|| faults_of_parameters(parameters)).clone();
            for Lint { pointer, message, .. } in faults {
                let at = format!("{at}/tools/{index}/parameters{pointer}");
                let diagnostic = piece.error(Code::INVALID_VALUE, &at, MemberPart::Key, message);
                self.base.sink.push(diagnostic.into_warning());
            }
        }
    }
}

impl Builder<'_> {
    /// Checks that a simulated response has either one answer or a list of answers, and no `status` beside a list.
    fn check_responses(&mut self, piece: Piece<'_>, at: &str, tool: &Value) {
        let responses = tool.get("responses").and_then(Value::as_array).into_iter().flatten();
        for (index, response) in responses.enumerate() {
            let has = |key: &str| response.get(key).is_some();
            let answers = response.get("answers").and_then(Value::as_array).map_or(0, Vec::len);
            let (key, message) = match (has("then"), answers) {
                (true, 0) if !has("answers") => continue,
                (false, 1..) if !has("status") => continue,
                (false, 1..) => ("/status", "a `status` beside `answers` belongs to none of them"),
                (false, 0) => ("", "this response has no answer"),
                (true, _) => ("/answers", "this response has both `then` and `answers`"),
            };
            let at = format!("{at}/responses/{index}{key}");
            let help = "write one answer (`then: { ok: true }`), or several in order (`answers: [{ then: … }, { then: … }]`)";
            let place = if key.is_empty() { MemberPart::Value } else { MemberPart::Key };
            self.base
                .sink
                .push(piece.error(Code::INVALID_VALUE, &at, place, message).with_help(help));
        }
    }
}
