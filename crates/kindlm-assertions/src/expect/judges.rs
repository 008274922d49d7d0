//! Who judges: for a whole `expect` block, and for one check.

use std::sync::LazyLock;

use kindlm_schema::{Shape, normalise_numbers};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Compiler, JUDGING};
use crate::judging::{JudgeBlock, Panel};
use crate::{Build, Registration};

static SHAPE: LazyLock<Shape> = LazyLock::new(|| Shape::generate(JudgeBlock::json_schema));

/// Who judges a check.
pub(super) struct Judges {
    pub(super) panel: Panel,
    /// Whether neither the check nor its block names anybody, so that it is the suite's to say.
    pub(super) is_left_open: bool,
}

impl Compiler<'_> {
    /// Reads what a block says about who judges its checks.
    pub(super) fn judging(&mut self, expect: &Value) {
        let Some(value) = expect.get(JUDGING) else { return };
        let at = format!("/{JUDGING}");
        let value = normalise_numbers(value.clone());
        let problems = SHAPE.problems(&value);
        if !problems.is_empty() {
            self.report(problems, &at);
            return;
        }
        let Ok(block) = JudgeBlock::deserialize(&value) else { return };
        match block.panel(self.setup) {
            Ok(_) => {
                self.names_judges = block.names_judges();
                self.judging = block.over(&self.setup.judging);
            }
            Err(problems) => self.report(problems, &at),
        }
    }

    /// Who judges a check: takes what it says about that out of its configuration. `None` if that is wrong.
    pub(super) fn panel(
        &mut self,
        registration: &Registration,
        config: &mut Value,
        at: &str,
    ) -> Option<Judges> {
        let mut own = Map::new();
        if let (true, Some(map)) = (registration.build.asks_judges(), config.as_object_mut()) {
            for key in JudgeBlock::KEYS {
                let taken = match (registration.build, key) {
                    (Build::Judged(_), "model") => map.get(key).cloned(),
                    _ => map.shift_remove(key),
                };
                own.extend(taken.map(|it| (key.to_owned(), it)));
            }
        }
        if !registration.build.asks_judges() {
            let panel = JudgeBlock::default().panel(self.setup).ok()?;
            return Some(Judges { panel, is_left_open: false });
        }
        let block = JudgeBlock::deserialize(&Value::Object(own)).unwrap_or_default();
        let problems = block.panel(self.setup).err().unwrap_or_default();
        if !problems.is_empty() {
            self.report(problems, at);
            return None;
        }
        let is_left_open = !self.names_judges && !block.names_judges();
        let whole = block.clone().over(&self.judging);
        let idle = block.idle(&whole);
        if !idle.is_empty() {
            self.report(idle, at);
            return None;
        }
        match whole.panel(self.setup) {
            Ok(panel) => Some(Judges { panel, is_left_open }),
            Err(problems) => {
                self.report(problems, at);
                None
            }
        }
    }
}
