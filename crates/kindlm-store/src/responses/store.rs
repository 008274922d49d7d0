//! The store of answers, and its modes.

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

/// The use of the stored answers of models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Every request is sent, nothing is stored.
    #[default]
    Live,
    /// A request with a stored answer is not sent again.
    Cache,
    /// Every request is sent, and its answer replaces the stored one.
    Record,
    /// Nothing is sent. A request whose answer is not there fails.
    Replay,
}

/// A word that names no [`Mode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no way to use responses: `live`, `cache`, `record` and `replay` are")]
pub struct ModeError(String);

impl Mode {
    /// The mode as a lower-case word.
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

/// The counts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answers that came out of the store.
    pub recalled: u64,
    /// Requests that were not sent, as their answers are not in the store.
    pub missing: u64,
    /// Answers that came from outside.
    pub answered: u64,
    /// Of these, those that are in the store now.
    pub kept: u64,
    /// Of those, the ones from which secrets were removed: a replay sees them without.
    pub redacted: u64,
}

/// A folder of recorded answers, and the mode of their use.
///
/// Reads and writes are short, and done directly: no lock is held while a model is waited for.
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
    /// The existing recordings, read when the first request finds none.
    catalogue: OnceLock<Catalogue>,
}

impl Responses {
    /// The answers in `folder`, normally `.kindlm/responses`. It need not exist.
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

    /// Keeps these texts out of every file: the values of the variables that hold keys.
    ///
    /// Text that looks like a key of a known provider is never stored. Secrets of less than 6 bytes are not searched
    /// for, as they would match ordinary words.
    #[must_use]
    pub fn with_secrets(mut self, secrets: &Secrets) -> Self {
        self.secrets.extend(secrets);
        self
    }

    /// Adds to every request of a provider the digest of everything else that its answers depend on: the address and
    /// the template of an `http` provider, the command line of a `command` provider.
    ///
    /// Without it, answers are found again however the provider is configured.
    #[must_use]
    pub fn with_setup(mut self, provider: impl Into<String>, setup: &str) -> Self {
        self.setups.entry(provider.into()).or_default().digest =
            Some(Digest::of(setup).to_string());
        self
    }

    /// Adds to every chat request of a provider the settings of its configuration for the request, such as more keys
    /// for the body. Embeddings do not use them.
    #[must_use]
    pub fn with_settings(
        mut self,
        provider: impl Into<String>,
        settings: Map<String, Value>,
    ) -> Self {
        self.setups.entry(provider.into()).or_default().settings = settings;
        self
    }

    /// Adds to every request of a provider the files that its answers depend on, by path, each with a digest.
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

    /// Takes stored answers of this provider for those of an agent; see [`Reply::of_wrapped_agent`]. Files of earlier versions
    /// do not name the evidence that they are complete for.
    #[must_use]
    pub fn with_wrapped_agent(mut self, provider: impl Into<String>) -> Self {
        self.setups.entry(provider.into()).or_default().wraps_agent = true;
        self
    }

    /// An answer that was read back, complete only for the evidence that its provider can vouch for.
    pub(super) fn vouched(&self, provider: &str, reply: Reply) -> Reply {
        let wraps_agent = self.setups.get(provider).is_some_and(|it| it.wraps_agent);
        if wraps_agent { reply.of_wrapped_agent() } else { reply }
    }

    /// Writes a time into new files. Without it there is none, and files change only when answers do.
    #[must_use]
    pub fn with_recorded_at(mut self, time: impl Into<String>) -> Self {
        self.recorded_at = Some(time.into());
        self
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Checks, before anything is sent, that the folder can be used: written to, or read for a replay.
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

    /// The counts so far.
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

    /// Why an answer could not be stored, if that ever happened: worth a warning at the end of a run.
    ///
    /// The answer itself has been paid for and was passed on. When recording, nothing more is sent from then on.
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

    /// True if nothing is sent for this request: its answer is stored, or nothing is sent at all.
    pub(super) fn has(&self, provider: &str, prompt: &Prompt) -> bool {
        match self.mode {
            Mode::Live | Mode::Record => false,
            Mode::Replay => true,
            Mode::Cache => {
                let request = self.completion(provider, prompt);
                let found = |it: Request| recording::find::<Reply>(&self.folder, &it);
                // A recording that cannot be read is an error, so nothing is sent for it either.
                request.is_ok_and(|it| !matches!(found(it), Ok(None)))
            }
        }
    }

    pub(super) fn embedding(&self, provider: &str, model: &str, text: &str) -> Request {
        let setup = self.setups.get(provider);
        Request::embedding(provider, setup, model, text, &self.secrets)
    }

    /// The recorded answer, if it is to be used; an error if nothing may be sent in its place.
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

    /// Stores an answer. It has been paid for, so it stays valid if it cannot be stored.
    pub(super) fn keep<A: Answer>(&self, request: &Request, answer: &A) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        let time = self.recorded_at.as_deref();
        match recording::keep(&self.folder, request, answer, time, &self.secrets) {
            Ok(redacted) => {
                self.kept.fetch_add(1, Ordering::Relaxed);
                self.redacted.fetch_add(u64::from(redacted), Ordering::Relaxed);
            }
            Err(err) => {
                // The first one is reported; those that follow are of the same kind.
                let _ = self.failure.set(err.to_string());
            }
        }
    }
}

/// Nothing was sent.
fn refused(provider: &str, message: String) -> ProviderError {
    let err = ProviderError::new(ProviderErrorKind::NotRecorded, provider, message);
    ProviderError { attempts: 0, ..err }
}
