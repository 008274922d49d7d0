//! `assert-set`: several checks that count as one.

mod scoring;

use std::sync::Arc;

use kindlm_types::{
    ASSERT_SET, AssertionResult, Bound, Class, FailureCode, Outcome, Problem, Question, Score,
    SetRule, Severity, Verdict, ecma, named_scores, schema_of, weighted_score,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Built;
use crate::core::check::TOLERANCE;
use crate::core::codes::{ASSERTION_FAILED, SCORE_BELOW_THRESHOLD};
use crate::core::grade::ALL_PASSED;
use crate::core::result_evidence::measure;
use crate::{
    Assertion, Build, Check, Code, EntryOptions, Evidence, LooksAt, Meta, Registration, Setup,
    StaysValid, Traits,
};
use scoring::Scoring;

const ID: &str = ASSERT_SET;
const LABEL: &str = "Set";
const PART_ERRORED: FailureCode = FailureCode::new("SET_PART_ERRORED");
const SCORING_FAILED: FailureCode = FailureCode::new("SET_SCORING_FAILED");

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "Several checks count as one: all of them hold, or their mean score reaches a threshold.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code { code: ASSERTION_FAILED, summary: "A check of the set failed." },
            Code {
                code: SCORE_BELOW_THRESHOLD,
                summary: "The set's mean score is below its threshold.",
            },
            Code {
                code: PART_ERRORED,
                summary: "A check of the set is errored, so the set is errored.",
            },
            Code {
                code: SCORING_FAILED,
                summary: "The scoring function of the set threw, or returned no verdict.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Set(build),
};

/// Checks that count as one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The checks of the set: entries in list form, including other sets.
    #[schemars(length(min = 1))]
    #[serde(default)]
    #[expect(dead_code, reason = "the checks are made of it before")]
    assert: Vec<Map<String, Value>>,
    /// A function that decides instead of the checks: `file://score.js`.
    ///
    /// It gets the named scores, and `{ componentResults, threshold }` with the results of the checks.
    ///
    /// It returns `{ pass, score, reason }`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    scoring: Option<String>,
}

#[derive(Debug)]
struct Set {
    checks: Arc<[Check]>,
    threshold: Option<f64>,
    negate: bool,
    scoring: Option<Scoring>,
}

fn build(config: &Value, checks: Vec<Check>, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let config =
        Config::deserialize(config).map_err(|err| vec![Problem::new("", err.to_string())])?;
    // If all weights are 0, there is no mean score to compare with the threshold.
    if let Some(threshold) = own.threshold.filter(|_| config.scoring.is_none())
        && !checks.is_empty()
        && !checks.iter().any(Check::weighs)
    {
        let message = format!(
            "a threshold of {} has no effect: every check of the set has the weight 0",
            ecma::number(threshold)
        );
        let help = "remove `threshold`, or give a check a `weight`";
        return Err(vec![Problem::key("/threshold", message).with_help(help)]);
    }
    let scoring = config.scoring.map(|it| Scoring::new(&it, setup)).transpose();
    let scoring = scoring.map_err(|problem| vec![problem.under("/scoring")])?;
    Ok(Arc::new(Set {
        checks: checks.into(),
        threshold: own.threshold,
        negate: own.negate,
        scoring,
    }))
}

impl Assertion for Set {
    fn traits(&self) -> Traits {
        let all = |test: fn(&Check) -> bool| self.checks.iter().all(test);
        let of_output = all(|it| it.traits.looks_at.takes_on());
        Traits {
            label: Some(LABEL.to_owned()),
            looks_at: LooksAt::Parts { of_output },
            threshold: None,
            measures: false,
            compares: !all(|it| !it.compares()),
            needs_workspace: !all(|it| !it.needs_workspace()),
            gathers: self.checks.iter().flat_map(Check::gathers).collect(),
            // Each check of the set hides its own value.
            hides_value: false,
            no_effect: Vec::new(),
            instructions: None,
            can_tie: false,
            parts: Some(Arc::clone(&self.checks)),
            // The set has the named scores of its checks only.
            names_scores: !all(|it| !it.traits.names_scores),
            weighs: !all(|it| !it.weighs()),
            series: Vec::new(),
            // Each check of the set applies its own rules to its results.
            stays_valid: StaysValid::Never,
            verdict_rule: None,
            evidence_of_pass: None,
        }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        let mut questions: Vec<Question> =
            self.checks.iter().flat_map(|it| it.questions(evidence)).collect();
        if let Some(scoring) = &self.scoring {
            // The function needs the results of the checks, so its question comes after all other questions are
            // answered.
            let is_open = |it: &Question| evidence.answers.get(it).is_none();
            if !questions.iter().any(is_open) {
                questions.push(scoring.question(&self.parts(evidence), self.threshold));
            }
        }
        questions
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        vec![self.result(self.parts(evidence), evidence)]
    }
}

impl Set {
    fn parts(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        self.checks.iter().flat_map(|it| it.evaluate(evidence)).collect()
    }

    fn result(&self, parts: Vec<AssertionResult>, evidence: &Evidence<'_>) -> AssertionResult {
        let score = weighted_score(&parts);
        // `not-` cannot invert the exception of a script.
        let threw = parts.iter().find_map(thrown).filter(|_| self.negate);
        let mut result = match (Outcome::from_results(&parts), &self.scoring) {
            (Outcome::Errored, _) => errored(&parts),
            _ if threw.is_some() => not_judged(&parts, threw),
            (_, Some(scoring)) => scoring.result(&parts, self.threshold, self.negate, evidence),
            _ if parts.iter().all(|it| matches!(it.verdict, Verdict::Skipped { .. })) => {
                AssertionResult::skipped(ID, LABEL, "no check of the set applies")
            }
            // Without a weighted score, the set has no score to compare with the threshold.
            _ if self.threshold.is_some() && score.is_none() => {
                AssertionResult::skipped(ID, LABEL, "no check of the set with a weight applies")
            }
            _ => self.judged(&parts, score.unwrap_or_default()),
        };
        let (is_negated, checks) = (self.negate, self.checks.len());
        result.set = Some(SetRule { is_negated, checks, threshold: self.threshold });
        result.named_scores = named_scores(&parts);
        result.components = parts;
        result
    }

    /// Returns the result of a set without errored checks.
    fn judged(&self, parts: &[AssertionResult], score: f64) -> AssertionResult {
        let failures: Vec<&str> = parts.iter().filter_map(failure).collect();
        let (held, code, reason) = match self.threshold {
            Some(threshold) => {
                let held = score >= threshold - TOLERANCE;
                let sign = if held { '≥' } else { '<' };
                let (score, limit) = (ecma::to_fixed(score, 2), ecma::number(threshold));
                let reason = format!("Aggregate score {score} {sign} {limit} threshold");
                (held, SCORE_BELOW_THRESHOLD, reason)
            }
            None if failures.is_empty() => (true, ASSERTION_FAILED, held(parts)),
            None => (false, ASSERTION_FAILED, failures.join("\n")),
        };
        let verdict = match held != self.negate {
            true => Verdict::Pass,
            false if self.negate => {
                let message = format!("must not hold, but does: {reason}");
                Verdict::Fail { code: ASSERTION_FAILED, message }
            }
            false => Verdict::Fail { code, message: reason.clone() },
        };
        let (measured, score) = (score, if self.negate { 1.0 - score } else { score });
        let bound = if self.negate { Bound::LessThan } else { Bound::AtLeast };
        let limit = self.threshold.map(|it| measure("score", measured, (it, bound), None));
        let result = AssertionResult::new(ID, LABEL, verdict).with_reasoning(reason);
        let result = result.with_failure_evidence(|| limit);
        match Score::new(score) {
            Ok(score) => result.with_score(score),
            Err(err) => AssertionResult::errored(ID, LABEL, PART_ERRORED, err.to_string()),
        }
    }
}

/// Returns the reason for a set without failed gates: all checks passed, or some soft checks failed.
fn held(parts: &[AssertionResult]) -> String {
    let missed = parts.iter().filter(|it| matches!(it.verdict, Verdict::Fail { .. }));
    let missed: Vec<&str> = missed.map(|it| it.label.as_str()).collect();
    if missed.is_empty() {
        return ALL_PASSED.to_owned();
    }
    format!("All assertions that must hold passed; missed: {}", missed.join(", "))
}

/// Returns the failure message of a check that fails the set, else `None`.
///
/// Soft checks only count with their scores.
fn failure(part: &AssertionResult) -> Option<&str> {
    match &part.verdict {
        Verdict::Fail { message, .. } if part.severity == Severity::Gate => Some(message),
        _ => None,
    }
}

/// Returns the first result whose script threw, also from nested sets; `None` if no script threw.
fn thrown(part: &AssertionResult) -> Option<&AssertionResult> {
    match &part.verdict {
        Verdict::Fail { code, .. } if *code == FailureCode::SCRIPT_THREW => Some(part),
        _ => part.components.iter().find_map(thrown),
    }
}

/// Returns the errored result of a set with an errored check.
///
/// The errored check could have decided the set. The message includes the messages of failed gates.
fn errored(parts: &[AssertionResult]) -> AssertionResult {
    not_judged(parts, parts.iter().find(|it| matches!(it.verdict, Verdict::Errored { .. })))
}

fn not_judged(parts: &[AssertionResult], obstacle: Option<&AssertionResult>) -> AssertionResult {
    let Some(Verdict::Errored { message, code } | Verdict::Fail { message, code }) =
        obstacle.map(|it| &it.verdict)
    else {
        return AssertionResult::errored(ID, LABEL, PART_ERRORED, "a check could not be evaluated");
    };
    let cause = obstacle.and_then(|it| it.cause.clone()).unwrap_or_else(|| code.clone());
    let label = obstacle.map(|it| it.label.as_str()).unwrap_or_default();
    let failed = parts.iter().filter_map(failure).filter(|it| it != message);
    let failed = failed.fold(String::new(), |all, it| all + "\n" + it);
    let message = format!("`{label}` could not be judged: {message}{failed}");
    AssertionResult::errored(ID, LABEL, PART_ERRORED, message).with_cause(cause)
}
