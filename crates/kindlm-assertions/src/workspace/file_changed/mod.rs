//! `file-changed`: the agent added or changed a file.

use std::sync::Arc;

use kindlm_types::workspace::{ChangeKind, FileChange};
use kindlm_types::{AssertionResult, Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::result_evidence::explained;
use crate::core::workspace::{Paths, change_evidence, changed, decided, workspace};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "file-changed";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent added or changed a file of its workspace.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "No such file was added or changed; with `not-` one was.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The test has no `workspace`, or changes of this file were not recorded.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The file that must have changed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The path from the top of the workspace, or a glob such as `src/**/*.ts`.
    #[schemars(length(min = 1))]
    value: String,
}

#[derive(Debug)]
struct FileChanged {
    paths: Paths,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value } = config::parse_config(value)?;
    let paths = Paths::new(&value, "/value")?;
    let label = own.label(&format!("File changed: {paths}"));
    Ok(Arc::new(FileChanged { paths, label, own }))
}

impl Assertion for FileChanged {
    fn traits(&self) -> Traits {
        Traits::OF_WORKSPACE
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let workspace = match workspace(evidence, ID, &self.label) {
            Ok(workspace) => workspace,
            Err(results) => return results,
        };
        if let Err(results) = self.paths.check_recorded(workspace, ID, &self.label) {
            return results;
        }
        let is_meant =
            |it: &&FileChange| it.change != ChangeKind::Deleted && self.paths.is_meant(&it.path);
        let found = || workspace.changes.iter().filter(is_meant);
        let holds = found().next().is_some();
        let results = decided(ID, &self.label, self.own, holds, changed(&workspace.changes));
        explained(results, || [change_evidence(found(), &self.paths.to_string())])
    }
}
