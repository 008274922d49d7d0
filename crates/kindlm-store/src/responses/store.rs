//! The response store and its modes.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use kindlm_redact::Secrets;
use kindlm_types::{Embedding, Prompt, ProviderError, ProviderErrorKind, Reply};
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
    /// Sends only requests without a stored answer, and stores their answers.
    ///
    /// An answer with images is not stored, because its stored form has no data of the images.
    Cache,
    /// Sends every request, and replaces the stored answers.
    Record,
    /// Sends no request. A request without a stored answer fails.
    Replay,
}

/// The error of parsing a word that is not a [`Mode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown mode `{0}`: use `live`, `cache`, `record` or `replay`")]
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

/// The counts of a response store since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of answers from the store.
    pub recalled: u64,
    /// The number of requests that a replay refused, because no answer is stored.
    pub missing: u64,
    /// The number of answers from providers; not counted in the mode [`Mode::Live`].
    pub answered: u64,
    /// The number of answers from providers that were stored.
    pub kept: u64,
    /// The number of stored answers with masked secrets. A replay returns the masked text.
    pub redacted: u64,
}

/// The response store: a folder of recorded answers, and its mode.
///
/// Reading and writing a file blocks the caller for a short time. No lock is held while a request runs.
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
    /// The recordings of the folder, read when a replay first misses an answer.
    catalogue: OnceLock<Catalogue>,
}

impl Responses {
    /// Creates a store in `folder`, which need not exist.
    ///
    /// The folder is usually `.kindlm/responses`.
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

    /// Adds secrets that are masked in every file.
    ///
    /// Text in the key format of a known provider is always masked. Secrets shorter than 6 bytes are ignored, because
    /// they would match ordinary words.
    #[must_use]
    pub fn with_secrets(mut self, secrets: &Secrets) -> Self {
        self.secrets.extend(secrets);
        self
    }

    /// Adds a digest of a provider's setup to the cache key of the provider's chat and embedding requests.
    ///
    /// The cache key is the canonical form of a request, and selects the stored answer. It is not sent to the provider.
    ///
    /// An example of a setup is the URL and template of an `http` provider.
    ///
    /// Without a setup, settings and files, a change of the provider's configuration does not change the cache key.
    #[must_use]
    pub fn with_setup(mut self, provider: impl Into<String>, setup: &str) -> Self {
        self.setups.entry(provider.into()).or_default().digest =
            Some(Digest::from_content(setup).to_string());
        self
    }

    /// Adds the configured settings of a provider to the cache key of the provider's chat requests.
    ///
    /// See [`with_setup`](Self::with_setup). An example is `body` of the provider `openai`. Embedding requests do not
    /// use these settings.
    #[must_use]
    pub fn with_settings(
        mut self,
        provider: impl Into<String>,
        settings: Map<String, Value>,
    ) -> Self {
        self.setups.entry(provider.into()).or_default().settings = settings;
        self
    }

    /// Adds paths and digests of a provider's files to the cache key of the provider's chat and embedding requests.
    ///
    /// See [`with_setup`](Self::with_setup). The provider's answers depend on these files.
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

    /// Treats stored answers of this provider as answers of a wrapped agent.
    ///
    /// See [`Reply::of_wrapped_agent`]. Files of earlier versions do not record which evidence is complete.
    #[must_use]
    pub fn with_wrapped_agent(mut self, provider: impl Into<String>) -> Self {
        self.setups.entry(provider.into()).or_default().wraps_agent = true;
        self
    }

    /// Limits the evidence that counts as complete, if the provider wraps an agent.
    pub(super) fn vouched(&self, provider: &str, reply: Reply) -> Reply {
        let wraps_agent = self.setups.get(provider).is_some_and(|it| it.wraps_agent);
        if wraps_agent { reply.of_wrapped_agent() } else { reply }
    }

    /// Stores this time in the files that are written.
    ///
    /// A file is not rewritten if only its time or its latency differs.
    #[must_use]
    pub fn with_recorded_at(mut self, time: impl Into<String>) -> Self {
        self.recorded_at = Some(time.into());
        self
    }

    /// Returns the mode, which decides when requests are sent.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the folder of the recordings, which need not exist.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Checks that the mode can use the folder, and fails if not.
    ///
    /// [`Mode::Live`] needs no access, and [`Mode::Replay`] reads the folder. The other modes write to the folder, so a
    /// missing folder is created.
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

    /// Returns the numbers of stored, missing and new answers so far.
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

    /// Returns the first error of storing an answer; `None` if there was no error.
    ///
    /// The paid answer is still returned. In the mode [`Mode::Record`], no more requests are sent after such an error.
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

    /// Returns true if this request will not be sent: its answer is stored, the mode forbids requests, or the recording
    /// is unreadable.
    pub(super) fn has(&self, provider: &str, prompt: &Prompt) -> bool {
        match self.mode {
            Mode::Live | Mode::Record => false,
            Mode::Replay => true,
            Mode::Cache => {
                let request = self.completion(provider, prompt);
                let found = |it: Request| recording::find::<Reply>(&self.folder, &it);
                request.is_ok_and(|it| !matches!(found(it), Ok(None)))
            }
        }
    }

    /// Returns true if the vector of this text comes from the store, or if the store refuses the request.
    pub(super) fn has_vector(&self, provider: &str, model: &str, text: &str) -> bool {
        match self.mode {
            Mode::Live | Mode::Record => false,
            Mode::Replay => true,
            Mode::Cache => {
                let request = self.embedding(provider, model, text);
                !matches!(recording::find::<Embedding>(&self.folder, &request), Ok(None))
            }
        }
    }

    pub(super) fn embedding(&self, provider: &str, model: &str, text: &str) -> Request {
        let setup = self.setups.get(provider);
        Request::embedding(provider, setup, model, text, &self.secrets)
    }

    /// Returns the stored answer; `None` if the request must be sent.
    ///
    /// Fails if the request may not be sent and has no stored answer, or if the recording is unreadable.
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
                    "not sent, because the answer could not be stored: {failure}"
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
            let catalogue = self.catalogue.get_or_init(|| Catalogue::load(&self.folder));
            return Err(refused(catalogue.miss(&self.folder, request)));
        }
        Ok(found)
    }

    /// Stores an answer, and counts it. In the mode [`Mode::Cache`], an answer with images is only counted.
    ///
    /// An error is only recorded, because the paid answer stays valid.
    pub(super) fn keep<A: Answer>(&self, request: &Request, answer: &A) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        if self.mode == Mode::Cache && !answer.is_stored_whole() {
            return;
        }
        let time = self.recorded_at.as_deref();
        match recording::keep(&self.folder, request, answer, time, &self.secrets) {
            Ok(redacted) => {
                self.kept.fetch_add(1, Ordering::Relaxed);
                self.redacted.fetch_add(u64::from(redacted), Ordering::Relaxed);
            }
            Err(err) => {
                // Keep only the first error, because later errors are similar. `set` changes nothing after the first
                // call.
                let _ = self.failure.set(err.to_string());
            }
        }
    }
}

/// Creates the error of a request that the store did not send.
fn refused(provider: &str, message: String) -> ProviderError {
    let err = ProviderError::new(ProviderErrorKind::NotRecorded, provider, message);
    ProviderError { attempts: 0, ..err }
}
