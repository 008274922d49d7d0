//! Tells whether a test has changed: what it sends, what it knows, and what it expects.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kindlm_engine::{ConversationTurn, Digest, Subject};
use kindlm_types::{FileError, Files};
use serde_json::Value;

use super::Loader;

/// The keys of a test that its digest covers as they are written; its message or command is covered as it is sent.
///
/// Left out is what changes neither what is sent nor what must hold: tags, models, how often it runs, how long it
/// may take.
const COVERED: [&str; 5] = ["vars", "tools", "conversation", "expect", "maxTurns"];

/// Files that pass through to whoever asks, and are remembered by their digests.
pub(super) struct Referred<'a> {
    files: &'a dyn Files,
    digests: Mutex<HashMap<String, String>>,
}

impl<'a> Referred<'a> {
    pub(super) fn new(files: &'a dyn Files) -> Self {
        Self { files, digests: Mutex::default() }
    }

    /// The digest of a file that was read, by its path as written.
    fn digest(&self, path: &str) -> Option<String> {
        let digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        digests.get(path).cloned()
    }
}

impl Files for Referred<'_> {
    fn read(&self, path: &str) -> Result<Arc<str>, FileError> {
        let text = self.files.read(path)?;
        let digest = Digest::default().text(&text).finish();
        self.digests.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), digest);
        Ok(text)
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, FileError> {
        self.files.glob(pattern)
    }
}

impl Loader<'_> {
    /// The digest of a test. `rules` are those of its prompt.
    pub(super) fn digest(
        &self,
        value: &Value,
        subject: &Subject,
        conversation: &[ConversationTurn],
        rules: &Value,
    ) -> String {
        let mut digest = match subject {
            Subject::Prompt { messages } => messages.iter().fold(
                Digest::default().text("prompt").number(messages.len() as u64),
                |digest, it| digest.text(&format!("{:?}", it.role)).text(&it.content),
            ),
            Subject::Command { command_line } => {
                Digest::default().text("command").text(command_line)
            }
        };
        for turn in conversation {
            digest = digest.text(turn.user.as_deref().unwrap_or_default());
        }
        for key in COVERED {
            let value = value.get(key).unwrap_or(&Value::Null);
            digest = self.files_in(value, digest.value(value));
        }
        digest.value(rules).finish()
    }

    /// Adds the content of the files that a value names, such as a `schemaFile`.
    fn files_in(&self, value: &Value, digest: Digest) -> Digest {
        match value {
            Value::String(text) => match self.referred.digest(text) {
                Some(file) => digest.text(&file),
                None => digest,
            },
            Value::Array(items) => {
                items.iter().fold(digest, |digest, it| self.files_in(it, digest))
            }
            Value::Object(entries) => {
                let mut sorted: Vec<(&String, &Value)> = entries.iter().collect();
                sorted.sort_unstable_by_key(|(key, _)| *key);
                sorted.into_iter().fold(digest, |digest, (_, it)| self.files_in(it, digest))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => digest,
        }
    }
}
