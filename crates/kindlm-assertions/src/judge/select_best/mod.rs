//! `select-best`: a judge chooses the best output of a test among all its models.

mod choice;

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Problem, Question, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::OutputComparison;
use crate::core::check::TOLERANCE;
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::judging::{
    BuiltInQuestion, Frame, Graded, GradingPrompt, Inquiry, Instructions, JUDGE_EVAL_ERROR,
    JUDGE_PARSE_ERROR, NotAsked, Respondent, RubricPrompt, Slot, TaskSource, data_rule,
    fenced_together, output_for_templates, short,
};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};
use choice::Choice;

const ID: &str = "select-best";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output is the best of all models of the test; a judge model decides.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Gate,
        codes: &[
            Code { code: ASSERTION_FAILED, summary: "The judge chose another output." },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The output of another model is missing, so the best output is unknown.",
            },
            JUDGE_PARSE_ERROR,
            JUDGE_EVAL_ERROR,
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Graded(build),
};

/// The criterion for the best output.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "SelectBestConfig")]
struct Config {
    /// The criterion: a text, or any other value, which the judge sees as JSON.
    value: Value,
    /// The orders in which the judge reads the outputs; by default `both`.
    ///
    /// `one` asks once. `both` asks in the original and the reverse order. `rotations` asks once for each output, which
    /// then comes first.
    #[serde(default)]
    orders: Orders,
    /// Replaces the prompt: a text or the messages of a chat, with `{{ criteria }}` and `{{ outputs }}`.
    #[serde(default)]
    rubric_prompt: Option<RubricPrompt>,
    /// The task that the judge sees: `query` (default) or `prompt`.
    ///
    /// `query` is the variable `query`, or else the last message of the user. `prompt` is the whole prompt.
    #[serde(default)]
    input: TaskSource,
    /// True to score like promptfoo. The check then has no weight in the mean score. An output that is not selected
    /// fails with score 0, whatever the threshold of the test.
    #[serde(default)]
    decides_score: bool,
}

/// The orders in which a judge reads the outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "SelectBestOrders")]
enum Orders {
    /// The original order only. The judge may prefer the output that it reads first.
    One,
    /// The original order, and its reverse.
    #[default]
    Both,
    /// As many orders as outputs, so that each output has every position once.
    Rotations,
}

impl Orders {
    fn list_permutations(self, count: usize) -> Vec<Vec<usize>> {
        let forth: Vec<usize> = (0..count).collect();
        match self {
            Self::One => vec![forth],
            Self::Both => vec![forth.clone(), forth.into_iter().rev().collect()],
            Self::Rotations => (0..count)
                .map(|first| forth.iter().map(|it| (it + first) % count).collect())
                .collect(),
        }
    }
}

const SYSTEM: &str = concat!(include_str!("prompt.md"), data_rule!());
/// The variables that the check provides to a replacement prompt.
const GIVES: [&str; 2] = ["criteria", "outputs"];
const MAX_TOKENS: u32 = 1024;

#[derive(Debug)]
struct SelectBest {
    frame: Frame,
    criterion: String,
    orders: Orders,
    input: TaskSource,
    decides_score: bool,
}

fn build(config: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let config: Config = parse_config(config)?;
    let prompt = GradingPrompt::new(SYSTEM, config.rubric_prompt, Slot::rubric(&GIVES), setup)?;
    let criterion = crate::core::grade::text(&config.value).into_owned();
    if criterion.trim().is_empty() {
        return Err(vec![
            Problem::new("/value", "the criterion is empty")
                .with_help("write what makes an output the best"),
        ]);
    }
    let frame = Frame::new(ID, "Best", &short(&config.value, 80), own, prompt);
    let Config { orders, input, decides_score, .. } = config;
    Ok(Arc::new(SelectBest { frame, criterion, orders, input, decides_score }))
}

/// The different outputs of a comparison. Equal outputs are shown to the judge once.
struct Field {
    outputs: Vec<String>,
    /// The index in `outputs` for each candidate.
    of: Vec<usize>,
}

impl Field {
    fn new(comparison: &OutputComparison<'_>) -> Self {
        let (mut outputs, mut of) = (Vec::<String>::new(), Vec::new());
        for candidate in comparison.candidates {
            let output = &candidate.execution.output;
            let known = outputs.iter().position(|it| it == output);
            of.push(known.unwrap_or(outputs.len()));
            if known.is_none() {
                outputs.push(output.clone());
            }
        }
        Self { outputs, of }
    }

    /// Returns the names of the candidates that gave an output.
    fn names(&self, comparison: &OutputComparison<'_>, output: usize) -> String {
        let all = self.of.iter().zip(comparison.candidates).filter(|(of, _)| **of == output);
        all.map(|(_, it)| format!("`{}`", it.name)).collect::<Vec<_>>().join(" and ")
    }
}

impl SelectBest {
    /// Returns each order of the outputs with its question.
    ///
    /// The list is empty if all outputs are equal. The error is the reason why the judge is not asked.
    fn inquiries(
        &self,
        evidence: &Evidence<'_>,
        field: &Field,
    ) -> Result<Vec<(Vec<usize>, Inquiry)>, NotAsked> {
        if field.outputs.len() < 2 {
            return Ok(Vec::new());
        }
        let orders = self.orders.list_permutations(field.outputs.len()).into_iter();
        orders
            .map(|order| {
                let shown: Vec<&str> = order
                    .iter()
                    .filter_map(|it| field.outputs.get(*it))
                    .map(String::as_str)
                    .collect();
                let inquiry = self.inquiry(evidence, &shown)?;
                Ok((order, inquiry))
            })
            .collect()
    }

    fn inquiry(&self, evidence: &Evidence<'_>, shown: &[&str]) -> Result<Inquiry, NotAsked> {
        let outputs: Vec<Value> = shown.iter().map(|it| output_for_templates(it)).collect();
        let vars = [("criteria", json!(self.criterion)), ("outputs", Value::Array(outputs))];
        self.frame.inquiry(evidence, &vars, MAX_TOKENS, || {
            let task = self.input.find_task(evidence.execution);
            let names: Vec<String> = (0..shown.len()).map(|it| format!("output {it}")).collect();
            let mut texts = vec![("task", task.as_str())];
            texts.extend(names.iter().map(String::as_str).zip(shown.iter().copied()));
            let criterion = format!("Criterion:\n{}", self.criterion);
            let form = ("best", choice::schema(shown.len()));
            BuiltInQuestion::about(&criterion, fenced_together(&texts), form)
        })
    }

    /// Returns the result for the judged execution from the choices in all orders.
    fn decided(
        &self,
        comparison: &OutputComparison<'_>,
        field: &Field,
        choices: &[(Vec<usize>, Choice)],
    ) -> AssertionResult {
        let mut best: Vec<usize> = Vec::new();
        for (_, choice) in choices {
            if !best.contains(&choice.best) {
                best.push(choice.best);
            }
        }
        if choices.is_empty() {
            best.push(0);
        }
        best.sort_unstable();
        let winners = field.of.iter().filter(|it| best.contains(it)).count();
        let own = field.of.get(comparison.own).copied();
        let is_best = own.is_some_and(|it| best.contains(&it));
        let share = if is_best { 1.0 / count(winners) } else { 0.0 };
        let pass = match self.frame.own.threshold {
            Some(threshold) => share >= threshold - TOLERANCE,
            None => is_best,
        };
        let criterion = &self.criterion;
        let who: Vec<String> = best.iter().map(|it| field.names(comparison, *it)).collect();
        let is_tie = winners > 1;
        let why = if is_tie && best.len() > 1 {
            format!("the choice depends on the order: {}", who.join(", or "))
        } else if is_tie {
            format!("{} gave the same output", who.join(" and "))
        } else {
            String::new()
        };
        let reason = match (is_best, is_tie) {
            (true, false) => format!("Output selected as the best: {criterion}"),
            (true, true) => format!("A tie for the best: {criterion} ({why})"),
            (false, _) => format!("Output not selected: {criterion}"),
        };
        let said = choices.first().map(|(_, it)| it.reason.as_str()).filter(|it| !it.is_empty());
        let message = (!is_best).then(|| {
            let who = if is_tie { why } else { format!("{} was chosen", who.join(" and ")) };
            let said = said.map(|it| format!(": {it}")).unwrap_or_default();
            format!("{reason}; {who}{said}")
        });
        let shown: Vec<Value> = choices
            .iter()
            .map(|(order, choice)| {
                let order: Vec<String> =
                    order.iter().map(|it| field.names(comparison, *it)).collect();
                let best = field.names(comparison, choice.best);
                json!({"order": order, "best": best, "reason": choice.reason})
            })
            .collect();
        let graded = Graded { message, ..Graded::from(Grade { pass, score: share, reason }) };
        let graded = graded.with("choices", shown);
        let mut result = self.frame.result(graded);
        if is_tie {
            let judging = result.judging_mut();
            (judging.tie, judging.borderline) = (true, true);
        }
        if self.decides_score { result.deciding_score() } else { result }
    }
}

impl Assertion for SelectBest {
    fn traits(&self) -> Traits {
        Traits {
            compares: true,
            instructions: Some(
                Instructions::from_prompts([&self.frame.prompt])
                    .beyond("the other outputs of the test"),
            ),
            ..Traits::OF_OUTPUT
        }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        let Ok(comparison) = OutputComparison::open(evidence, ID, &self.frame.label) else {
            return Vec::new();
        };
        let field = Field::new(&comparison);
        match self.inquiries(evidence, &field) {
            Ok(inquiries) => inquiries
                .iter()
                .flat_map(|(order, it)| {
                    it.questions(evidence.answers, |reply| choice::parse_choice(reply, order))
                })
                .collect(),
            Err(NotAsked::First(question)) => vec![*question],
            Err(NotAsked::Never(_)) => Vec::new(),
        }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let comparison = match OutputComparison::open(evidence, ID, &self.frame.label) {
            Ok(comparison) => comparison,
            Err(result) => return vec![*result],
        };
        let field = Field::new(&comparison);
        let inquiries = match self.inquiries(evidence, &field) {
            Ok(inquiries) => inquiries,
            Err(NotAsked::Never(result)) => return vec![*result],
            Err(NotAsked::First(_)) => return vec![self.frame.unfinished()],
        };
        let mut choices = Vec::with_capacity(inquiries.len());
        let mut by: Option<Respondent<'_>> = None;
        for (order, inquiry) in inquiries {
            match inquiry.verdict(evidence.answers, |reply| choice::parse_choice(reply, &order)) {
                Ok((choice, respondent)) => {
                    by = Some(respondent.after(by.unwrap_or_default()));
                    choices.push((order, choice));
                }
                Err(obstacle) => return vec![self.frame.lost(&obstacle)],
            }
        }
        let result = self.decided(&comparison, &field, &choices);
        vec![match by {
            Some(by) => by.note(result),
            None => result,
        }]
    }
}

fn count(it: usize) -> f64 {
    u32::try_from(it).map_or(f64::INFINITY, f64::from)
}
