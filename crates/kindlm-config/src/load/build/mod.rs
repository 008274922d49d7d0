//! The fourth pass: the tests, and the suite.
//!
//! A dataset may have a hundred thousand rows, so each test goes through all passes alone: its shape is checked, what it
//! refers to is resolved, and the case is built, before the next one is read.

mod advice;
mod agent;
mod body;
mod compare;
mod dataset;
mod expect;
mod fitting;
mod kit;
mod parts;
mod placed;
mod pool;
mod rules;
mod table;
mod templates;
mod test;
mod transcript;
mod turn;
mod vars;
mod workspace;

use std::collections::HashMap;

use kindlm_engine::{Suite, TestCase};
use kindlm_source::{Diagnostic, Piece};

use super::resolve::{Resolved, Workspace};
use super::sink::Sink;
use super::{Missing, Spot};

/// The tests while they are read.
struct Builder<'a> {
    /// What tests refer to.
    base: Resolved<'a>,
    /// The tests that are built.
    cases: Vec<TestCase>,
    /// Where each test name was given first.
    names: HashMap<String, Spot>,
    /// What tests have in common.
    pool: pool::Pool,
    /// Transcripts by the path of their file; `None` for broken ones.
    transcripts: HashMap<String, Option<body::Known>>,
    /// Workspaces of tests that can be made, by what is written.
    workspaces: HashMap<String, Workspace>,
    /// The lints of the `parameters` of tools, by their text.
    tool_schemas: HashMap<String, Vec<kindlm_schema::Lint>>,
    /// The tools of tests, and checks of others.
    tools: advice::Tools,
    /// The tests that are compared with each other.
    groups: compare::Groups,
    /// The checks that tests refer to.
    used_templates: templates::Used,
    /// Tests that check nothing: a warning about the first, whose message is its name, and how many.
    idle: (Option<Diagnostic>, usize),
    /// Tests whose answers are judged by the models that give them: a warning about the first, and how many.
    self_judged: (Option<Diagnostic>, usize),
}

/// Builds the suite. Where there are errors, something is missing in it.
pub(super) fn build(piece: Piece<'_>, mut base: Resolved<'_>) -> (Suite, Sink, Vec<Missing>) {
    let prompts = std::mem::take(&mut base.prompts);
    let mut builder = Builder {
        base,
        cases: Vec::new(),
        names: HashMap::new(),
        pool: pool::Pool::default(),
        transcripts: HashMap::new(),
        workspaces: HashMap::new(),
        tool_schemas: HashMap::new(),
        tools: advice::Tools::default(),
        groups: compare::Groups::default(),
        used_templates: templates::Used::default(),
        idle: (None, 0),
        self_judged: (None, 0),
    };
    builder.tests(piece, &prompts);
    builder.base.report_wanted();
    builder.report_idle();
    builder.report_unwanted();
    builder.report_self_judged();
    builder.report_lonely();
    builder.base.idle_judging(piece);
    builder.base.report_conditions();
    builder.base.report_unused_sets(piece);
    builder.check_unused_templates(piece);
    let Resolved { mut suite, sink, setup, mut agents, missing, .. } = builder.base;
    // After all models, as the first one is the default judge.
    suite.models.append(&mut agents.ready);
    builder.cases.shrink_to_fit();
    suite.cases = builder.cases;
    builder.pool.compiler.close(setup);
    (suite, sink, missing)
}

impl Builder<'_> {
    /// Reports the tests that check nothing as one warning.
    fn report_idle(&mut self) {
        let Some(mut first) = self.idle.0.take() else { return };
        let name = first.message;
        first.message = match self.idle.1 {
            1 => format!("the test `{name}` checks nothing"),
            count => format!("the test `{name}` and {} more check nothing", count - 1),
        };
        self.base.sink.push(first);
    }
}
