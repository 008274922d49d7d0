//! `bleu`: the share of the output's wording that occurs in reference texts.

use std::collections::HashMap;
use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config;
use crate::shared::words::{common, lower_words, runs, share};
use crate::similarity::likeness::{Limit, References};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "bleu";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "A reference text contains the output's runs of words (BLEU).",
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
    /// The reference text, or several references. An n-gram of the output counts if one of the references contains it.
    value: References,
}

#[derive(Debug)]
struct Bleu {
    references: Vec<String>,
    limit: Limit,
    label: String,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let config: Config = config::parse_config(value)?;
    let limit = Limit::new(own, 0.5);
    Ok(Arc::new(Bleu { references: config.value.texts()?, limit, label: own.label("BLEU") }))
}

impl Assertion for Bleu {
    fn traits(&self) -> Traits {
        Traits {
            label: Some(self.label.clone()),
            threshold: Some(self.limit.turned(self.limit.threshold)),
            ..Traits::OF_OUTPUT
        }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let references: Vec<Vec<String>> =
            self.references.iter().map(|it| lower_words(it)).collect();
        let score = bleu(&lower_words(&evidence.execution.output), &references);
        let grade = self.limit.grade("BLEU", score);
        let output = &evidence.execution.output;
        vec![
            grade.result(ID, &self.label).with_failure_evidence(|| {
                self.limit.evidence("BLEU", score, output, &self.references)
            }),
        ]
    }
}

/// The highest number of words in an n-gram.
const LONGEST: usize = 4;

/// The replacement for a precision of 0.
///
/// A precision of 0 would make the whole geometric mean 0.
const NOTHING: f64 = 1e-7;

/// Returns the BLEU score of one sentence, from 0 to 1.
///
/// Source: Papineni, Roukos, Ward and Zhu, "BLEU: a Method for Automatic Evaluation of Machine Translation", ACL 2002,
/// sections 2.1 to 2.3, with uniform weights.
///
/// The score is the geometric mean of the clipped precisions of n-grams of 1 to 4 words, times the brevity penalty.
/// N-grams that are longer than the output do not count. A text without words gives 0.
fn bleu(words: &[String], references: &[Vec<String>]) -> f64 {
    let orders = LONGEST.min(words.len());
    if orders == 0 {
        return 0.0;
    }
    let mut logs = 0.0;
    for length in 1..=orders {
        let (found, total) = runs(words, length);
        let mut known: HashMap<&[String], usize> = HashMap::new();
        for (run, count) in references.iter().flat_map(|it| runs(it, length).0) {
            let most = known.entry(run).or_default();
            *most = count.max(*most);
        }
        let precision = share(common(&found, &known), total);
        logs += if precision > 0.0 { precision.ln() } else { NOTHING.ln() };
    }
    #[expect(clippy::cast_precision_loss, reason = "at most four")]
    let mean = (logs / orders as f64).exp();
    brevity(words.len(), references) * mean
}

/// Returns the brevity penalty, by the reference of the nearest length.
fn brevity(length: usize, references: &[Vec<String>]) -> f64 {
    let nearest = references.iter().map(Vec::len).min_by_key(|it| (it.abs_diff(length), *it));
    match nearest {
        Some(nearest) if length <= nearest => (1.0 - 1.0 / share(length, nearest)).exp(),
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measure(text: &str, references: &[&str]) -> f64 {
        bleu(&lower_words(text), &references.iter().map(|it| lower_words(it)).collect::<Vec<_>>())
    }

    #[test]
    fn has_the_values_of_the_formula() {
        // The precisions of n-grams of 1 to 4 words are 5/6, 3/5, 1/4 and 0 of 3; the texts have the same length.
        let expected = (5.0 / 6.0 * 3.0 / 5.0 / 4.0 * NOTHING).powf(0.25);
        let found = measure("the cat sat on the mat", &["the cat is on the mat"]);
        assert!((found - expected).abs() < 1e-12, "{found}");
        // All three words occur in a reference of six, so only the brevity penalty e^(1 - 6/3) counts.
        let found = measure("a b c", &["a b c d e f"]);
        assert!((found - (-1.0_f64).exp()).abs() < 1e-12, "{found}");
        // The reference with the nearest length counts; at equal distance, the shorter one.
        assert!((measure("a b c", &["a b c d", "a b"]) - 1.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn lies_between_0_and_1_and_is_1_for_the_same(text in "[a-c.]( [a-c.]{1,2}){0,8}", other in "[a-c.]( [a-c.]{1,2}){0,8}") {
            let measured = measure(&text, &[&other]);
            prop_assert!((0.0..=1.0 + 1e-12).contains(&measured), "{measured}");
            prop_assert!((measure(&text, &[&other, &text]) - 1.0).abs() < 1e-12);
        }
    }
}
