//! The third pass: what the document says beside its tests, with all that tests may refer to.

mod agent;
mod blocks;
mod conditions;
mod digest;
mod judged;
mod model;
mod prompt;
mod reference;
mod script;
mod sets;
mod workspace;

use std::collections::HashMap;
use std::sync::Arc;

use kindlm_assertions::Setup;
use kindlm_engine::Suite;
use kindlm_source::{Code, Diagnostic, Node, Piece, Source, read};
use kindlm_types::{Place, Problem, ProblemKind};
use serde_json::Value;

use super::check::Checked;
use super::sink::{OUTSIDE_HELP, Sink};
use super::{Missing, Spot, Surroundings, is_zero};
use crate::written::DefaultsBlock;
pub(super) use digest::Referred;
pub(super) use prompt::{Opening, Prompt, PromptPart, Prompts};
pub(super) use sets::{Rules, judging_of};
pub(super) use workspace::Workspace;

/// The key under which checks stand that tests may refer to.
pub(super) const TEMPLATES: &str = "assertionTemplates";

/// What the document says beside its tests.
pub(super) struct Resolved<'a> {
    pub(super) around: Surroundings<'a>,
    pub(super) sink: Sink,
    /// Where the assertions look for files; keeps each schema file compiled.
    pub(super) setup: Setup<'a>,
    /// The suite, without its tests.
    pub(super) suite: Suite,
    pub(super) defaults: DefaultsBlock,
    /// The workspace of `defaults`, if it can be made.
    pub(super) default_workspace: Option<Workspace>,
    /// The ids in the list `models`, in its order: what a test without `models` runs on.
    pub(super) listed: Vec<String>,
    /// Where each model that may be referred to is defined, broken ones included.
    models: HashMap<String, Spot>,
    /// The agents that tests refer to.
    pub(super) agents: agent::Agents,
    pub(super) prompts: Prompts,
    /// The sets of rules that prompts and tests refer to.
    sets: sets::Sets,
    /// What rules want of the variables of tests.
    conditions: conditions::Conditions,
    /// Variables that requests name and no test has had so far, with the problem if none has them.
    pub(super) wanted: Vec<(String, Diagnostic)>,
    /// What of checks names variables that a test does not have: pointers to texts, and the names.
    pub(super) missing: Vec<Missing>,
    /// The most answers that a check of some test asks of one judge.
    most_samples: Option<u32>,
}

/// Resolves the document but for its tests.
pub(super) fn resolve<'a>(
    piece: Piece<'_>,
    checked: &Checked,
    around: Surroundings<'a>,
    setup: Setup<'a>,
    sink: Sink,
) -> Resolved<'a> {
    let mut resolved = Resolved {
        around,
        sink,
        setup,
        suite: Suite::default(),
        defaults: DefaultsBlock::default(),
        default_workspace: None,
        listed: Vec::new(),
        models: HashMap::new(),
        agents: agent::Agents::default(),
        prompts: Prompts::default(),
        sets: sets::Sets::default(),
        conditions: conditions::Conditions::default(),
        wanted: Vec::new(),
        missing: Vec::new(),
        most_samples: None,
    };
    resolved.blocks(piece, checked);
    // Before anything that is judged: the rules of sets and prompts are, too.
    resolved.judging();
    resolved.assertion_sets(piece);
    resolved.prompts = resolved.prompts(piece);
    resolved.models(piece);
    resolved.check_agent_names(piece);
    resolved.judges(piece);
    resolved
}

impl Resolved<'_> {
    /// Reads the JSON or YAML of a file that the value at `at` names; `None` if it cannot be used, which is reported.
    pub(in crate::load) fn tree_of(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        path: &str,
    ) -> Option<(Arc<Source>, Node)> {
        let text = match self.around.files.read(path) {
            Ok(text) => text,
            Err(err) => {
                self.sink.report_file(piece, at, &err);
                return None;
            }
        };
        let text = text.strip_prefix('\u{feff}').map_or(Arc::clone(&text), Arc::from);
        let source = Arc::new(self.around.source.beside(path, text));
        let tree = read(&source, 0..source.text().len());
        let is_whole = tree.diagnostics.is_empty();
        tree.diagnostics.into_iter().for_each(|it| self.sink.push(it));
        Some((source, tree.root.filter(|_| is_whole)?))
    }

    /// Reports what is wrong with a check.
    pub(in crate::load) fn report_check(&mut self, piece: Piece<'_>, problem: Problem) {
        if let (true, ProblemKind::MissingVariable { name, is_null }) =
            (self.around.is_translated, &problem.kind)
        {
            let at = format!("{}{}", piece.prefix, problem.pointer);
            self.missing.push((at, name.clone(), *is_null));
        }
        let outside = problem.kind == ProblemKind::File { outside: true };
        let is_mild = self.around.is_translated && problem.kind.is_mild();
        let mut diagnostic = piece.problem(problem);
        if is_mild {
            diagnostic = diagnostic.into_warning();
        }
        if outside {
            diagnostic.help = Some(OUTSIDE_HELP.to_owned());
        }
        self.sink.push(diagnostic);
    }

    /// Warns of limits of a test, of a prompt or of the defaults that accept everything. `tests` says which tests have them.
    pub(in crate::load) fn check_zero_limits(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        block: &Value,
        tests: &str,
    ) {
        for (key, what) in [("threshold", "every mean score"), ("passRateMin", "every pass rate")] {
            if !block.get(key).is_some_and(is_zero) {
                continue;
            }
            let message = format!("`{key}: 0` accepts {what}, so {tests} cannot fail");
            let diagnostic =
                piece.error(Code::NO_EFFECT, &format!("{at}/{key}"), Place::Key, message);
            let help = "write a number above 0, or remove the key";
            self.sink.push(diagnostic.with_help(help).into_warning());
        }
    }

    /// Reports the variables that requests name and no test has. Says nothing if tests could not be read.
    pub(in crate::load) fn report_wanted(&mut self) {
        if self.sink.errors.is_empty() {
            for (_, problem) in std::mem::take(&mut self.wanted) {
                self.sink.push(problem);
            }
        }
    }
}
