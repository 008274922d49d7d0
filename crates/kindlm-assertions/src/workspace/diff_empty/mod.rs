//! `diff-empty`: the agent changed nothing.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::result_evidence::explained;
use crate::core::workspace::{change_evidence, changed, decided, workspace};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "diff-empty";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent did not change its workspace.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "Something was added, changed or deleted; with `not-` nothing was.",
            },
            Code { code: EVIDENCE_MISSING, summary: "The test has no `workspace`." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The options of `diff-empty`; there are none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {}

#[derive(Debug)]
struct DiffEmpty {
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config {} = config::parse_config(value)?;
    Ok(Arc::new(DiffEmpty { label: own.label("Nothing changed"), own }))
}

impl Assertion for DiffEmpty {
    fn traits(&self) -> Traits {
        Traits::OF_WORKSPACE
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let workspace = match workspace(evidence, ID, &self.label) {
            Ok(workspace) => workspace,
            Err(results) => return results,
        };
        let holds = workspace.changes.is_empty();
        let results = decided(ID, &self.label, self.own, holds, changed(&workspace.changes));
        explained(results, || [change_evidence(&workspace.changes, "a changed file")])
    }
}
