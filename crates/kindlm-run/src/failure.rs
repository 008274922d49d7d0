//! The failure of a command, with its exit status.

use std::io;

use kindlm_reporters::one_line;
use kindlm_store::StoreError;
use kindlm_store::journal::JournalError;
use kindlm_types::ExitStatus;

/// The failure of a command.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The exit status.
    pub status: ExitStatus,
    /// The error message; `None` if it was shown already.
    pub message: Option<String>,
    /// The advice for the user; `None` if there is no advice.
    pub help: Option<String>,
}

/// The result of a command.
pub type Outcome = Result<ExitStatus, Failure>;

impl Failure {
    /// Creates the failure of an invalid argument or file. Control characters in the message are escaped.
    pub fn input(message: impl Into<String>) -> Self {
        Self {
            message: Some(one_line(&message.into())),
            ..Self::already_shown(ExitStatus::InvalidInput)
        }
    }

    /// Creates a failure of KindLM or of the machine. Control characters in the message are escaped.
    pub fn internal(message: impl Into<String>) -> Self {
        Self {
            message: Some(one_line(&message.into())),
            ..Self::already_shown(ExitStatus::Internal)
        }
    }

    /// Creates a failure whose message was shown already.
    pub fn already_shown(status: ExitStatus) -> Self {
        Self { status, message: None, help: None }
    }

    /// Maps the result of a write to stdout. A closed pipe is not a failure.
    ///
    /// # Errors
    ///
    /// Fails if the write failed for another reason.
    pub fn of_stdout(written: io::Result<()>) -> Result<(), Self> {
        match written {
            Err(err) if err.kind() != io::ErrorKind::BrokenPipe => {
                let why = kindlm_store::describe_io_error(&err);
                Err(Self::internal(format!("cannot write to stdout: {why}")))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Creates the failure of a store.
    ///
    /// An I/O error is an internal failure; any other error is invalid input.
    pub fn store(err: &StoreError) -> Self {
        match err {
            StoreError::Io { .. } => Self::internal(err.to_string()),
            StoreError::Journal(err) => Self::journal(err),
            _ => Self::input(err.to_string()),
        }
    }

    /// Creates the failure of a journal.
    ///
    /// A journal that cannot be read or written is an internal failure; any other error is invalid input.
    pub fn journal(err: &JournalError) -> Self {
        match err {
            JournalError::Io { .. } | JournalError::NotKept { .. } => {
                Self::internal(err.to_string())
            }
            _ => Self::input(err.to_string()),
        }
    }

    /// Sets the advice for the user. Control characters are escaped.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(one_line(&help.into()));
        self
    }

    /// Creates the failure of several invalid arguments or files, with one line each.
    pub fn inputs(messages: impl IntoIterator<Item = String>) -> Self {
        let lines: Vec<String> = messages.into_iter().map(|it| one_line(&it)).collect();
        Self { message: Some(lines.join("\n")), ..Self::already_shown(ExitStatus::InvalidInput) }
    }

    /// Combines the results of two steps. If both failed, the failure has the messages of both, one per line.
    ///
    /// # Errors
    ///
    /// Fails if one of the steps failed. The exit status is that of the first failure.
    pub fn both(first: Result<(), Self>, second: Result<(), Self>) -> Result<(), Self> {
        let (first, second) = match (first, second) {
            (Err(first), Err(second)) => (first, second),
            (first, second) => return first.and(second),
        };
        let messages: Vec<String> = first.message.into_iter().chain(second.message).collect();
        Err(Self {
            status: first.status,
            message: (!messages.is_empty()).then(|| messages.join("\n")),
            help: first.help.or(second.help),
        })
    }

    /// Returns the lines for stderr; `None` if the message was shown already.
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

/// Returns the error message about a duplicate key at this location.
pub fn duplicate_key_message(place: &str) -> String {
    format!("`{place}` is a duplicate key: remove one of the two")
}
