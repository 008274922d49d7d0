//! `file-matches`: a file contains a text when the agent has finished.

use std::sync::Arc;

use kindlm_types::workspace::Gather;
use kindlm_types::{AssertionResult, Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::{Phrase, PhrasePattern, given_up};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::result_evidence::{absent_in, explained, other};
use crate::core::workspace::{decided, missing, stays_inside, workspace};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "file-matches";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "A file of the workspace contains a text or a match of a pattern when the agent has finished.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The file does not contain the text, or does not exist; with `not-` it contains the text.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The test has no `workspace`, the file is not readable text, or (with `not-`) it does not exist.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The file and the text that it must contain.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The path of the file from the top of the workspace.
    #[schemars(length(min = 1))]
    path: String,
    /// The text, case-sensitive, or a pattern.
    value: Phrase,
}

#[derive(Debug)]
struct FileMatches {
    path: String,
    phrase: PhrasePattern,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { path, value } = config::parse_config(value)?;
    let phrase = value.pattern("/value")?;
    let path = stays_inside(&path, "/path")?;
    let label = own.label(&format!("{path} matches {phrase}"));
    Ok(Arc::new(FileMatches { path, phrase, label, own }))
}

impl Assertion for FileMatches {
    fn traits(&self) -> Traits {
        Traits { gathers: vec![Gather::File { path: self.path.clone() }], ..Traits::OF_WORKSPACE }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let workspace = match workspace(evidence, ID, &self.label) {
            Ok(workspace) => workspace,
            Err(results) => return results,
        };
        let Self { path, phrase, label, own } = self;
        let Some(file) = workspace.files.iter().find(|it| it.path == *path) else {
            let why = format!("`{path}` was not read after the agent finished");
            return missing(ID, label, why);
        };
        match (&file.text, &file.problem) {
            (_, Some(problem)) => missing(ID, label, problem.as_str()),
            // A missing file proves nothing about its content, so `not-` is errored.
            (None, None) if own.negate => missing(ID, label, format!("there is no `{path}`")),
            (None, None) => {
                let results = decided(ID, label, *own, false, format!("there is no `{path}`"));
                explained(results, || [absent_in(other("the workspace"), [path.as_str()])])
            }
            (Some(text), None) => match phrase.is_in(text) {
                Ok(found) => {
                    let is = if found { "is" } else { "is not" };
                    let reason = format!("{phrase} {is} in `{path}`");
                    let results = decided(ID, label, *own, found, reason);
                    explained(results, || [phrase.evidence(other(path), text)])
                }
                Err(err) => given_up(ID, label, &err),
            },
        }
    }
}
