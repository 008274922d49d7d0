//! `drift`: the distance of the output from the output of the baseline.

mod embedding;
mod field_diff;

use std::sync::Arc;

use kindlm_types::{
    AssertionResult, Bound, Class, FailureCode, Problem, Question, ResponseFormat, ResultEvidence,
    Score, Severity, Verdict, ecma, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core::check::TOLERANCE;
use crate::core::judging::{
    Flaw, Inquiry, Instructions, JUDGE_EVAL_ERROR, Scored, data_rule, fenced_together, read_score,
};
use crate::core::result_evidence::{json_diff, measure, text_diff};
use crate::{
    Assertion, Build, Code, Evidence, ExpectPath, Meta, PassEvidence, Registration, Setup, Traits,
    VerdictRule,
};

const ID: &str = "drift";
const DRIFT_EXCEEDED: FailureCode = FailureCode::new("DRIFT_EXCEEDED");
const DRIFT_PARSE_ERROR: FailureCode = FailureCode::new("DRIFT_PARSE_ERROR");
const DRIFT_FIELD_UNKNOWN: FailureCode = FailureCode::new("DRIFT_FIELD_UNKNOWN");
const BASELINE_MISSING: FailureCode = FailureCode::new("BASELINE_MISSING");

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: Some(ExpectPath { pointer: "/baseline/drift", list: false }),
        summary: "The output must not differ too much from the baseline.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Gate,
        codes: &[
            Code { code: DRIFT_EXCEEDED, summary: "The drift is above `maxScore`." },
            Code {
                code: DRIFT_PARSE_ERROR,
                summary: "Two replies of the judge had no readable score, or the baseline is not JSON, so the check is errored.",
            },
            Code {
                code: DRIFT_FIELD_UNKNOWN,
                summary: "A field to compare is neither in the output nor in the baseline, so the check is errored.",
            },
            Code {
                code: BASELINE_MISSING,
                summary: "`requireBaseline` is set, but there is no baseline, so the check is errored.",
            },
            JUDGE_EVAL_ERROR,
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Judged(build),
};

/// The method of comparison with the baseline, and the highest drift that passes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The highest drift that passes, 0.15 by default: 0 means equal, 1 means entirely different.
    #[serde(default = "default_max_score")]
    #[schemars(range(min = 0, max = 1))]
    max_score: f64,
    /// The method of comparison; `judge` by default.
    #[serde(default)]
    method: Method,
    /// The fields of the JSON output to compare, for `field-diff`.
    ///
    /// They are paths such as `order.items.0.id`. Without paths, all top-level fields are compared.
    #[serde(default)]
    fields: Vec<String>,
    /// True if a missing baseline is an error. By default, the check is then skipped.
    #[serde(default)]
    require_baseline: bool,
    /// The id of the model that judges or embeds; the suite's default model if it is not given.
    #[serde(default)]
    #[schemars(length(min = 1))]
    model: Option<String>,
}

/// The method of comparison of two outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Method {
    /// A judge model compares the meaning of the outputs.
    #[default]
    Judge,
    /// The distance between the embeddings of the outputs.
    Embedding,
    /// The mean difference of the JSON fields.
    FieldDiff,
}

/// The order in which a judge reads the two outputs.
#[derive(Clone, Copy, Debug)]
enum Order {
    BaselineFirst,
    CurrentFirst,
}

impl Order {
    const BOTH: [Self; 2] = [Self::BaselineFirst, Self::CurrentFirst];
}

fn default_max_score() -> f64 {
    0.15
}

/// The judge's instructions. They never vary, so that prompt caches hit.
const SYSTEM: &str = concat!(
    "You compare two outputs of an AI system for the same request: an earlier one, the baseline, and the \
     current one. You measure how far the current one has drifted from the baseline.\n\n",
    data_rule!(),
    "\n\nHow to measure:\n\
     - 0 means that both say and do the same, whatever the wording; 1 means that they contradict each other \
     or have nothing in common.\n\
     - Weigh, in this order: facts and conclusions, decisions and actions, what was left out or added, tone, \
     form. Different words for the same thing are hardly any drift.\n\
     - Neither output is to be preferred: an improvement is drift as well.\n\n\
     Answer with one JSON object and nothing else: ",
    r#"{"mark": "the mark of the BEGIN line", "driftScore": a number from 0 to 1, "reasoning": "one or two sentences that say why"}"#
);

const MAX_TOKENS: u32 = 512;

#[derive(Debug)]
struct Drift(Config);

fn build(config: &Value, setup: &Setup<'_>) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let config =
        Config::deserialize(config).map_err(|err| vec![Problem::new("", err.to_string())])?;
    match config.model.as_deref().and_then(|model| setup.check_model("/model", model)) {
        Some(problem) => Err(vec![problem]),
        None => Ok(Arc::new(Drift(config))),
    }
}

impl Assertion for Drift {
    fn traits(&self) -> Traits {
        let is_judged = self.0.method == Method::Judge;
        let max_score = self.0.max_score;
        Traits {
            instructions: is_judged
                .then(|| Instructions::fixed(SYSTEM).beyond("the output of the baseline")),
            can_tie: true,
            verdict_rule: is_judged.then(|| {
                VerdictRule::new(move |it| Some(hold_against_limit(1.0 - it.get(), max_score, "")))
            }),
            evidence_of_pass: Some(PassEvidence::new(|it| difference(it).into_iter().collect())),
            ..Traits::OF_OUTPUT
        }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        let Some(baseline) = baseline(evidence) else { return Vec::new() };
        match self.0.method {
            Method::Judge => {
                let orders = Order::BOTH.map(|order| self.inquiry(evidence, baseline, order));
                orders.iter().flat_map(|it| it.questions(evidence.answers, parse_reply)).collect()
            }
            Method::Embedding => {
                let texts = [baseline, &evidence.execution.output];
                texts.map(|text| embedding::question(self.0.model.as_ref(), text)).to_vec()
            }
            Method::FieldDiff => Vec::new(),
        }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let result = match baseline(evidence) {
            None => self.without_baseline(),
            Some(baseline) => match self.0.method {
                Method::Judge => self.by_judge(evidence, baseline),
                Method::Embedding => self.by_embedding(evidence, baseline),
                Method::FieldDiff => self.by_fields(&evidence.execution.output, baseline),
            },
        };
        vec![result.with_failure_evidence(|| difference(evidence))]
    }
}

/// Returns the difference of the output and the baseline; `None` without a baseline.
fn difference(evidence: &Evidence<'_>) -> Option<ResultEvidence> {
    baseline(evidence).map(|it| output_difference(it, &evidence.execution.output))
}

/// Returns the difference of two outputs. JSON is compared as JSON.
fn output_difference(baseline: &str, output: &str) -> ResultEvidence {
    let json = |it: &str| serde_json::from_str::<Value>(it).ok().filter(|it| !it.is_string());
    match (json(baseline), json(output)) {
        (Some(baseline), Some(output)) => json_diff(&baseline, &output),
        _ => text_diff(baseline, output),
    }
}

/// Returns the output of the baseline; `None` if it is missing or empty.
fn baseline<'a>(evidence: &Evidence<'a>) -> Option<&'a str> {
    evidence.baseline.filter(|it| !it.is_empty())
}

fn parse_reply(reply: &str) -> Result<Scored, Flaw> {
    read_score(reply, "driftScore")
}

/// Returns the verdict for a drift from 0 to 1. `details` is added to the failure message.
fn hold_against_limit(drift: f64, max_score: f64, details: &str) -> Verdict {
    if drift <= max_score + TOLERANCE {
        return Verdict::Pass;
    }
    let message = format!(
        "Drift score {} exceeds max {}{details}",
        ecma::to_fixed(drift, 3),
        ecma::number(max_score)
    );
    Verdict::Fail { code: DRIFT_EXCEEDED, message }
}

impl Drift {
    fn without_baseline(&self) -> AssertionResult {
        let label = "Baseline drift";
        if self.0.require_baseline {
            let message =
                "there is no baseline to compare with: save one with `kindlm baseline set`";
            return AssertionResult::errored(ID, label, BASELINE_MISSING, message);
        }
        AssertionResult::skipped(ID, label, "no baseline")
    }

    /// Returns the result for a drift from 0 to 1. `details` is added to the failure message.
    fn measured(&self, method: &str, drift: f64, details: &str) -> AssertionResult {
        let max_score = self.0.max_score;
        let verdict = hold_against_limit(drift, max_score, details);
        AssertionResult::new(ID, format!("Baseline drift ({method})"), verdict)
            .with_score(Score::clamped(1.0 - drift).unwrap_or(Score::ZERO))
            .with_metadata("driftScore", drift)
            .with_metadata("method", method)
            .with_failure_evidence(|| [measure("drift", drift, (max_score, Bound::AtMost), None)])
    }

    fn inquiry(&self, evidence: &Evidence<'_>, baseline: &str, order: Order) -> Inquiry {
        let baseline = ("baseline output", baseline);
        let current = ("current output", evidence.execution.output.as_str());
        let data = match order {
            Order::BaselineFirst => fenced_together(&[baseline, current]),
            Order::CurrentFirst => fenced_together(&[current, baseline]),
        };
        Inquiry {
            images: Vec::new(),
            model: self.0.model.clone(),
            system: SYSTEM.into(),
            user: data.text,
            mark: Some(data.mark),
            format: Some(ResponseFormat::new("drift", reply_schema())),
            max_tokens: MAX_TOKENS,
            sample: 0,
            shared: 0,
            filled: Vec::new(),
        }
    }

    /// Returns the result of a judge that is asked in both orders. The drift is the mean of the two answers.
    ///
    /// Both orders are needed because a judge may prefer the output that it reads first.
    fn by_judge(&self, evidence: &Evidence<'_>, baseline: &str) -> AssertionResult {
        let [forth, back] = Order::BOTH.map(|order| self.inquiry(evidence, baseline, order));
        let forth = forth.verdict(evidence.answers, parse_reply);
        let back = back.verdict(evidence.answers, parse_reply);
        let ((forth, by), (back, respondent)) = match (forth, back) {
            (Ok(forth), Ok(back)) => (forth, back),
            (Err(obstacle), _) | (_, Err(obstacle)) => {
                return obstacle.result(ID, "Baseline drift (judge)", DRIFT_PARSE_ERROR);
            }
        };
        let (first, second) = (forth.score.get(), back.score.get());
        let exceeds = |it: f64| it > self.0.max_score + TOLERANCE;
        let is_tie = exceeds(first) != exceeds(second);
        let shown = |it: f64| ecma::to_fixed(it, 3);
        let split = if is_tie {
            format!(
                " (a tie: {} with the baseline first, {} with the output first)",
                shown(first),
                shown(second)
            )
        } else {
            String::new()
        };
        // Use the reasoning of the higher drift, because it names more of the changes.
        let reasoning = if second > first { back.reasoning } else { forth.reasoning };
        let result = self
            .measured("judge", first.midpoint(second), &split)
            .with_reasoning(&reasoning)
            .with_metadata("reasoning", reasoning)
            .with_metadata("driftByOrder", json!([first, second]));
        let mut result = respondent.after(by).note(result);
        if is_tie {
            let judging = result.judging_mut();
            (judging.tie, judging.borderline) = (true, true);
        }
        result
    }

    fn by_embedding(&self, evidence: &Evidence<'_>, baseline: &str) -> AssertionResult {
        let model = self.0.model.as_ref();
        match embedding::drift(evidence, model, baseline) {
            Ok(drift) => {
                self.measured("embedding", drift, "").with_metadata("similarity", 1.0 - drift)
            }
            Err(obstacle) => obstacle.result(ID, "Baseline drift (embedding)"),
        }
    }

    fn by_fields(&self, output: &str, baseline: &str) -> AssertionResult {
        let label = "Baseline drift (field-diff)";
        let Ok(baseline) = serde_json::from_str(baseline) else {
            let message = "the baseline is not JSON, so its fields cannot be compared";
            return AssertionResult::errored(ID, label, DRIFT_PARSE_ERROR, message);
        };
        let Ok(output) = serde_json::from_str(output) else {
            let details = ". The output is not JSON";
            return self
                .measured("field-diff", 1.0, details)
                .with_metadata("mismatched", json!([]));
        };
        match field_diff::compare(&output, &baseline, &self.0.fields) {
            Ok(comparison) => {
                let mismatched = comparison.mismatched();
                let details = format!(". Mismatched: [{}]", mismatched.join(", "));
                let fields: Vec<Value> = comparison
                    .fields
                    .iter()
                    .map(|it| json!({"field": it.name, "drift": it.drift}))
                    .collect();
                self.measured("field-diff", comparison.drift(), &details)
                    .with_metadata("mismatched", mismatched)
                    .with_metadata("fields", fields)
            }
            Err(unknown) => {
                let message = format!(
                    "there is no field {} in the output or the baseline: check the spelling",
                    unknown.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ")
                );
                AssertionResult::errored(ID, label, DRIFT_FIELD_UNKNOWN, message)
                    .with_metadata("unknownFields", unknown)
            }
        }
    }
}

fn reply_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "driftScore": { "type": "number", "minimum": 0, "maximum": 1 },
            "reasoning": { "type": "string" },
        },
        "required": ["driftScore", "reasoning"],
        "additionalProperties": false,
    })
}
