//! A custom assertion, used in an `expect` block like those of this crate.
//!
//! `cargo run -p kindlm-assertions --example own_assertion`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use std::sync::Arc;

use kindlm_assertions::{
    Assertion, Build, Built, Code, Evidence, Meta, Registration, Registry, Setup, StaysValid,
    Traits, compile,
};
use kindlm_types::{Answers, AssertionResult, Class, Execution, FailureCode, NoFiles, Severity};
use serde_json::{Value, json};

const SHOUTED: FailureCode = FailureCode::new("SHOUTED");

const META: Meta = Meta {
    id: "no-shouting",
    path: None,
    summary: "The output has no exclamation mark.",
    since: "1.0",
    class: Class::Deterministic,
    severity: Severity::Gate,
    codes: &[Code::new(SHOUTED, "The output has an exclamation mark.")],
    docs: "",
};

pub(crate) static NO_SHOUTING: Registration =
    Registration::new(META, |_| json!({ "type": "object", "properties": {} }), Build::Plain(build));

#[derive(Debug)]
struct NoShouting;

impl Assertion for NoShouting {
    fn traits(&self) -> Traits {
        let mut traits = Traits::OF_OUTPUT;
        // A found exclamation mark stays valid, whatever the missing part of the output contains.
        traits.stays_valid = StaysValid::Failure;
        traits
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let (id, label) = (NO_SHOUTING.meta.id, "No shouting");
        vec![if evidence.execution.output.contains('!') {
            AssertionResult::fail(id, label, SHOUTED, "the output has an exclamation mark")
        } else {
            AssertionResult::pass(id, label)
        }]
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "a `Built` may hold problems with the configuration; here is none"
)]
fn build(_config: &Value, _setup: &Setup<'_>) -> Built {
    Ok(Arc::new(NoShouting))
}

/// Compiles the checks of an `expect` block and evaluates them.
pub(crate) fn lines() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let registry = Registry::built_in().with([&NO_SHOUTING])?;
    let setup = Setup::new(&NoFiles, None).with_registry(Arc::new(registry));
    let list = json!([{ "type": "no-shouting" }, { "type": "icontains", "value": "refund" }]);
    let (checks, problems) = compile(&json!({ "assert": list }), &setup);
    if let Some(problem) = problems.first() {
        return Err(format!("{}: {}", problem.pointer, problem.message).into());
    }
    let output = "Your refund is on its way!".to_owned();
    let execution = Execution { output, ..Execution::default() };
    let answers = Answers::default();
    let evidence =
        Evidence { execution: &execution, answers: &answers, baseline: None, comparison: None };
    let results = checks.iter().flat_map(|check| check.evaluate(&evidence));
    Ok(results
        .map(|it| format!("{}: {}", it.label, it.verdict.message().unwrap_or("pass")))
        .collect())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for line in lines()? {
        println!("{line}");
    }
    Ok(())
}
