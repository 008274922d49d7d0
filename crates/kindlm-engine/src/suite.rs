//! A suite: everything that a run needs to know, resolved.

use std::time::Duration;

use kindlm_assertions::{JudgeBlock, ScriptSettings};
use kindlm_types::{ComplianceInfo, Limits, Params, Price, SuiteInfo};
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
    /// The models, in the order of the file.
    pub models: Vec<Model>,
    /// The test cases, in the order of the file.
    pub cases: Vec<TestCase>,
    /// The gates, in the order of the registry.
    pub gates: Vec<Box<dyn Gate>>,
    /// Numbers to make out of named scores, in the order of the file.
    pub derived_metrics: Vec<Derivation>,
    /// What holds where a test case does not say.
    pub defaults: Defaults,
    /// Who runs scripts, and what they may do.
    pub scripts: ScriptSettings,
    /// How often judges are asked, and which jury is, where an `expect` block does not say. The one judge who is asked
    /// where there is no jury is in the defaults.
    pub judging: JudgeBlock,
    /// The checks that entries of the list form may refer to by name, as they are written.
    pub assertion_templates: Map<String, Value>,
    /// The `compliance` block.
    pub compliance: Option<Compliance>,
    /// Reports that every run writes: the id of the reporter, and the file, relative to the config file.
    pub reports: Vec<(String, String)>,
    /// Things that are accepted but that the user should know, in words.
    pub warnings: Vec<String>,
}

/// A model with its parameters.
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
    /// What its tokens cost, if known.
    pub price: Option<Price>,
    /// How fast it may be asked. Who sends the requests keeps them.
    pub limits: Limits,
    /// Whether the provider is told the variables of the test beside the prompt.
    pub tells_vars: bool,
}

/// What holds where a test case does not say.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// How many executions run at once.
    pub concurrency: usize,
    /// How long one request or command may take.
    pub timeout: Duration,
    /// The id of the model that judges; the first model if absent.
    pub judge_model: Option<String>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { concurrency: 4, timeout: Duration::from_mins(1), judge_model: None }
    }
}

/// The `compliance` block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compliance {
    /// Whether a compliance report is written without being asked for on the command line.
    pub enabled: bool,
    /// The folder for it, relative to the config file.
    pub output_dir: String,
    /// What the report says about the system under test.
    pub info: ComplianceInfo,
}
