//! Questions of assertions to judges, embedding models and scripts.
//!
//! Assertions are pure functions. An assertion that needs a model or a script returns a [`Question`] and finds the
//! result in [`Answers`] when it evaluates. The engine sends equal questions only once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::script::{ScriptAnswer, ScriptError, ScriptQuestion};
use crate::{FailureCode, FinishReason, Media, ProviderError, ResponseFormat, Usage};

/// The start of the line that begins a data block in a question to a judge.
///
/// The line ends with the mark: a digest of the question's data blocks, in hexadecimal digits. The author of the data
/// cannot know the mark, so the data cannot end its block or forge a reply.
pub const FENCE: &str = "BEGIN ";

/// The key of the mark in a judge's reply.
///
/// The reply must repeat the mark of the question; see [`FENCE`]. The mark shows that the judge wrote the reply.
pub const MARK: &str = "mark";

/// The length of a mark in hexadecimal digits. 24 digits hold 96 bits.
pub const MARK_LENGTH: usize = 24;

/// Returns the mark of the first data block in a question to a judge.
///
/// Returns `None` without a mark.
pub fn mark_in(question: &str) -> Option<&str> {
    let marks = question.lines().filter_map(|it| it.strip_prefix(FENCE)?.rsplit(' ').next());
    marks
        .into_iter()
        .find(|it| it.len() == MARK_LENGTH && it.bytes().all(|it| it.is_ascii_hexdigit()))
}

/// Adds the mark of the question to a judge's reply.
///
/// Only a JSON object without a mark is changed. Tests use this function for fixed replies of judges, which are written
/// before the question is known.
pub fn with_mark(reply: &str, question: &str) -> String {
    match (serde_json::from_str::<Value>(reply), mark_in(question)) {
        (Ok(Value::Object(mut object)), Some(mark)) if !object.contains_key(MARK) => {
            object.insert(MARK.to_owned(), mark.into());
            Value::Object(object).to_string()
        }
        _ => reply.to_owned(),
    }
}

/// A question that must be answered before a check can be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// A question to a judge model.
    Judge(JudgeQuestion),
    /// A text to embed.
    Embedding(EmbeddingQuestion),
    /// A user's script to run.
    Script(ScriptQuestion),
}

/// A question to a judge model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct JudgeQuestion {
    /// The judge's model id in the suite; `None` for the suite's default judge.
    pub model: Option<String>,
    /// The judge's instructions. Many questions have equal instructions, so that prompt caches apply.
    pub system: String,
    /// The user message with the question itself.
    pub user: String,
    /// The images that the judge sees after the message; empty for a question about a text.
    pub images: Vec<Media>,
    /// The format of the answer, for providers that can enforce a format; `None` for a plain text.
    pub response_format: Option<ResponseFormat>,
    /// The maximum number of tokens of the answer.
    pub max_tokens: u32,
    /// The index of this answer among several independent answers to the same question, from 0.
    pub sample: u32,
    /// The temperature, from 0 to 2; 0 if absent.
    pub temperature: Option<f64>,
    /// True if an earlier reply to this question was cut off at the token limit. The limit may then be doubled.
    pub after_cut: bool,
    /// The length in bytes of the prefix of `user` that questions about other outputs share.
    pub shared: usize,
}

impl JudgeQuestion {
    /// Creates a question about a text, for the first answer of the default judge.
    pub fn new(system: impl Into<String>, user: impl Into<String>, max_tokens: u32) -> Self {
        Self {
            model: None,
            system: system.into(),
            user: user.into(),
            images: Vec::new(),
            response_format: None,
            max_tokens,
            sample: 0,
            temperature: None,
            after_cut: false,
            shared: 0,
        }
    }
}

/// A text to convert into an embedding vector.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmbeddingQuestion {
    /// The model's id in the suite; `None` for the suite's default.
    pub model: Option<String>,
    /// The text.
    pub text: String,
}

impl EmbeddingQuestion {
    /// Creates a question to a model of the suite; `None` for the suite's default.
    pub fn new(model: Option<String>, text: impl Into<String>) -> Self {
        Self { model, text: text.into() }
    }
}

impl Question {
    /// Returns a key that identifies the question.
    ///
    /// The key ignores [`JudgeQuestion::shared`] and the name of the response format. For an image, the key contains
    /// only the SHA-256.
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
                q.images.iter().map(|it| &it.sha256).collect::<Vec<_>>(),
            ])
            .to_string(),
            Self::Embedding(q) => serde_json::json!(["embedding", q.model, q.text]).to_string(),
            Self::Script(q) => q.key(),
        }
    }
}

/// A juror of a judge panel, and the index of one of the juror's answers.
///
/// A check builds a question for a single judge. [`put`](Self::put) changes this question for one juror.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JurorSample {
    /// The juror's model id in the suite; `None` for the judge that the question names.
    pub model: Option<String>,
    /// The index of the juror's answer, from 0.
    pub sample: u32,
    /// The number of answers of each juror, at least 1.
    pub samples: u32,
    /// The temperature, for a question without a temperature.
    pub temperature: Option<f64>,
}

impl JurorSample {
    /// Returns a question with the model, the sample number and the temperature of this juror.
    ///
    /// Only questions to judges change. A model or temperature that the question already has stays.
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
    /// The reply of a judge.
    Text {
        /// The full text of the reply.
        text: String,
        /// The id of the judge in the suite.
        model: String,
        /// The name of the model that answered, as the provider reported it, if it differs from the requested name.
        answered: Option<String>,
        /// The system fingerprint: the provider's identifier for the model's configuration; `None` if the provider
        /// reports none.
        fingerprint: Option<String>,
        /// The reason why the reply ended. A reply that was cut off may lack the judge's verdict.
        finish_reason: FinishReason,
        /// The tokens of the reply.
        usage: Usage,
        /// The money spent on the reply in US dollars, if the price is known; 0 if it came from the response store.
        cost_usd: Option<f64>,
    },
    /// An embedding vector.
    Vector {
        /// The vector.
        vector: Arc<[f64]>,
        /// The id of the embedding model in the suite.
        model: String,
        /// The tokens of the text.
        usage: Usage,
        /// The money spent on the vector in US dollars, if the price is known; 0 if it came from the response store.
        cost_usd: Option<f64>,
    },
    /// The result of a script.
    Script(ScriptAnswer),
}

impl Answer {
    /// Returns a complete reply that cost nothing.
    pub fn from_text(text: impl Into<String>, model: impl Into<String>) -> Self {
        Self::Text {
            text: text.into(),
            model: model.into(),
            answered: None,
            fingerprint: None,
            finish_reason: FinishReason::Stop,
            usage: Usage::default(),
            cost_usd: Some(0.0),
        }
    }

    /// Returns an embedding vector that cost nothing, of a model with the id `embedding`.
    pub fn from_vector(vector: impl Into<Arc<[f64]>>) -> Self {
        Self::Vector {
            vector: vector.into(),
            model: "embedding".to_owned(),
            usage: Usage::default(),
            cost_usd: Some(0.0),
        }
    }
}

/// The reason why a question has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AskError {
    /// The provider of the model failed.
    #[error("{0}")]
    Provider(#[from] ProviderError),
    /// A script was aborted, or could not be run.
    #[error("{0}")]
    Script(#[from] ScriptError),
    /// The question was not asked, because the run's budget does not allow it.
    #[error("{message}")]
    Budget {
        /// The error message with the budget, the money spent and the maximum cost.
        message: String,
    },
    /// No model can answer the question, because no model is configured, or the named model is unknown.
    #[error("{message}")]
    NobodyToAsk {
        /// The error message with the reason and the advice.
        message: String,
    },
}

impl AskError {
    /// Returns the failure code of a check that cannot be decided for this reason.
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
    /// The juror whose answers [`get`](Answers::get) returns; `None` for a single judge.
    juror: Option<JurorSample>,
    /// Texts that several questions share; see [`Answers::shared`].
    shared: Arc<Mutex<Vec<Shared>>>,
}

/// A cached text, with its name and the data it was made from.
#[derive(Clone, Debug)]
struct Shared {
    name: &'static str,
    of: String,
    text: Arc<str>,
}

/// The maximum number of cached texts of one execution. Further texts are not cached.
const SHARED: usize = 16;

impl Answers {
    /// Records the answer to a question.
    pub fn insert(&mut self, question: &Question, answer: Result<Answer, AskError>) {
        Arc::make_mut(&mut self.by_question).insert(question.key(), Arc::new(answer));
    }

    /// Returns a copy for one juror: each lookup first changes its question with [`JurorSample::put`].
    #[must_use]
    pub fn for_juror(&self, juror: &JurorSample) -> Self {
        Self { juror: Some(juror.clone()), ..self.clone() }
    }

    /// Returns a copy of the answers for another execution.
    ///
    /// The copy has an empty cache of shared texts.
    #[must_use]
    pub fn about_another(&self) -> Self {
        Self { shared: Arc::default(), ..self.clone() }
    }

    /// Returns the answer to a question, or the reason why it has no answer.
    ///
    /// Returns `None` if the question was not asked.
    pub fn get(&self, question: &Question) -> Option<&Result<Answer, AskError>> {
        let key = match &self.juror {
            Some(juror) => juror.put(question.clone()).key(),
            None => question.key(),
        };
        self.by_question.get(&key).map(Arc::as_ref)
    }

    /// Returns a text that several questions about this execution share.
    ///
    /// The text is made once and then cached, unless the cache is full. `name` and `of` are the cache key: the name of
    /// the text, and the data it depends on besides the execution.
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

    /// Returns the number of questions with an answer or an error.
    pub fn len(&self) -> usize {
        self.by_question.len()
    }

    /// Returns true if there are no answers and no errors.
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
