//! `judge:summarizes`: a judge scores the output as a summary of a source document.

use kindlm_types::{Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config::parse_config;
use crate::core::judging::{
    BuiltInQuestion, Choice, Flaw, Frame, Graded, Grader, GradingPrompt, Inquiry, JUDGE_EVAL_ERROR,
    JUDGE_PARSE_ERROR, Kind, NotAsked, One, Preset, RubricPrompt, Scores, Slot, Table, at,
    choice_schema, data_rule, fenced_together, grade_choice, in_brackets, read_choice, short,
};
use crate::{Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, VerdictRule};

const ID: &str = "judge:summarizes";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output is a faithful and complete summary of a source document, as a score to watch.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Soft,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The score of the judge's finding is 0, or below the threshold.",
            },
            JUDGE_PARSE_ERROR,
            JUDGE_EVAL_ERROR,
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Graded(build),
};

/// The relations of a summary to its source.
const KINDS: &[Kind] = &[
    Kind { letter: "A", meaning: "The summary is faithful, and nothing of importance is missing." },
    Kind {
        letter: "B",
        meaning: "The summary is faithful, but something of importance is missing.",
    },
    Kind { letter: "C", meaning: "The source does not support something that matters little." },
    Kind { letter: "D", meaning: "The source does not support something that matters." },
    Kind { letter: "E", meaning: "The summary is not about the source." },
];

const FAITHFUL: Preset = Preset { name: "faithful", scores: &[1.0, 0.6, 0.4, 0.0, 0.0] };
const STRICT: Preset = Preset { name: "strict", scores: &[1.0, 0.0, 0.0, 0.0, 0.0] };

/// The document that the output summarizes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "SummarizesConfig")]
struct Config {
    /// The text of the source document.
    #[schemars(length(min = 1))]
    value: String,
    /// The score of each relation: `faithful`, `strict`, or a score for each of A to E.
    #[serde(default)]
    scores: Option<Scores>,
    /// Replaces the prompt: a text or the messages of a chat, with `{{ source }}` and `{{ output }}`.
    #[serde(default)]
    rubric_prompt: Option<RubricPrompt>,
}

const SYSTEM: &str = concat!(include_str!("prompt.md"), data_rule!());
/// The variables that the check provides to a replacement prompt.
const GIVES: [&str; 2] = ["source", "output"];
const MAX_TOKENS: u32 = 1024;

#[derive(Debug)]
struct Summarizes {
    frame: Frame,
    source: String,
    table: Table,
}

fn build(config: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let config: Config = parse_config(config)?;
    let prompt = GradingPrompt::new(SYSTEM, config.rubric_prompt, Slot::rubric(&GIVES), setup)?;
    let table = Table::new(KINDS, &[FAITHFUL, STRICT], config.scores.as_ref());
    let table = table.map_err(|it| at("/scores", it))?;
    let about = short(&Value::String(config.value.clone()), 40);
    let frame = Frame::new(ID, "Summary of", &about, own, prompt);
    One::built(Summarizes { frame, source: config.value, table })
}

impl Grader for Summarizes {
    type Reading = Choice;

    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn inquiry(&self, evidence: &Evidence<'_>) -> Result<Inquiry, NotAsked> {
        let output = &evidence.execution.output;
        let vars = [("source", json!(self.source)), ("output", json!(output))];
        self.frame.inquiry(evidence, &vars, MAX_TOKENS, || {
            let data = fenced_together(&[("source document", &self.source), ("summary", output)]);
            BuiltInQuestion::about("", data, ("finding", choice_schema("choice", KINDS)))
        })
    }

    fn parse_reply(&self, evidence: &Evidence<'_>, reply: &str) -> Result<Choice, Flaw> {
        let judged = [&*self.source, &*evidence.execution.output];
        read_choice(reply, &["choice"], KINDS, |it| in_brackets(it, KINDS, &judged))
    }

    fn grade(&self, _evidence: &Evidence<'_>, choice: Choice) -> Graded {
        let (letter, meaning, score) = self.table.get(&choice);
        let reason = if choice.reason.is_empty() { meaning.to_owned() } else { choice.reason };
        Graded::from(grade_choice(self.frame.own, score, reason))
            .with("choice", letter)
            .with("scores", self.table.name.as_str())
    }

    fn verdict_rule(&self) -> Option<VerdictRule> {
        let rule = |own, score| Some(grade_choice(own, score, String::new()));
        Some(self.frame.verdict_rule(rule))
    }
}
