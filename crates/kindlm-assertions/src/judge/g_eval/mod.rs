//! `g-eval`: a judge derives steps from a criterion, follows them, and scores the output.

use kindlm_types::{AssertionResult, Class, Question, Severity, ecma, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config::parse_config;
use crate::core::judging::{
    BuiltInQuestion, Flaw, Frame, Graded, GradingPrompt, Inquiry, JUDGE_EVAL_ERROR,
    JUDGE_PARSE_ERROR, NotAsked, Respondent, RubricPrompt, Slot, TaskSource, data_rule,
    fenced_together, grade_score, objects, only, read_in_range, short,
};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "g-eval";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "A judge writes steps for a criterion, follows them, and scores the output.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The score is below the threshold (default 0.7).",
            },
            JUDGE_PARSE_ERROR,
            JUDGE_EVAL_ERROR,
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Graded(build),
};

/// The criteria that the output is scored by.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "GEvalConfig")]
struct Config {
    /// A criterion, or several criteria whose scores are averaged.
    value: Criteria,
    /// Replaces the prompts.
    #[serde(default)]
    rubric_prompt: Prompts,
    /// The task that the judge sees: `query` (default) or `prompt`.
    ///
    /// `query` is the variable `query`, or else the last message of the user. `prompt` is the whole prompt.
    #[serde(default)]
    input: TaskSource,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "GEvalCriteria")]
enum Criteria {
    /// A single criterion.
    One(#[schemars(length(min = 1))] String),
    /// Several criteria, whose scores are averaged.
    Several(#[schemars(length(min = 1))] Vec<String>),
}

/// The two prompts of the check.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "GEvalPrompts")]
struct Prompts {
    /// Asks for the steps, with `{{ criteria }}`.
    steps: Option<RubricPrompt>,
    /// Asks for the score.
    ///
    /// Its variables are `{{ criteria }}`, `{{ steps }}`, `{{ maxScore }}`, `{{ input }}` and `{{ output }}`.
    evaluate: Option<RubricPrompt>,
}

const STEPS: &str = include_str!("steps.md");
const EVALUATE: &str = concat!(include_str!("evaluate.md"), data_rule!());
/// The variables that the check provides to a replacement of the prompt for steps.
const STEPS_GIVES: [&str; 1] = ["criteria"];
/// The variables that the check provides to a replacement of the score prompt.
const GIVES: [&str; 5] = ["criteria", "steps", "maxScore", "input", "output"];
const MAX_TOKENS: u32 = 1024;
/// The highest score that the judge may give; the lowest is 0.
const MAX_SCORE: f64 = 10.0;
/// The default threshold of the score.
const THRESHOLD: f64 = 0.7;

#[derive(Debug)]
struct GEval {
    /// The common parts of the check. `frame.prompt` asks for the score.
    frame: Frame,
    steps: GradingPrompt,
    criteria: Vec<String>,
    input: TaskSource,
}

fn build(config: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let config: Config = parse_config(config)?;
    let Prompts { steps, evaluate } = config.rubric_prompt;
    let steps =
        GradingPrompt::new(STEPS, steps, Slot::new("/rubricPrompt/steps", &STEPS_GIVES), setup)?;
    let prompt =
        GradingPrompt::new(EVALUATE, evaluate, Slot::new("/rubricPrompt/evaluate", &GIVES), setup)?;
    let criteria = match config.value {
        Criteria::One(one) => vec![one],
        Criteria::Several(several) => several,
    };
    let all = criteria.join("; ");
    let frame = Frame::new(ID, "G-Eval", &short(&json!(all), 80), own, prompt).by(&all);
    Ok(std::sync::Arc::new(GEval { frame, steps, criteria, input: config.input }))
}

/// The score of a judge, from 0 to 1, with its reason.
struct Scored {
    score: f64,
    reason: String,
}

impl GEval {
    /// Builds the request for the steps of a criterion. The request is equal for all outputs.
    ///
    /// The error is the reason why the judge is not asked.
    fn ask_steps(&self, evidence: &Evidence<'_>, criterion: &str) -> Result<Inquiry, NotAsked> {
        let vars = [("criteria", json!(criterion))];
        self.frame.inquiry_by(&self.steps, evidence, &vars, MAX_TOKENS, || BuiltInQuestion {
            user: format!("Criterion:\n{criterion}"),
            mark: None,
            format: Some(("steps", steps_schema())),
        })
    }

    fn ask_score(
        &self,
        evidence: &Evidence<'_>,
        criterion: &str,
        steps: &[String],
    ) -> Result<Inquiry, NotAsked> {
        let output = &evidence.execution.output;
        let input = self.input.find_task(evidence.execution);
        let listed = steps.join("\n- ");
        let vars = [
            ("criteria", json!(criterion)),
            ("steps", json!(listed)),
            ("maxScore", json!(ecma::number(MAX_SCORE))),
            ("input", json!(input)),
            ("output", json!(output)),
        ];
        self.frame.inquiry(evidence, &vars, MAX_TOKENS, || {
            let steps = format!("Criterion:\n{criterion}\n\nSteps:\n- {listed}");
            let data = fenced_together(&[("input", &input), ("output", output)]);
            BuiltInQuestion::about(&steps, data, ("score", score_schema()))
        })
    }

    fn questions_about(&self, evidence: &Evidence<'_>, criterion: &str) -> Vec<Question> {
        let Ok(first) = self.ask_steps(evidence, criterion) else { return Vec::new() };
        let mut questions = first.questions(evidence.answers, read_steps);
        if let Ok((steps, _)) = first.verdict(evidence.answers, read_steps)
            && let Ok(second) = self.ask_score(evidence, criterion, &steps)
        {
            questions.extend(second.questions(evidence.answers, read_scored));
        }
        questions
    }

    /// Returns the score for one criterion and the judge, or an errored result.
    fn score<'a>(
        &self,
        evidence: &Evidence<'a>,
        criterion: &str,
    ) -> Result<(Scored, Respondent<'a>), Box<AssertionResult>> {
        let unasked = |it: NotAsked| match it {
            NotAsked::Never(result) => result,
            NotAsked::First(_) => Box::new(self.frame.unfinished()),
        };
        let lost = |obstacle: &_| Box::new(self.frame.lost(obstacle));
        let first = self.ask_steps(evidence, criterion).map_err(unasked)?;
        let (steps, by) = first.verdict(evidence.answers, read_steps).map_err(|it| lost(&it))?;
        let second = self.ask_score(evidence, criterion, &steps).map_err(unasked)?;
        let (scored, respondent) =
            second.verdict(evidence.answers, read_scored).map_err(|it| lost(&it))?;
        Ok((scored, respondent.after(by)))
    }
}

impl Assertion for GEval {
    fn traits(&self) -> Traits {
        let rule = |own, score| Some(grade_score(own, THRESHOLD, score, String::new()));
        Traits {
            instructions: Some(self.frame.instructions([&self.steps, &self.frame.prompt])),
            verdict_rule: Some(self.frame.verdict_rule(rule)),
            ..Traits::OF_OUTPUT
        }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        self.criteria.iter().flat_map(|it| self.questions_about(evidence, it)).collect()
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let mut scored = Vec::new();
        for criterion in &self.criteria {
            match self.score(evidence, criterion) {
                Ok(found) => scored.push(found),
                Err(result) => return vec![*result],
            }
        }
        let count = u32::try_from(scored.len()).map_or(f64::NAN, f64::from);
        let score = scored.iter().map(|(it, _)| it.score).sum::<f64>() / count;
        let reasons: Vec<&str> = scored.iter().map(|(it, _)| it.reason.as_str()).collect();
        let graded =
            Graded::from(grade_score(self.frame.own, THRESHOLD, score, reasons.join("\n\n")));
        let by = scored.iter().map(|(_, by)| *by).reduce(|before, by| by.after(before));
        vec![by.unwrap_or_default().note(self.frame.result(graded))]
    }
}

/// Reads the steps in a reply. Fails without a step, or if a step is empty or not a text.
fn read_steps(reply: &str) -> Result<Vec<String>, Flaw> {
    let objects = objects(reply)?;
    if objects.is_empty() {
        return Err("it holds no JSON object".into());
    }
    let Some(steps) = only(&objects, "steps")? else {
        return Err("`steps` is missing".into());
    };
    let steps = steps.as_array().ok_or("`steps` is not a list")?;
    if steps.is_empty() {
        return Err("`steps` is empty".into());
    }
    let step = |it: &Value| {
        let text = it.as_str().map(str::trim).filter(|it| !it.is_empty());
        text.map(str::to_owned)
            .ok_or_else(|| Flaw::from("a step is not a text that says something"))
    };
    steps.iter().map(step).collect()
}

fn read_scored(reply: &str) -> Result<Scored, Flaw> {
    let (score, reason) = read_in_range(reply, "score", MAX_SCORE)?;
    Ok(Scored { score: score / MAX_SCORE, reason })
}

fn steps_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "steps": { "type": "array", "items": { "type": "string" } } },
        "required": ["steps"],
        "additionalProperties": false,
    })
}

fn score_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "reason": { "type": "string" },
            "score": { "type": "number", "minimum": 0, "maximum": MAX_SCORE },
        },
        "required": ["reason", "score"],
        "additionalProperties": false,
    })
}
