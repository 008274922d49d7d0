//! The choice of judges for an `expect` block and for a single check.

use std::sync::{Arc, LazyLock};

use kindlm_schema::{Shape, normalise_numbers};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Compiler, JUDGING};
use crate::core::judging::{JudgeBlock, Panel};
use crate::{Build, Registration};

static SHAPE: LazyLock<Shape> = LazyLock::new(Shape::from_type::<JudgeBlock>);

/// The judges of a check.
pub(super) struct Judges {
    pub(super) panel: Panel,
    /// True if the check asks judges, and neither the check nor its block names a judge. The default judge is then asked.
    pub(super) is_left_open: bool,
    /// The merged `judging` options; `None` for a check that asks no judge.
    pub(super) judging: Option<Arc<JudgeBlock>>,
}

impl Compiler<'_> {
    /// Validates the `judging` options of a block, and applies them to its checks.
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
        let problems = Panel::new(&block, self.setup).err().unwrap_or_default();
        if !problems.is_empty() {
            self.report(problems, &at);
            return;
        }
        let whole = block.clone().over(&self.setup.judging);
        // The options of the block may contradict those of the suite.
        let problems = whole.problems();
        if problems.is_empty() {
            self.names_judges = block.names_judges();
            self.judging = whole;
            self.block = Some(block);
        } else {
            self.report(problems, &at);
        }
    }

    /// Reports the options of the block's `judging` that have no effect.
    ///
    /// `jury` needs several judges, and `agg` needs several samples. `quorum` needs one of the two.
    pub(super) fn idle_judging(&mut self) {
        let Some(block) = self.block.take() else { return };
        let leaves = self.checks.iter().flat_map(|(_, it)| it.leaves());
        let samples = leaves.filter_map(|it| it.judging.as_ref()?.samples);
        let samples = samples.chain(self.judging.samples).max();
        let idle = block.idle(&JudgeBlock { samples, ..self.judging.clone() });
        self.report(idle, &format!("/{JUDGING}"));
    }

    /// Moves the options about judges out of a check's configuration into a panel.
    ///
    /// With `Build::Judged`, `model` stays in the configuration too. Reports the problems of the options. Returns `None` if
    /// the options have a problem.
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
            let panel = Panel::new(&JudgeBlock::default(), self.setup).ok()?;
            return Some(Judges { panel, is_left_open: false, judging: None });
        }
        let block = JudgeBlock::deserialize(&Value::Object(own)).unwrap_or_default();
        let problems = Panel::new(&block, self.setup).err().unwrap_or_default();
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
        match Panel::new(&whole, self.setup) {
            Ok(panel) => Some(Judges { panel, is_left_open, judging: Some(Arc::new(whole)) }),
            Err(problems) => {
                self.report(problems, at);
                None
            }
        }
    }
}
