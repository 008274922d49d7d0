//! The third pass: resolves all blocks except `tests`.
//!
//! The result has everything that tests may refer to.

mod agent;
mod blocks;
mod conditions;
mod digest;
mod extensions;
mod judged;
mod model;
mod prompt;
mod reference;
mod script;
mod sets;
mod workspace;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kindlm_assertions::Setup;
use kindlm_engine::{Suite, Until};
use kindlm_source::{Code, Diagnostic, Node, Piece, Source, read_yaml};
use kindlm_types::{MemberPart, Problem, ProblemKind};
use serde_json::Value;

use super::check::Checked;
use super::media::MediaFiles;
use super::sink::{OUTSIDE_HELP, Sink};
use super::{Missing, Spot, Surroundings, is_zero};
use crate::written::DefaultsBlock;
pub(super) use digest::Referred;
pub(super) use prompt::{ContentForm, Opening, PartKind, Prompt, PromptPart, Prompts, faulty};
pub(super) use sets::{Rules, judging_of};
pub(super) use workspace::Workspace;

/// The key of the shared checks that tests refer to with `$ref`.
pub(super) const TEMPLATES: &str = "assertionTemplates";

/// The resolved document, except its tests.
pub(super) struct Resolved<'a> {
    pub(super) around: Surroundings<'a>,
    pub(super) sink: Sink,
    /// The settings with which checks are compiled, and the compiled schema files.
    pub(super) setup: Setup<'a>,
    /// The suite, without its tests.
    pub(super) suite: Suite,
    pub(super) defaults: DefaultsBlock,
    /// The rule of `defaults.repeat`.
    pub(super) default_until: Option<Until>,
    /// The workspace of `defaults`, or `None` if it is absent or has errors.
    pub(super) default_workspace: Option<Workspace>,
    /// The ids of the list `models`, in order. A test without `models` runs on all these models.
    pub(super) listed: Vec<String>,
    /// The models of the form `provider:model` that only checks have named so far.
    only_judges: HashSet<String>,
    /// The place of each model definition, including definitions with errors.
    models: HashMap<String, Spot>,
    /// The agents that tests refer to.
    pub(super) agents: agent::Agents,
    pub(super) prompts: Prompts,
    /// The images, sounds and files of prompts.
    pub(super) media: MediaFiles,
    /// The sets of rules that prompts and tests refer to.
    sets: sets::Sets,
    /// The conditions of rules on the variables of tests.
    conditions: conditions::Conditions,
    /// The variables that provider requests use and that no test has had so far, each with its error or warning.
    pub(super) wanted: Vec<(String, Diagnostic)>,
    /// In a translated promptfoo config, the variables that checks use and that their test does not have.
    pub(super) missing: Vec<Missing>,
    /// The largest number of samples that any check requests from a judge; `None` if no check sets a number.
    most_samples: Option<u32>,
}

/// Resolves all blocks except `tests`.
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
        default_until: None,
        default_workspace: None,
        listed: Vec::new(),
        only_judges: HashSet::new(),
        models: HashMap::new(),
        agents: agent::Agents::default(),
        prompts: Prompts::default(),
        media: MediaFiles::default(),
        sets: sets::Sets::default(),
        conditions: conditions::Conditions::default(),
        wanted: Vec::new(),
        missing: Vec::new(),
        most_samples: None,
    };
    resolved.blocks(piece, checked);
    // The settings of judges come before sets and prompts, because their rules use these settings.
    resolved.judging();
    resolved.assertion_sets(piece);
    resolved.prompts = resolved.prompts(piece);
    resolved.models(piece);
    resolved.check_agent_names(piece);
    resolved.judges(piece);
    resolved
}

impl Resolved<'_> {
    /// Reads the JSON or YAML file that the value at `at` names. Returns `None` for an unusable file, which is
    /// reported.
    pub(in crate::load) fn tree_of(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        path: &str,
    ) -> Option<(Arc<Source>, Node)> {
        let text = match self.around.files.read_file(path) {
            Ok(text) => text,
            Err(err) => {
                self.sink.report_file(piece, at, &err);
                return None;
            }
        };
        let text = text.strip_prefix('\u{feff}').map_or(Arc::clone(&text), Arc::from);
        let source = Arc::new(self.around.source.beside(path, text));
        let tree = read_yaml(&source, 0..source.text().len());
        let is_whole = tree.diagnostics.is_empty();
        tree.diagnostics.into_iter().for_each(|it| self.sink.push(it));
        Some((source, tree.root.filter(|_| is_whole)?))
    }

    /// Reports a problem of a check.
    ///
    /// In a translated promptfoo config, missing variables and entries without effect are only warnings.
    pub(in crate::load) fn report_check(&mut self, piece: Piece<'_>, problem: Problem) {
        if let (true, ProblemKind::MissingVariable { name, is_null }) =
            (self.around.is_translated, &problem.kind)
        {
            let at = format!("{}{}", piece.prefix, problem.pointer);
            self.missing.push((at, name.clone(), *is_null));
        }
        let outside = problem.kind == ProblemKind::File { outside: true };
        let is_warning = self.around.is_translated && problem.kind.is_warning();
        let mut diagnostic = piece.problem(problem);
        if is_warning {
            diagnostic = diagnostic.into_warning();
        }
        if outside {
            diagnostic.help = Some(OUTSIDE_HELP.to_owned());
        }
        self.sink.push(diagnostic);
    }

    /// Warns of limits of 0, which accept everything. `tests` names the affected tests in the warning.
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
                piece.error(Code::NO_EFFECT, &format!("{at}/{key}"), MemberPart::Key, message);
            let help = "write a number above 0, or remove the key";
            self.sink.push(diagnostic.with_help(help).into_warning());
        }
    }

    /// Reports variables that provider requests use and no test has.
    ///
    /// Reports nothing if the suite has errors.
    pub(in crate::load) fn report_wanted(&mut self) {
        if self.sink.errors.is_empty() {
            for (_, problem) in std::mem::take(&mut self.wanted) {
                self.sink.push(problem);
            }
        }
    }
}
