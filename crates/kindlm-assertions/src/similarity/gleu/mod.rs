//! `gleu`: the share of n-grams that the output has in common with reference texts.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config;
use crate::shared::words::{common, plain_words, runs, share};
use crate::similarity::likeness::{Limit, References};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "gleu";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output shares its runs of words with a reference text (GLEU).",
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

/// The texts to compare the output with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The reference text, or several references, of which the best match counts.
    value: References,
}

#[derive(Debug)]
struct Gleu {
    references: Vec<String>,
    limit: Limit,
    label: String,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let config: Config = config::parse_config(value)?;
    let limit = Limit::new(own, 0.5);
    Ok(Arc::new(Gleu { references: config.value.texts()?, limit, label: own.label("GLEU") }))
}

impl Assertion for Gleu {
    fn traits(&self) -> Traits {
        Traits {
            label: Some(self.label.clone()),
            threshold: Some(self.limit.turned(self.limit.threshold)),
            ..Traits::OF_OUTPUT
        }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let words = plain_words(&evidence.execution.output);
        let score = self.references.iter().map(|it| gleu(&words, &plain_words(it)));
        let score = score.fold(0.0, f64::max);
        let result = self.limit.grade("GLEU", score).result(ID, &self.label);
        let output = &evidence.execution.output;
        vec![
            result.with_failure_evidence(|| {
                self.limit.evidence("GLEU", score, output, &self.references)
            }),
        ]
    }
}

/// The highest number of words in an n-gram.
const LONGEST: usize = 4;

/// Returns the GLEU score, which is symmetric and from 0 to 1.
///
/// Source: Wu and others, "Google's Neural Machine Translation System", arXiv 1609.08144, section 4.3. The score is the
/// lower one of precision and recall over all n-grams of 1 to 4 words.
fn gleu(words: &[String], reference: &[String]) -> f64 {
    let (mut shared, mut here, mut there) = (0, 0, 0);
    for length in 1..=LONGEST {
        let (found, total) = runs(words, length);
        let (known, expected) = runs(reference, length);
        shared += common(&found, &known);
        here += total;
        there += expected;
    }
    share(shared, here.max(there))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measure(text: &str, reference: &str) -> f64 {
        gleu(&plain_words(text), &plain_words(reference))
    }

    #[test]
    fn has_the_values_of_the_formula() {
        for (text, reference, shared, runs) in [
            // The texts share 5 + 3 + 1 + 0 of 6 + 5 + 4 + 3 n-grams.
            ("The cat sat on the mat.", "the cat is on the mat", 9, 18),
            ("a b", "a b c d", 3, 10),
            ("the the the the", "the cat", 1, 10),
            ("", "a", 0, 1),
        ] {
            assert!((measure(text, reference) - share(shared, runs)).abs() < 1e-12, "{text}");
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
