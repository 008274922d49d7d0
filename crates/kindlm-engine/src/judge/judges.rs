//! Who answers questions: judge models and embedding models, each question asked once.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kindlm_types::ask::{EmbeddingQuestion, JudgeQuestion};
use kindlm_types::{
    Answer, AskError, Backend, Message, Params, Prompt, ProviderErrorKind, Question, Role, reasons,
    suggest,
};
use lru::LruCache;
use tokio::sync::OnceCell;

use super::nobody;
use crate::calls::Calls;
use crate::{Defaults, Model};

/// How many answers are remembered. Equal questions come from the repeats and the checks of one case, and so
/// close together; the bound keeps a run of any length in the same memory.
const REMEMBERED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1023);

/// The least limit of an answer, in tokens, for judges that reason before they answer. Tokens that are not used cost
/// nothing.
const REASONING: u32 = 8_192;

/// The most tokens that widely used models without reasoning can answer with (`gpt-4o`).
const OUTPUT_LIMIT: u32 = 16_384;

/// The models that answer the questions of checks.
///
/// Equal questions are asked once, also if they come at the same time; failures are not remembered.
/// A judge is asked with temperature 0 unless the question says otherwise, with its own `seed`, and with its own
/// `maxTokens` where that is more than the question allows.
pub struct Judges<'a> {
    pub(crate) calls: Calls<'a>,
    models: &'a [Model],
    default: Option<&'a str>,
    timeout: Duration,
    remembered: Mutex<LruCache<String, Arc<OnceCell<Answer>>>>,
}

/// An answer, and whether it had to be paid for.
pub(crate) struct Told {
    pub(crate) answer: Result<Answer, AskError>,
    /// True if it was asked just now, for this question.
    pub(crate) fresh: bool,
}

impl<'a> Judges<'a> {
    /// Judges among `models`. `default` is the id of the one that is asked where a question names none; the
    /// first model if absent. The other settings are those of [`Defaults`].
    pub fn new(backend: &'a dyn Backend, models: &'a [Model], default: Option<&'a str>) -> Self {
        let Defaults { concurrency, timeout, .. } = Defaults::default();
        Self {
            calls: Calls::new(backend, concurrency),
            models,
            default,
            timeout,
            remembered: Mutex::new(LruCache::new(REMEMBERED)),
        }
    }

    /// Sets how many questions may be in flight at once, from 1.
    #[must_use]
    pub fn with_concurrency(mut self, concurrency: usize) -> Self {
        self.calls = self.calls.with_concurrency(concurrency);
        self
    }

    /// Sets what may be spent in all, in US dollars; `None` is no limit. Models without a price spend nothing of it.
    #[must_use]
    pub fn with_budget(mut self, usd: Option<f64>) -> Self {
        if let Some(usd) = usd {
            self.calls = self.calls.with_budget(usd);
        }
        self
    }

    /// Sets how long one attempt to get an answer may take.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Why nothing more is asked, if the budget is at its end.
    pub fn exhausted(&self) -> Option<&str> {
        self.calls.exhausted()
    }

    pub(crate) async fn ask(&self, question: &Question) -> Told {
        let cell = {
            let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(remembered.get_or_insert(question.key(), Arc::default))
        };
        let mut fresh = false;
        let answer = cell
            .get_or_try_init(|| {
                fresh = true;
                self.find_out(question)
            })
            .await
            .cloned();
        Told { answer, fresh }
    }

    async fn find_out(&self, question: &Question) -> Result<Answer, AskError> {
        match question {
            Question::Judge(question) => self.ask_judge(question).await,
            Question::Embedding(question) => self.embed(question).await,
            Question::Script(question) => {
                self.calls.script(question).await.map(Answer::Script).map_err(AskError::from)
            }
        }
    }

    async fn ask_judge(&self, question: &JudgeQuestion) -> Result<Answer, AskError> {
        let model = self.model(question.model.as_deref())?;
        let said = [(Role::System, question.system.as_str()), (Role::User, question.user.as_str())];
        // A prompt of the user's own may have no instructions.
        let messages = said.into_iter().filter(|(_, text)| !text.is_empty());
        let prompt = Prompt {
            model: model.name.clone(),
            messages: messages.map(|(role, text)| Message::new(role, text)).collect(),
            params: model.judge_params(question),
            tools: Vec::new(),
            tool_choice: None,
            response_format: question.response_format.clone(),
            sample: question.sample,
            shared: question.shared,
            ..Prompt::default()
        };
        let reply = self.calls.complete(model, &prompt, self.timeout).await?;
        Ok(Answer::Text {
            cost_usd: if reply.cached {
                Some(0.0)
            } else {
                model.cost_of(reply.cost_usd, &reply.usage)
            },
            usage: reply.usage,
            finish_reason: reply.finish_reason.clone(),
            model: model.id.clone(),
            answered: Some(reply.model.clone()).filter(|it| !it.is_empty() && *it != model.name),
            text: crate::words(&reply).to_owned(),
        })
    }

    /// The model that the question names; else the default judge if its provider makes vectors, else the first
    /// other model whose provider does.
    async fn embed(&self, question: &EmbeddingQuestion) -> Result<Answer, AskError> {
        let first = self.model(question.model.as_deref())?;
        let mut refused = match self.vector(first, &question.text).await {
            Err(AskError::Provider(err))
                if err.kind == ProviderErrorKind::Unsupported && question.model.is_none() =>
            {
                err
            }
            result => return result,
        };
        for model in self.models.iter().filter(|it| it.id != first.id) {
            match self.vector(model, &question.text).await {
                Err(AskError::Provider(err)) if err.kind == ProviderErrorKind::Unsupported => {
                    refused = err;
                }
                result => return result,
            }
        }
        Err(refused.into())
    }

    async fn vector(&self, model: &Model, text: &str) -> Result<Answer, AskError> {
        let vector = self.calls.embed(&model.provider, &model.name, text, self.timeout).await?;
        Ok(Answer::Vector(vector))
    }

    /// The model of this id; without one, the default judge, which is the first model if none is named.
    fn model(&self, id: Option<&str>) -> Result<&'a Model, AskError> {
        let Some(id) = id.or(self.default) else {
            return crate::judge_of(self.models, None).ok_or_else(|| {
                nobody("there is no model to ask: configure one under `models`, or name a judge")
            });
        };
        crate::judge_of(self.models, Some(id)).ok_or_else(|| {
            let ids = self.models.iter().map(|it| it.id.as_str());
            nobody(format!(
                "the model `{id}` that should answer is not configured: {}",
                suggest(id, "configured models", ids)
            ))
        })
    }
}

impl Model {
    /// How the model is asked to judge. It may have as many tokens as it was given, if that is more than the answer
    /// needs. Reasoning counts as tokens of the answer: models that reason may have 8,192 at least. After a reply that was
    /// cut off, the limit is doubled. Its `topP` and `stopSequences` are for what it says when
    /// it is tested: the one does nothing at temperature 0, the other would cut verdicts off.
    pub fn judge_params(&self, question: &JudgeQuestion) -> Params {
        let own = &self.params;
        Params {
            temperature: Some(question.temperature.unwrap_or(0.0)),
            max_tokens: Some(self.judge_limit(question)),
            // Several answers to one question are to differ.
            seed: own.seed.map(|it| it.wrapping_add(question.sample.into())),
            ..Params::default()
        }
    }

    /// The most tokens that the answer to a question may have.
    fn judge_limit(&self, question: &JudgeQuestion) -> u32 {
        let reasons = reasons(&self.name);
        let own = self.params.max_tokens;
        let least = if reasons { REASONING } else { 0 };
        let limit = question.max_tokens.max(own.unwrap_or(0)).max(least);
        if !question.after_cut {
            return limit;
        }
        // A model whose own limit is unknown refuses requests for more than it can answer.
        let most = if reasons || own.is_some() { u32::MAX } else { OUTPUT_LIMIT.max(limit) };
        limit.saturating_mul(2).min(most)
    }
}

impl fmt::Debug for Judges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judges")
            .field("models", &self.models)
            .field("default", &self.default)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
