//! The `compliance` block.

use schemars::JsonSchema;
use serde::Deserialize;

/// A report for auditors.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ComplianceBlock {
    /// True if the report is written by every run.
    pub(crate) enabled: bool,
    /// The rules that the report follows.
    pub(crate) framework: Framework,
    /// The folder for the report, relative to the config file.
    pub(crate) output_dir: String,
    /// The description of the system for the report.
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

/// The rules that the report follows.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Framework {
    /// The EU AI Act, Annex IV.
    #[default]
    EuAiAct,
    /// Your own.
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

/// The system under test, in words.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Metadata {
    /// Its name.
    pub(crate) system_name: Option<String>,
    /// Its version.
    pub(crate) system_version: Option<String>,
    /// Its risk class.
    pub(crate) risk_level: Option<RiskLevel>,
    /// The operator.
    pub(crate) operator: Option<String>,
    /// Its purpose.
    pub(crate) intended_purpose: Option<String>,
    /// The governance of its data.
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
