//! The labelled turns of a conversation.

use std::sync::Arc;

use kindlm_assertions::Check;
use kindlm_engine::Fingerprint;
use kindlm_source::{Code, Node, Piece};
use kindlm_types::MemberPart;
use serde_json::{Map, Value};

use super::Builder;
use super::body::TurnForm;
use super::placed::{TextUse, Written};
use super::vars::Missing;
use crate::load::resolve::Rules;
use crate::load::resolve::faulty;
use crate::load::text;
use crate::template::Template;

/// The turns of a test.
#[derive(Debug, Default)]
pub(super) struct Turns {
    pub(super) forms: Vec<TurnForm>,
    /// True if a check has a result or asks a question, such as a judge request, for an empty execution.
    pub(super) is_active: bool,
    /// The digests of the checks of each turn.
    pub(super) digests: Vec<Fingerprint>,
    /// The checks of each turn.
    pub(super) checks: Vec<Arc<[Check]>>,
}

impl Builder<'_> {
    pub(super) fn turns(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        node: &Node,
        value: &Value,
        vars: &Map<String, Value>,
        missing: &mut Missing,
    ) -> Turns {
        let turns =
            value.get("conversation").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let nodes = node.get("conversation").map_or(&[][..], Node::items);
        let mut resolved = Turns::default();
        for (index, (turn, node)) in turns.iter().zip(nodes).enumerate() {
            let at = format!("{at}/conversation/{index}");
            let label = text(turn, "turn").unwrap_or_default().to_owned();
            if let Some(first) =
                resolved.forms.iter().position(|it| it.label == label && !label.is_empty())
            {
                let first =
                    nodes.get(first).and_then(|it| it.get("turn")).map_or(node.span, |it| it.span);
                let diagnostic = piece
                    .error(
                        Code::DUPLICATE,
                        &format!("{at}/turn"),
                        MemberPart::Value,
                        format!("duplicate turn `{label}`"),
                    )
                    .with_label("given again")
                    .with_related(piece.source, first, "given first")
                    .with_help("give each turn a unique label");
                self.base.sink.push(diagnostic);
            }
            let user = text(turn, "user").and_then(|user| {
                let span = node.get("user").map_or(node.span, |it| it.span);
                let template = match Template::parse(user) {
                    Ok(template) => template,
                    Err(fault) => {
                        self.base.sink.push(faulty(&fault, user, piece.source, span));
                        return None;
                    }
                };
                self.base.check_no_file(piece.source, span, user);
                let written = Written { template: &template, source: piece.source, span };
                self.check_text(written, vars, missing, TextUse::Turn);
                template.form(self.base.around.env, None).ok()
            });
            let (checks, block) = match turn.get("expect") {
                Some(expect @ Value::Object(_)) => {
                    self.expect(piece, &format!("{at}/expect"), expect, &Rules::default(), vars)
                }
                _ => self.expect(piece, &at, &Value::Null, &Rules::default(), vars),
            };
            if block.compares {
                let message = "outputs of turns are not compared";
                let diagnostic = piece
                    .error(Code::INVALID_VALUE, &format!("{at}/expect"), MemberPart::Key, message)
                    .with_help("move `select-best` and `max-score` to the `expect` of the test, which compares the \
                        last outputs");
                self.base.sink.push(diagnostic);
            }
            if let Some(check) = block.checks.iter().find(|it| it.needs_workspace()) {
                let message = format!(
                    "`{}` checks the agent's workspace, which is read after the conversation",
                    check.meta.id
                );
                let diagnostic = piece
                    .error(Code::INVALID_VALUE, &format!("{at}/expect"), MemberPart::Key, message)
                    .with_help("move it to the `expect` of the test");
                self.base.sink.push(diagnostic);
            }
            resolved.is_active |= block.is_active;
            resolved.digests.push(block.digest);
            resolved.checks.push(block.checks);
            resolved.forms.push(TurnForm { label, user, checks });
        }
        resolved
    }
}
