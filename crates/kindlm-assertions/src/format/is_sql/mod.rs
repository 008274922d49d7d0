//! `is-sql`: the output is SQL that touches only allowed tables and columns.

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

const ID: &str = "is-sql";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output is SQL, and uses only allowed tables and columns.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[Code {
            code: ASSERTION_FAILED,
            summary: "The output is not SQL, or uses tables or columns that are not allowed.",
        }],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The expected form of the output.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The dialect, and the allowed tables and columns. By default, MySQL without limits.
    #[serde(default)]
    value: SqlValue,
}

#[derive(Debug)]
struct IsSql {
    sql: Sql,
    label: String,
    negate: bool,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let config: Config = config::parse_config(value)?;
    let sql = config.value.compile()?;
    Ok(Arc::new(IsSql { sql, label: own.label("Is SQL"), negate: own.negate }))
}

impl Assertion for IsSql {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_OUTPUT }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let fault = match self.sql.fault(&evidence.execution.output) {
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
