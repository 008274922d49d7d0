//! Who judges, with the models behind their ids: as people are told, and as calibrations are kept.

use std::collections::BTreeSet;

use kindlm_assertions::JudgeBlock;
use kindlm_config::Programs;
use kindlm_engine::{Model, judge_of};
use kindlm_store::{Digest, Judge, JudgeModel};
use serde_json::{Map, Value};

use crate::responses::decided_by;

/// A judge or a jury of a suite.
#[derive(Clone, Debug)]
pub struct Bench<'s> {
    /// Those who have a vote.
    pub models: Vec<&'s Model>,
    /// Who judges and how, settled, with the ids of the models.
    pub judging: JudgeBlock,
}

impl<'s> Bench<'s> {
    /// Who judges as a block says; `default` is asked where that names nobody. `None` if there is no such model.
    pub fn of(suite: &'s [Model], default: Option<&str>, judging: &JudgeBlock) -> Option<Self> {
        let mut judging = judging.settled();
        if !judging.names_judges() {
            judging.model = Some(judge_of(suite, default)?.id.clone());
        }
        let ids = judging.model.iter().chain(judging.models.iter().flatten());
        let models = ids.map(|id| judge_of(suite, Some(id))).collect::<Option<_>>()?;
        Some(Self { models, judging })
    }

    /// What it is called, and how it judges.
    pub fn name(&self) -> String {
        let name = |id: &str| match self.models.iter().find(|it| it.id == id) {
            Some(it) if it.id != full(it) => format!("{id} ({})", full(it)),
            _ => id.to_owned(),
        };
        self.judging.renamed(name).in_words()
    }

    /// Who it is, whatever the suite calls its models.
    pub fn full(&self) -> JudgeBlock {
        let name = |id: &str| {
            let model = self.models.iter().find(|it| it.id == id);
            model.map_or_else(|| id.to_owned(), |it| full(it))
        };
        self.judging.renamed(name).settled()
    }

    /// What decides what the models say beside their names, as a digest: settings of their providers, and programs that
    /// answer for them. `None` if nothing does.
    pub fn decided(
        &self,
        providers: &Map<String, Value>,
        programs: &Programs<'_>,
    ) -> Option<String> {
        let names: BTreeSet<&str> = self.models.iter().map(|it| it.provider.as_str()).collect();
        let decides = names.iter().filter_map(|it| decided_by(it, providers.get(*it)?, programs));
        let decides: Vec<Value> = decides.collect();
        (!decides.is_empty()).then(|| Digest::of(Value::Array(decides).to_string()).to_string())
    }

    /// As its calibrations are kept.
    pub fn kept(&self) -> Judge {
        let model =
            |it: &&Model| JudgeModel { provider: it.provider.clone(), model: it.name.clone() };
        let mut models: Vec<JudgeModel> = self.models.iter().map(model).collect();
        models.sort();
        Judge { models, settings: settings(&self.judging) }
    }
}

/// A model whatever a suite calls it.
pub fn full(model: &Model) -> String {
    format!("{}:{}", model.provider, model.name)
}

/// A judge whose calibrations were kept.
pub fn of_kept(judge: &Judge) -> Option<JudgeBlock> {
    let names = judge.models.iter().map(|it| format!("{}:{}", it.provider, it.model));
    let block: JudgeBlock = serde_json::from_value(Value::Object(judge.settings.clone())).ok()?;
    let models = Some(names.collect());
    Some(JudgeBlock { models, ..block }.settled())
}

/// What differs from asking one model once.
fn settings(judging: &JudgeBlock) -> Map<String, Value> {
    let open = JudgeBlock { model: None, models: None, ..judging.clone() };
    // What is read from a file can be written to one.
    let Ok(Value::Object(settings)) = serde_json::to_value(open) else { return Map::new() };
    settings.into_iter().filter(|(_, it)| !it.is_null()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn model(id: &str, name: &str) -> Model {
        Model {
            id: id.to_owned(),
            provider: "p".to_owned(),
            name: name.to_owned(),
            params: kindlm_types::Params::default(),
            price: None,
            limits: kindlm_types::Limits::default(),
            tells_vars: false,
            offers: [].into(),
            declared: std::collections::BTreeSet::new(),
            agent: None,
        }
    }

    #[test]
    fn what_is_kept_is_who_judged_and_nothing_else() {
        let models = [model("a", "x"), model("b", "y"), model("p:z", "z")];
        for (judging, name) in [
            (json!({}), "b (p:y)"),
            (json!({"samples": 1, "temperature": 0, "agg": "mean"}), "b (p:y)"),
            (json!({"model": "p:z"}), "p:z"),
            (json!({"samples": 3}), "b (p:y) (asked 3 times, median)"),
            (
                json!({"samples": 3, "temperature": 0.7, "quorum": 2}),
                "b (p:y) (asked 3 times, median)",
            ),
            (
                json!({"models": ["b", "a"], "samples": 3, "agg": "mean", "quorum": 1}),
                "the jury a (p:x) + b (p:y), majority (each asked 3 times, mean, quorum 1)",
            ),
            (json!({"models": ["a"], "jury": "veto"}), "a (p:x)"),
        ] {
            let block: JudgeBlock = serde_json::from_value(judging.clone()).unwrap();
            let bench = Bench::of(&models, Some("b"), &block).unwrap();
            assert_eq!(bench.name(), name, "{judging}");
            assert_eq!(of_kept(&bench.kept()), Some(bench.full()), "{judging}");
        }
        let nobody = JudgeBlock { model: Some("c".to_owned()), ..JudgeBlock::default() };
        assert!(Bench::of(&models, None, &nobody).is_none());
    }
}
