//! Judges and the models behind their ids, for error messages and for stored calibrations.

use std::collections::BTreeSet;

use kindlm_assertions::JudgeBlock;
use kindlm_config::Programs;
use kindlm_engine::{Model, judge_of};
use kindlm_providers::Providers;
use kindlm_store::{Calibration, Calibrations, Digest, Judge, JudgeModel};
use kindlm_types::suggest;
use serde_json::{Map, Value};

use crate::Failure;
use crate::responses::decided_by;

/// A judge given as `provider:model`, without a suite.
#[derive(Clone, Debug)]
pub struct NamedJudge {
    pub(crate) model: Model,
    /// The provider's configuration, by the provider's name.
    pub(crate) providers: Map<String, Value>,
}

impl NamedJudge {
    /// Parses `provider:model`, with the provider's default base URL and key variable.
    ///
    /// `providers` are the registered providers.
    ///
    /// # Errors
    ///
    /// Fails if the text names no model, or if the provider is unknown or needs a configuration.
    pub fn new(text: &str, providers: &Providers) -> Result<Self, Failure> {
        let usable = || providers.iter().filter(|it| it.meta.shorthand);
        let Some((provider, name)) = text.split_once(':').filter(|(_, name)| !name.is_empty())
        else {
            return Err(Failure::input(format!("`{text}` is not a judge"))
                .with_help("write `provider:model`, such as `openai:gpt-4o-mini`"));
        };
        let Some(registration) = usable().find(|it| it.meta.id == provider) else {
            let help = if providers.find(provider).is_some() {
                format!("`{provider}` needs a configuration: name a suite that has one with `-c`")
            } else {
                let known: Vec<&str> = usable().map(|it| it.meta.id).collect();
                suggest(provider, "providers", known)
            };
            let message = format!("`{provider}` cannot be used by its name");
            return Err(Failure::input(message).with_help(help));
        };
        let config = registration.default_config().map(|it| (provider.to_owned(), it));
        let mut model = Model::new(text, provider, name);
        model.price = kindlm_providers::pricing::price(provider, name);
        Ok(Self { model, providers: config.into_iter().collect() })
    }

    /// Sets the base URL of the API and the environment variable of the key.
    ///
    /// A value that is `None` is not set.
    #[must_use]
    pub fn with_access(mut self, base_url: Option<&str>, api_key_env: Option<&str>) -> Self {
        for config in self.providers.values_mut().filter_map(Value::as_object_mut) {
            for (key, value) in [("baseUrl", base_url), ("apiKeyEnv", api_key_env)] {
                config.extend(value.map(|it| (key.to_owned(), it.into())));
            }
        }
        self
    }
}

/// A judge or a judge panel of a suite.
#[derive(Clone, Debug)]
pub(crate) struct Panel<'s> {
    /// The models that vote.
    pub(crate) models: Vec<&'s Model>,
    /// The judge block in its normal form; the models are ids.
    pub(crate) judging: JudgeBlock,
}

impl<'s> Panel<'s> {
    /// Resolves a judge block; `default` is the judge if the block names no judge.
    ///
    /// Returns `None` if no model can judge, or if a named model does not exist.
    pub(crate) fn resolve(
        suite: &'s [Model],
        default: Option<&str>,
        judging: &JudgeBlock,
    ) -> Option<Self> {
        let mut judging = judging.settled();
        if !judging.names_judges() {
            judging.model = Some(judge_of(suite, default)?.id.clone());
        }
        let ids = judging.model.iter().chain(judging.models.iter().flatten());
        let models = ids.map(|id| judge_of(suite, Some(id))).collect::<Option<_>>()?;
        Some(Self { models, judging })
    }

    /// Returns the names of the models and the judge settings, as text.
    pub(crate) fn name(&self) -> String {
        let name = |id: &str| match self.models.iter().find(|it| it.id == id) {
            Some(it) if it.id != full(it) => format!("{id} ({})", full(it)),
            _ => id.to_owned(),
        };
        self.judging.renamed(name).in_words()
    }

    /// Returns the judge block with `provider:model` instead of ids.
    ///
    /// Two suites may use different ids for one model.
    pub(crate) fn full(&self) -> JudgeBlock {
        let name = |id: &str| {
            let model = self.models.iter().find(|it| it.id == id);
            model.map_or_else(|| id.to_owned(), |it| full(it))
        };
        self.judging.renamed(name).settled()
    }

    /// Returns a digest of the provider settings and local programs that change the models' answers.
    ///
    /// An entry in `providers` does not count if it only has prepared answers. Returns `None` if no entry counts.
    pub(crate) fn decided(
        &self,
        providers: &Map<String, Value>,
        programs: &Programs<'_>,
    ) -> Option<String> {
        let names: BTreeSet<&str> = self.models.iter().map(|it| it.provider.as_str()).collect();
        let decides = names.iter().filter_map(|it| decided_by(it, providers.get(*it)?, programs));
        let decides: Vec<Value> = decides.collect();
        (!decides.is_empty())
            .then(|| Digest::from_content(Value::Array(decides).to_string()).to_string())
    }

    /// Returns the key of the judge's stored calibrations.
    pub(crate) fn stored(&self) -> Judge {
        let model = |it: &&Model| JudgeModel::new(&it.provider, &it.name);
        let mut models: Vec<JudgeModel> = self.models.iter().map(model).collect();
        models.sort();
        let mut judge = Judge::new(models);
        judge.settings = settings(&self.judging);
        judge
    }

    /// Returns the stored calibration of the judge for a check and its instructions; `None` without such a calibration.
    pub(crate) fn calibration(
        &self,
        store: &Calibrations,
        check: &str,
        prompts: &[String],
    ) -> Result<Option<Calibration>, Failure> {
        let known = store.for_judge(&self.stored()).map_err(|err| Failure::store(&err))?;
        Ok(known.into_iter().find(|it| it.check == check && it.prompts == prompts))
    }
}

/// Returns a model as `provider:model`.
pub(crate) fn full(model: &Model) -> String {
    format!("{}:{}", model.provider, model.name)
}

/// Rebuilds the judge block of a stored calibration.
///
/// Returns `None` if its settings are invalid.
pub(crate) fn from_stored(judge: &Judge) -> Option<JudgeBlock> {
    let names = judge.models.iter().map(|it| format!("{}:{}", it.provider, it.model));
    let block: JudgeBlock = serde_json::from_value(Value::Object(judge.settings.clone())).ok()?;
    let models = Some(names.collect());
    Some(JudgeBlock { models, ..block }.settled())
}

/// Returns the settings of a judge block that have a value, without the models.
fn settings(judging: &JudgeBlock) -> Map<String, Value> {
    let open = JudgeBlock { model: None, models: None, ..judging.clone() };
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
    fn stored_judge_names_models_and_settings_only() {
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
            let panel = Panel::resolve(&models, Some("b"), &block).unwrap();
            assert_eq!(panel.name(), name, "{judging}");
            assert_eq!(from_stored(&panel.stored()), Some(panel.full()), "{judging}");
        }
        let unknown = JudgeBlock { model: Some("c".to_owned()), ..JudgeBlock::default() };
        assert!(Panel::resolve(&models, None, &unknown).is_none());
    }
}
