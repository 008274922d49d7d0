//! Questions that an assertion cannot answer by itself.
//!
//! Assertions are pure: one that needs a model or an embedding says so with a [`Question`] and finds the
//! answer in [`Answers`] when it evaluates. Equal questions are asked once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::script::{ScriptAnswer, ScriptError, ScriptQuestion};
use crate::{FailureCode, FinishReason, ProviderError, ResponseFormat, Usage};

/// The start of a line before data in a question to a judge. The line ends with the mark of the fence.
pub const FENCE: &str = "BEGIN ";

/// The key of a judge's reply under which it gives the mark of the fence, to show that the reply is its own.
pub const MARK: &str = "mark";

/// The length of a mark, in hexadecimal digits: 96 bits.
pub const MARK_LENGTH: usize = 24;

/// The mark of the first fence in a question to a judge, if it has one.
pub fn mark_in(question: &str) -> Option<&str> {
    let marks = question.lines().filter_map(|it| it.strip_prefix(FENCE)?.rsplit(' ').next());
    marks
        .into_iter()
        .find(|it| it.len() == MARK_LENGTH && it.bytes().all(|it| it.is_ascii_hexdigit()))
}

/// The reply of a judge that follows its instructions: a JSON object carries the mark of the question, unless it carries
/// one already. For stand-ins of judges, whose replies are written before the question is known.
pub fn with_mark(reply: &str, question: &str) -> String {
    match (serde_json::from_str::<Value>(reply), mark_in(question)) {
        (Ok(Value::Object(mut object)), Some(mark)) if !object.contains_key(MARK) => {
            object.insert(MARK.to_owned(), mark.into());
            Value::Object(object).to_string()
        }
        _ => reply.to_owned(),
    }
}

/// Something that must be found out before a check can be made.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// Ask a judge model.
    Judge(JudgeQuestion),
    /// Turn a text into a vector.
    Embedding(EmbeddingQuestion),
    /// Run a user's script.
    Script(ScriptQuestion),
}

/// A question to a judge model.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgeQuestion {
    /// The judge's model id in the suite; `None` for the suite's default judge.
    pub model: Option<String>,
    /// The judge's instructions. The same for many questions, so that prompt caches hit.
    pub system: String,
    /// The question itself.
    pub user: String,
    /// The form that the answer must have, where the provider can enforce one.
    pub response_format: Option<ResponseFormat>,
    /// The most tokens that the answer may have.
    pub max_tokens: u32,
    /// Which of several independent answers to the same question, from 0.
    pub sample: u32,
    /// The temperature of the answer, from 0 to 2; 0 if absent.
    pub temperature: Option<f64>,
    /// True if the reply to the same question before was cut off at its limit: the limit is doubled.
    pub after_cut: bool,
    /// The number of bytes at the start of `user` that are the same in questions about other outputs.
    pub shared: usize,
}

/// A text to turn into a vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingQuestion {
    /// The model's id in the suite; `None` for the suite's default.
    pub model: Option<String>,
    /// The text.
    pub text: String,
}

impl Question {
    /// A text that is equal for equal questions and different for different ones.
    pub fn key(&self) -> String {
        match self {
            Self::Judge(q) => serde_json::json!([
                "judge",
                q.model,
                q.system,
                q.user,
                q.response_format.as_ref().map_or(&Value::Null, |format| &format.schema),
                q.max_tokens,
                q.sample,
                q.temperature,
                q.after_cut,
            ])
            .to_string(),
            Self::Embedding(q) => serde_json::json!(["embedding", q.model, q.text]).to_string(),
            Self::Script(q) => q.key(),
        }
    }
}

/// One of several judges that are asked the same, and one of its independent answers.
///
/// A check that is put to several judges asks as if there were one; the seat says which juror is meant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seat {
    /// The judge's model id in the suite; `None` for the judge that the question would go to anyway.
    pub model: Option<String>,
    /// Which of the judge's answers, from 0.
    pub sample: u32,
    /// The number of answers that each judge gives, from 1.
    pub samples: u32,
    /// The temperature of answers, if the question has none.
    pub temperature: Option<f64>,
}

impl Seat {
    /// The question as it is put to this juror. Only questions to judges change, and a judge that a question names
    /// stays.
    #[must_use]
    pub fn put(&self, question: Question) -> Question {
        match question {
            Question::Judge(mut question) => {
                question.model = question.model.or_else(|| self.model.clone());
                let sample = question.sample.saturating_mul(self.samples.max(1));
                question.sample = sample.saturating_add(self.sample);
                question.temperature = question.temperature.or(self.temperature);
                Question::Judge(question)
            }
            other @ (Question::Embedding(_) | Question::Script(_)) => other,
        }
    }
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A judge's reply.
    Text {
        /// The whole reply.
        text: String,
        /// The id of the judge that gave it.
        model: String,
        /// The vendor's name of the model that answered, if it is another than the one that was asked for.
        answered: Option<String>,
        /// Why the reply ended: a reply that is cut off may lack the judge's actual verdict.
        finish_reason: FinishReason,
        /// Tokens it took.
        usage: Usage,
        /// The money spent on it in US dollars, if the price is known; 0 if it came from the response store.
        cost_usd: Option<f64>,
    },
    /// A vector.
    Vector(Arc<[f64]>),
    /// The result of a script.
    Script(ScriptAnswer),
}

impl Answer {
    /// A complete reply, for which nothing was spent.
    pub fn said(text: impl Into<String>, model: impl Into<String>) -> Self {
        Self::Text {
            text: text.into(),
            model: model.into(),
            answered: None,
            finish_reason: FinishReason::Stop,
            usage: Usage::default(),
            cost_usd: Some(0.0),
        }
    }
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AskError {
    /// The model that should answer failed.
    #[error("{0}")]
    Provider(#[from] ProviderError),
    /// A script did not end, or could not be run.
    #[error("{0}")]
    Script(#[from] ScriptError),
    /// It was not asked, as the run's budget does not allow it.
    #[error("{message}")]
    Budget {
        /// The budget, the money spent, and the possible cost of the question.
        message: String,
    },
    /// There is no judge or script host to ask.
    #[error("{message}")]
    NobodyToAsk {
        /// The reason, and the advice.
        message: String,
    },
}

impl AskError {
    /// The failure code of a check that could not be made for this reason.
    pub fn failure_code(&self) -> FailureCode {
        match self {
            Self::Provider(err) => err.kind.failure_code(),
            Self::Script(_) => FailureCode::SCRIPT_ERROR,
            Self::Budget { .. } => FailureCode::BUDGET_EXCEEDED,
            Self::NobodyToAsk { .. } => FailureCode::JUDGE_NOT_CONFIGURED,
        }
    }
}

/// The answers to the questions about one execution.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    by_question: Arc<HashMap<String, Arc<Result<Answer, AskError>>>>,
    /// The juror whose answers are used, if several are asked the same.
    seat: Option<Seat>,
    /// Texts that several questions are made of; see [`Answers::shared`].
    shared: Arc<Mutex<Vec<Shared>>>,
}

/// A text that several questions are made of, what it is, and what it was made from.
#[derive(Clone, Debug)]
struct Shared {
    name: &'static str,
    of: String,
    text: Arc<str>,
}

/// The number of texts that are stored; transforms make new ones.
const SHARED: usize = 16;

impl Answers {
    /// Records the answer to a question.
    pub fn insert(&mut self, question: &Question, answer: Result<Answer, AskError>) {
        Arc::make_mut(&mut self.by_question).insert(question.key(), Arc::new(answer));
    }

    /// The answers of one of several judges. A question that knows of no others finds the answer that was given to
    /// [`Seat::put`] of it.
    #[must_use]
    pub fn seen_from(&self, seat: &Seat) -> Self {
        Self { seat: Some(seat.clone()), ..self.clone() }
    }

    /// The same answers for questions about another execution: none of the texts are shared that were made of this one.
    #[must_use]
    pub fn about_another(&self) -> Self {
        Self { shared: Arc::default(), ..self.clone() }
    }

    /// The answer to a question, or why there is none; `None` if it has not been asked.
    pub fn get(&self, question: &Question) -> Option<&Result<Answer, AskError>> {
        let key = match &self.seat {
            Some(seat) => seat.put(question.clone()).key(),
            None => question.key(),
        };
        self.by_question.get(&key).map(Arc::as_ref)
    }

    /// A text that several questions about this execution are made of, made once: what it is called, what it
    /// depends on beside the execution, and how it is made.
    pub fn shared(
        &self,
        name: &'static str,
        of: &str,
        make: impl FnOnce() -> Arc<str>,
    ) -> Arc<str> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shared.iter().find(|it| it.name == name && it.of == of) {
            return Arc::clone(&known.text);
        }
        let text = make();
        if shared.len() < SHARED {
            shared.push(Shared { name, of: of.to_owned(), text: Arc::clone(&text) });
        }
        text
    }

    /// The number of questions asked.
    pub fn len(&self) -> usize {
        self.by_question.len()
    }

    /// True if nothing has been asked.
    pub fn is_empty(&self) -> bool {
        self.by_question.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::with_mark;

    #[test]
    fn a_stand_in_gives_the_mark_of_the_question() {
        let question = "Rules:\nBEGIN here\n\nBEGIN agent input 00c0ffee00c0ffee00c0ffee\nHi\nEND agent input 00c0ffee00c0ffee00c0ffee";
        for (reply, expected) in [
            (r#"{"score":1}"#, r#"{"score":1,"mark":"00c0ffee00c0ffee00c0ffee"}"#),
            (r#"{"score":1,"mark":"x"}"#, r#"{"score":1,"mark":"x"}"#),
            (r#"[{"score":1}]"#, r#"[{"score":1}]"#),
            ("I say 1", "I say 1"),
        ] {
            assert_eq!(with_mark(reply, question), expected, "{reply}");
        }
        assert_eq!(with_mark(r#"{"score":1}"#, "BEGIN output"), r#"{"score":1}"#);
    }
}
