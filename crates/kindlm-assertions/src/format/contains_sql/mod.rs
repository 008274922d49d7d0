//! `contains-sql`: the output contains SQL that touches only allowed tables and columns.

use std::sync::Arc;

use kindlm_types::{AssertionResult, CheckedText, Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, CHECK_GIVEN_UP};
use crate::core::config;
use crate::core::grade::Grade;
use crate::core::result_evidence::{absent, whole};
use crate::shared::sql::{Fault, Sql, SqlValue, TOO_DEEP};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "contains-sql";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output contains SQL that uses only allowed tables and columns.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[Code {
            code: ASSERTION_FAILED,
            summary: "The output has no SQL, or it uses tables or columns that are not allowed.",
        }],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The SQL that the output must contain.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The dialect, and the allowed tables and columns. By default, MySQL without limits.
    #[serde(default)]
    value: SqlValue,
}

#[derive(Debug)]
struct ContainsSql {
    sql: Sql,
    label: String,
    negate: bool,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let config: Config = config::parse_config(value)?;
    let sql = config.value.compile()?;
    Ok(Arc::new(ContainsSql { sql, label: own.label("Contains SQL"), negate: own.negate }))
}

impl ContainsSql {
    /// Returns the first problem if no SQL in the output is accepted; `None` if some SQL is accepted.
    ///
    /// The function checks each of the [`blocks`]. Without such a block, it checks the whole output.
    fn fault(&self, output: &str) -> Option<Fault> {
        let blocks = blocks(output);
        let texts = if blocks.is_empty() { vec![output.to_owned()] } else { blocks };
        let mut first = None;
        for text in texts {
            let fault = self.sql.fault(&text)?;
            first.get_or_insert(fault);
        }
        first
    }
}

/// The mark at the start and the end of a code block.
const FENCE: &str = "```";

/// Returns the closed code blocks that are marked as SQL, or that have no language.
fn blocks(output: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in output.lines() {
        match (open.take(), line.trim().strip_prefix(FENCE)) {
            (None, Some(language)) => {
                let language = language.trim();
                let counts = language.is_empty() || language.eq_ignore_ascii_case("sql");
                open = Some((counts, String::new()));
            }
            (Some((counts, text)), Some(_)) => blocks.extend(counts.then_some(text)),
            (Some((counts, mut text)), None) => {
                text.push_str(line);
                text.push('\n');
                open = Some((counts, text));
            }
            (None, None) => {}
        }
    }
    blocks
}

impl Assertion for ContainsSql {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_OUTPUT }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let fault = match self.fault(&evidence.execution.output) {
            None => None,
            Some(Fault::Wrong(fault)) => Some(fault),
            Some(Fault::TooDeep) => {
                let (label, message) = (self.label.as_str(), TOO_DEEP);
                return vec![AssertionResult::errored(ID, label, CHECK_GIVEN_UP, message)];
            }
        };
        let grade = Grade::from_pass(fault.is_none() != self.negate, || {
            fault.unwrap_or_else(|| "The output SQL statement is valid".to_owned())
        });
        let output = &evidence.execution.output;
        vec![grade.result(ID, &self.label).with_failure_evidence(|| {
            [if self.negate {
                whole(CheckedText::Output, output, "valid SQL")
            } else {
                absent(["valid SQL"])
            }]
        })]
    }
}
