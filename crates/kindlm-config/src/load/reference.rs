//! References to models by id.

use kindlm_types::{Place, suggest};
use serde_json::Value;

use super::{Loader, model};
use crate::diagnostic::{Code, Piece};
use crate::tree::locate;

impl Loader<'_> {
    pub(super) fn judge_model(&mut self, piece: Piece<'_>) {
        // A default judge that is no text is reported by the shape, which leaves the defaults alone.
        let Some(id) = self.defaults.judge_model.clone() else { return };
        if self.refer(piece, "/defaults/judgeModel", &id) {
            self.suite.defaults.judge_model = Some(id);
        }
    }

    /// Checks a reference to a model, and adds the model if the reference is `provider:model`.
    pub(super) fn refer(&mut self, piece: Piece<'_>, at: &str, id: &str) -> bool {
        if id.is_empty() {
            return false;
        }
        if self.models.contains_key(id) || self.suite.models.iter().any(|it| it.id == id) {
            return true;
        }
        if self.add_implicit(id) {
            return true;
        }
        if self.listed.is_empty() {
            // Without any model the list itself is what is wrong.
            return false;
        }
        let known = self.listed.iter().map(String::as_str);
        let help = kindlm_types::nearest(id, known.clone())
            .map(|near| format!("did you mean `{near}`?"))
            .or_else(|| model::provider_help(id))
            .unwrap_or_else(|| {
                let help = suggest(id, "configured models", known);
                format!("{help}; or write `provider:model`")
            });
        let message = format!("the model `{id}` is not configured");
        let diagnostic =
            piece.error(Code::UNKNOWN_REFERENCE, at, Place::Value, message).with_help(help);
        self.push(diagnostic);
        false
    }

    /// Checks the references of an `expect` block.
    pub(super) fn refer_judges(&mut self, piece: Piece<'_>, at: &str, expect: &Value) {
        for (pointer, id) in model::judges(expect) {
            self.refer(piece, &format!("{at}{pointer}"), &id);
        }
    }

    /// Checks a reference to a prompt.
    pub(super) fn unknown_prompt(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        name: &str,
        known: &[&str],
    ) {
        let message = format!("there is no prompt `{name}`");
        let mut diagnostic = piece
            .error(Code::UNKNOWN_REFERENCE, at, Place::Value, message)
            .with_help(suggest(name, "prompts", known.iter().copied()));
        // The list of prompts is worth showing where it is near.
        if piece.prefix.is_empty() && piece.root.get("prompts").is_some() {
            let place = locate(piece.source, piece.root, "/prompts", Place::Key).span;
            diagnostic = diagnostic.with_related(piece.source, place, "the prompts are here");
        }
        self.push(diagnostic);
    }
}
