//! `rouge-n`: the share of words that the output has in common with a reference text.

mod treebank;

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Severity, ecma, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config;
use crate::core::grade::Grade;
use crate::shared::words::{common, runs, share};
use crate::similarity::likeness::Limit;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

use treebank::tokens;

const ID: &str = "rouge-n";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output shares its words with a reference text (ROUGE-1).",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[Code {
            code: ASSERTION_FAILED,
            summary: "The similarity is below the threshold; with `not-` it is not.",
        }],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The text to compare the output with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The reference text.
    value: String,
}

#[derive(Debug)]
struct RougeN {
    reference: String,
    limit: Limit,
    label: String,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let config: Config = config::parse_config(value)?;
    let limit = Limit::new(own, 0.75);
    Ok(Arc::new(RougeN { reference: config.value, limit, label: own.label("ROUGE-N") }))
}

impl Assertion for RougeN {
    fn traits(&self) -> Traits {
        Traits {
            label: Some(self.label.clone()),
            threshold: Some(self.limit.turned(self.limit.threshold)),
            ..Traits::OF_OUTPUT
        }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let score = rouge(&tokens(&evidence.execution.output), &tokens(&self.reference));
        let output = &evidence.execution.output;
        let reference = std::slice::from_ref(&self.reference);
        vec![
            self.grade(score)
                .result(ID, &self.label)
                .with_failure_evidence(|| self.limit.evidence("ROUGE-N", score, output, reference)),
        ]
    }
}

impl RougeN {
    /// Returns the grade, with the score in its reason even if it passes.
    fn grade(&self, score: f64) -> Grade {
        let met = self.limit.is_met(score);
        let relation = if met { "greater than or equal to" } else { "less than" };
        let (shown, threshold) = (ecma::to_fixed(score, 2), ecma::number(self.limit.threshold));
        let reason = format!("ROUGE-N score {shown} is {relation} threshold {threshold}");
        Grade { pass: met != self.limit.negate, score: self.limit.turned(score), reason }
    }
}

/// Returns the ROUGE-1 score as F measure, which is symmetric and from 0 to 1.
///
/// Source: Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", ACL 2004, section 2. The score is the
/// harmonic mean of precision and recall of single tokens. A repeated token counts at most as often as it occurs in
/// each text. Without common tokens, the score is 0.
fn rouge(tokens: &[String], reference: &[String]) -> f64 {
    let shared = common(&runs(tokens, 1).0, &runs(reference, 1).0);
    share(2 * shared, tokens.len() + reference.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measure(text: &str, reference: &str) -> f64 {
        rouge(&tokens(text), &tokens(reference))
    }

    #[test]
    fn has_the_values_of_the_formula() {
        for (text, reference, part, whole) in [
            ("The cat sat on the mat.", "the cat is on the mat", 10, 13),
            ("the the the the", "the cat", 1, 3),
            ("a b", "a b c d", 2, 3),
            ("x", "", 0, 1),
        ] {
            assert!((measure(text, reference) - share(part, whole)).abs() < 1e-12, "{text}");
        }
    }

    proptest! {
        #[test]
        fn is_symmetric_between_0_and_1_and_1_for_the_same(text in "[a-c.]( [a-c.]{1,2}){0,8}", other in "[a-c.]( [a-c.]{1,2}){0,8}") {
            let measured = measure(&text, &other);
            prop_assert!((0.0..=1.0).contains(&measured), "{measured}");
            prop_assert!((measured - measure(&other, &text)).abs() < 1e-12);
            prop_assert!((measure(&text, &text) - 1.0).abs() < 1e-12);
        }
    }
}
