//! `prompt-assertion`: rules that a prompt sets, all judged in one call.

mod reply;

use std::collections::HashSet;
use std::sync::Arc;

use kindlm_types::{
    AssertionResult, Class, Execution, FailureCode, Message, Problem, Question, ResponseFormat,
    Role, ecma,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::judging::{Inquiry, JUDGE_EVAL_ERROR, Obstacle, answer, data_rule, fenced};
use crate::{Assertion, Build, Code, Evidence, Meta, Registration, Setup};
use reply::{Judgement, Judgements};

const ID: &str = "prompt-assertion";
const FAILED: FailureCode = FailureCode::new("PROMPT_ASSERTION_FAILED");
const PARSE_ERROR: FailureCode = FailureCode::new("JUDGE_PARSE_ERROR");

/// Has a model judge a set of rules in one call.
pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output must keep every rule of a set, as a judge model sees it in one call.",
        since: "0.1.0",
        class: Class::Probabilistic,
        codes: &[
            Code { code: FAILED, summary: "A criterion of the rule is not met." },
            Code {
                code: PARSE_ERROR,
                summary: "Two replies of the judge had no single verdict on the rule.",
            },
            JUDGE_EVAL_ERROR,
        ],
        docs: include_str!("docs.md"),
    },
    schema: Config::json_schema,
    build: Build::Plain(build),
};

/// Rules that the output must keep.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The rules, each with an id of its own.
    #[schemars(length(min = 1))]
    assertions: Vec<Rule>,
    /// The id of the model that judges; the suite's `defaults.judgeModel` if it is not given.
    #[serde(default)]
    #[schemars(length(min = 1))]
    model: Option<String>,
}

/// One rule that a prompt sets.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    /// Names the rule in results.
    #[schemars(length(min = 1))]
    id: String,
    /// The rule as the prompt has it.
    #[schemars(length(min = 1))]
    instruction: String,
    /// Questions that must all be answered with yes; the instruction alone if there are none.
    #[serde(default)]
    criteria: Vec<String>,
}

/// The judge's instructions. They never vary, so that prompt caches hit.
const SYSTEM: &str = concat!(
    "You check whether the output of an AI agent keeps a set of rules.\n\n",
    data_rule!(),
    "\n\nYou are given the input of the agent, its output, and the rules as a JSON array. Each rule has an \
     `id`, an `instruction` (what the agent was told to do) and `criteria` (questions about the output).\n\n\
     How to judge:\n\
     - Judge each rule by itself, and only by what the output says.\n\
     - Be strict: a rule passes only if every one of its criteria is met. A rule without criteria passes only \
     if its instruction is followed in full.\n\
     - A rule that does not apply to this input is kept.\n\
     - Give every id exactly once, spelt as it is in the rules, and no other id.\n\n\
     Answer with one JSON object and nothing else: ",
    r#"{"results": [{"id": "the rule's id", "pass": true or false, "reasoning": "one sentence that says why"}]}"#
);

/// Tokens for the frame of the answer, and for each rule in it.
const TOKENS: (u32, u32) = (256, 128);

#[derive(Debug)]
struct PromptAssertion {
    config: Config,
    /// The rules as JSON text.
    rules: String,
}

fn build(config: &Value, setup: &Setup<'_>) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let config =
        Config::deserialize(config).map_err(|err| vec![Problem::new("", err.to_string())])?;
    let mut problems: Vec<Problem> = config
        .model
        .as_deref()
        .and_then(|model| setup.check_model("/model", model))
        .into_iter()
        .collect();
    let mut ids = HashSet::new();
    for (index, rule) in config.assertions.iter().enumerate() {
        if !ids.insert(rule.id.as_str()) {
            let pointer = format!("/assertions/{index}/id");
            problems.push(
                Problem::new(pointer, format!("the id `{}` is given twice", rule.id))
                    .with_help("give every assertion an id of its own"),
            );
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let rules = serde_json::to_value(&config.assertions).map(|it| ecma::stringify(&it));
    let rules = rules.map_err(|err| vec![Problem::new("/assertions", err.to_string())])?;
    Ok(Arc::new(PromptAssertion { config, rules }))
}

impl PromptAssertion {
    fn inquiry(&self, execution: &Execution) -> Inquiry {
        let rules = u32::try_from(self.config.assertions.len()).unwrap_or(u32::MAX);
        Inquiry {
            model: self.config.model.clone(),
            system: SYSTEM,
            user: format!(
                "{}\n\n{}\n\nRules:\n{}",
                fenced("agent input", &agent_input(&execution.input)),
                fenced("agent output", &execution.output),
                self.rules
            ),
            format: ResponseFormat { name: "verdicts".to_owned(), schema: reply_schema() },
            max_tokens: TOKENS.0.saturating_add(TOKENS.1.saturating_mul(rules)),
        }
    }

    fn read(&self, reply: &str) -> Judgements {
        Judgements::read(reply, self.config.assertions.iter().map(|rule| rule.id.as_str()))
    }

    /// A reply is read in full only if it names every id exactly once.
    fn read_strictly(&self, reply: &str) -> Result<Judgements, String> {
        let judgements = self.read(reply);
        judgements.flaw().map_or(Ok(judgements), Err)
    }
}

impl Assertion for PromptAssertion {
    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        self.inquiry(evidence.execution)
            .questions(evidence.answers, |reply| self.read_strictly(reply))
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let inquiry = self.inquiry(evidence.execution);
        let rules = &self.config.assertions;
        let lost = |rule: &Rule, obstacle: &Obstacle<'_>| {
            obstacle.result(ID, &rule.id, PARSE_ERROR).with_metadata("id", rule.id.as_str())
        };
        let first = match answer(evidence.answers, &inquiry.first()) {
            Ok(reply) => reply,
            Err(obstacle) => return rules.iter().map(|rule| lost(rule, &obstacle)).collect(),
        };
        let (mut judgements, mut judge) = (self.read(first.text), first.judge);
        let mut unanswered = None;
        if let Some(why) = judgements.flaw() {
            match answer(evidence.answers, &inquiry.again(first.text, &why)) {
                // What the first reply has said without ambiguity stays said where the second is silent.
                Ok(again) => {
                    judgements = self.read(again.text).or(judgements);
                    judge = again.judge;
                }
                Err(obstacle) => unanswered = Some(obstacle),
            }
        }
        let known = rules.iter().map(|rule| match &unanswered {
            Some(obstacle) if judgements.of(&rule.id).is_err() => lost(rule, obstacle),
            _ => known(rule, &judgements, judge),
        });
        known.chain(judgements.unknown().map(|id| unknown(id, judge))).collect()
    }
}

/// The result for one of the rules.
fn known(rule: &Rule, judgements: &Judgements, judge: &str) -> AssertionResult {
    let result = match judgements.of(&rule.id) {
        Ok(Judgement { pass: true, reasoning }) => {
            AssertionResult::pass(ID, &rule.id).with_reasoning(reasoning)
        }
        Ok(Judgement { pass: false, reasoning }) => {
            let message = if reasoning.is_empty() { &rule.instruction } else { reasoning };
            let message = format!("Assertion \"{}\" not met: {message}", rule.id);
            AssertionResult::fail(ID, &rule.id, FAILED, message).with_reasoning(reasoning)
        }
        Err(why) => AssertionResult::errored(
            ID,
            &rule.id,
            PARSE_ERROR,
            format!("The judge gave no verdict: {why}"),
        ),
    };
    result.with_metadata("id", rule.id.as_str()).with_metadata("judgeModel", judge)
}

/// The result for an id that the judge has made up.
fn unknown(id: &str, judge: &str) -> AssertionResult {
    let message = format!("The judge gave a verdict on \"{id}\", which is none of the assertions");
    AssertionResult::errored(ID, id, PARSE_ERROR, message)
        .with_metadata("id", id)
        .with_metadata("judgeModel", judge)
}

/// What the agent was given: the one message, or the whole conversation without the system's part.
fn agent_input(messages: &[Message]) -> String {
    let said: Vec<&Message> = messages.iter().filter(|it| it.role != Role::System).collect();
    match said[..] {
        [only] => only.content.clone(),
        _ => said
            .iter()
            .map(|it| format!("{}: {}", speaker(it.role), it.content))
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

fn speaker(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "agent",
        Role::Tool => "tool",
    }
}

fn reply_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "results": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": { "type": "string" },
                        "pass": { "type": "boolean" },
                        "reasoning": { "type": "string" },
                    },
                    "required": ["id", "pass", "reasoning"],
                    "additionalProperties": false,
                },
            },
        },
        "required": ["results"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests;
