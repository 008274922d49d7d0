//! The `compliance` block.

use schemars::JsonSchema;
use serde::Deserialize;

/// The settings of the compliance report for auditors.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ComplianceBlock {
    /// True if every run writes the report. Default: false.
    pub(crate) enabled: bool,
    /// The regulation that the report follows. Default: `eu-ai-act`.
    pub(crate) framework: Framework,
    /// The folder for the report, relative to the config file. Default: `./compliance-reports`.
    pub(crate) output_dir: String,
    /// The description of the system under test, for the report.
    pub(crate) metadata: Metadata,
}

impl Default for ComplianceBlock {
    fn default() -> Self {
        Self {
            enabled: false,
            framework: Framework::default(),
            output_dir: "./compliance-reports".to_owned(),
            metadata: Metadata::default(),
        }
    }
}

/// The regulation that the report follows.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Framework {
    /// The EU AI Act, Annex IV.
    #[default]
    EuAiAct,
    /// Your own framework.
    Custom,
}

impl Framework {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::EuAiAct => "eu-ai-act",
            Self::Custom => "custom",
        }
    }
}

/// The description of the system under test.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Metadata {
    /// The name of the system.
    pub(crate) system_name: Option<String>,
    /// The version of the system.
    pub(crate) system_version: Option<String>,
    /// The risk class of the system.
    pub(crate) risk_level: Option<RiskLevel>,
    /// The operator of the system, if neither `provider` nor `deployer` fits.
    pub(crate) operator: Option<String>,
    /// The provider of the system, which develops it and offers it under its own name.
    pub(crate) provider: Option<String>,
    /// The deployer of the system, which uses it.
    pub(crate) deployer: Option<String>,
    /// The intended purpose of the system.
    pub(crate) intended_purpose: Option<String>,
    /// Notes on the governance of the system's data.
    pub(crate) data_governance_notes: Option<String>,
}

/// The risk class of a system.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RiskLevel {
    /// High risk.
    High,
    /// Limited risk.
    Limited,
    /// Minimal risk.
    Minimal,
}

impl RiskLevel {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Limited => "limited",
            Self::Minimal => "minimal",
        }
    }
}
