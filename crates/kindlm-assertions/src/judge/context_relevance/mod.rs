//! `context-relevance`: the share of the retrieved context that the question needs.

mod units;

use kindlm_types::{Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::judging::{
    BuiltInQuestion, ContextSource, Flaw, Frame, Graded, Grader, GradingPrompt, Inquiry,
    JUDGE_EVAL_ERROR, JUDGE_PARSE_ERROR, NotAsked, One, RubricPrompt, Slot, at, context_of,
    data_rule, fenced_together, held, objects, only, question_of, share_held, unmarked,
};
use crate::{Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, VerdictRule};

const ID: &str = "context-relevance";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The question needs most of the retrieved context.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The share of the context that the question needs is below the threshold.",
            },
            JUDGE_PARSE_ERROR,
            JUDGE_EVAL_ERROR,
            Code { code: EVIDENCE_MISSING, summary: "The context or the question is missing." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Graded(build),
};

/// The source of the context, and the prompt of the check.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "ContextRelevanceConfig")]
struct Config {
    /// A script that extracts the context from the output; by default, the variable `context` is used.
    context_transform: Option<String>,
    /// Replaces the prompt: a text or the messages of a chat, with `{{ context }}` and `{{ query }}`.
    rubric_prompt: Option<RubricPrompt>,
    /// The units of the context: `sentences`, or `lines` as in promptfoo. A context of a single line is always split
    /// into sentences.
    units: Units,
}

/// The units into which the context is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ContextUnits")]
enum Units {
    /// The sentences of each line.
    #[default]
    Sentences,
    /// The lines, or the items of a list.
    Lines,
}

const SYSTEM: &str = concat!(include_str!("prompt.md"), data_rule!());
/// The variables that the check provides to a replacement prompt.
const GIVES: [&str; 2] = ["context", "query"];
const MAX_TOKENS: u32 = 4096;
/// The reply of a judge if the context does not help.
const INSUFFICIENT: &str = "insufficient information";

#[derive(Debug)]
struct ContextRelevance {
    frame: Frame,
    context: ContextSource,
    units: Units,
}

/// The relevant part of a context.
#[derive(Debug)]
struct Needed {
    /// The quotes that the judge chose.
    picked: Vec<String>,
    /// The units of the context: its sentences or its lines.
    units: Vec<String>,
    /// The number of relevant units.
    relevant: usize,
}

fn build(config: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let config: Config = parse_config(config)?;
    let prompt = GradingPrompt::new(SYSTEM, config.rubric_prompt, Slot::rubric(&GIVES), setup)?;
    let context = ContextSource::new(config.context_transform.as_deref(), setup);
    let context = context.map_err(|it| at("/contextTransform", it))?;
    let frame = Frame::new(ID, "Context relevance", "", own, prompt);
    One::built(ContextRelevance { frame, context, units: config.units })
}

impl Grader for ContextRelevance {
    type Reading = Needed;

    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn inquiry(&self, evidence: &Evidence<'_>) -> Result<Inquiry, NotAsked> {
        let query = question_of(&self.frame, evidence.execution)?;
        let context = context_of(&self.frame, &self.context, evidence)?;
        let vars = [("context", context.value), ("query", json!(query))];
        self.frame.inquiry(evidence, &vars, MAX_TOKENS, || {
            let data = fenced_together(&[("context", &context.text), ("question", &query)]);
            BuiltInQuestion::about("", data, ("sentences", reply_schema()))
        })
    }

    fn parse_reply(&self, evidence: &Evidence<'_>, reply: &str) -> Result<Needed, Flaw> {
        let context = context_of(&self.frame, &self.context, evidence);
        let context = context.map_err(|_| "the context is not known".to_owned())?;
        let units = match (self.units, &context.value) {
            (Units::Sentences, _) => units::split(&context.text),
            (Units::Lines, Value::Array(items)) => units::items(items),
            (Units::Lines, _) => units::lines(&context.text),
        };
        let picked = picked(reply)?;
        let relevant = units::quoted(&units, &picked);
        if relevant == 0 && !picked.is_empty() {
            return Err("what it quotes is not in the context".into());
        }
        Ok(Needed { picked, units, relevant })
    }

    fn grade(&self, _evidence: &Evidence<'_>, needed: Needed) -> Graded {
        let threshold = self.frame.own.threshold;
        let all = needed.units.len();
        Graded::from(share_held("Context relevance", needed.relevant, all, threshold))
            .with("insufficientInformation", needed.picked.is_empty())
            .with("extractedSentences", needed.picked)
            .with("contextUnits", needed.units)
            .with("totalContextUnits", all)
            .with("relevantSentenceCount", needed.relevant)
    }

    fn verdict_rule(&self) -> Option<VerdictRule> {
        let rule = |own: EntryOptions, score| Some(held("Context relevance", score, own.threshold));
        Some(self.frame.verdict_rule(rule))
    }
}

/// Reads the quotes that a judge chose from the context: in JSON, or one per line.
///
/// Returns no quote if the judge replied [`INSUFFICIENT`]. Fails for an empty reply, for invalid JSON fields, and for
/// an unclear use of [`INSUFFICIENT`].
fn picked(reply: &str) -> Result<Vec<String>, Flaw> {
    let objects = objects(reply)?;
    if let Some(sentences) = only(&objects, "sentences")? {
        let items = sentences.as_array().ok_or("`sentences` is not a list")?;
        let text = |it: &Value| it.as_str().map(str::to_owned).ok_or("a sentence is not a text");
        return Ok(items.iter().map(text).collect::<Result<_, _>>()?);
    }
    if reply.trim().is_empty() {
        return Err("it is empty".into());
    }
    let lines = reply.lines().map(|it| unmarked(it).to_owned());
    let lines: Vec<String> = lines.filter(|it| !it.is_empty()).collect();
    // If the first line is the phrase `INSUFFICIENT` alone, all further lines are reasons, not quotes.
    if lines.first().is_some_and(|it| is_insufficient(it)) {
        return Ok(Vec::new());
    }
    let says_so = |it: &String| it.to_lowercase().contains(INSUFFICIENT);
    match lines.iter().filter(|it| says_so(it)).count() {
        0 => Ok(lines),
        1 if lines.len() == 1 && !lines.iter().any(|it| is_negated(it)) => Ok(Vec::new()),
        _ => Err("it is not clear whether it says that the information is insufficient".into()),
    }
}

/// Returns true if a line is the phrase [`INSUFFICIENT`], apart from case and punctuation.
fn is_insufficient(line: &str) -> bool {
    line.trim_matches(|it: char| !it.is_alphanumeric()).eq_ignore_ascii_case(INSUFFICIENT)
}

fn is_negated(line: &str) -> bool {
    let lower = line.to_lowercase();
    let before = lower.split(INSUFFICIENT).next().unwrap_or_default();
    before.split(|it: char| !it.is_alphanumeric()).any(|it| matches!(it, "no" | "not" | "never"))
}

fn reply_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "sentences": { "type": "array", "items": { "type": "string" } } },
        "required": ["sentences"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::picked;

    #[test]
    fn insufficient_information_must_stand_alone() {
        let unclear = "it is not clear whether it says that the information is insufficient";
        for (reply, expected) in [
            ("Insufficient Information.", Ok(vec![])),
            ("**Insufficient Information**\nThe context is about Rome.", Ok(vec![])),
            ("a.\nInsufficient Information", Err(unclear)),
            ("a.\n- b.", Ok(vec!["a.", "b."])),
            ("There is not insufficient information.", Err(unclear)),
            ("a.\nThere is no insufficient information.", Err(unclear)),
            (
                r#"{"sentences": []} {"sentences": ["a"]}"#,
                Err("it gives several different `sentences`"),
            ),
        ] {
            let expected = expected.map(|it| it.into_iter().map(str::to_owned).collect());
            let read = picked(reply).map_err(|flaw| flaw.to_string());
            assert_eq!(read, expected.map_err(str::to_owned), "{reply}");
        }
    }
}
