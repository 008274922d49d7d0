//! The commands that print the credentials of providers.

#[cfg(feature = "process")]
use std::path::PathBuf;
#[cfg(feature = "process")]
use std::sync::Arc;
#[cfg(feature = "process")]
use std::time::Duration;

#[cfg(feature = "process")]
use kindlm_process::{Failure, Guard, capture};
#[cfg(feature = "process")]
use kindlm_redact::Secrets;
#[cfg(feature = "process")]
use kindlm_transport::RunCommand;
use kindlm_transport::{CredentialCommand, CredentialForm, KEY_COMMAND};
use serde_json::Value;

/// The maximum number of characters of stderr in an error message.
#[cfg(feature = "process")]
const SHOWN: usize = 400;

/// Returns the command that prints the credential of a provider; `None` without one. `config` is the provider's entry
/// in `providers`, which has passed its schema.
pub(super) fn command_of(config: &Value) -> Option<CredentialCommand> {
    let places = [
        (KEY_COMMAND, &config[KEY_COMMAND], CredentialForm::Key),
        ("credentialsCommand", &config["credentialsCommand"], CredentialForm::Aws),
        ("aws.credentialsCommand", &config["aws"]["credentialsCommand"], CredentialForm::Aws),
    ];
    places.into_iter().find_map(|(setting, written, form)| {
        Some(CredentialCommand::new(written.as_str()?, setting, form))
    })
}

/// Returns a function that runs credential commands in a folder. Its errors contain the end of stderr, with secrets
/// masked.
#[cfg(feature = "process")]
pub(super) fn runner(folder: PathBuf, guard: Guard, secrets: Secrets) -> RunCommand {
    Arc::new(move |line: String, limit: Duration| {
        let (folder, guard, secrets) = (folder.clone(), guard.clone(), secrets.clone());
        Box::pin(async move {
            let ran = capture(&line, &folder, limit, None, &guard).await;
            let (why, stderr) = match ran {
                Ok(ran) if ran.exit_code == Some(0) => return Ok(ran.stdout),
                Ok(ran) => (how_ended(ran.exit_code), ran.stderr),
                Err(Failure::NotStarted(why)) => (why, String::new()),
                Err(Failure::TimedOut { after, stderr }) => {
                    let seconds = after.as_secs();
                    (format!("the command did not end within {seconds} s"), stderr)
                }
                Err(Failure::TooMuchOutput) => {
                    ("the command wrote too much to stdout".to_owned(), String::new())
                }
            };
            // The text is masked before it is cut, because masking does not recognize a part of a secret.
            let stderr = secrets.redact(&stderr).unwrap_or(stderr);
            Err(format!("{why}{}", end_of(&stderr)))
        })
    })
}

#[cfg(feature = "process")]
fn how_ended(exit_code: Option<i32>) -> String {
    match exit_code {
        Some(code) => format!("the command ended with exit code {code}"),
        None => "the command was ended by a signal".to_owned(),
    }
}

/// Returns the end of a text on one line, after a colon; an empty text stays empty.
#[cfg(feature = "process")]
fn end_of(stderr: &str) -> String {
    let line = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return line;
    }
    let skipped = line.chars().count().saturating_sub(SHOWN);
    let end: String = line.chars().skip(skipped).collect();
    let cut = if skipped > 0 { "…" } else { "" };
    format!(": `{cut}{end}`")
}
