//! The response store and its modes.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use kindlm_redact::Secrets;
use kindlm_types::{Prompt, ProviderError, ProviderErrorKind, Reply};
use serde_json::{Map, Value};

use super::nearest::Catalogue;
use super::recording::{self, Answer};
use super::request::{Request, Setup};
use crate::{Digest, StoreError, atomic};

/// The mode of the response store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Sends every request and stores nothing.
    #[default]
    Live,
    /// Sends only requests without a stored answer, and stores the answers.
    Cache,
    /// Sends every request, and replaces the stored answer.
    Record,
    /// Sends nothing. A request without a stored answer fails.
    Replay,
}

/// The error of a word that is not a [`Mode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no way to use responses: `live`, `cache`, `record` and `replay` are")]
pub struct ModeError(String);

impl Mode {
    /// Returns the mode as a lower-case word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Cache => "cache",
            Self::Record => "record",
            Self::Replay => "replay",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(word: &str) -> Result<Self, ModeError> {
        [Self::Live, Self::Cache, Self::Record, Self::Replay]
            .into_iter()
            .find(|it| it.as_str() == word)
            .ok_or_else(|| ModeError(word.to_owned()))
    }
}

/// The counts of a response store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The answers from the store.
    pub recalled: u64,
    /// The requests that were not sent because their answers are not stored.
    pub missing: u64,
    /// The answers from providers.
    pub answered: u64,
    /// The answers from providers that were stored.
    pub kept: u64,
    /// The stored answers in which secrets were masked, so that a replay does not have them.
    pub redacted: u64,
}

/// The response store: a folder of recorded answers, and its mode.
///
/// Reads and writes are short and synchronous. No lock is held while a request runs.
#[derive(Debug)]
pub struct Responses {
    folder: PathBuf,
    mode: Mode,
    secrets: Secrets,
    setups: HashMap<String, Setup>,
    recorded_at: Option<String>,
    recalled: AtomicU64,
    missing: AtomicU64,
    answered: AtomicU64,
    kept: AtomicU64,
    redacted: AtomicU64,
    failure: OnceLock<String>,
    /// The catalogue of recordings, read at the first miss.
    catalogue: OnceLock<Catalogue>,
}

impl Responses {
    /// Creates a store in `folder`, usually `.kindlm/responses`. It need not exist.
    pub fn new(folder: impl Into<PathBuf>, mode: Mode) -> Self {
        Self {
            folder: folder.into(),
            mode,
            secrets: Secrets::default(),
            setups: HashMap::new(),
            recorded_at: None,
            recalled: AtomicU64::default(),
            missing: AtomicU64::default(),
            answered: AtomicU64::default(),
            kept: AtomicU64::default(),
            redacted: AtomicU64::default(),
            failure: OnceLock::new(),
            catalogue: OnceLock::new(),
        }
    }

    /// Masks these secrets in every file.
    ///
    /// Text in the key format of a known provider is always masked. Secrets shorter than 6 bytes are ignored, as they
    /// would match ordinary words.
    #[must_use]
    pub fn with_secrets(mut self, secrets: &Secrets) -> Self {
        self.secrets.extend(secrets);
        self
    }

    /// Adds a digest of a provider's setup to each of its requests. An example is the URL and template of an `http`
    /// provider.
    ///
    /// Without it, stored answers are found regardless of the provider's configuration.
    #[must_use]
    pub fn with_setup(mut self, provider: impl Into<String>, setup: &str) -> Self {
        self.setups.entry(provider.into()).or_default().digest =
            Some(Digest::of(setup).to_string());
        self
    }

    /// Adds the configured request settings of a provider to each of its chat requests. They may add body keys.
    /// Embeddings do not use them.
    #[must_use]
    pub fn with_settings(
        mut self,
        provider: impl Into<String>,
        settings: Map<String, Value>,
    ) -> Self {
        self.setups.entry(provider.into()).or_default().settings = settings;
        self
    }

    /// Adds the files that a provider's answers depend on to each of its requests, as paths with digests.
    #[must_use]
    pub fn with_files(
        mut self,
        provider: impl Into<String>,
        files: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        self.setups.entry(provider.into()).or_default().files =
            files.into_iter().map(|(path, digest)| (path, digest.into())).collect();
        self
    }

    /// Treats stored answers of this provider as those of a wrapped agent; see [`Reply::of_wrapped_agent`]. Files of
    /// earlier versions do not record which evidence is complete.
    #[must_use]
    pub fn with_wrapped_agent(mut self, provider: impl Into<String>) -> Self {
        self.setups.entry(provider.into()).or_default().wraps_agent = true;
        self
    }

    /// Limits the complete evidence of a stored answer to the kinds that its provider can guarantee.
    pub(super) fn vouched(&self, provider: &str, reply: Reply) -> Reply {
        let wraps_agent = self.setups.get(provider).is_some_and(|it| it.wraps_agent);
        if wraps_agent { reply.of_wrapped_agent() } else { reply }
    }

    /// Stores a time in new files. Without it, files change only if answers change.
    #[must_use]
    pub fn with_recorded_at(mut self, time: impl Into<String>) -> Self {
        self.recorded_at = Some(time.into());
        self
    }

    /// Returns the mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Checks before the first request that the folder is writable, or readable for a replay.
    pub fn check(&self) -> Result<(), StoreError> {
        let folder = &self.folder;
        match self.mode {
            Mode::Live => Ok(()),
            Mode::Cache | Mode::Record => {
                fs::create_dir_all(folder)
                    .map_err(|err| StoreError::io("make the folder", folder, &err))?;
                let probe = atomic::temporary(folder);
                probe.map(drop).map_err(|err| StoreError::io("write into", folder, &err))
            }
            Mode::Replay => match fs::read_dir(folder) {
                Ok(_) => Ok(()),
                Err(err) => Err(StoreError::io("read the recordings in", folder, &err)),
            },
        }
    }

    /// Returns the counts so far.
    pub fn tally(&self) -> Tally {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Tally {
            recalled: read(&self.recalled),
            missing: read(&self.missing),
            answered: read(&self.answered),
            kept: read(&self.kept),
            redacted: read(&self.redacted),
        }
    }

    /// Returns the first error of storing an answer, for a warning at the end of the run.
    ///
    /// The paid answer is still returned. In the mode [`Mode::Record`], nothing more is sent after such an error.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    pub(super) fn completion(
        &self,
        provider: &str,
        prompt: &Prompt,
    ) -> Result<Request, ProviderError> {
        let setup = self.setups.get(provider);
        Request::completion(provider, setup, prompt, &self.secrets).map_err(|err| {
            refused(provider, format!("the request cannot be written as JSON: {err}"))
        })
    }

    /// Returns true if this request is not sent, because its answer is stored or the mode forbids it.
    pub(super) fn has(&self, provider: &str, prompt: &Prompt) -> bool {
        match self.mode {
            Mode::Live | Mode::Record => false,
            Mode::Replay => true,
            Mode::Cache => {
                let request = self.completion(provider, prompt);
                let found = |it: Request| recording::find::<Reply>(&self.folder, &it);
                // An unreadable recording is an error, so the request is not sent.
                request.is_ok_and(|it| !matches!(found(it), Ok(None)))
            }
        }
    }

    pub(super) fn embedding(&self, provider: &str, model: &str, text: &str) -> Request {
        let setup = self.setups.get(provider);
        Request::embedding(provider, setup, model, text, &self.secrets)
    }

    /// Returns the stored answer if the mode allows it. Fails if there is none and nothing may be sent.
    pub(super) fn recall<A: Answer>(
        &self,
        provider: &str,
        request: &Request,
    ) -> Result<Option<A>, ProviderError> {
        let refused = |message: String| refused(provider, message);
        let found = match (self.mode, self.failure()) {
            (Mode::Live, _) | (Mode::Record, None) => return Ok(None),
            (Mode::Record, Some(failure)) => {
                return Err(refused(format!(
                    "not sent, as the answer could not be kept: {failure}"
                )));
            }
            (Mode::Cache | Mode::Replay, _) => {
                recording::find(&self.folder, request).map_err(refused)?
            }
        };
        if found.is_some() {
            self.recalled.fetch_add(1, Ordering::Relaxed);
        } else if self.mode == Mode::Replay {
            self.missing.fetch_add(1, Ordering::Relaxed);
            let catalogue = self.catalogue.get_or_init(|| Catalogue::read(&self.folder));
            return Err(refused(catalogue.miss(&self.folder, request)));
        }
        Ok(found)
    }

    /// Stores an answer. An error is only noted, because the paid answer stays valid.
    pub(super) fn keep<A: Answer>(&self, request: &Request, answer: &A) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        let time = self.recorded_at.as_deref();
        match recording::keep(&self.folder, request, answer, time, &self.secrets) {
            Ok(redacted) => {
                self.kept.fetch_add(1, Ordering::Relaxed);
                self.redacted.fetch_add(u64::from(redacted), Ordering::Relaxed);
            }
            Err(err) => {
                // Report only the first error, as the next ones are similar.
                let _ = self.failure.set(err.to_string());
            }
        }
    }
}

/// Creates the error of a request that was not sent.
fn refused(provider: &str, message: String) -> ProviderError {
    let err = ProviderError::new(ProviderErrorKind::NotRecorded, provider, message);
    ProviderError { attempts: 0, ..err }
}
