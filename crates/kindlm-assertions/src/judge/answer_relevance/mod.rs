//! `answer-relevance`: the output answers the question of the user.
//!
//! A judge generates questions that the output answers. The score is their mean similarity to the user's question.

use std::sync::Arc;

use kindlm_types::ask::EmbeddingQuestion;
use kindlm_types::{Answer, AssertionResult, Class, Question, Severity, ecma, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core::check::TOLERANCE;
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::judging::{
    BuiltInQuestion, Flaw, Frame, Graded, GradingPrompt, Inquiry, Instructions, JUDGE_EVAL_ERROR,
    JUDGE_PARSE_ERROR, NotAsked, Respondent, RubricPrompt, Slot, data_rule, fenced, objects, only,
    question_of,
};
use crate::core::nearness::{EMBEDDING_FAILED, Metric};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "answer-relevance";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output answers the question of the test.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The questions that the output answers are too far from the question of the test.",
            },
            JUDGE_PARSE_ERROR,
            JUDGE_EVAL_ERROR,
            Code { code: EVIDENCE_MISSING, summary: "The question is unknown." },
            Code {
                code: EMBEDDING_FAILED,
                summary: "A text could not be embedded, or the embeddings cannot be compared.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Graded(build),
};

/// The embedding model and the prompt of the check.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "AnswerRelevanceConfig")]
struct Config {
    /// The id of the embedding model; the suite's default model if it is not given.
    #[schemars(length(min = 1))]
    embedding_model: Option<String>,
    /// Replaces the prompt: a text or the messages of a chat, with `{{ answer }}`.
    rubric_prompt: Option<RubricPrompt>,
}

const SYSTEM: &str = concat!(include_str!("prompt.md"), data_rule!());
/// The variables that the check provides to a replacement prompt.
const GIVES: [&str; 1] = ["answer"];
const MAX_TOKENS: u32 = 256;
/// The number of generated questions.
const COUNT: u32 = 3;
/// The default threshold of the mean similarity.
const THRESHOLD: f64 = 0.5;

#[derive(Debug)]
struct AnswerRelevance {
    frame: Frame,
    embedding_model: Option<String>,
}

fn build(config: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let config: Config = parse_config(config)?;
    let model = config.embedding_model.as_deref();
    if let Some(problem) = model.and_then(|it| setup.check_model("/embeddingModel", it)) {
        return Err(vec![problem]);
    }
    let prompt = GradingPrompt::new(SYSTEM, config.rubric_prompt, Slot::rubric(&GIVES), setup)?;
    let frame = Frame::new(ID, "Answer relevance", "", own, prompt);
    Ok(Arc::new(AnswerRelevance { frame, embedding_model: config.embedding_model }))
}

/// The generated questions with their similarities to the user's question, and the judge.
type GeneratedQuestions<'a> = (Vec<(String, f64)>, Respondent<'a>);

impl AnswerRelevance {
    /// Builds the request for one of the questions that the output answers.
    ///
    /// The error is the reason why the judge is not asked.
    fn inquiry(&self, evidence: &Evidence<'_>, number: u32) -> Result<Inquiry, NotAsked> {
        let output = &evidence.execution.output;
        let vars = [("answer", json!(output))];
        let inquiry = self.frame.inquiry(evidence, &vars, MAX_TOKENS, || {
            let own = BuiltInQuestion::about(
                "",
                fenced("answer", output),
                ("question", question_schema()),
            );
            let user = format!("{}\n\nGive question {} of {COUNT}.", own.user, number + 1);
            BuiltInQuestion { user, ..own }
        })?;
        // A replacement prompt of the suite has the same text for all questions, so the sample number distinguishes the
        // requests.
        Ok(Inquiry { sample: number, ..inquiry })
    }

    fn embedding(&self, text: &str) -> Question {
        Question::Embedding(EmbeddingQuestion::new(self.embedding_model.clone(), text))
    }

    fn vector<'a>(
        &self,
        evidence: &Evidence<'a>,
        text: &str,
    ) -> Result<&'a [f64], Box<AssertionResult>> {
        match evidence.answers.get(&self.embedding(text)) {
            Some(Ok(Answer::Vector { vector, .. })) => Ok(vector),
            Some(Err(err)) => {
                let message = format!("the embedding failed: {err}");
                let errored = self.frame.errored(EMBEDDING_FAILED, message);
                Err(Box::new(errored.with_cause(err.failure_code())))
            }
            Some(Ok(_)) | None => Err(Box::new(self.frame.unfinished())),
        }
    }

    /// Returns the generated questions with their similarities, and the judge.
    ///
    /// The error is the errored result of the check.
    fn found<'a>(
        &self,
        evidence: &Evidence<'a>,
    ) -> Result<GeneratedQuestions<'a>, Box<AssertionResult>> {
        let unasked = |it: NotAsked| match it {
            NotAsked::Never(result) => result,
            NotAsked::First(_) => Box::new(self.frame.unfinished()),
        };
        let query = question_of(&self.frame, evidence.execution).map_err(unasked)?;
        let (mut found, mut by) = (Vec::new(), Respondent::default());
        for number in 0..COUNT {
            let inquiry = self.inquiry(evidence, number).map_err(unasked)?;
            let verdict = inquiry.verdict(evidence.answers, read_question);
            let (question, respondent) = verdict.map_err(|it| Box::new(self.frame.lost(&it)))?;
            by = respondent.after(by);
            let (wanted, own) = (self.vector(evidence, &query)?, self.vector(evidence, &question)?);
            let similarity = Metric::Cosine.measure(wanted, own);
            let similarity = similarity
                .map_err(|message| Box::new(self.frame.errored(EMBEDDING_FAILED, message)))?;
            found.push((question, similarity));
        }
        Ok((found, by))
    }

    fn held(own: EntryOptions, score: f64) -> Grade {
        let threshold = own.threshold.unwrap_or(THRESHOLD);
        let pass = score >= threshold - TOLERANCE;
        let is = if pass { "greater than" } else { "less than" };
        let (shown, threshold) = (ecma::to_fixed(score, 2), ecma::number(threshold));
        Grade { pass, score, reason: format!("Relevance {shown} is {is} threshold {threshold}") }
    }
}

impl Assertion for AnswerRelevance {
    fn traits(&self) -> Traits {
        let rule = |own, score| Some(Self::held(own, score));
        Traits {
            instructions: {
                let instructions = Instructions::from_prompts([&self.frame.prompt]);
                Some(instructions.beyond("how near embeddings are to each other"))
            },
            verdict_rule: Some(self.frame.verdict_rule(rule)),
            ..Traits::OF_OUTPUT
        }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        let Ok(query) = question_of(&self.frame, evidence.execution) else { return Vec::new() };
        let mut questions = Vec::new();
        let mut made = Vec::new();
        for number in 0..COUNT {
            let Ok(inquiry) = self.inquiry(evidence, number) else { return Vec::new() };
            questions.extend(inquiry.questions(evidence.answers, read_question));
            made.extend(inquiry.verdict(evidence.answers, read_question).ok().map(|it| it.0));
        }
        // The comparison needs all generated questions.
        if made.len() == COUNT as usize {
            questions.push(self.embedding(&query));
            questions.extend(made.iter().map(|it| self.embedding(it)));
        }
        questions
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let (found, by) = match self.found(evidence) {
            Ok(found) => found,
            Err(result) => return vec![*result],
        };
        let mean = found.iter().map(|it| it.1).sum::<f64>() / f64::from(COUNT);
        // Further digits are rounding noise: the mean of 1, 1 and 0.4 must be 0.8.
        let score = (mean * 1e12).round() / 1e12;
        let generated = found
            .iter()
            .map(|(question, similarity)| json!({"question": question, "similarity": similarity}));
        let graded = Graded::from(Self::held(self.frame.own, score))
            .with("generatedQuestions", generated.collect::<Value>())
            .with("averageSimilarity", score);
        vec![by.note(self.frame.result(graded))]
    }
}

/// Reads the question in a reply: in JSON, or the whole reply. Fails if the question is missing, empty or not a text.
fn read_question(reply: &str) -> Result<String, Flaw> {
    let objects = objects(reply)?;
    let question = match only(&objects, "question")? {
        Some(Value::String(question)) => question.trim().to_owned(),
        Some(other) => {
            return Err(format!("`question` is {}, not a text", ecma::stringify(other)).into());
        }
        None if !objects.is_empty() => return Err("`question` is missing".into()),
        // A reply that is another JSON value, such as `null`, contains no question.
        None => match serde_json::from_str(reply) {
            Ok(Value::String(question)) => question.trim().to_owned(),
            Ok(other) => {
                return Err(format!("it is {}, not a question", ecma::stringify(&other)).into());
            }
            Err(_) => reply.trim().to_owned(),
        },
    };
    // A text without letters and digits cannot be compared.
    if question.contains(char::is_alphanumeric) { Ok(question) } else { Err("it is empty".into()) }
}

fn question_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "question": { "type": "string" } },
        "required": ["question"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_types::FailureCode;

    #[test]
    fn empty_questions_are_refused() {
        for (reply, expected) in [
            (r#"{"question": " Where? "}"#, Ok("Where?")),
            ("Where?", Ok("Where?")),
            (r#""Where?""#, Ok("Where?")),
            (r#"{"a": 1} {"question": "Where?"}"#, Ok("Where?")),
            (r#"{"question": null}"#, Err("`question` is null, not a text")),
            (r#"{"question": true}"#, Err("`question` is true, not a text")),
            (
                r#"{"question": "a"} {"question": "b"}"#,
                Err("it gives several different `question`"),
            ),
            (r#"{"q": "a"}"#, Err("`question` is missing")),
            ("null", Err("it is null, not a question")),
            ("true", Err("it is true, not a question")),
            ("[\"a\"]", Err("it is [\"a\"], not a question")),
            (r#"{"question": "?"}"#, Err("it is empty")),
            (" ", Err("it is empty")),
        ] {
            let read = read_question(reply).map_err(|flaw| flaw.to_string());
            assert_eq!(read.as_deref().map_err(String::as_str), expected, "{reply}");
        }
    }

    #[test]
    fn code_of_an_unfinished_check_is_internal() {
        let setup = Setup::new(&kindlm_types::NoFiles, None);
        let check = build(&json!({}), EntryOptions::default(), &setup).unwrap();
        let execution = kindlm_types::Execution {
            vars: json!({"query": "q"}).as_object().cloned().unwrap(),
            ..kindlm_types::Execution::default()
        };
        let answers = kindlm_types::Answers::default();
        let evidence =
            Evidence { execution: &execution, answers: &answers, baseline: None, comparison: None };
        assert_eq!(check.questions(&evidence).len(), 3);
        let results = check.evaluate(&evidence);
        assert_eq!(results[0].verdict.code(), Some(&FailureCode::INTERNAL_ERROR));
    }
}
