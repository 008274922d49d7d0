//! `trajectory:goal-success`: a judge decides whether an agent has reached its goal.

use kindlm_types::{Class, Problem, Severity, ecma, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::agent::trajectory::{Step, Steps, steps};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::judging::{
    BuiltInQuestion, Flaw, Frame, Graded, Grader, GradingPrompt, Inquiry, JUDGE_EVAL_ERROR,
    JUDGE_PARSE_ERROR, NotAsked, One, RubricPrompt, Ruling, Slot, asked, data_rule,
    fenced_together, output_for_templates, read_ruling, ruling_schema, short, too_low,
};
use crate::{Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, VerdictRule};

const ID: &str = "trajectory:goal-success";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent reached a goal; a judge model decides from the agent's steps and output.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The judge finds that the goal is not reached, or its score is below the threshold.",
            },
            Code { code: EVIDENCE_MISSING, summary: "The agent's steps were not recorded." },
            JUDGE_PARSE_ERROR,
            JUDGE_EVAL_ERROR,
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Graded(build),
};

/// The goal of the agent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "GoalSuccessConfig")]
struct Config {
    /// The goal, in words.
    value: Goal,
    /// Replaces the prompt: a text or the messages of a chat, with `{{ goal }}`, `{{ trajectory }}` and `{{ output }}`.
    #[serde(default)]
    rubric_prompt: Option<RubricPrompt>,
}

/// A goal, in words.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "GoalSuccessGoal")]
enum Goal {
    /// The goal itself.
    Text(#[schemars(length(min = 1))] String),
    /// The goal under the key `goal`.
    Named {
        /// The goal, in words.
        #[schemars(length(min = 1))]
        goal: String,
    },
}

const SYSTEM: &str = concat!(include_str!("prompt.md"), data_rule!());
/// The variables that the check provides to a replacement prompt.
const GIVES: [&str; 3] = ["goal", "trajectory", "output"];
const MAX_TOKENS: u32 = 1024;
/// The highest number of steps that the judge sees: one half from the start, the other from the end.
const SHOWN: usize = 200;

#[derive(Debug)]
struct GoalSuccess {
    frame: Frame,
    goal: String,
}

fn build(config: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let config: Config = parse_config(config)?;
    let prompt = GradingPrompt::new(SYSTEM, config.rubric_prompt, Slot::rubric(&GIVES), setup)?;
    let (Goal::Text(goal) | Goal::Named { goal }) = config.value;
    if goal.trim().is_empty() {
        let problem = Problem::new("/value", "the goal is empty");
        return Err(vec![problem.with_help("write the goal that the agent must reach")]);
    }
    let frame = Frame::new(ID, "Goal", &short(&Value::String(goal.clone()), 80), own, prompt);
    One::built(GoalSuccess { frame, goal })
}

/// Returns the steps as JSON, for the question to the judge.
fn trajectory(Steps { seen: steps, missing }: &Steps) -> Value {
    let shown = |(index, step): (usize, &Step)| {
        let mut told = json!({"index": index + 1, "type": step.kind.name(), "name": step.name});
        if let Some(args) = &step.args {
            told["args"] = args.clone();
        }
        told
    };
    let left_out = steps.len().saturating_sub(SHOWN);
    let (head, tail) = (SHOWN / 2, SHOWN / 2 + left_out);
    let is_shown = |index: usize| left_out == 0 || index < head || index >= tail;
    let list: Vec<Value> =
        steps.iter().enumerate().filter(|(index, _)| is_shown(*index)).map(shown).collect();
    let mut told = json!({"stepCount": steps.len(), "leftOut": left_out, "steps": list});
    if let Some(why) = missing {
        told["unknown"] =
            json!(format!("There may be more steps than these, as not all are known: {why}"));
    }
    told
}

impl Grader for GoalSuccess {
    type Reading = Ruling;

    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn inquiry(&self, evidence: &Evidence<'_>) -> Result<Inquiry, NotAsked> {
        let execution = evidence.execution;
        let steps = steps(execution).map_err(|why| {
            NotAsked::Never(Box::new(self.frame.errored(EVIDENCE_MISSING, &*why)))
        })?;
        if let Some(why) = steps.missing.as_deref().filter(|_| self.frame.own.negate) {
            let message = format!("the agent's steps are incomplete: {why}");
            return Err(NotAsked::Never(Box::new(self.frame.errored(EVIDENCE_MISSING, message))));
        }
        let trajectory = trajectory(&steps);
        let written = serde_json::to_string_pretty(&trajectory)
            .unwrap_or_else(|_| ecma::stringify(&trajectory));
        let vars = [
            ("goal", json!(self.goal)),
            ("trajectory", json!(written)),
            ("output", output_for_templates(&execution.output)),
        ];
        self.frame.inquiry(evidence, &vars, MAX_TOKENS, || {
            let data = fenced_together(&[
                ("task", &asked(execution)),
                ("steps", &written),
                ("output", &execution.output),
            ]);
            BuiltInQuestion::about(
                &format!("Goal:\n{}", self.goal),
                data,
                ("ruling", ruling_schema()),
            )
        })
    }

    fn parse_reply(&self, _evidence: &Evidence<'_>, reply: &str) -> Result<Ruling, Flaw> {
        let ruling = read_ruling(reply)?;
        if ruling.pass.is_none() {
            return Err("`pass` is missing".into());
        }
        Ok(ruling)
    }

    fn grade(&self, _evidence: &Evidence<'_>, ruling: Ruling) -> Graded {
        ruling.graded(self.frame.own, ("The goal is reached", "The goal is not reached"))
    }

    fn further_evidence(&self) -> Option<&'static str> {
        Some("the steps of the agent")
    }

    fn verdict_rule(&self) -> Option<VerdictRule> {
        Some(self.frame.verdict_rule(too_low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges_get_a_note_about_missing_steps() {
        let steps =
            |missing: Option<&str>| Steps { seen: Vec::new(), missing: missing.map(str::to_owned) };
        assert_eq!(trajectory(&steps(None)).get("unknown"), None);
        let told = trajectory(&steps(Some("no spans")));
        assert!(told["unknown"].as_str().unwrap().ends_with("not all are known: no spans"));
    }
}
