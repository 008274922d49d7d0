//! The fourth pass: builds the tests and the suite.
//!
//! A dataset may have a hundred thousand rows. To save memory, each test goes through all passes alone: its shape is
//! checked, its references are resolved, and the case is built. Only then is the next test read.

mod advice;
mod agent;
mod body;
mod chat;
mod compare;
mod dataset;
mod expect;
mod fitting;
mod gates;
mod media;
mod messages;
mod parts;
mod placed;
mod pool;
mod rules;
mod streaming;
mod table;
mod templates;
mod test;
mod test_parts;
mod transcript;
mod turn;
mod vars;
mod window;
mod workspace;

use std::collections::HashMap;

use kindlm_engine::{Suite, TestCase};
use kindlm_source::{Diagnostic, Piece};

use super::resolve::{Resolved, Workspace};
use super::sink::Sink;
use super::{Missing, Spot};

/// The state while tests are read.
struct Builder<'a> {
    /// Everything that tests may refer to.
    base: Resolved<'a>,
    /// The tests that are built.
    cases: Vec<TestCase>,
    /// The first place of each test name.
    names: HashMap<String, Spot>,
    /// The parts that tests share.
    pool: pool::Pool,
    /// Transcripts by the path of their file. `None` stands for a file with errors.
    transcripts: HashMap<String, Option<body::ReadTranscript>>,
    /// Workspaces without errors, by their block as JSON.
    workspaces: HashMap<String, Workspace>,
    /// The lints of the `parameters` of tools, by the schema as JSON.
    tool_schemas: HashMap<String, Vec<kindlm_schema::Lint>>,
    /// The tools that tests declare, and the forbidden tools that may be typos.
    tools: advice::Tools,
    /// The groups of tests that are compared with each other.
    groups: compare::Groups,
    /// The templates that tests refer to.
    used_templates: templates::Used,
    /// The names in the suite that gates may refer to.
    gate_names: gates::Names,
    /// The first test that checks nothing, as a warning, and the number of such tests.
    ///
    /// The message of the warning is the name of the test until the warning is reported.
    idle: (Option<Diagnostic>, usize),
    /// The warning about the first self-judged test, and the number of such tests.
    ///
    /// In a self-judged test, a tested model is also the judge.
    self_judged: (Option<Diagnostic>, usize),
    /// The warning about the first test with a prompt that is too long for a model, and the number of such tests.
    too_long: (Option<Diagnostic>, usize),
    /// The warning about the first test that limits the time to the first token although a model does not stream, and
    /// the number of such tests.
    unstreamed: (Option<Diagnostic>, usize),
}

/// Builds the suite.
///
/// Also returns the problems, and the variables that are missing in checks of a translated promptfoo config. If there
/// are errors, the suite is incomplete.
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
        gate_names: gates::Names::default(),
        idle: (None, 0),
        self_judged: (None, 0),
        too_long: (None, 0),
        unstreamed: (None, 0),
    };
    builder.tests(piece, &prompts);
    builder.report_unknown_subjects(piece);
    builder.report_low_bounds(piece);
    builder.base.report_wanted();
    builder.report_idle();
    builder.report_unwanted();
    builder.report_self_judged();
    builder.report_too_long();
    builder.report_unstreamed();
    builder.report_lonely();
    builder.base.idle_judging(piece);
    builder.base.report_conditions();
    builder.base.report_unused_sets(piece);
    builder.check_unused_templates(piece);
    let Resolved { mut suite, sink, setup, mut agents, missing, media, .. } = builder.base;
    // Agents come last, because the first model is the default judge.
    suite.models.append(&mut agents.ready);
    builder.cases.shrink_to_fit();
    suite.cases = builder.cases;
    builder.pool.compiler.close(setup, media);
    (suite, sink, missing)
}

impl Builder<'_> {
    /// Reports all tests that check nothing, as one warning.
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
