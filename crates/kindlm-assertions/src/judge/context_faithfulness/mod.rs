//! `context-faithfulness`: the retrieved context supports the statements of the output.

mod reply;

use kindlm_types::{AssertionResult, Class, Question, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::judging::{
    BuiltInQuestion, ContextSource, Frame, Graded, GradingPrompt, Inquiry, Instructions,
    JUDGE_EVAL_ERROR, JUDGE_PARSE_ERROR, NotAsked, RubricPrompt, Slot, at, context_of, data_rule,
    fenced_together, held, question_of, share_held,
};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};
use reply::{read_statements, read_verdicts};

const ID: &str = "context-faithfulness";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The retrieved context supports the statements of the output.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The context supports too few statements of the output.",
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

/// The source of the context, and the prompts of the check.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "ContextFaithfulnessConfig")]
struct Config {
    /// A script that extracts the context from the output; by default, the variable `context` is used.
    context_transform: Option<String>,
    /// Replaces the two prompts.
    ///
    /// The first prompt asks for the statements, with `{{ question }}` and `{{ answer }}`. The second prompt asks for a
    /// verdict on each statement, with `{{ context }}` and `{{ statements }}`.
    rubric_prompt: Option<[RubricPrompt; 2]>,
}

const STATEMENTS: &str = concat!(include_str!("statements.md"), data_rule!());
const VERDICTS: &str = concat!(include_str!("verdicts.md"), data_rule!());
/// The variables that the check provides to a replacement of the first prompt.
const STATEMENTS_GIVE: [&str; 2] = ["question", "answer"];
/// The variables that the check provides to a replacement of the second prompt.
const VERDICTS_GIVE: [&str; 2] = ["context", "statements"];
const MAX_TOKENS: u32 = 4096;

#[derive(Debug)]
struct Faithfulness {
    /// The common parts of the check. `frame.prompt` asks for the verdicts.
    frame: Frame,
    statements: GradingPrompt,
    context: ContextSource,
}

fn build(config: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let config: Config = parse_config(config)?;
    let (first, second) = match config.rubric_prompt {
        Some([first, second]) => (Some(first), Some(second)),
        None => (None, None),
    };
    let statements = GradingPrompt::new(
        STATEMENTS,
        first,
        Slot::new("/rubricPrompt/0", &STATEMENTS_GIVE),
        setup,
    )?;
    let prompt =
        GradingPrompt::new(VERDICTS, second, Slot::new("/rubricPrompt/1", &VERDICTS_GIVE), setup)?;
    let context = ContextSource::new(config.context_transform.as_deref(), setup);
    let context = context.map_err(|it| at("/contextTransform", it))?;
    let frame = Frame::new(ID, "Context faithfulness", "", own, prompt);
    Ok(std::sync::Arc::new(Faithfulness { frame, statements, context }))
}

impl Faithfulness {
    fn ask_statements(&self, evidence: &Evidence<'_>) -> Result<Inquiry, NotAsked> {
        let query = question_of(&self.frame, evidence.execution)?;
        // Without a context, the judge is not asked at all.
        context_of(&self.frame, &self.context, evidence)?;
        let output = &evidence.execution.output;
        let vars = [("question", json!(query)), ("answer", json!(output))];
        self.frame.inquiry_by(&self.statements, evidence, &vars, MAX_TOKENS, || {
            let data = fenced_together(&[("question", &query), ("answer", output)]);
            BuiltInQuestion::about("", data, ("statements", statements_schema()))
        })
    }

    fn ask_verdicts(
        &self,
        evidence: &Evidence<'_>,
        statements: &[String],
    ) -> Result<Inquiry, NotAsked> {
        let context = context_of(&self.frame, &self.context, evidence)?;
        let vars = [("context", context.value), ("statements", json!(statements))];
        self.frame.inquiry(evidence, &vars, MAX_TOKENS, || {
            let numbered = statements.iter().enumerate();
            let numbered = numbered.map(|(index, it)| format!("{}. {it}", index + 1));
            let list = numbered.collect::<Vec<_>>().join("\n");
            let data = fenced_together(&[("context", &context.text), ("statements", &list)]);
            BuiltInQuestion::about("", data, ("verdicts", verdicts_schema()))
        })
    }

    fn found(&self, evidence: &Evidence<'_>) -> Result<AssertionResult, NotAsked> {
        let lost = |obstacle: &_| NotAsked::Never(Box::new(self.frame.lost(obstacle)));
        let first = self.ask_statements(evidence)?;
        let (statements, by) =
            first.verdict(evidence.answers, read_statements).map_err(|it| lost(&it))?;
        if statements.is_empty() {
            let reason = "the output makes no statement that could be checked";
            return Ok(AssertionResult::skipped(ID, &self.frame.label, reason));
        }
        let second = self.ask_verdicts(evidence, &statements)?;
        let read = |reply: &str| read_verdicts(reply, statements.len());
        let (verdicts, respondent) =
            second.verdict(evidence.answers, read).map_err(|it| lost(&it))?;
        let supported = verdicts.iter().filter(|it| **it).count();
        let pairs = statements.iter().zip(&verdicts);
        let listed = pairs.map(|(text, held)| json!({"statement": text, "supported": held}));
        let threshold = self.frame.own.threshold;
        let graded = Graded::from(share_held("Faithfulness", supported, verdicts.len(), threshold))
            .with("statements", listed.collect::<Value>());
        Ok(respondent.after(by).note(self.frame.result(graded)))
    }
}

impl Assertion for Faithfulness {
    fn traits(&self) -> Traits {
        let rule = |own: EntryOptions, score| Some(held("Faithfulness", score, own.threshold));
        Traits {
            instructions: Some(Instructions::from_prompts([&self.statements, &self.frame.prompt])),
            verdict_rule: Some(self.frame.verdict_rule(rule)),
            ..Traits::OF_OUTPUT
        }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        let first = match self.ask_statements(evidence) {
            Ok(first) => first,
            Err(NotAsked::First(question)) => return vec![*question],
            Err(NotAsked::Never(_)) => return Vec::new(),
        };
        let mut questions = first.questions(evidence.answers, read_statements);
        if let Ok((statements, _)) = first.verdict(evidence.answers, read_statements)
            && !statements.is_empty()
            && let Ok(second) = self.ask_verdicts(evidence, &statements)
        {
            let read = |reply: &str| read_verdicts(reply, statements.len());
            questions.extend(second.questions(evidence.answers, read));
        }
        questions
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        vec![match self.found(evidence) {
            Ok(result) => result,
            Err(NotAsked::Never(result)) => *result,
            Err(NotAsked::First(_)) => self.frame.unfinished(),
        }]
    }
}

fn statements_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "statements": { "type": "array", "items": { "type": "string" } } },
        "required": ["statements"],
        "additionalProperties": false,
    })
}

fn verdicts_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "verdicts": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "reason": { "type": "string" },
                        "supported": { "type": "boolean" },
                    },
                    "required": ["reason", "supported"],
                    "additionalProperties": false,
                },
            },
        },
        "required": ["verdicts"],
        "additionalProperties": false,
    })
}
