//! `prompt-assertion`: the rules of a prompt, judged together.

mod question;
mod reply;
mod rule;
mod when;

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::HashSet;
use std::sync::Arc;

use kindlm_types::{
    Answers, AssertionResult, Class, Execution, FailureCode, PROMPT_ASSERTION as ID, Problem,
    Question, Severity, ecma, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::check::negate;
use crate::core::judging::{
    Flaw, Inquiry, Instructions, JUDGE_EVAL_ERROR, Obstacle, Reading, answer, cannot_be_put, digest,
};
use crate::shared::template::Env;
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};
use question::{SYSTEM, inquiry};
use reply::{Judgement, Judgements};
use rule::Rule;
use when::{Applies, When};

const FAILED: FailureCode = FailureCode::new("PROMPT_ASSERTION_FAILED");
const PARSE_ERROR: FailureCode = FailureCode::new("JUDGE_PARSE_ERROR");

/// The highest number of rules per question.
///
/// The token limit of an answer grows with the number of rules, so the number of rules needs a limit.
const MOST_RULES: usize = 100;

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output keeps every rule of a set; one call to a judge model decides.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Gate,
        codes: &[
            Code { code: FAILED, summary: "A criterion of the rule is not met." },
            Code {
                code: PARSE_ERROR,
                summary: "Two replies of the judge had no verdict on the rule, or they contradict each other.",
            },
            JUDGE_EVAL_ERROR,
            Code {
                code: FailureCode::SCRIPT_ERROR,
                summary: "The script of `when` returned neither `true` nor `false`.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Graded(build),
};

/// The rules that the output must follow.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The rules, each with a unique id.
    #[schemars(length(min = 1))]
    assertions: Vec<Rule>,
    /// The id of the model that judges; by default, the judge of the `judging` block or of the suite.
    #[serde(default)]
    #[schemars(length(min = 1))]
    model: Option<String>,
}

#[derive(Debug)]
struct PromptAssertion {
    /// The rules with their conditions.
    rules: Vec<(Rule, When)>,
    model: Option<String>,
    negate: bool,
    env: Env,
}

fn build(
    config: &Value,
    own: EntryOptions,
    setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let config =
        Config::deserialize(config).map_err(|err| vec![Problem::new("", err.to_string())])?;
    let mut problems: Vec<Problem> = config
        .model
        .as_deref()
        .and_then(|model| setup.check_model("/model", model))
        .into_iter()
        .collect();
    if own.threshold.is_some() {
        let message = "a rule has no score, so it takes no threshold";
        let help = "for a share of the rules, give the test or its prompt a `threshold`, or put this into an \
                    `assert-set` with one";
        problems.push(Problem::key("/threshold", message).with_help(help));
    }
    let mut ids = HashSet::new();
    let mut rules = Vec::with_capacity(config.assertions.len());
    for (index, mut rule) in config.assertions.into_iter().enumerate() {
        if !ids.insert(rule.id.clone()) {
            let pointer = format!("/assertions/{index}/id");
            problems.push(
                Problem::new(pointer, format!("duplicate id `{}`", rule.id))
                    .with_help("give every assertion a unique id"),
            );
        }
        problems.extend(rule.faults().map(|it| it.under(&format!("/assertions/{index}"))));
        match When::new(rule.when.take(), setup) {
            Ok(when) => rules.push((rule, when)),
            Err(problem) => problems.push(problem.under(&format!("/assertions/{index}/when"))),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let (model, negate, env) = (config.model, own.negate, Env::new(setup.env.clone()));
    Ok(Arc::new(PromptAssertion { rules, model, negate, env }))
}

impl PromptAssertion {
    /// Returns each rule with the result of its condition, in order.
    fn applies(&self, evidence: &Evidence<'_>) -> Vec<(&Rule, Applies)> {
        self.rules.iter().map(|(rule, when)| (rule, when.applies(evidence))).collect()
    }

    /// Returns the rules with their templates rendered, or the reason why that fails.
    fn rendered_rules<'r>(
        &self,
        rules: &[&'r Rule],
        execution: &Execution,
    ) -> Result<Vec<Cow<'r, Rule>>, String> {
        let variables = LazyCell::new(|| self.env.with(&execution.vars));
        let render = |rule: &&'r Rule| {
            if rule.is_template() {
                rule.filled(&variables).map(Cow::Owned)
            } else {
                Ok(Cow::Borrowed(*rule))
            }
        };
        rules.iter().map(render).collect()
    }

    /// Splits the rules into groups of at most [`MOST_RULES`], and returns each group with its question.
    fn inquiries<'s, 'r>(
        &'s self,
        rules: &'r [Cow<'r, Rule>],
        execution: &'s Execution,
    ) -> impl Iterator<Item = (&'r [Cow<'r, Rule>], Inquiry)> + use<'s, 'r> {
        let parts = rules.len().div_ceil(MOST_RULES).max(1);
        let each = rules.len().div_ceil(parts).max(1);
        rules.chunks(each).map(|part| (part, inquiry(self.model.as_ref(), part, execution)))
    }

    /// Returns the results of the rules that apply, in order.
    fn judged(&self, rules: &[&Rule], evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let rules = match self.rendered_rules(rules, evidence.execution) {
            Ok(rules) => rules,
            Err(why) => return rules.iter().map(|rule| unasked(rule, &why)).collect(),
        };
        let inquiries = self.inquiries(&rules, evidence.execution);
        inquiries.flat_map(|(part, inquiry)| judged(part, &inquiry, evidence.answers)).collect()
    }
}

/// Returns the results of the rules of one question.
fn judged(rules: &[Cow<'_, Rule>], inquiry: &Inquiry, answers: &Answers) -> Vec<AssertionResult> {
    let lost = |rule: &Rule, obstacle: &Obstacle<'_>| obstacle.result(ID, &rule.id, PARSE_ERROR);
    let mut reply = match answer(answers, &inquiry.first()) {
        Ok(reply) => reply,
        Err(obstacle) => return rules.iter().map(|rule| lost(rule, &obstacle)).collect(),
    };
    let mut judgements = parse_reply(rules, inquiry, &reply);
    let (mut asked, mut unanswered) = (1, None);
    if let Some(again) = again(inquiry, &judgements, &reply) {
        match answer(answers, &again) {
            Ok(second) => {
                judgements = judgements.completed_by(parse_reply(rules, inquiry, &second));
                (reply, asked) = (second, 2);
            }
            Err(obstacle) => unanswered = Some(obstacle),
        }
    }
    let result = |rule: &Cow<'_, Rule>| {
        let judgement = judgements.for_rule(&rule.id);
        let result = match (judgement, &unanswered) {
            (Err(Flaw::Unreadable(_)), Some(obstacle)) => return lost(rule, obstacle),
            (judgement, _) => known(rule, judgement, &reply),
        };
        let result = reply.respondent(asked).note(result);
        match judgements.unknown() {
            [] => result,
            unknown => result.with_metadata("unknownIds", unknown),
        }
    };
    rules.iter().map(result).collect()
}

/// Reads the verdicts of a reply, by rule.
fn parse_reply(rules: &[Cow<'_, Rule>], inquiry: &Inquiry, reply: &Reading<'_>) -> Judgements {
    let own = inquiry.own_words(reply);
    let ids = rules.iter().map(|rule| rule.id.as_str());
    Judgements::from_reply(own.as_deref().map_err(String::as_str), ids)
}

/// Returns the question about the rules without a readable verdict; `None` if no rule needs a second question.
fn again(inquiry: &Inquiry, judgements: &Judgements, reply: &Reading<'_>) -> Option<Question> {
    let (open, why) = judgements.open()?;
    let only = format!(", only for these ids: {}", ecma::stringify(&open.into()));
    Some(inquiry.again(reply, &why, &only))
}

/// Returns the rules that apply.
fn applicable<'r>(applies: &[(&'r Rule, Applies)]) -> Vec<&'r Rule> {
    applies.iter().filter(|(_, it)| matches!(it, Applies::Yes)).map(|(rule, _)| *rule).collect()
}

impl Assertion for PromptAssertion {
    fn traits(&self) -> Traits {
        Traits {
            instructions: {
                let criteria = self.rules.iter().map(|(rule, _)| (rule.id.clone(), rule.digest()));
                Some(Instructions::fixed(SYSTEM).by(criteria))
            },
            weighs: self.rules.iter().any(|(rule, _)| rule.weight != Some(0.0)),
            ..Traits::OF_OUTPUT
        }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        let mut applies = self.applies(evidence);
        let scripts = applies.iter_mut().filter_map(|(_, it)| match it {
            Applies::Ask(question) => Some((**question).clone()),
            Applies::Yes | Applies::No(_) | Applies::Unknown(..) => None,
        });
        let scripts: Vec<Question> = scripts.collect();
        let rules = applicable(&applies);
        // The rules are judged together, so the question waits until every `when` script has answered.
        if !scripts.is_empty() || rules.is_empty() {
            return scripts;
        }
        let Ok(rules) = self.rendered_rules(&rules, evidence.execution) else { return Vec::new() };
        let mut questions = Vec::new();
        for (part, inquiry) in self.inquiries(&rules, evidence.execution) {
            let first = inquiry.first();
            let reply = answer(evidence.answers, &first).ok();
            let judgements = reply.as_ref().map(|it| parse_reply(part, &inquiry, it));
            questions.push(first);
            questions
                .extend(judgements.zip(reply).and_then(|(it, reply)| again(&inquiry, &it, &reply)));
        }
        questions
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let applies = self.applies(evidence);
        let mut judged = self.judged(&applicable(&applies), evidence).into_iter();
        let mut results = Vec::with_capacity(applies.len());
        for (rule, applies) in applies {
            let result = match applies {
                Applies::Yes => judged.next(),
                Applies::No(reason) => Some(AssertionResult::skipped(ID, &rule.id, reason)),
                Applies::Unknown(code, message) => {
                    Some(AssertionResult::errored(ID, &rule.id, code, message))
                }
                Applies::Ask(_) => {
                    let message = "the script of `when` was not run";
                    let code = FailureCode::INTERNAL_ERROR;
                    Some(AssertionResult::errored(ID, &rule.id, code, message))
                }
            };
            results.extend(result.map(|it| {
                let mut result = it.with_rule_id(&rule.id);
                result.weight = rule.weight.unwrap_or(result.weight);
                let judging = result.judging_mut();
                judging.prompt_digest = Some(digest(&[SYSTEM]));
                judging.criterion = Some(rule.digest());
                result
            }));
        }
        if self.negate { negate(ID, results) } else { results }
    }
}

/// Returns the errored result for a rule about which the judge cannot be asked.
fn unasked(rule: &Rule, why: &str) -> AssertionResult {
    AssertionResult::errored(ID, &rule.id, JUDGE_EVAL_ERROR.code, cannot_be_put(why))
}

/// Returns the result for the verdict on a rule, or the errored result if the reply has no such verdict.
fn known(
    rule: &Rule,
    judgement: Result<&Judgement, &Flaw>,
    reply: &Reading<'_>,
) -> AssertionResult {
    match judgement {
        Ok(Judgement { pass: true, reasoning }) => {
            AssertionResult::pass(ID, &rule.id).with_reasoning(reasoning)
        }
        Ok(Judgement { pass: false, reasoning }) => {
            let message = if reasoning.is_empty() { &rule.instruction } else { reasoning };
            let message = format!("Assertion \"{}\" not met: {message}", rule.id);
            AssertionResult::fail(ID, &rule.id, FAILED, message).with_reasoning(reasoning)
        }
        Err(why) => {
            let message = format!("The judge gave no verdict: {why}. {}", reply.quoted_reply());
            AssertionResult::errored(ID, &rule.id, PARSE_ERROR, message)
                .with_metadata("reply", reply.shown())
        }
    }
}

#[cfg(test)]
mod tests;
