//! A suite: everything that a run needs to know, resolved.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kindlm_assertions::{JudgeBlock, ScriptSettings};
use kindlm_types::{
    AgentSpec, Channel, ComplianceInfo, Limits, Params, Price, SuiteInfo, ToolSpec, TraceSettings,
    Usage,
};
use serde_json::{Map, Value};

use crate::TestCase;
use crate::derived::Derivation;
use crate::gates::Gate;

/// One resolved suite. `kindlm-config` makes it out of `kindlm.yaml`; Rust code can build it directly.
#[derive(Debug, Default)]
pub struct Suite {
    /// Names and digests for reports.
    pub info: SuiteInfo,
    /// The configuration of each provider by its key, as its registry entry takes it.
    pub providers: Map<String, Value>,
    /// The models, in the order of the file, and behind them the agents that tests name.
    pub models: Vec<Model>,
    /// The test cases, in the order of the file.
    pub cases: Vec<TestCase>,
    /// The gates, in the order of the registry.
    pub gates: Vec<Box<dyn Gate>>,
    /// Numbers to make out of named scores, in the order of the file.
    pub derived_metrics: Vec<Derivation>,
    /// Defaults for test cases.
    pub defaults: Defaults,
    /// The runtime and the permissions of scripts.
    pub scripts: ScriptSettings,
    /// How often judges are asked, and which jury is, where an `expect` block does not say. The one judge who is asked
    /// where there is no jury is in the defaults.
    pub judging: JudgeBlock,
    /// Who judges what, and where that is written: each kind of check once for each judge and prompt, in the order of
    /// the file. Empty for a suite that was not read from one.
    pub judged: Vec<JudgedAt>,
    /// The checks that entries of the list form may refer to by name, as they are written.
    pub assertion_templates: Map<String, Value>,
    /// The `compliance` block.
    pub compliance: Option<Compliance>,
    /// The settings for traces of the agent under test.
    pub trace: TraceSettings,
    /// Reports that every run writes: the id of the reporter, and the file, relative to the config file.
    pub reports: Vec<(String, String)>,
    /// Things that are accepted but that the user should know, in words.
    pub warnings: Vec<String>,
}

/// A kind of check with who judges it, and the first place where that is written.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedAt {
    /// The assertion's id.
    pub check: &'static str,
    /// The judges and their options, [settled](JudgeBlock::settled); a model that is not named is the suite's.
    pub judging: JudgeBlock,
    /// Digests of what the judges are told.
    pub prompts: Vec<String>,
    /// File, line and column.
    pub place: String,
}

/// Whom a test is run on: a model with its parameters, or an agent that is a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Its id in the suite.
    pub id: String,
    /// The provider's key in [`Suite::providers`].
    pub provider: String,
    /// The vendor's name of the model.
    pub name: String,
    /// Sampling parameters.
    pub params: Params,
    /// The price of its tokens, if known.
    pub price: Option<Price>,
    /// The rate limits of the model. The sender of the requests applies them.
    pub limits: Limits,
    /// True if the provider is told the variables of the test beside the prompt.
    pub tells_vars: bool,
    /// Functions that its provider offers with every request, beside the tools of tests.
    pub offers: Arc<[ToolSpec]>,
    /// The evidence that the suite declares complete for the model's provider, or for the agent.
    pub declared: BTreeSet<Channel>,
    /// The start of the agent, if the model is one. Agents are run, and never asked to judge.
    pub agent: Option<Arc<AgentSpec>>,
}

impl Model {
    /// An agent. Reports show its kind as the provider, and the model that it is told to use as the name.
    pub fn of_agent(id: &str, agent: AgentSpec) -> Self {
        Self {
            id: id.to_owned(),
            provider: agent.kind.as_str().to_owned(),
            name: agent.model.clone().unwrap_or_else(|| "default".to_owned()),
            params: Params::default(),
            price: agent.price,
            limits: Limits::default(),
            tells_vars: true,
            offers: Arc::default(),
            declared: agent.evidence.clone().unwrap_or_default().complete,
            agent: Some(Arc::new(agent)),
        }
    }

    /// The cost of an answer in US dollars: as reported, else the price of its tokens; `None` if neither is known.
    pub(crate) fn cost_of(&self, told: Option<f64>, usage: &Usage) -> Option<f64> {
        told.or_else(|| self.price?.cost_if_counted(usage))
    }
}

/// The model that is asked for a judgement: the one of this id, else the first that is no agent.
pub fn judge_of<'m>(models: &'m [Model], id: Option<&str>) -> Option<&'m Model> {
    models.iter().filter(|it| it.agent.is_none()).find(|it| id.is_none_or(|id| it.id == id))
}

/// Defaults for test cases.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// The number of executions that run at once.
    pub concurrency: usize,
    /// The time limit of one request or command.
    pub timeout: Duration,
    /// The id of the model that judges; the first model if absent.
    pub judge_model: Option<String>,
    /// The weighted mean score from which an execution passes, where neither its test nor its prompt says; every check
    /// must hold if absent. Test cases have taken it over; it is for what is judged without one.
    pub threshold: Option<f64>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { concurrency: 4, timeout: Duration::from_mins(1), judge_model: None, threshold: None }
    }
}

/// The `compliance` block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compliance {
    /// True if a compliance report is written without being asked for on the command line.
    pub enabled: bool,
    /// The folder for it, relative to the config file.
    pub output_dir: String,
    /// The report's information about the system under test.
    pub info: ComplianceInfo,
}
