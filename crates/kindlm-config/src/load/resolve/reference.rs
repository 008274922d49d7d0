//! References to models and prompts.

use kindlm_assertions::JudgeBlock;
use kindlm_source::{Code, Piece, locate};
use kindlm_types::{MemberPart, suggest};
use serde_json::Value;

use super::{Resolved, model};
use crate::written::ParamsBlock;

impl Resolved<'_> {
    /// Sets the default settings of judges.
    pub(in crate::load) fn judging(&mut self) {
        self.suite.canaries = self.defaults.judge.canaries.unwrap_or(0);
        let judge = self.defaults.judge.block();
        // The method `judges` reports the problems, so this method does not report them.
        if judge.problems().is_empty() {
            // The method `judges` stores a single judge in the defaults of the suite instead.
            self.setup.judging = JudgeBlock { model: None, ..judge };
            self.suite.judging = self.setup.judging.clone();
        }
    }

    /// Checks the default judges, and sets the default judge model.
    ///
    /// An inline suite without a named judge uses the judge of the server, if it may use that model.
    pub(in crate::load) fn judges(&mut self, piece: Piece<'_>) {
        // If `judgeModel` has a wrong type, the defaults keep their built-in values. The check of the shape reports the
        // error.
        let judge = self.defaults.judge.block();
        let problems = judge.problems();
        for (index, id) in judge.models.iter().flatten().enumerate() {
            self.refer(piece, &format!("/defaults/judge/models/{index}"), id);
        }
        let named = match (&judge.model, self.defaults.judge_model.clone()) {
            (Some(_), Some(_)) => {
                let at = "/defaults/judgeModel";
                let message = "`defaults.judge.model` names a judge too";
                let diagnostic = piece.error(Code::INVALID_VALUE, at, MemberPart::Value, message);
                self.sink.push(diagnostic.with_help("both mean the same: keep one of the two"));
                None
            }
            (Some(id), None) => Some(("/defaults/judge/model", id.clone())),
            (None, Some(id)) => Some(("/defaults/judgeModel", id)),
            (None, None) => {
                let config = self.around.inline.and_then(|it| it.defaults.judge_model.clone());
                let usable = config.filter(|id| self.inline_models().any(|it| it.id == *id));
                usable.map(|id| ("/models", id))
            }
        };
        if let Some((at, id)) = named
            && self.refer(piece, at, &id)
        {
            self.suite.defaults.judge_model = Some(id);
        }
        self.sink.report(piece, "/defaults/judge", problems);
    }

    /// Checks a reference of a test to a model that the test runs on.
    ///
    /// A model of the form `provider:model` gets `defaults.params`, even if it was added as a judge before.
    pub(in crate::load) fn refer_tested(&mut self, piece: Piece<'_>, at: &str, id: &str) {
        self.refer(piece, at, id);
        if self.only_judges.remove(id)
            && let Some(model) = self.suite.models.iter_mut().find(|it| it.id == id)
        {
            model.params = model::sent(self.defaults.params.clone());
        }
    }

    /// Checks a reference to a model that grades or computes embeddings.
    ///
    /// Adds the model if the reference is `provider:model`. Returns `false` if the reference is invalid.
    pub(in crate::load) fn refer(&mut self, piece: Piece<'_>, at: &str, id: &str) -> bool {
        if id.is_empty() {
            return false;
        }
        if self.is_agent(id) {
            let message = format!("`{id}` is an agent, and a model is needed here");
            let help = "tests name agents as `agent`; agents do not judge";
            let diagnostic =
                piece.error(Code::INVALID_VALUE, at, MemberPart::Value, message).with_help(help);
            self.sink.push(diagnostic);
            return false;
        }
        if self.models.contains_key(id) || self.suite.models.iter().any(|it| it.id == id) {
            return true;
        }
        // `defaults.params` is for tested models.
        if self.add_implicit(id, ParamsBlock::default()) {
            if self.around.inline.is_none() {
                self.only_judges.insert(id.to_owned());
            }
            return true;
        }
        if self.refuses_inline(piece, at, id) {
            return false;
        }
        if self.listed.is_empty() && self.agents_are_none() {
            // If the suite has no models, the error at `models` is enough.
            return false;
        }
        let known = self.listed.iter().map(String::as_str);
        let help = kindlm_types::nearest(id, known.clone())
            .map(|near| format!("did you mean `{near}`?"))
            .or_else(|| model::provider_help(self.around.known_providers, id))
            .unwrap_or_else(|| {
                let help = suggest(id, "configured models", known);
                format!("{help}; or write `provider:model`")
            });
        let message = format!("the model `{id}` is not configured");
        let diagnostic =
            piece.error(Code::UNKNOWN_REFERENCE, at, MemberPart::Value, message).with_help(help);
        self.sink.push(diagnostic);
        false
    }

    /// Checks the references to judges in an `expect` block.
    pub(in crate::load) fn refer_judges(&mut self, piece: Piece<'_>, at: &str, expect: &Value) {
        for (pointer, id) in model::judges(expect) {
            self.refer(piece, &format!("{at}{pointer}"), &id);
        }
    }

    /// Reports a reference to a prompt that does not exist.
    pub(in crate::load) fn unknown_prompt(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        name: &str,
        known: &[&str],
    ) {
        let message = format!("there is no prompt `{name}`");
        let help = if known.is_empty() {
            "the suite has no `prompts`: add this one to them".to_owned()
        } else {
            suggest(name, "prompts", known.iter().copied())
        };
        let mut diagnostic =
            piece.error(Code::UNKNOWN_REFERENCE, at, MemberPart::Value, message).with_help(help);
        // In the same file, also show the list of prompts.
        if piece.prefix.is_empty() && piece.root.get("prompts").is_some() {
            let place = locate(piece.source, piece.root, "/prompts", MemberPart::Key).span;
            diagnostic = diagnostic.with_related(piece.source, place, "the prompts are here");
        }
        self.sink.push(diagnostic);
    }
}
