//! The shared parts of the checks of one yes-or-no criterion.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core::config::parse_config;
use crate::core::judging::{
    BuiltInQuestion, Choice, Flaw, Frame, Graded, Grader, GradingPrompt, Inquiry, Kind, NotAsked,
    One, Preset, RubricPrompt, Scores, Slot, Table, TaskSource, at, at_end, choice_schema,
    data_rule, fenced_together, grade_choice, read_choice, short,
};
use crate::{Built, EntryOptions, Evidence, Setup, VerdictRule};

const KINDS: &[Kind] = &[
    Kind { letter: "Y", meaning: "The output meets the criterion." },
    Kind { letter: "N", meaning: "The output does not meet the criterion." },
];

const YES_OR_NO: Preset = Preset { name: "yes-or-no", scores: &[1.0, 0.0] };

/// The criterion that the output must meet.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ClosedQaConfig")]
pub(crate) struct Config {
    /// The criterion, in words.
    #[schemars(length(min = 1))]
    value: String,
    /// The score of each answer: `yes-or-no`, or a score for each of Y and N.
    #[serde(default)]
    scores: Option<Scores>,
    /// Replaces the prompt: a text or the messages of a chat.
    ///
    /// Its variables are `{{ input }}`, `{{ criteria }}` and `{{ completion }}`.
    #[serde(default)]
    rubric_prompt: Option<RubricPrompt>,
    /// The task that the judge sees: `query` (default) or `prompt`.
    ///
    /// `query` is the variable `query`, or else the last message of the user. `prompt` is the whole prompt.
    #[serde(default)]
    input: TaskSource,
}

const SYSTEM: &str = concat!(include_str!("model_graded_closedqa/prompt.md"), data_rule!());
/// The variables that the check provides to a replacement prompt.
const GIVES: [&str; 3] = ["input", "criteria", "completion"];
const MAX_TOKENS: u32 = 1024;

/// A check of one criterion.
#[derive(Debug)]
pub(crate) struct ClosedQa {
    frame: Frame,
    criterion: String,
    table: Table,
    input: TaskSource,
}

impl ClosedQa {
    /// Builds the check from its configuration.
    pub(crate) fn build(
        id: &'static str,
        config: &Value,
        own: EntryOptions,
        setup: &Setup<'_>,
    ) -> Built {
        let config: Config = parse_config(config)?;
        let prompt = GradingPrompt::new(SYSTEM, config.rubric_prompt, Slot::rubric(&GIVES), setup)?;
        let table = Table::new(KINDS, &[YES_OR_NO], config.scores.as_ref());
        let table = table.map_err(|it| at("/scores", it))?;
        let about = short(&Value::String(config.value.clone()), 80);
        let frame = Frame::new(id, "Closed QA", &about, own, prompt).by(&config.value);
        One::built(Self { frame, criterion: config.value, table, input: config.input })
    }
}

impl Grader for ClosedQa {
    type Reading = Choice;

    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn inquiry(&self, evidence: &Evidence<'_>) -> Result<Inquiry, NotAsked> {
        let output = &evidence.execution.output;
        let input = self.input.find_task(evidence.execution);
        let vars = [
            ("input", json!(input)),
            ("criteria", json!(self.criterion)),
            ("completion", json!(output)),
        ];
        self.frame.inquiry(evidence, &vars, MAX_TOKENS, || {
            let criterion = format!("Criterion:\n{}", self.criterion);
            let data = fenced_together(&[("task", &input), ("output", output)]);
            BuiltInQuestion::about(&criterion, data, ("answer", choice_schema("choice", KINDS)))
        })
    }

    fn parse_reply(&self, evidence: &Evidence<'_>, reply: &str) -> Result<Choice, Flaw> {
        let input = self.input.find_task(evidence.execution);
        let judged = [&*input, &*evidence.execution.output];
        read_choice(reply, &["choice"], KINDS, |it| at_end(it, KINDS, &judged))
    }

    fn grade(&self, _evidence: &Evidence<'_>, choice: Choice) -> Graded {
        let (letter, meaning, score) = self.table.get(&choice);
        let said = if choice.reason.is_empty() { meaning } else { &choice.reason };
        let does = if letter == "Y" { "meets" } else { "does not meet" };
        let reason = format!("The submission {does} the criterion:\n{said}");
        Graded::from(grade_choice(self.frame.own, score, reason)).with("choice", letter)
    }

    fn verdict_rule(&self) -> Option<VerdictRule> {
        let rule = |own, score| Some(grade_choice(own, score, String::new()));
        Some(self.frame.verdict_rule(rule))
    }
}
