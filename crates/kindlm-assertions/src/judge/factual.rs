//! The shared parts of the checks of facts: the five relations of an answer to a reference.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core::config::parse_config;
use crate::core::judging::{
    BuiltInQuestion, Choice, Flaw, Frame, Graded, Grader, GradingPrompt, Inquiry, Kind, NotAsked,
    One, Preset, RubricPrompt, Scores, Slot, Table, TaskSource, at, choice_schema, data_rule,
    fenced_together, grade_choice, in_brackets, read_choice, short,
};
use crate::{Built, EntryOptions, Evidence, Setup, VerdictRule};

/// The relations of an answer to a reference.
#[rustfmt::skip]
const KINDS: &[Kind] = &[
    Kind { letter: "A", meaning: "The answer says a part of what the reference says, and nothing against it." },
    Kind { letter: "B", meaning: "The answer says all that the reference says and more, and nothing against it." },
    Kind { letter: "C", meaning: "The answer says just what the reference says." },
    Kind { letter: "D", meaning: "The answer contradicts the reference." },
    Kind { letter: "E", meaning: "The answer differs from the reference in what does not matter for the facts." },
];

const PROMPTFOO: Preset = Preset { name: "promptfoo", scores: &[1.0, 1.0, 1.0, 0.0, 1.0] };
const AUTOEVALS: Preset = Preset { name: "autoevals", scores: &[0.4, 0.6, 1.0, 0.0, 1.0] };

/// The default table of scores.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flavour {
    /// The score of every relation is 1, except for a contradiction.
    Promptfoo,
    /// A subset and a superset of the reference score less than an equal answer.
    Autoevals,
}

/// The reference to compare the output with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "FactualityConfig")]
pub(crate) struct Config {
    /// The reference: an answer that is known to be right.
    #[schemars(length(min = 1))]
    value: String,
    /// The score of each relation: `promptfoo`, `autoevals`, or a score for each of A to E.
    #[serde(default)]
    scores: Option<Scores>,
    /// Replaces the prompt: a text or the messages of a chat.
    ///
    /// Its variables are `{{ input }}`, `{{ ideal }}` and `{{ completion }}`.
    #[serde(default)]
    rubric_prompt: Option<RubricPrompt>,
    /// The task that the judge sees: `query` (default) or `prompt`.
    ///
    /// `query` is the variable `query`, or else the last message of the user. `prompt` is the whole prompt.
    #[serde(default)]
    input: TaskSource,
}

const SYSTEM: &str = concat!(include_str!("factuality/prompt.md"), data_rule!());
/// The variables that the check provides to a replacement prompt.
const GIVES: [&str; 3] = ["input", "ideal", "completion"];
const MAX_TOKENS: u32 = 1024;

/// A check of the output's facts.
#[derive(Debug)]
pub(crate) struct Factuality {
    frame: Frame,
    reference: String,
    table: Table,
    input: TaskSource,
}

impl Factuality {
    /// Builds the check from its configuration.
    pub(crate) fn build(
        id: &'static str,
        flavour: Flavour,
        config: &Value,
        own: EntryOptions,
        setup: &Setup<'_>,
    ) -> Built {
        let config: Config = parse_config(config)?;
        let prompt = GradingPrompt::new(SYSTEM, config.rubric_prompt, Slot::rubric(&GIVES), setup)?;
        let presets: &'static [Preset] = match flavour {
            Flavour::Promptfoo => &[PROMPTFOO, AUTOEVALS],
            Flavour::Autoevals => &[AUTOEVALS, PROMPTFOO],
        };
        let table = Table::new(KINDS, presets, config.scores.as_ref());
        let table = table.map_err(|it| at("/scores", it))?;
        let about = short(&Value::String(config.value.clone()), 80);
        let frame = Frame::new(id, "Factuality", &about, own, prompt);
        One::built(Self { frame, reference: config.value, table, input: config.input })
    }
}

impl Grader for Factuality {
    type Reading = Choice;

    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn inquiry(&self, evidence: &Evidence<'_>) -> Result<Inquiry, NotAsked> {
        let output = &evidence.execution.output;
        let input = self.input.find_task(evidence.execution);
        let vars = [
            ("input", json!(input)),
            ("ideal", json!(self.reference)),
            ("completion", json!(output)),
        ];
        self.frame.inquiry(evidence, &vars, MAX_TOKENS, || {
            let data = fenced_together(&[
                ("question", &input),
                ("reference answer", &self.reference),
                ("submitted answer", output),
            ]);
            BuiltInQuestion::about("", data, ("finding", choice_schema("category", KINDS)))
        })
    }

    fn parse_reply(&self, evidence: &Evidence<'_>, reply: &str) -> Result<Choice, Flaw> {
        let input = self.input.find_task(evidence.execution);
        let judged = [&*input, &*self.reference, &*evidence.execution.output];
        read_choice(reply, &["category", "choice"], KINDS, |it| in_brackets(it, KINDS, &judged))
    }

    fn grade(&self, _evidence: &Evidence<'_>, choice: Choice) -> Graded {
        let (letter, meaning, score) = self.table.get(&choice);
        let reason = if choice.reason.is_empty() {
            format!("Category {letter}: {meaning}")
        } else {
            choice.reason
        };
        Graded::from(grade_choice(self.frame.own, score, reason))
            .with("category", letter)
            .with("scores", self.table.name.as_str())
    }

    fn verdict_rule(&self) -> Option<VerdictRule> {
        let rule = |own, score| Some(grade_choice(own, score, String::new()));
        Some(self.frame.verdict_rule(rule))
    }
}
