//! Judge models and embedding models, which answer each question once.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kindlm_types::ask::{EmbeddingQuestion, JudgeQuestion};
use kindlm_types::{
    Answer, AskError, ContentPart, Message, Params, Ports, Prompt, ProviderErrorKind, Question,
    Role, reasons, suggest,
};
use lru::LruCache;
use tokio::sync::OnceCell;

use super::unanswerable;
use crate::calls::Calls;
use crate::{Defaults, Model};

/// The maximum number of cached answers.
///
/// A small cache is enough, because the repeats and checks of one case ask equal questions at about the same time.
const REMEMBERED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1023);

/// The minimum token limit of answers for judges that reason before they answer. Unused tokens cost nothing.
const REASONING: u32 = 8_192;

/// The maximum number of output tokens of common models without reasoning (`gpt-4o`).
const OUTPUT_LIMIT: u32 = 16_384;

/// The models that answer the questions of checks.
///
/// Equal questions are asked once, even concurrently. Failures are not cached, and neither are answers that a check
/// cannot read. A judge answers with temperature 0 unless the question sets another temperature. The `seed` of the
/// model is used. The `maxTokens` of the model is used if it exceeds the limit of the question.
pub struct Judges<'a> {
    pub(crate) calls: Calls<'a>,
    models: &'a [Model],
    default: Option<&'a str>,
    timeout: Duration,
    first_sample: u32,
    remembered: Mutex<LruCache<String, Arc<OnceCell<Answer>>>>,
}

/// The answer to a question, or the error.
pub(crate) struct JudgeAnswer {
    pub(crate) answer: Result<Answer, AskError>,
    /// True if this call requested the answer, and so may have cost money.
    pub(crate) fresh: bool,
}

impl<'a> Judges<'a> {
    /// Creates judges from `models`.
    ///
    /// `default` is the id of the model for questions that name no model. Without `default`, the first model that is
    /// not an agent answers them. The other settings come from [`Defaults`].
    pub fn new(ports: impl Into<Ports<'a>>, models: &'a [Model], default: Option<&'a str>) -> Self {
        let Defaults { concurrency, timeout, .. } = Defaults::default();
        Self {
            calls: Calls::new(ports.into(), concurrency),
            models,
            default,
            timeout,
            first_sample: 0,
            remembered: Mutex::new(LruCache::new(REMEMBERED)),
        }
    }

    /// Sets the maximum number of concurrent questions, at least 1.
    #[must_use]
    pub fn with_concurrency(mut self, concurrency: usize) -> Self {
        self.calls = self.calls.with_concurrency(concurrency);
        self
    }

    /// Sets the budget in US dollars; `None` for no limit.
    ///
    /// For a model without a price, the reported cost of each answer counts.
    #[must_use]
    pub fn with_budget(mut self, usd: Option<f64>) -> Self {
        if let Some(usd) = usd {
            self.calls = self.calls.with_budget(usd);
        }
        self
    }

    /// Sets the number of the first sample; 0 by default. Answers with different sample numbers are stored separately.
    ///
    /// Providers receive the same requests.
    #[must_use]
    pub fn with_first_sample(mut self, sample: u32) -> Self {
        self.first_sample = sample;
        self
    }

    /// Sets the time limit of one attempt.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the reason why no further question is asked.
    ///
    /// Returns `None` while the budget is not exhausted.
    pub fn exhausted(&self) -> Option<&str> {
        self.calls.exhausted()
    }

    pub(crate) async fn ask(&self, question: &Question) -> JudgeAnswer {
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
        JudgeAnswer { answer, fresh }
    }

    /// Forgets the answers to the questions with these keys, so that the questions are asked again. Questions in flight
    /// are not affected.
    pub(super) fn forget<'k>(&self, keys: impl Iterator<Item = &'k str>) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            if remembered.peek(key).is_some_and(|it| it.initialized()) {
                remembered.pop(key);
            }
        }
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
        let prompt = Prompt {
            model: model.name.clone(),
            messages: messages(question),
            params: model.judge_params(question),
            tools: Vec::new(),
            tool_choice: None,
            response_format: question.response_format.clone(),
            sample: question.sample.saturating_add(self.first_sample),
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
            fingerprint: reply.fingerprint.clone(),
            answered: Some(reply.model.clone()).filter(|it| !it.is_empty() && *it != model.name),
            text: crate::answer_text(&reply).to_owned(),
        })
    }

    /// Embeds a text with the model of the question.
    ///
    /// If the question names no model, the default judge embeds the text. If the provider of this judge does not
    /// support embeddings, the first model whose provider supports them is used. Fails if there is no such model, or if
    /// the request fails.
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
        let embedding = self.calls.embed(model, text, self.timeout).await?;
        let cost_usd = model.cost_of_embedding(&embedding);
        Ok(Answer::Vector {
            vector: embedding.vector,
            model: model.id.clone(),
            usage: embedding.usage,
            cost_usd,
        })
    }

    /// Returns the model with this id; without an id, the default judge. Fails if there is no such model.
    fn model(&self, id: Option<&str>) -> Result<&'a Model, AskError> {
        let Some(id) = id.or(self.default) else {
            return crate::judge_of(self.models, None).ok_or_else(|| {
                unanswerable(
                    "there is no model to ask: configure one under `models`, or name a judge",
                )
            });
        };
        crate::judge_of(self.models, Some(id)).ok_or_else(|| {
            let ids = self.models.iter().map(|it| it.id.as_str());
            unanswerable(format!(
                "the model `{id}` that should answer is not configured: {}",
                suggest(id, "configured models", ids)
            ))
        })
    }
}

/// The text before the images of an output.
const IMAGES: &str =
    "The output consists of the images below. Judge the images themselves, not their description.";

/// Returns the messages of a question, without empty ones.
fn messages(question: &JudgeQuestion) -> Vec<Message> {
    let said = [(Role::System, question.system.as_str()), (Role::User, question.user.as_str())];
    // A user's own prompt may have no system instructions.
    let said = said.into_iter().filter(|(_, text)| !text.is_empty());
    let mut messages: Vec<Message> = said.map(|(role, text)| Message::new(role, text)).collect();
    if !question.images.is_empty() {
        let user = messages.pop_if(|it| it.role == Role::User).map(|it| it.content);
        let texts = user.into_iter().chain([IMAGES.to_owned()]).map(ContentPart::Text);
        let images = question.images.iter().cloned().map(ContentPart::Media);
        messages.push(Message::of_parts(Role::User, texts.chain(images).collect()));
    }
    messages
}

impl Model {
    /// Returns the parameters for asking this model as a judge.
    ///
    /// - `max_tokens` is the higher limit of the model and the question. It includes reasoning, so reasoning models get
    ///   at least 8,192. After a reply that was cut off, the limit is doubled. For models that neither reason nor have
    ///   their own limit, the doubled limit is at most 16,384. If the limit of the question is higher, the limit of the
    ///   question stays.
    /// - `topP` and `stopSequences` are not used. `topP` has no effect at temperature 0, and a stop sequence could cut
    ///   off a verdict.
    pub fn judge_params(&self, question: &JudgeQuestion) -> Params {
        let own = &self.params;
        Params {
            temperature: Some(question.temperature.unwrap_or(0.0)),
            max_tokens: Some(self.judge_limit(question)),
            // Vary the seed, so that several answers to one question differ.
            seed: own.seed.map(|it| it.wrapping_add(question.sample.into())),
            ..Params::default()
        }
    }

    /// Returns the maximum number of tokens of the answer to a question.
    fn judge_limit(&self, question: &JudgeQuestion) -> u32 {
        let reasons = reasons(&self.name);
        let own = self.params.max_tokens;
        let least = if reasons { REASONING } else { 0 };
        let limit = question.max_tokens.max(own.unwrap_or(0)).max(least);
        if !question.after_cut {
            return limit;
        }
        // If the model has no configured token limit, do not exceed the usual limit. Models reject a limit that is
        // higher than they support. Reasoning models are not capped.
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
