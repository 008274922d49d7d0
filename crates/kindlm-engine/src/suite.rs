//! The suite: the resolved configuration of a run.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kindlm_assertions::{JudgeBlock, ScriptSettings};
use kindlm_types::{
    AgentSpec, Channel, ComplianceInfo, Embedding, JudgeCalibration, Limits, Params, Price,
    SuiteInfo, ToolSpec, TraceSettings, Usage,
};
use serde_json::{Map, Value};

use crate::derived::Derivation;
use crate::gates::Gate;
use crate::options::Pattern;
use crate::{Hook, TestCase};

/// One resolved suite. `kindlm-config` creates it from `kindlm.yaml`; Rust code can build it directly.
#[derive(Debug, Default)]
pub struct Suite {
    /// The names and digests for reports.
    pub info: SuiteInfo,
    /// The configuration of each provider by key, in the format of its registry entry.
    pub providers: Map<String, Value>,
    /// The models of the list `models`, then the models that other parts of the file name as `provider:model`, and then
    /// the agents.
    pub models: Vec<Model>,
    /// The test cases, in the order of the file.
    pub cases: Vec<TestCase>,
    /// The gates, in the order of the registry.
    pub gates: Vec<Box<dyn Gate>>,
    /// The metrics to compute from named scores, in the order of the file.
    pub derived_metrics: Vec<Derivation>,
    /// The defaults for test cases.
    pub defaults: Defaults,
    /// The runtime and the permissions of scripts.
    pub scripts: ScriptSettings,
    /// The default judge panel and number of judge answers, for `expect` blocks without these settings.
    ///
    /// Without a panel, the single judge of `defaults` answers.
    pub judging: JudgeBlock,
    /// The number of canaries for each calibrated judge; 0 for none.
    ///
    /// Canaries are outputs of the calibration. Before a run, the judge is asked about them again.
    pub canaries: u32,
    /// The judges of each kind of check, with their locations in the file.
    ///
    /// The entries have no duplicates. Empty for a suite that is built in code.
    pub judged: Vec<JudgedCheck>,
    /// The templates of checks under `assertionTemplates`, by name, as written.
    pub assertion_templates: Map<String, Value>,
    /// The `compliance` block; `None` if the suite has no such block.
    pub compliance: Option<Compliance>,
    /// The settings for traces of the agent under test.
    pub trace: TraceSettings,
    /// The equivalent mutants, which a mutation score leaves out because they behave like the original executions.
    pub ignored_mutants: Vec<IgnoredMutants>,
    /// The reports that every run writes.
    ///
    /// Each report has the id of the reporter, and the file, relative to the config file.
    pub reports: Vec<(String, String)>,
    /// The functions that are called with the results of a run.
    pub hooks: Vec<Hook>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// The mutants of one operator that a mutation score leaves out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IgnoredMutants {
    /// The id of the mutation operator.
    pub operator: String,
    /// The test cases whose mutants are left out; `None` for all.
    pub tests: Option<Pattern>,
}

impl IgnoredMutants {
    /// Creates the mutants of an operator in some test cases; `None` for all.
    pub fn new(operator: impl Into<String>, tests: Option<Pattern>) -> Self {
        Self { operator: operator.into(), tests }
    }

    /// Returns true if the mutant of an operator and a test case is left out.
    pub fn includes(&self, operator: &str, case: &str) -> bool {
        self.operator == operator && self.tests.as_ref().is_none_or(|it| it.is_match(case))
    }
}

/// A kind of check with its judges, and the first location that uses them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct JudgedCheck {
    /// The assertion's id.
    pub check: &'static str,
    /// The judges and their options, [settled](JudgeBlock::settled). The suite's judge replaces absent model names.
    pub judging: JudgeBlock,
    /// The digests of the judges' prompts.
    pub prompts: Vec<String>,
    /// The texts of the judges' prompts, in the order of the digests.
    pub texts: Vec<Cow<'static, str>>,
    /// The digests of all criteria of these checks. Empty if the checks have no criteria.
    pub criteria: BTreeSet<String>,
    /// The first location in the suite that uses these judges, as text with file, line and column.
    pub place: String,
    /// The measured agreement of the judges with people; `None` without a calibration.
    pub calibration: Option<JudgeCalibration>,
}

impl JudgedCheck {
    /// Creates a kind of check without prompts, criteria and calibration.
    pub fn new(check: &'static str, judging: JudgeBlock, place: impl Into<String>) -> Self {
        Self {
            check,
            judging,
            prompts: Vec::new(),
            texts: Vec::new(),
            criteria: BTreeSet::new(),
            place: place.into(),
            calibration: None,
        }
    }
}

/// The target of a test: a model with its parameters, or an agent that is a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The id in the suite.
    pub id: String,
    /// The provider's key in [`Suite::providers`].
    pub provider: String,
    /// The name of the model in the provider's API, such as `gpt-4o`.
    pub name: String,
    /// The sampling parameters.
    pub params: Params,
    /// The price of the tokens, if known.
    pub price: Option<Price>,
    /// The rate limits of the model, which the implementation of [`Models`](kindlm_types::Models) applies.
    pub limits: Limits,
    /// True if the provider gets the variables of the test in addition to the prompt.
    pub tells_vars: bool,
    /// The functions that the provider sends with every request, besides the test's tools.
    pub offers: Arc<[ToolSpec]>,
    /// The kinds of evidence that the suite declares complete for the provider or agent.
    pub declared: BTreeSet<Channel>,
    /// The agent's entry, if the target is an agent. Agents are never used as judges.
    pub agent: Option<Arc<AgentSpec>>,
}

impl Model {
    /// Creates a model of a provider, without parameters, price and limits.
    pub fn new(
        id: impl Into<String>,
        provider: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            provider: provider.into(),
            name: name.into(),
            params: Params::default(),
            price: None,
            limits: Limits::default(),
            tells_vars: false,
            offers: Arc::default(),
            declared: BTreeSet::new(),
            agent: None,
        }
    }

    /// Creates the target for an agent. Reports show its type as the provider, and its model as the name.
    pub fn of_agent(id: &str, agent: AgentSpec) -> Self {
        Self {
            id: id.to_owned(),
            provider: agent.kind.as_str().to_owned(),
            name: agent.model.clone().unwrap_or_else(|| "default".to_owned()),
            params: Params::default(),
            // The price of long prompts needs the length of each prompt, but an agent reports only the sum over its
            // requests.
            price: agent.price.map(|it| Price { long_prompt: None, ..it }),
            limits: Limits::default(),
            tells_vars: true,
            offers: Arc::default(),
            declared: agent.evidence.clone().unwrap_or_default().complete,
            agent: Some(Arc::new(agent)),
        }
    }

    /// Returns the cost of an answer in US dollars.
    ///
    /// The result is the reported cost, or else the cost by the price. Returns `None` if both costs are unknown.
    pub(crate) fn cost_of(&self, reported: Option<f64>, usage: &Usage) -> Option<f64> {
        reported.or_else(|| self.price?.cost_if_counted(usage))
    }

    /// Returns the cost of an embedding in US dollars. Returns `None` if it is unknown.
    ///
    /// The price of this model does not apply if the provider used its own embedding model instead.
    pub(crate) fn cost_of_embedding(&self, embedding: &Embedding) -> Option<f64> {
        match (embedding.cached, embedding.substituted) {
            (true, _) => Some(0.0),
            (false, true) => embedding.cost_usd,
            (false, false) => self.cost_of(embedding.cost_usd, &embedding.usage),
        }
    }
}

/// Returns the judge with this id; without an id, the first model that is not an agent.
///
/// Returns `None` if there is no such model.
pub fn judge_of<'m>(models: &'m [Model], id: Option<&str>) -> Option<&'m Model> {
    models.iter().filter(|it| it.agent.is_none()).find(|it| id.is_none_or(|id| it.id == id))
}

/// The defaults for test cases.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// The maximum number of concurrent requests and commands, at least 1.
    pub concurrency: usize,
    /// The time limit of one request or command.
    pub timeout: Duration,
    /// The id of the default judge; the first model that is not an agent if absent.
    pub judge_model: Option<String>,
    /// The minimum weighted mean score of a passing execution; if absent, every check must hold.
    ///
    /// Each test case has its own threshold, which already includes this default. This field applies only to
    /// evaluations without a test case.
    pub threshold: Option<f64>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { concurrency: 4, timeout: Duration::from_mins(1), judge_model: None, threshold: None }
    }
}

/// The settings of the `compliance` block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compliance {
    /// True if every run writes a compliance report.
    pub enabled: bool,
    /// The folder for the report, relative to the config file.
    pub output_dir: String,
    /// The description of the system under test, for the report.
    pub info: ComplianceInfo,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_of_a_model_does_not_apply_to_stored_or_substituted_vectors() {
        let price = Price::new(2.0, 8.0);
        let model = Model { price: Some(price), ..Model::new("m", "openai", "gpt-4o") };
        let usage = Usage::counted(Some(1_000_000), Some(0), None, None);
        let embedding = Embedding::new([1.0], usage);
        let unreported = Embedding::new([1.0], Usage::default());
        for (embedding, expected) in [
            (embedding.clone(), Some(2.0)),
            (unreported, None),
            (Embedding { cached: true, ..embedding.clone() }, Some(0.0)),
            (Embedding { substituted: true, ..embedding.clone() }, None),
            (Embedding { substituted: true, cost_usd: Some(0.02), ..embedding }, Some(0.02)),
        ] {
            assert_eq!(model.cost_of_embedding(&embedding), expected, "{embedding:?}");
        }
    }
}
