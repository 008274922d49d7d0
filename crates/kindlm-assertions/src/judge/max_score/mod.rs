//! `max-score`: the other checks give this output the highest score among all models of a test.

use std::collections::BTreeMap;
use std::sync::Arc;

use kindlm_types::{
    AssertionResult, Bound, Class, FailureCode, Problem, Severity, Verdict, ecma, pointer,
    schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core::check::TOLERANCE;
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::result_evidence::measure;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};
use crate::{Candidate, OutputComparison};

const ID: &str = "max-score";
const LABEL: &str = "Highest score";
const NO_SCORE: FailureCode = FailureCode::new("MAX_SCORE_UNKNOWN");

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The other checks give the output the highest score among all models of the test.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "Another output has a higher score, or the score is below the threshold.",
            },
            Code {
                code: NO_SCORE,
                summary: "No other check has a score, or another check is errored, so the highest score is unknown.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The output of another model is missing, so the highest score is unknown.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The rule for the comparison of scores.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "MaxScoreConfig")]
struct Config {
    /// The rule that combines the scores of an output's checks, and the required score.
    #[serde(default)]
    value: Option<ScoreCombination>,
    /// True to score like promptfoo. The check then has no weight in the mean score. An output that is not selected
    /// fails with score 0, whatever the threshold of the test. In the comparison, each check, each `assert-set` and
    /// each check inside it has weight 1, whatever its own `weight` is.
    #[serde(default)]
    decides_score: bool,
}

/// The rule that combines the scores of an output's checks.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "MaxScoreHow")]
struct ScoreCombination {
    /// `average` (default) or `sum` of the weighted scores.
    method: Method,
    /// The weights by type of check. A check whose type is not listed keeps its own `weight`.
    weights: BTreeMap<String, f64>,
    /// The lowest score that the best output must have. `threshold` beside `type` means the same; set only one of the
    /// two.
    threshold: Option<f64>,
}

/// The rule that combines weighted scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "MaxScoreMethod")]
enum Method {
    /// The weighted mean.
    #[default]
    Average,
    /// The weighted sum.
    Sum,
}

#[derive(Debug)]
struct MaxScore {
    how: ScoreCombination,
    threshold: Option<f64>,
    decides_score: bool,
    label: String,
    own: EntryOptions,
}

fn build(config: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let config: Config = parse_config(config)?;
    let decides_score = config.decides_score;
    let how = config.value.unwrap_or_default();
    let mut problems = Vec::new();
    for (kind, weight) in &how.weights {
        let at = format!("/value/weights/{}", pointer::segment(kind));
        if setup.registry.find(kind).is_none() {
            let plain = kind.strip_prefix("not-").unwrap_or(kind);
            let problem = if setup.registry.find(plain).is_some() {
                let message = "results do not distinguish checks with `not-` from those without";
                Problem::key(&at, message)
                    .with_help(format!("give the entry of `{kind}` a `weight` of its own"))
            } else {
                let ids = setup.registry.iter().map(|it| it.meta.id);
                Problem::key(&at, format!("there is no assertion `{plain}`"))
                    .with_help(kindlm_types::suggest(plain, "assertions", ids))
            };
            problems.push(problem);
        }
        if !(weight.is_finite() && *weight >= 0.0) {
            problems.push(Problem::new(at, "a weight must be 0 or greater"));
        }
    }
    if own.threshold.is_some() && how.threshold.is_some() {
        problems.push(
            Problem::new("/value/threshold", "`threshold` is set as well")
                .with_help("both mean the same: keep one of the two"),
        );
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let threshold = own.threshold.or(how.threshold);
    Ok(Arc::new(MaxScore { how, threshold, decides_score, label: own.label(LABEL), own }))
}

impl MaxScore {
    /// Returns the combined score of an output's checks, or the reason why there is no score.
    fn score(&self, candidate: &Candidate<'_>) -> Result<f64, String> {
        let (mut sum, mut weights) = (0.0, 0.0);
        for result in candidate.results {
            if let Verdict::Errored { message, .. } = &result.verdict {
                let (label, name) = (&result.label, &candidate.name);
                return Err(format!("`{label}` could not be judged on `{name}`: {message}"));
            }
            // `decidesScore` follows promptfoo. The checks of an `assert-set` count in addition to the set, and each
            // `weight` is ignored.
            let parts = if self.decides_score { result.parts() } else { &[] };
            for result in std::iter::once(result).chain(parts) {
                let Some(score) = result.score else { continue };
                let own = if self.decides_score { 1.0 } else { result.weight };
                let weight = self.how.weights.get(&result.assertion).copied().unwrap_or(own);
                sum += weight * score.get();
                weights += weight;
            }
        }
        match (self.how.method, weights > 0.0) {
            (_, false) => Err(format!("no other check gives a score of `{}`", candidate.name)),
            (Method::Average, true) => Ok(sum / weights),
            (Method::Sum, true) => Ok(sum),
        }
    }

    fn result(&self, comparison: &OutputComparison<'_>, scores: &[f64]) -> AssertionResult {
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let same = |it: f64| (it - most).abs() <= TOLERANCE;
        // If several outputs have the highest score, the first of them wins.
        let winner = scores.iter().position(|it| same(*it));
        let ties = scores.iter().filter(|it| same(**it)).count();
        let own = scores.get(comparison.own).copied().unwrap_or(f64::NEG_INFINITY);
        let is_high = self.threshold.is_none_or(|it| own >= it - TOLERANCE);
        let is_winner = winner == Some(comparison.own);
        let shown = |it: f64| ecma::to_fixed(it, 3);
        let best = winner.and_then(|it| comparison.candidates.get(it)).map_or("", |it| &it.name);
        let reason = match (is_winner, is_high, self.threshold) {
            (true, true, _) => {
                format!("Selected as highest scoring output (score: {})", shown(own))
            }
            (true, false, Some(threshold)) => format!(
                "Not selected: the highest score is {}, below the threshold {}",
                shown(own),
                ecma::number(threshold)
            ),
            _ if same(own) => {
                format!(
                    "Not selected: `{best}` has the same score ({}) and comes first",
                    shown(own)
                )
            }
            _ => format!("Not selected (score: {}, max: {} of `{best}`)", shown(own), shown(most)),
        };
        let all: serde_json::Map<String, Value> = comparison
            .candidates
            .iter()
            .zip(scores)
            .map(|(it, score)| (it.name.to_string(), json!(score)))
            .collect();
        let pass = (is_winner && is_high) != self.own.negate;
        let result =
            Grade::with(pass, reason).result(ID, &self.label).with_failure_evidence(|| {
                let is_low = self.threshold.filter(|it| own < it - TOLERANCE);
                let bound = if self.own.negate { Bound::LessThan } else { Bound::AtLeast };
                [measure("score", own, (is_low.unwrap_or(most), bound), None)]
            });
        let mut result = result.with_metadata("scores", all);
        if ties > 1 && same(own) {
            result.judging_mut().tie = true;
        }
        if self.decides_score { result.deciding_score() } else { result }
    }
}

impl Assertion for MaxScore {
    fn traits(&self) -> Traits {
        Traits {
            label: Some(self.label.clone()),
            measures: self.how.method == Method::Sum,
            compares: true,
            ..Traits::OF_RECORD
        }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let comparison = match OutputComparison::open(evidence, ID, &self.label) {
            Ok(comparison) => comparison,
            Err(result) => return vec![*result],
        };
        let scores: Result<Vec<f64>, String> =
            comparison.candidates.iter().map(|it| self.score(it)).collect();
        vec![match scores {
            Ok(scores) => self.result(&comparison, &scores),
            Err(why) => {
                let message = format!("the highest score is unknown: {why}");
                AssertionResult::errored(ID, &self.label, NO_SCORE, message)
            }
        }]
    }
}
