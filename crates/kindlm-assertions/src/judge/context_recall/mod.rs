//! `context-recall`: the share of a known answer that the retrieved context supports.

use kindlm_types::{Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::judging::{
    BuiltInQuestion, ContextSource, Flaw, Frame, Graded, Grader, GradingPrompt, Inquiry,
    JUDGE_EVAL_ERROR, JUDGE_PARSE_ERROR, NotAsked, One, RubricPrompt, Slot, at, context_of,
    data_rule, fenced_together, held, objects, only, share_held, unmarked,
};
use crate::{Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, VerdictRule};

const ID: &str = "context-recall";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The retrieved context supports the statements of a known right answer.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The context supports too few statements of the answer.",
            },
            JUDGE_PARSE_ERROR,
            JUDGE_EVAL_ERROR,
            Code { code: EVIDENCE_MISSING, summary: "There is no context." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
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
    /// A script that extracts the context from the output; by default, the variable `context` is used.
    #[serde(default)]
    context_transform: Option<String>,
    /// Replaces the prompt: a text or the messages of a chat, with `{{ context }}` and `{{ groundTruth }}`.
    #[serde(default)]
    rubric_prompt: Option<RubricPrompt>,
}

const SYSTEM: &str = concat!(include_str!("prompt.md"), data_rule!());
/// The variables that the check provides to a replacement prompt.
const GIVES: [&str; 2] = ["context", "groundTruth"];
const MAX_TOKENS: u32 = 2048;

#[derive(Debug)]
struct ContextRecall {
    frame: Frame,
    truth: String,
    context: ContextSource,
}

/// A statement with its verdict; `attributed` is true if the context supports it.
#[derive(Debug, PartialEq)]
struct Statement {
    text: String,
    attributed: bool,
}

fn build(config: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let config: Config = parse_config(config)?;
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

    fn inquiry(&self, evidence: &Evidence<'_>) -> Result<Inquiry, NotAsked> {
        let context = context_of(&self.frame, &self.context, evidence)?;
        let vars = [("context", context.value), ("groundTruth", json!(self.truth))];
        self.frame.inquiry(evidence, &vars, MAX_TOKENS, || {
            let data = fenced_together(&[("context", &context.text), ("answer", &self.truth)]);
            BuiltInQuestion::about("", data, ("attribution", reply_schema()))
        })
    }

    fn parse_reply(&self, _evidence: &Evidence<'_>, reply: &str) -> Result<Vec<Statement>, Flaw> {
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

    fn verdict_rule(&self) -> Option<VerdictRule> {
        let rule = |own: EntryOptions, score| Some(held("Recall", score, own.threshold));
        Some(self.frame.verdict_rule(rule))
    }
}

/// Reads the statements in a reply: JSON, or lines with the label `[Attributed]` or `[Not Attributed]`.
///
/// Fails if the reply has no statement, or if a statement has no valid verdict.
fn read_statements(reply: &str) -> Result<Vec<Statement>, Flaw> {
    let objects = objects(reply)?;
    let statements: Vec<Statement> = match only(&objects, "statements")? {
        Some(Value::Array(items)) => items.iter().map(statement).collect::<Result<_, _>>()?,
        Some(_) => return Err("`statements` is not a list".into()),
        None => in_lines(reply)?,
    };
    if statements.is_empty() { Err("it classifies no statement".into()) } else { Ok(statements) }
}

fn statement(item: &Value) -> Result<Statement, Flaw> {
    let text = item.get("statement").and_then(Value::as_str).unwrap_or_default().to_owned();
    match item.get("attributed") {
        Some(Value::Bool(attributed)) => Ok(Statement { text, attributed: *attributed }),
        _ => Err("`attributed` of a statement is neither true nor false".into()),
    }
}

/// Reads the statements in lines with labels. Returns no statement if no line has a label.
///
/// Each list item needs a label on its line, or on the lines up to the next item. An item without a label is an error.
fn in_lines(reply: &str) -> Result<Vec<Statement>, Flaw> {
    let mut found = Vec::new();
    let mut items: Vec<bool> = Vec::new();
    for line in reply.lines() {
        if unmarked(line) != line.trim() {
            items.push(false);
        }
        let statement = tagged(line)?;
        if let Some(item) = items.last_mut() {
            *item |= statement.is_some();
        }
        found.extend(statement);
    }
    let labelled = items.iter().filter(|it| **it).count();
    if !found.is_empty() && labelled < items.len() {
        let message = format!("it lists {} statements, and classifies {labelled}", items.len());
        return Err(message.into());
    }
    Ok(found)
}

/// Returns the statement of a line with a label; `None` if the line has no label.
///
/// If a line has several labels, the last one is used; different labels are an error. A variant such as
/// `[Partly Attributed]` is an error too, and so is a label after a negation, as in `not [Attributed]`. Text in other
/// brackets belongs to the statement.
fn tagged(line: &str) -> Result<Option<Statement>, Flaw> {
    let lower = line.to_ascii_lowercase();
    let mut found: Option<(usize, bool)> = None;
    for (start, _) in lower.match_indices('[') {
        let Some((label, _)) = lower[start + 1..].split_once(']') else { continue };
        let attributed = match label.trim() {
            "attributed" => true,
            "not attributed" => false,
            other if other.ends_with("attributed") => {
                return Err(format!(
                    "`[{other}]` is neither `[Attributed]` nor `[Not Attributed]`"
                )
                .into());
            }
            _ => continue,
        };
        if found.is_some_and(|(_, other)| other != attributed) {
            return Err(Flaw::Contradiction("it gives a statement both labels".to_owned()));
        }
        found = Some((start, attributed));
    }
    let Some((end, attributed)) = found else { return Ok(None) };
    let before = lower[..end].trim_end();
    let word = before.rsplit(|it: char| it.is_whitespace()).next().unwrap_or_default();
    if matches!(word, "not" | "never" | "cannot") || word.ends_with("n't") {
        let label = if attributed { "attributed" } else { "not attributed" };
        return Err(format!("it says that a statement is `{word} [{label}]`").into());
    }
    let text = unmarked(&line[..end]).trim_end().to_owned();
    Ok(Some(Statement { text, attributed }))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_has_one_label() {
        for (reply, expected) in [
            ("1. a. [Attributed]\n2. b. [Not Attributed]", Ok(vec![("a.", true), ("b.", false)])),
            (
                "Here:\na [attributed]\n- b: [NOT ATTRIBUTED] as c says",
                Ok(vec![("a", true), ("b:", false)]),
            ),
            ("1. a\n   [Attributed]", Ok(vec![("", true)])),
            ("a, [see 1]. [Attributed]", Ok(vec![("a, [see 1].", true)])),
            (
                "1. It reads `[data-attribute]`. [Attributed]\n2. The answer is no [Not Attributed]",
                Ok(vec![("It reads `[data-attribute]`.", true), ("The answer is no", false)]),
            ),
            ("1. a. Not [Attributed]", Err("it says that a statement is `not [attributed]`")),
            (
                "1. a. It isn't [Attributed]",
                Err("it says that a statement is `isn't [attributed]`"),
            ),
            (
                "1. a. [Partially Attributed]",
                Err("`[partially attributed]` is neither `[Attributed]` nor `[Not Attributed]`"),
            ),
            (
                "1. a. [Unattributed]",
                Err("`[unattributed]` is neither `[Attributed]` nor `[Not Attributed]`"),
            ),
            ("1. a. [Attributed] or [Not Attributed]", Err("it gives a statement both labels")),
            ("1. a. [Attributed]\n2. b.", Err("it lists 2 statements, and classifies 1")),
            (
                "1. a.\n2. b. [Attributed]\n[Attributed]",
                Err("it lists 2 statements, and classifies 1"),
            ),
            (
                "a [Attributed]\n1. b.\n2. c. [Attributed]",
                Err("it lists 2 statements, and classifies 1"),
            ),
            (
                r#"{"statements": []} {"statements": [{"statement": "a", "attributed": true}]}"#,
                Err("it gives several different `statements`"),
            ),
            ("no labels", Err("it classifies no statement")),
        ] {
            let read = read_statements(reply)
                .map(|it| it.into_iter().map(|it| (it.text, it.attributed)).collect::<Vec<_>>());
            let expected = expected.map(|it: Vec<(&str, bool)>| {
                it.into_iter().map(|(text, held)| (text.to_owned(), held)).collect()
            });
            let read = read.map_err(|flaw| flaw.to_string());
            assert_eq!(read, expected.map_err(str::to_owned), "{reply}");
        }
    }
}
