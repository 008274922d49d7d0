//! `llm-rubric`: a judge decides whether the output meets a rubric.

use kindlm_types::{Class, Media, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config::parse_config;
use crate::core::judging::{
    BuiltInQuestion, Flaw, Frame, Graded, Grader, GradingPrompt, Inquiry, JUDGE_EVAL_ERROR,
    JUDGE_PARSE_ERROR, NotAsked, One, RubricPrompt, Ruling, Slot, data_rule, fenced,
    output_for_templates, read_ruling, ruling_schema, short, too_low,
};
use crate::{Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, VerdictRule};

const ID: &str = "llm-rubric";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output meets a rubric; a judge model decides.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The judge finds that the rubric is not met, or its score is below the threshold.",
            },
            JUDGE_PARSE_ERROR,
            JUDGE_EVAL_ERROR,
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Graded(build),
};

/// The rubric that the output is judged by.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "LlmRubricConfig")]
struct Config {
    /// The rubric: a text, or any other value, which the judge sees as JSON.
    value: Value,
    /// Replaces the prompt: a text or the messages of a chat, with `{{ output }}` and `{{ rubric }}`.
    #[serde(default)]
    rubric_prompt: Option<RubricPrompt>,
}

const SYSTEM: &str = concat!(include_str!("prompt.md"), data_rule!());
/// The variables that the check provides to a replacement prompt.
const GIVES: [&str; 2] = ["output", "rubric"];
const MAX_TOKENS: u32 = 1024;

#[derive(Debug)]
struct Rubric {
    frame: Frame,
    value: Value,
}

fn build(config: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let config: Config = parse_config(config)?;
    let prompt = GradingPrompt::new(SYSTEM, config.rubric_prompt, Slot::rubric(&GIVES), setup)?;
    let frame = Frame::new(ID, "Rubric", &short(&config.value, 80), own, prompt)
        .by(&crate::core::grade::text(&config.value));
    One::built(Rubric { frame, value: config.value })
}

impl Grader for Rubric {
    type Reading = Ruling;

    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn inquiry(&self, evidence: &Evidence<'_>) -> Result<Inquiry, NotAsked> {
        let output = &evidence.execution.output;
        let images = &evidence.execution.images;
        if images.is_empty() && Media::is_image_label(output) {
            let why = if evidence.execution.spend.cached {
                "stored answers have no image data: run the test with `--responses live` or `record`"
            } else {
                "the image has no data: only the last turn of a test has the data of its images, and only while the \
                 test runs; judge the last turn, or run the test again"
            };
            return Err(NotAsked::Never(Box::new(self.frame.errored(JUDGE_EVAL_ERROR.code, why))));
        }
        // The judge gets the image itself, so the text shows only its label instead of its data.
        let label = images.first().filter(|_| output.starts_with("data:image/")).map(Media::label);
        let output = label.as_ref().unwrap_or(output);
        let rubric = crate::core::grade::text(&self.value);
        let vars = [
            ("output", output_for_templates(output)),
            ("rubric", Value::String(rubric.clone().into_owned())),
        ];
        let inquiry = self.frame.inquiry(evidence, &vars, MAX_TOKENS, || {
            let rubric = format!("Rubric:\n{rubric}");
            BuiltInQuestion::about(&rubric, fenced("output", output), ("ruling", ruling_schema()))
        })?;
        Ok(Inquiry { images: images.clone(), ..inquiry })
    }

    fn parse_reply(&self, _evidence: &Evidence<'_>, reply: &str) -> Result<Ruling, Flaw> {
        let ruling = read_ruling(reply)?;
        if ruling.pass.is_none() && self.frame.own.threshold.is_none() {
            return Err("`pass` is missing, and there is no threshold for the score".into());
        }
        Ok(ruling)
    }

    fn grade(&self, _evidence: &Evidence<'_>, ruling: Ruling) -> Graded {
        ruling.graded(self.frame.own, ("Grading passed", "Grading failed"))
    }

    fn verdict_rule(&self) -> Option<VerdictRule> {
        Some(self.frame.verdict_rule(too_low))
    }
}
