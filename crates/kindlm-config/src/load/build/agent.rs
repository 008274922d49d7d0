//! The agents that tests name, and the messages that tests send to them.

use kindlm_source::{Code, Piece, locate};
use kindlm_types::{MemberPart, Role, pointer, suggest};
use serde_json::Value;

use super::Builder;

impl Builder<'_> {
    /// Reports names of agents that do not exist.
    pub(super) fn check_agents(&mut self, piece: Piece<'_>, at: &str, value: &Value) {
        for (at, id) in named(at, value) {
            if id.is_empty() || self.base.is_agent(id) {
                continue;
            }
            let message = format!("there is no agent `{id}`");
            let help = if self.base.agents.names.is_empty() {
                format!("configure its command: `agents: {{ {id}: {{ command: ./agent.py }} }}`")
            } else {
                suggest(id, "agents", self.base.agents.names.iter().map(String::as_str))
            };
            let mut diagnostic = piece
                .error(Code::UNKNOWN_REFERENCE, &at, MemberPart::Value, message)
                .with_help(help);
            if piece.prefix.is_empty() && piece.root.get("agents").is_some() {
                let place = locate(piece.source, piece.root, "/agents", MemberPart::Key).span;
                diagnostic = diagnostic.with_related(piece.source, place, "the agents are here");
            }
            self.base.sink.push(diagnostic);
        }
    }

    /// Reports agents with a `cwd` in tests with a workspace. An agent has only one working folder.
    pub(super) fn check_works_there(&mut self, piece: Piece<'_>, at: &str, value: &Value) {
        let whose = match value.get("workspace") {
            Some(_) => "this test has a `workspace`",
            None => "this test has the `workspace` of `defaults`",
        };
        for (at, id) in named(at, value) {
            let spec = self.base.agents.ready.iter().find(|it| it.id == id);
            let Some(cwd) = spec.and_then(|it| it.agent.as_ref()?.cwd.as_ref()) else { continue };
            let message =
                format!("the agent `{id}` has its own folder (`cwd: {cwd}`), and {whose}");
            let mut diagnostic = piece.error(Code::INVALID_VALUE, &at, MemberPart::Value, message).with_help(
                "an agent cannot work in both: remove the `cwd`, or name another agent that has none",
            );
            let cwd = format!("/agents/{}/cwd", pointer::segment(id));
            if piece.prefix.is_empty() && piece.root.get("agents").is_some() {
                let place = locate(piece.source, piece.root, &cwd, MemberPart::Value).span;
                diagnostic = diagnostic.with_related(piece.source, place, "its folder");
            }
            self.base.sink.push(diagnostic);
        }
    }

    /// Checks that the agent gets a user message in each turn. Messages of the assistant in the prompt are errors.
    pub(super) fn check_messages(
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
            let help = "name a `prompt`, or give the first turn of `conversation` a `user`";
            self.base.sink.push(
                piece.error(Code::MISSING_KEY, at, MemberPart::Value, message).with_help(help),
            );
        }
        for (index, _) in turns.iter().enumerate().skip(1).filter(|(_, turn)| !says(turn)) {
            let at = format!("{at}/conversation/{index}");
            let message =
                "this turn has no `user`, but each turn of an agent starts with a message";
            let help = "add a `user`, or move the checks to the turn before";
            self.base.sink.push(
                piece.error(Code::MISSING_KEY, &at, MemberPart::Value, message).with_help(help),
            );
        }
        let roles = roles.unwrap_or_default();
        let at = format!("{at}/prompt");
        if roles.contains(&Role::Assistant) {
            let message = "an agent accepts no earlier answers, but this prompt has messages of the assistant";
            let help = "use a prompt with `system` and `user` only";
            self.base.sink.push(
                piece.error(Code::INVALID_VALUE, &at, MemberPart::Value, message).with_help(help),
            );
        } else if !roles.is_empty() && !opens && !roles.contains(&Role::User) {
            let message = "this prompt has no user message, so the agent gets none";
            let help = "give the prompt or the first turn of `conversation` a `user`";
            self.base.sink.push(
                piece.error(Code::INVALID_VALUE, &at, MemberPart::Value, message).with_help(help),
            );
        }
    }
}

/// Returns the agents that a test names, each with its pointer.
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
