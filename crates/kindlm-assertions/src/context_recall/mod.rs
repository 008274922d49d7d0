//! `context-recall`: how much of a known answer the retrieved context supports.

use kindlm_types::Class;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::config::read;
use crate::grade::Grade;
use crate::judging::{
    ContextSource, Frame, Graded, Grader, GradingPrompt, Inquiry, JUDGE_EVAL_ERROR,
    JUDGE_PARSE_ERROR, One, OwnWords, RubricPrompt, Slot, Unasked, at, context_of, data_rule,
    fenced_together, objects, share_held, unmarked,
};
use crate::{Build, Built, Code, Evidence, Meta, Own, Registration, Setup};

const ID: &str = "context-recall";

/// Has a judge say which statements of a known answer the context supports.
pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The retrieved context supports the statements of an answer that is known to be right.",
        since: "0.1.0",
        class: Class::Probabilistic,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "Too few statements of the answer are supported by the context.",
            },
            JUDGE_PARSE_ERROR,
            JUDGE_EVAL_ERROR,
            Code { code: EVIDENCE_MISSING, summary: "There is no context." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: Config::json_schema,
    build: Build::Graded(build),
};

/// The answer that the context must support.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ContextRecallConfig")]
struct Config {
    /// An answer that is known to be right.
    #[schemars(length(min = 1))]
    value: String,
    /// A script that takes the context out of the output; the variable `context` if it is not given.
    #[serde(default)]
    context_transform: Option<String>,
    /// Replaces the prompt: a text or the messages of a chat, with `{{ context }}` and `{{ groundTruth }}`.
    #[serde(default)]
    rubric_prompt: Option<RubricPrompt>,
}

const SYSTEM: &str = concat!(include_str!("prompt.md"), data_rule!());
/// What the check tells a prompt that replaces its own.
const GIVES: [&str; 2] = ["context", "groundTruth"];
const MAX_TOKENS: u32 = 2048;

#[derive(Debug)]
struct ContextRecall {
    frame: Frame,
    truth: String,
    context: ContextSource,
}

/// A statement, and whether the context supports it.
#[derive(Debug, PartialEq)]
struct Statement {
    text: String,
    attributed: bool,
}

fn build(config: &Value, own: Own, setup: &Setup<'_>) -> Built {
    let config: Config = read(config)?;
    let prompt = GradingPrompt::new(SYSTEM, config.rubric_prompt, Slot::rubric(&GIVES), setup)?;
    let context = ContextSource::new(config.context_transform.as_deref(), setup);
    let context = context.map_err(|it| at("/contextTransform", it))?;
    let frame = Frame::new(ID, "Context recall", "", own, prompt);
    One::built(ContextRecall { frame, truth: config.value, context })
}

impl Grader for ContextRecall {
    type Reading = Vec<Statement>;

    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn inquiry(&self, evidence: &Evidence<'_>) -> Result<Inquiry, Unasked> {
        let context = context_of(&self.frame, &self.context, evidence)?;
        let vars = [("context", context.value), ("groundTruth", json!(self.truth))];
        self.frame.inquiry(evidence, &vars, MAX_TOKENS, || OwnWords {
            user: fenced_together(&[("context", &context.text), ("answer", &self.truth)]),
            format: Some(("attribution", reply_schema())),
        })
    }

    fn read(&self, _evidence: &Evidence<'_>, reply: &str) -> Result<Vec<Statement>, String> {
        read_statements(reply)
    }

    fn grade(&self, _evidence: &Evidence<'_>, statements: Vec<Statement>) -> Graded {
        let supported = statements.iter().filter(|it| it.attributed).count();
        let listed =
            statements.iter().map(|it| json!({"sentence": it.text, "attributed": it.attributed}));
        let grade = share_held("Recall", supported, statements.len(), self.frame.own.threshold);
        Graded::from(grade)
            .with("sentenceAttributions", listed.collect::<Value>())
            .with("totalSentences", statements.len())
            .with("attributedSentences", supported)
    }

    fn decide(&self, score: f64) -> Option<Grade> {
        Some(crate::judging::held("Recall", score, self.frame.own.threshold))
    }
}

/// The statements in a reply: in JSON, or lines that end with `[Attributed]` or `[Not Attributed]`.
fn read_statements(reply: &str) -> Result<Vec<Statement>, String> {
    let objects = objects(reply)?;
    let statements: Vec<Statement> = match objects.iter().find_map(|it| it.get("statements")) {
        Some(Value::Array(items)) => items.iter().map(statement).collect::<Result<_, _>>()?,
        Some(_) => return Err("`statements` is not a list".to_owned()),
        None => reply.lines().filter_map(tagged).collect(),
    };
    if statements.is_empty() {
        Err("it classifies no statement".to_owned())
    } else {
        Ok(statements)
    }
}

fn statement(item: &Value) -> Result<Statement, String> {
    let text = item.get("statement").and_then(Value::as_str).unwrap_or_default().to_owned();
    match item.get("attributed") {
        Some(Value::Bool(attributed)) => Ok(Statement { text, attributed: *attributed }),
        _ => Err("`attributed` of a statement is neither true nor false".to_owned()),
    }
}

fn tagged(line: &str) -> Option<Statement> {
    let lower = line.to_ascii_lowercase();
    for (tag, attributed) in [("[not attributed]", false), ("[attributed]", true)] {
        if let Some(end) = lower.find(tag) {
            let text = unmarked(&line[..end]).to_owned();
            return Some(Statement { text, attributed });
        }
    }
    None
}

fn reply_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "statements": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "statement": { "type": "string" },
                        "attributed": { "type": "boolean" },
                    },
                    "required": ["statement", "attributed"],
                    "additionalProperties": false,
                },
            },
        },
        "required": ["statements"],
        "additionalProperties": false,
    })
}
