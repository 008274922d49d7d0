//! `classifier`: a judge scores how well labels fit the output.

use kindlm_types::{Class, Problem, Severity, ecma, schema_of, suggest};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core::check::TOLERANCE;
use crate::core::codes::ASSERTION_FAILED;
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::judging::{
    BuiltInQuestion, Flaw, Frame, Graded, Grader, GradingPrompt, Inquiry, JUDGE_EVAL_ERROR,
    JUDGE_PARSE_ERROR, NotAsked, One, RubricPrompt, Slot, data_rule, fenced, objects, only,
};
use crate::{Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, VerdictRule};

const ID: &str = "classifier";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "A label fits the output; a judge model decides.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The score of the label is below the threshold.",
            },
            JUDGE_PARSE_ERROR,
            JUDGE_EVAL_ERROR,
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Graded(build),
};

/// The labels, and the label that must fit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ClassifierConfig")]
struct Config {
    /// All labels that the output may have. The judge must choose among them. A classification model knows its own
    /// labels: `rubricPrompt: "{{ output }}"` asks such a model without `labels`.
    #[serde(default)]
    #[schemars(length(min = 2))]
    labels: Option<Vec<String>>,
    /// The label that must fit; by default, any label may fit best.
    #[serde(default)]
    value: Option<String>,
    /// Replaces the prompt: a text or the messages of a chat, with `{{ labels }}` and `{{ output }}`.
    #[serde(default)]
    rubric_prompt: Option<RubricPrompt>,
}

const SYSTEM: &str = concat!(include_str!("prompt.md"), data_rule!());
/// The variables that the check provides to a replacement prompt.
const GIVES: [&str; 2] = ["labels", "output"];
const MAX_TOKENS: u32 = 1024;
/// The default threshold of the score.
const THRESHOLD: f64 = 1.0;

#[derive(Debug)]
struct Classifier {
    frame: Frame,
    /// The labels; empty if the judge is a classification model with its own labels.
    labels: Vec<String>,
    wanted: Option<String>,
}

fn build(config: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let config: Config = parse_config(config)?;
    if config.labels.is_none() && config.rubric_prompt.is_none() {
        let help = "list them: the judge must choose among them";
        return Err(vec![Problem::new("", "`labels` is required").with_help(help)]);
    }
    let labels = config.labels.unwrap_or_default();
    let is_known = |it: &&String| labels.is_empty() || labels.contains(it);
    if let Some(wanted) = config.value.as_ref().filter(|it| !is_known(it)) {
        let help = suggest(wanted, "labels", labels.iter().map(String::as_str));
        let problem = Problem::new("/value", format!("`{wanted}` is none of the labels"));
        return Err(vec![problem.with_help(help)]);
    }
    let prompt = GradingPrompt::new(SYSTEM, config.rubric_prompt, Slot::rubric(&GIVES), setup)?;
    let about = config.value.as_deref().unwrap_or_default();
    let frame = Frame::new(ID, "Classification", about, own, prompt);
    One::built(Classifier { frame, labels, wanted: config.value })
}

/// Grades the score of the wanted label; without a wanted label, the highest score.
fn held(wanted: Option<&str>, own: EntryOptions, score: f64) -> Grade {
    let threshold = own.threshold.unwrap_or(THRESHOLD);
    let pass = score >= threshold - TOLERANCE;
    let is = if pass { ">=" } else { "<" };
    let (shown, threshold) = (ecma::to_fixed(score, 2), ecma::number(threshold));
    let reason = match wanted {
        Some(label) => format!("Classification {label} has score {shown} {is} {threshold}"),
        None => format!("Maximum classification score {shown} {is} {threshold}"),
    };
    Grade { pass, score, reason }
}

impl Grader for Classifier {
    type Reading = Vec<(String, f64)>;

    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn inquiry(&self, evidence: &Evidence<'_>) -> Result<Inquiry, NotAsked> {
        let output = &evidence.execution.output;
        let vars = [("labels", json!(self.labels)), ("output", json!(output))];
        self.frame.inquiry(evidence, &vars, MAX_TOKENS, || {
            let labels = format!("Labels: {}", json!(self.labels));
            let form = ("scores", reply_schema(&self.labels));
            BuiltInQuestion::about(&labels, fenced("output", output), form)
        })
    }

    fn parse_reply(&self, _evidence: &Evidence<'_>, reply: &str) -> Result<Self::Reading, Flaw> {
        read_scores(reply, &self.labels)
    }

    fn grade(&self, _evidence: &Evidence<'_>, scores: Self::Reading) -> Graded {
        let fits = scores.iter().filter(|(label, _)| match &self.wanted {
            Some(wanted) => label == wanted,
            None => true,
        });
        // A classification model leaves out labels that do not fit at all.
        let score = fits.map(|(_, score)| *score).reduce(f64::max).unwrap_or(0.0);
        let all: serde_json::Map<String, Value> =
            scores.iter().map(|(label, score)| (label.clone(), json!(score))).collect();
        let grade = held(self.wanted.as_deref(), self.frame.own, score);
        Graded::from(grade).with("classification", Value::Object(all))
    }

    fn verdict_rule(&self) -> Option<VerdictRule> {
        let wanted = self.wanted.clone();
        let rule = move |own, score| Some(held(wanted.as_deref(), own, score));
        Some(self.frame.verdict_rule(rule))
    }
}

/// Reads the score of each label in a reply. If `labels` is empty, the reply may have any labels.
///
/// Fails if the reply has no scores, if a label is missing or unknown, or if a score is not a number from 0 to 1.
fn read_scores(reply: &str, labels: &[String]) -> Result<Vec<(String, f64)>, Flaw> {
    let objects = objects(reply)?;
    if objects.is_empty() {
        return Err("it holds no JSON object".into());
    }
    let scores = match only(&objects, "scores")? {
        Some(scores) => scores.as_object().ok_or("`scores` is not an object")?,
        // A classification model answers only with its labels and scores.
        None if labels.is_empty() => objects.last().ok_or("it holds no JSON object")?,
        None => return Err("`scores` is missing".into()),
    };
    if labels.is_empty() {
        let scores: Vec<(String, f64)> = scores
            .iter()
            .map(|(label, it)| Ok((label.clone(), score_of(label, it)?)))
            .collect::<Result<_, Flaw>>()?;
        return if scores.is_empty() { Err("it has no scores".into()) } else { Ok(scores) };
    }
    if let Some(unknown) = scores.keys().find(|it| !labels.contains(it)) {
        return Err(format!("`{unknown}` is none of the labels").into());
    }
    let score = |label: &String| {
        let value = scores.get(label).ok_or_else(|| format!("`{label}` has no score"))?;
        Ok((label.clone(), score_of(label, value)?))
    };
    labels.iter().map(score).collect()
}

fn score_of(label: &str, value: &Value) -> Result<f64, Flaw> {
    match value.as_f64() {
        Some(score) if (0.0..=1.0).contains(&score) => Ok(score),
        _ => {
            let value = ecma::stringify(value);
            Err(format!("the score of `{label}` is {value}, not a number from 0 to 1").into())
        }
    }
}

fn reply_schema(labels: &[String]) -> Value {
    let one = json!({ "type": "number", "minimum": 0, "maximum": 1 });
    let each: serde_json::Map<String, Value> =
        labels.iter().map(|it| (it.clone(), one.clone())).collect();
    json!({
        "type": "object",
        "properties": {
            "scores": {
                "type": "object",
                "properties": each,
                "required": labels,
                "additionalProperties": false,
            },
        },
        "required": ["scores"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_has_one_score() {
        let labels = ["good".to_owned(), "bad".to_owned()];
        for (reply, expected) in [
            (r#"{"scores": {"good": 0.9, "bad": 0.1}}"#, Ok(vec![0.9, 0.1])),
            (r#"{"scores": {"good": 0.9}}"#, Err("`bad` has no score")),
            (
                r#"{"scores": {"good": 2, "bad": 0}}"#,
                Err("the score of `good` is 2, not a number from 0 to 1"),
            ),
            (r#"{"scores": {"good": 1, "bad": 0, "odd": 0}}"#, Err("`odd` is none of the labels")),
            (r#"{"scores": []}"#, Err("`scores` is not an object")),
            ("{}", Err("`scores` is missing")),
            ("good", Err("it holds no JSON object")),
        ] {
            let read = read_scores(reply, &labels);
            let read = read.map(|it| it.into_iter().map(|(_, score)| score).collect());
            let read = read.map_err(|flaw| flaw.to_string());
            assert_eq!(read, expected.map_err(str::to_owned), "{reply}");
        }
    }

    #[test]
    fn a_model_that_classifies_has_its_own_labels() {
        for (reply, expected) in [
            (r#"{"nothate": 0.9, "hate": 0.1}"#, Ok(2)),
            (r#"{"scores": {"nothate": 0.9}}"#, Ok(1)),
            ("{}", Err("it has no scores")),
            (r#"{"a": "b"}"#, Err("the score of `a` is \"b\", not a number from 0 to 1")),
        ] {
            let read = read_scores(reply, &[]).map(|it| it.len()).map_err(|it| it.to_string());
            assert_eq!(read, expected.map_err(str::to_owned), "{reply}");
        }
    }
}
