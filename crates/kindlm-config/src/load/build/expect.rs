//! The `expect` blocks of tests. Equal blocks without problems are compiled once, as long as the pool has room.

use std::sync::Arc;

use kindlm_assertions::Check;
use kindlm_source::Piece;
use serde_json::{Map, Value};

use super::Builder;
use super::advice::{asks_judge, check_something};
use super::body::Part;
use super::pool::Block;
use crate::load::resolve::Rules;

impl Builder<'_> {
    /// Compiles the checks of an `expect` block, and adds the rules of the prompt and of assertion sets.
    ///
    /// Returns the checks in the form that the test stores, and the compiled block. A block in the pool is not compiled
    /// again.
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
        // A block with templates depends on the variables, so the key contains them.
        let key = if self.base.setup.has_templates(expect) {
            format!("{}{key}", Value::Object(vars.clone()))
        } else {
            key
        };
        if let Some(block) = self.pool.block(&key) {
            return (Part::Ready(Arc::clone(&block.checks)), block);
        }
        let before = self.base.sink.count;
        let mut checks = self.compile(piece, at, expect, vars);
        checks.extend_from_slice(&rules.checks);
        let is_whole = self.base.sink.count == before;
        self.note_names(&checks);
        let block = Block {
            is_active: check_something(&checks),
            asks_judge: asks_judge(&checks, vars),
            compares: checks.iter().any(Check::compares),
            checks: checks.into(),
            digest: self.base.digest_with_files(expect),
            text: text.into(),
        };
        // Blocks with problems are not cached, so that their problems are reported for each test.
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
        let (checks, problems) = kindlm_assertions::compile_with(expect, &self.base.setup, vars);
        self.note_referred(expect);
        for problem in problems {
            self.base.report_check(piece, problem.under(at));
        }
        self.base.refer_judges(piece, at, expect);
        self.base.note_judged(piece, at, &checks);
        checks
    }
}
