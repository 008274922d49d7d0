//! Why a command could not do what was asked, with the exit status that goes with it.

use std::io;

use kindlm_reporters::one_line;
use kindlm_store::StoreError;
use kindlm_store::journal::JournalError;
use kindlm_types::ExitStatus;

/// Why a command could not do what was asked.
#[derive(Debug)]
pub struct Failure {
    /// How the process ends.
    pub status: ExitStatus,
    /// What happened; `None` when everything has been said already.
    pub message: Option<String>,
    /// What to do about it.
    pub help: Option<String>,
}

/// What a command comes to.
pub type Outcome = Result<ExitStatus, Failure>;

impl Failure {
    /// The arguments or a file are not as they should be; nothing was sent.
    ///
    /// Messages and help are often about names that somebody else chose; they are shown harmlessly, in one line.
    pub fn input(message: impl Into<String>) -> Self {
        Self { message: Some(one_line(&message.into())), ..Self::said(ExitStatus::InvalidInput) }
    }

    /// KindLM or the machine under it failed.
    pub fn internal(message: impl Into<String>) -> Self {
        Self { message: Some(one_line(&message.into())), ..Self::said(ExitStatus::Internal) }
    }

    /// The problems have been shown already.
    pub fn said(status: ExitStatus) -> Self {
        Self { status, message: None, help: None }
    }

    /// Stdout was written, or could not be. Somebody who stopped reading has seen enough: that is no failure, and the
    /// command ends with what it has found, which must not become a success.
    pub fn of_stdout(written: io::Result<()>) -> Result<(), Self> {
        match written {
            Err(err) if err.kind() != io::ErrorKind::BrokenPipe => {
                let why = kindlm_store::words(&err);
                Err(Self::internal(format!("cannot write to stdout: {why}")))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Something that was asked for is not in the store, or the store cannot be read.
    pub fn store(err: &StoreError) -> Self {
        match err {
            StoreError::Io { .. } => Self::internal(err.to_string()),
            StoreError::Journal(err) => Self::journal(err),
            _ => Self::input(err.to_string()),
        }
    }

    /// A journal that cannot be used is the user's to choose otherwise; one that cannot be written is not.
    pub fn journal(err: &JournalError) -> Self {
        match err {
            JournalError::Io { .. } | JournalError::NotKept { .. } => {
                Self::internal(err.to_string())
            }
            _ => Self::input(err.to_string()),
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(one_line(&help.into()));
        self
    }

    /// Several things are not as they should be.
    pub fn inputs(messages: impl IntoIterator<Item = String>) -> Self {
        let lines: Vec<String> = messages.into_iter().map(|it| one_line(&it)).collect();
        Self { message: Some(lines.join("\n")), ..Self::said(ExitStatus::InvalidInput) }
    }

    /// The lines for stderr.
    pub fn render(&self, color: bool) -> Option<String> {
        let message = self.message.as_ref()?;
        let (error, help, reset) =
            if color { ("\u{1b}[1;31m", "\u{1b}[1;36m", "\u{1b}[0m") } else { ("", "", "") };
        let error = format!("{error}error{reset}: {message}");
        Some(match &self.help {
            Some(advice) => format!("{error}\n{help}help{reset}: {advice}"),
            None => error,
        })
    }
}

/// What is wrong with an object that has a key twice, at this place.
pub fn given_twice(place: &str) -> String {
    format!("`{place}` is there twice, and nobody knows which of the two is meant: leave out one")
}
