//! The default judges of a suite, and the canaries that show if a judge has changed.

use kindlm_assertions::{Agg, JudgeBlock, Jury};
use schemars::JsonSchema;
use serde::Deserialize;

/// The default judges, the rules that combine several judgements, and the canaries.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct JudgeDefaults {
    /// The id of the model that judges. The default is the first model of the suite.
    #[schemars(length(min = 1))]
    pub(crate) model: Option<String>,
    /// The ids of several models that judge: a jury.
    #[schemars(length(min = 1))]
    pub(crate) models: Option<Vec<String>>,
    /// The number of samples per judge: 1 to 25, by default 1.
    #[schemars(range(min = 1, max = 25))]
    pub(crate) samples: Option<u32>,
    /// The temperature of the judge, from 0 to 2.
    ///
    /// The default is 0.7 if a judge is asked several times, else 0.
    #[schemars(range(min = 0, max = 2))]
    pub(crate) temperature: Option<f64>,
    /// The rule that combines the samples of one judge: `median` (default), `majority` or `mean`.
    pub(crate) agg: Option<Agg>,
    /// The rule that combines the verdicts of a jury: `majority` (default), `median`, `unanimous` or `veto`.
    pub(crate) jury: Option<Jury>,
    /// The lowest number of readable judgements, counted in jurors; without a jury, in samples.
    #[schemars(range(min = 1, max = 100))]
    pub(crate) quorum: Option<u32>,
    /// The number of calibration outputs that each judge grades again in each run. A different grade shows that the
    /// judge has changed. Default: none.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) canaries: Option<u32>,
}

impl JudgeDefaults {
    /// Returns the judges and their options, without the canaries.
    pub(crate) fn block(&self) -> JudgeBlock {
        let Self { model, models, samples, temperature, agg, jury, quorum, canaries: _ } =
            self.clone();
        JudgeBlock { model, models, samples, temperature, agg, jury, quorum }
    }
}
