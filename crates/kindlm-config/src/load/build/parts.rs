//! Resolves the parts of a test: its subject, checks, turns and workspace.

use std::sync::Arc;

use kindlm_assertions::Check;
use kindlm_engine::{CheckPlaces, Digest, Fingerprint};
use kindlm_source::{Code, Node, Piece};
use kindlm_types::MemberPart;
use serde_json::{Map, Value};

use super::Builder;
use super::body::{Part, SubjectForm};
use super::placed::{TextUse, Written};
use super::pool::Block;
use super::turn::Turns;
use super::vars::Missing;
use crate::load::resolve::{Prompt, PromptPart, Prompts, Rules, Workspace};
use crate::load::{object, text};
use crate::template::Template;

/// The resolved parts of a test that `TestEntry` does not contain.
pub(super) struct Parts<'p> {
    pub(super) subject: Option<SubjectForm>,
    pub(super) prompt: Option<&'p Prompt>,
    /// The rules of the prompt and of assertion sets.
    pub(super) rules: Arc<Rules>,
    pub(super) checks: Part<[Check]>,
    pub(super) conversation: Turns,
    /// The digest of the checks and of the workspace.
    pub(super) expect: Fingerprint,
    /// True if a check asks the default judge of the suite.
    pub(super) asks_judge: bool,
    /// True if a check compares outputs.
    pub(super) compares: bool,
    /// The working folder of the agent.
    pub(super) workspace: Option<Workspace>,
    /// The `expect` block as JSON, if it has a list of checks.
    pub(super) written: Option<Arc<str>>,
    /// The places of the checks in the file; `None` if the place of the test is enough.
    pub(super) places: Option<Arc<CheckPlaces>>,
}

impl Builder<'_> {
    /// Resolves the subject, the checks, the turns and the workspace of a test. Their problems are reported at their
    /// places.
    pub(super) fn parts<'p>(
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
        self.base.wanted.retain(|(name, _)| !given.contains_key(name));
        let (subject, prompt) = self.subject(piece, at, node, value, prompts, given, &mut missing);
        let errors = self.base.sink.errors.len();
        let conversation = self.turns(piece, at, node, value, given, &mut missing);
        let turns_are_whole = self.base.sink.errors.len() == errors;
        // If `vars` is not a mapping, the check of the test's shape reports this, and the variables are unknown.
        if vars.is_some() || value.get("vars").is_none() {
            self.report_missing(piece, at, vars, &missing);
        }
        let errors = self.base.sink.errors.len();
        let expect = value.get("expect").filter(|it| it.is_object()).unwrap_or(&Value::Null);
        let base = prompt.map(|it| Arc::clone(&it.rules)).unwrap_or_default();
        let rules = self.base.with_sets(piece, at, value, &base);
        let rules = self.base.judged_as(value, rules);
        self.base.check_named(piece, at, &rules, given);
        let (checks, block) = self.expect(piece, &format!("{at}/expect"), expect, &rules, given);
        // If the turns or the checks have errors, skip the following diagnostics.
        let is_whole = turns_are_whole && self.base.sink.errors.len() == errors;
        if is_whole
            && object(value, "expect").is_some()
            && !block.is_active
            && !conversation.is_active
        {
            self.note_idle(piece, at, text(value, "name").unwrap_or_default());
        }
        if is_whole && conversation.forms.is_empty() {
            let own = prompt.and_then(|it| it.threshold);
            self.check_threshold(piece, at, value, own, block.checks.iter().chain(&*rules.checks));
            self.check_zeros(piece, at, value, &block.checks);
        }
        let workspace = self.workspace(piece, at, value);
        let is_wanted = (value.get("command").is_some() || value.get("agent").is_some())
            && (value.get("workspace").is_some() || self.base.defaults.workspace.is_some());
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
        // The rules of the prompt and of sets follow the checks of the test. Leave these rules out, because the test
        // itself does not contain them.
        let own = block.checks.len().saturating_sub(rules.checks.len());
        let own = block.checks.get(..own).unwrap_or_default().iter();
        let is_rule = |it: &&Check| {
            rules.checks.iter().any(|rule| rule.at == it.at && rule.meta.id == it.meta.id)
        };
        let own: Vec<&Check> = own.filter(|it| !is_rule(it)).collect();
        let places = self.check_places(piece, (at, node), &own, &conversation.checks);
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
            places,
        }
    }

    /// Returns the places of a test's checks and of the checks of its turns.
    ///
    /// Returns `None` if the whole test stands on one line, or if no check has a line of its own.
    fn check_places(
        &mut self,
        piece: Piece<'_>,
        (at, node): (&str, &Node),
        own: &[&Check],
        turns: &[Arc<[Check]>],
    ) -> Option<Arc<CheckPlaces>> {
        let span = node.span.start as usize..node.span.end as usize;
        let written = piece.source.text().get(span)?;
        if !written.contains('\n') {
            return None;
        }
        let test = piece.place(at, MemberPart::Value);
        let of_test = own.iter().map(|it| (None, *it, format!("{at}/expect{}", it.at)));
        let of_turns = turns.iter().enumerate().flat_map(|(index, checks)| {
            let block = format!("{at}/conversation/{index}/expect");
            checks.iter().map(move |it| (Some(index), it, format!("{block}{}", it.at)))
        });
        let placed = of_test
            .chain(of_turns)
            .map(|(turn, check, at)| (turn, check, piece.place(&at, MemberPart::Key)));
        let found = CheckPlaces::new(&test, placed);
        (!found.is_empty()).then(|| self.pool.places(found))
    }

    /// Records a test that checks nothing.
    fn note_idle(&mut self, piece: Piece<'_>, at: &str, name: &str) {
        self.idle.1 += 1;
        if self.idle.0.is_none() {
            let diagnostic = piece
                .error(Code::NO_EFFECT, &format!("{at}/expect"), MemberPart::Value, name)
                .with_help("add checks under `expect`: without checks it always passes")
                .into_warning();
            self.idle.0 = Some(diagnostic);
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
                if !prompts.has(name) && !prompts.lack_is_reported() {
                    self.base.unknown_prompt(
                        piece,
                        &format!("{at}/prompt"),
                        name,
                        &prompts.names(),
                    );
                }
                let Some(prompt) = prompts.get(name) else { return (None, None) };
                for part in &prompt.parts {
                    let PromptPart { template, source, span, .. } = part;
                    let written = Written { template, source, span: *span };
                    self.check_text(written, vars, missing, TextUse::Prompt);
                }
                let name = value.get("name").and_then(Value::as_str).unwrap_or_default();
                self.load_media(piece, at, value, prompt, vars);
                self.check_chat(name, prompt, vars);
                (Some(SubjectForm::Prompt(Arc::clone(&prompt.opening))), Some(prompt))
            }
            (None, Some(command)) => {
                let Some(line) = command.as_str() else { return (None, None) };
                let template = Template::parse_plain(line);
                let span = node.get("command").map_or(node.span, |it| it.span);
                let written = Written { template: &template, source: piece.source, span };
                (self.check_command(written, vars, missing).map(SubjectForm::Command), None)
            }
        }
    }
}
