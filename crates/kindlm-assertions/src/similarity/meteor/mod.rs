//! `meteor`: the quality of the alignment of the output's words with those of reference texts.

mod porter;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Severity, ecma, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config;
use crate::core::grade::Grade;
use crate::shared::words::{plain_words, share};
use crate::similarity::likeness::{Limit, References};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "meteor";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The words of the output align with those of a reference text (METEOR).",
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
struct Meteor {
    references: Vec<String>,
    limit: Limit,
    label: String,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let config: Config = config::parse_config(value)?;
    let limit = Limit::new(own, 0.5);
    Ok(Arc::new(Meteor { references: config.value.texts()?, limit, label: own.label("METEOR") }))
}

impl Assertion for Meteor {
    fn traits(&self) -> Traits {
        Traits {
            label: Some(self.label.clone()),
            threshold: Some(self.limit.turned(self.limit.threshold)),
            ..Traits::OF_OUTPUT
        }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let words = plain_words(&evidence.execution.output);
        let score = self.references.iter().map(|it| meteor(&words, &plain_words(it)));
        let score = score.fold(0.0, f64::max);
        let output = &evidence.execution.output;
        vec![self.grade(score).result(ID, &self.label).with_failure_evidence(|| {
            self.limit.evidence("METEOR", score, output, &self.references)
        })]
    }
}

impl Meteor {
    fn grade(&self, score: f64) -> Grade {
        let pass = self.limit.is_met(score) != self.limit.negate;
        let reason = if pass {
            "METEOR assertion passed".to_owned()
        } else {
            let (shown, limit) = (ecma::to_fixed(score, 4), ecma::number(self.limit.threshold));
            format!("METEOR score {shown} did not meet threshold {limit}")
        };
        Grade { pass, score: self.limit.turned(score), reason }
    }
}

/// The weight of recall in the harmonic mean of precision and recall.
const ALPHA: f64 = 0.9;

/// The exponent of the penalty for the number of chunks.
const BETA: i32 = 3;

/// The highest penalty.
const GAMMA: f64 = 0.5;

/// Returns the METEOR score, from 0 to 1; 0 if no word matches.
///
/// Source: Banerjee and Lavie, ACL 2005. The parameters and the penalty come from Lavie and Agarwal, "METEOR: An
/// Automatic Metric for MT Evaluation with High Levels of Correlation with Human Judgments", WMT 2007.
///
/// Words match if they are equal or have the same stem.
fn meteor(words: &[String], reference: &[String]) -> f64 {
    let pairs = align(words, reference);
    if pairs.is_empty() {
        return 0.0;
    }
    let (precision, recall) =
        (share(pairs.len(), words.len()), share(pairs.len(), reference.len()));
    let mean = precision * recall / (ALPHA * precision + (1.0 - ALPHA) * recall);
    let breaks = pairs.windows(2).filter(|pair| !follows(pair)).count();
    let penalty = GAMMA * share(breaks + 1, pairs.len()).powi(BETA);
    (1.0 - penalty) * mean
}

/// Returns true if the second of two aligned pairs follows the first in both texts.
fn follows(pair: &[(usize, usize)]) -> bool {
    matches!(pair, [(a, b), (c, d)] if a + 1 == *c && b + 1 == *d)
}

/// Aligns the words of two texts: first equal words, then words with equal stems.
///
/// Each word is used at most once, and the last words are aligned first. The pairs of indices are sorted by the first
/// text.
fn align(words: &[String], reference: &[String]) -> Vec<(usize, usize)> {
    let mut aligned = Aligned {
        pairs: Vec::new(),
        left: (0..words.len()).collect(),
        right: (0..reference.len()).collect(),
    };
    aligned.stage(|at| words.get(at).cloned(), |at| reference.get(at).cloned());
    let stem = |text: &[String], at: usize| text.get(at).map(|it| porter::stem(it));
    aligned.stage(|at| stem(words, at), |at| stem(reference, at));
    aligned.pairs.sort_unstable();
    aligned.pairs
}

/// The aligned pairs, and the indices that are not aligned yet, in order.
struct Aligned {
    pairs: Vec<(usize, usize)>,
    left: Vec<usize>,
    right: Vec<usize>,
}

impl Aligned {
    fn stage(
        &mut self,
        left: impl Fn(usize) -> Option<String>,
        right: impl Fn(usize) -> Option<String>,
    ) {
        let mut places: HashMap<Option<String>, Vec<usize>> = HashMap::new();
        for &at in &self.right {
            places.entry(right(at)).or_default().push(at);
        }
        let mut used = HashSet::new();
        let pairs = &mut self.pairs;
        let mut unmatched = std::mem::take(&mut self.left);
        unmatched.reverse();
        unmatched.retain(|&at| {
            let Some(other) = places.get_mut(&left(at)).and_then(Vec::pop) else { return true };
            pairs.push((at, other));
            used.insert(other);
            false
        });
        unmatched.reverse();
        self.left = unmatched;
        self.right.retain(|at| !used.contains(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measure(text: &str, reference: &str) -> f64 {
        meteor(&plain_words(text), &plain_words(reference))
    }

    #[test]
    fn has_the_values_of_the_formula() {
        for (text, reference, expected) in [
            ("the cat sat on the mat", "the cat sat on the mat", 1.0 - 0.5 / 216.0),
            // One of four words matches one of two words, in a single chunk.
            ("the the the the", "the cat", 0.125 / (0.9 * 0.25 + 0.1 * 0.5) * 0.5),
            // `cats` and `cat` have equal stems, and so do `running` and `runs`; `quickly` keeps its `li`.
            ("Cats running quickly", "the cat runs quick", 0.512_820_512_820_512_9 * 0.9375),
            // The same words in another order form several chunks.
            ("c b a", "a b c", 0.5),
            ("a", "b", 0.0),
            ("", "", 0.0),
        ] {
            let found = measure(text, reference);
            assert!((found - expected).abs() < 1e-12, "{text}: {found}");
        }
    }

    proptest! {
        #[test]
        fn lies_between_0_and_1_and_is_in_one_piece_for_the_same(text in "[a-c.]( [a-c.]{1,2}){0,8}", other in "[a-c.]( [a-c.]{1,2}){0,8}") {
            let measured = measure(&text, &other);
            prop_assert!((0.0..=1.0).contains(&measured), "{measured}");
            let length = plain_words(&text).len();
            let expected = 1.0 - GAMMA * share(1, length).powi(BETA);
            prop_assert!((measure(&text, &text) - expected).abs() < 1e-12);
        }
    }
}
