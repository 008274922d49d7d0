//! What tests expect: `expect` blocks, each compiled once.

use std::sync::Arc;

use kindlm_assertions::Check;
use kindlm_source::Piece;
use kindlm_types::{Problem, ProblemKind};
use serde_json::{Map, Value};

use super::Loader;
use super::advice::{asks_judge, check_something};
use super::body::Part;
use super::pool::Block;
use super::sets::Rules;

impl Loader<'_> {
    /// Makes the checks of an `expect` block, with the rules of the prompt and of sets: what a test keeps of them, and all of them.
    ///
    /// A block in which nothing is wrong is compiled once, however many tests have it.
    pub(super) fn expect(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        expect: &Value,
        rules: &Rules,
        vars: &Map<String, Value>,
    ) -> (Part<[Check]>, Block) {
        self.check_rules(piece, at, expect, rules, vars);
        let text = expect.to_string();
        let key =
            if rules.checks.is_empty() { text.clone() } else { format!("{}{text}", rules.value) };
        // What has templates comes to something else for each test.
        let key = if self.setup.has_templates(expect) {
            format!("{}{key}", Value::Object(vars.clone()))
        } else {
            key
        };
        if let Some(block) = self.pool.block(&key) {
            return (Part::Ready(Arc::clone(&block.checks)), block);
        }
        let before = self.sink.count;
        let mut checks = self.compile(piece, at, expect, vars);
        checks.extend_from_slice(&rules.checks);
        let is_whole = self.sink.count == before;
        let block = Block {
            is_active: check_something(&checks),
            asks_judge: asks_judge(&checks, vars),
            compares: checks.iter().any(Check::compares),
            checks: checks.into(),
            digest: self.digest_with_files(expect),
            text: text.into(),
        };
        // What is wrong is told at every place.
        let part = if is_whole {
            self.pool.keep(key, &block)
        } else {
            Part::Ready(Arc::clone(&block.checks))
        };
        (part, block)
    }

    fn compile(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        expect: &Value,
        vars: &Map<String, Value>,
    ) -> Vec<Check> {
        if expect.as_object().is_none_or(Map::is_empty) {
            return Vec::new();
        }
        let (checks, problems) = kindlm_assertions::compile_with(expect, &self.setup, vars);
        self.note_referred(expect);
        for problem in problems {
            self.report_check(piece, problem.under(at));
        }
        self.refer_judges(piece, at, expect);
        self.note_judged(piece, at, &checks);
        checks
    }

    /// Reports what is wrong with a check.
    pub(super) fn report_check(&mut self, piece: Piece<'_>, problem: Problem) {
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
            diagnostic.help = Some(super::sink::OUTSIDE_HELP.to_owned());
        }
        self.sink.push(diagnostic);
    }
}
