//! Credentials that a command of the suite prints, such as access tokens that expire after an hour.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kindlm_types::{ProviderError, ProviderErrorKind};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::aws::{ACCESS_KEY, SECRET_KEY, SESSION_TOKEN};
use crate::message::KEY_COMMAND;
use crate::options::{Env, TransportOptions};

/// The maximum duration of a command.
const LIMIT: Duration = Duration::from_mins(1);

/// A credential is renewed this many seconds before its expiration.
const EARLY: i64 = 5 * 60;

/// The minimum time before the command runs again after one of these runs:
/// - The run failed.
/// - The run printed a credential that expires soon.
/// - A refused credential without a known expiration caused the run.
const PAUSE: Duration = Duration::from_mins(1);

/// The maximum length of a key in bytes.
const LONGEST: usize = 64 * 1024;

/// The keys of the token in printed JSON, by precedence.
const TOKENS: [&str; 3] = ["token", "accessToken", "access_token"];

/// The keys of the expiration in printed JSON, by precedence. `az` prints `expiresOn` without a time zone, so
/// `expires_on` comes first.
const EXPIRATIONS: [&str; 8] = [
    "expires_on",
    "expiresOn",
    "expiration",
    "Expiration",
    "expirationTimestamp",
    "expiresAt",
    "expires_at",
    "expiry",
];

/// A command that prints the credential of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CredentialCommand {
    /// The command line.
    pub line: String,
    /// The key of the provider's settings that holds the command, for error messages.
    pub setting: &'static str,
    /// The form of the output.
    pub form: CredentialForm,
}

impl CredentialCommand {
    /// Creates a command. `line` is the command line, and `setting` the key of the provider's settings that holds it.
    pub fn new(line: impl Into<String>, setting: &'static str, form: CredentialForm) -> Self {
        Self { line: line.into(), setting, form }
    }
}

/// The form of a printed credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialForm {
    /// A key, or JSON with a token and its expiration. Requests refer to the key by the variable [`KEY_COMMAND`].
    Key,
    /// JSON as AWS defines it for `credential_process`.
    Aws,
}

impl CredentialForm {
    /// Returns the names of the request variables that the credential sets.
    fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Key => &[KEY_COMMAND],
            Self::Aws => &[ACCESS_KEY, SECRET_KEY, SESSION_TOKEN],
        }
    }
}

/// A credential that a command has printed.
#[derive(Clone)]
pub(crate) struct IssuedCredential {
    /// The number of the credential: 1 for the first one of a provider.
    pub(crate) number: u64,
    form: CredentialForm,
    values: Arc<[(&'static str, String)]>,
    expires: Option<Timestamp>,
    printed: Instant,
}

impl IssuedCredential {
    /// Returns a look-up of variables that takes the variables of this credential from its values. All other variables
    /// come from `env`.
    pub(crate) fn over(&self, env: &Env) -> Env {
        let (issued, env) = (self.clone(), Arc::clone(env));
        Arc::new(move |name: &str| {
            if !issued.form.variables().contains(&name) {
                return env(name);
            }
            issued.values.iter().find(|(it, _)| *it == name).map(|(_, value)| value.clone())
        })
    }

    /// Returns true if the credential can still be used.
    fn is_valid(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|it| it > now)
    }

    /// Returns true if the credential need not be renewed yet.
    fn is_fresh(&self, now: Timestamp) -> bool {
        let lasts = self.expires.is_none_or(|it| it.as_second() - now.as_second() > EARLY);
        lasts || self.is_valid(now) && self.printed.elapsed() < PAUSE
    }
}

/// The credential of a provider: the command, and the result of its last run.
pub(crate) struct Credential {
    command: CredentialCommand,
    /// The lock is held while the command runs, so that concurrent requests wait for the same run.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    issued: Option<IssuedCredential>,
    /// The time and the reason of the last run's failure; `None` unless the last run failed.
    failed: Option<(Instant, String)>,
    /// The time of the last run that a refused credential caused; `None` before such a run.
    renewed: Option<Instant>,
}

impl Credential {
    pub(crate) fn new(command: CredentialCommand) -> Self {
        Self { command, state: Mutex::default() }
    }

    /// Returns the current credential. Runs the command first if there is no credential yet, or if the credential
    /// expires soon. Fails if the command fails, and no earlier credential is valid.
    pub(crate) async fn current(
        &self,
        provider: &str,
        options: &TransportOptions,
    ) -> Result<IssuedCredential, ProviderError> {
        let mut state = self.state.lock().await;
        let now = Timestamp::now();
        if let Some(issued) = state.issued.as_ref().filter(|it| it.is_fresh(now)) {
            return Ok(issued.clone());
        }
        let earlier = state.issued.clone().filter(|it| it.is_valid(now));
        match (self.run(&mut state, provider, options).await, earlier) {
            (Err(_), Some(earlier)) => Ok(earlier),
            (result, _) => result,
        }
    }

    /// Returns a credential that is newer than `refused`; `None` if there is none. Runs the command only if `refused`
    /// has expired or has no known expiration. Without a known expiration, the command runs at most once a minute.
    /// Fails if the command fails.
    pub(crate) async fn after_refusal(
        &self,
        refused: &IssuedCredential,
        provider: &str,
        options: &TransportOptions,
    ) -> Result<Option<IssuedCredential>, ProviderError> {
        let mut state = self.state.lock().await;
        let is_newer = |it: &IssuedCredential| it.number > refused.number;
        if let Some(issued) = state.issued.as_ref().filter(|it| is_newer(it)) {
            return Ok(Some(issued.clone()));
        }
        // The credential can expire on the way to the provider.
        let is_valid = refused.is_valid(Timestamp::now());
        let is_recent = state.renewed.is_some_and(|it| it.elapsed() < PAUSE);
        if is_valid && (refused.expires.is_some() || is_recent) {
            return Ok(None);
        }
        let issued = self.run(&mut state, provider, options).await;
        // `renewed` is set only after the run. If the caller drops this future earlier, the next caller runs the
        // command.
        state.renewed = Some(Instant::now());
        Ok(Some(issued?).filter(is_newer))
    }

    /// Runs the command, and stores its credential. Fails if the command fails, or if it failed less than a minute ago.
    async fn run(
        &self,
        state: &mut State,
        provider: &str,
        options: &TransportOptions,
    ) -> Result<IssuedCredential, ProviderError> {
        if let Some((at, why)) = &state.failed
            && at.elapsed() < PAUSE
        {
            return Err(self.failure(provider, why));
        }
        let form = self.command.form;
        let ran = match &options.run_command {
            Some(run) => run(self.command.line.clone(), LIMIT).await,
            None => Err("no command can run here: use an environment variable instead".to_owned()),
        };
        let printed = match ran.and_then(|stdout| parse(form, &stdout, Timestamp::now())) {
            Ok(printed) => printed,
            Err(why) => {
                let err = self.failure(provider, &why);
                state.failed = Some((Instant::now(), why));
                return Err(err);
            }
        };
        let CommandOutput { values, expires } = printed;
        let secrets = values.iter().filter(|(name, _)| *name != ACCESS_KEY);
        secrets.for_each(|(_, value)| options.secrets.learn(value));
        let number = match &state.issued {
            Some(earlier) if *earlier.values == *values => earlier.number,
            earlier => earlier.as_ref().map_or(1, |it| it.number + 1),
        };
        let issued = IssuedCredential {
            number,
            form,
            values: values.into(),
            expires,
            printed: Instant::now(),
        };
        state.failed = None;
        state.issued = Some(issued.clone());
        Ok(issued)
    }

    fn failure(&self, provider: &str, why: &str) -> ProviderError {
        let message = format!(
            "`providers.{provider}.{}` gives no credential: {why}; run the command in a terminal to check it",
            self.command.setting
        );
        let err = ProviderError::new(ProviderErrorKind::Auth, provider, message);
        ProviderError { attempts: 0, ..err }
    }
}

impl fmt::Debug for Credential {
    /// Shows no credential.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("command", &self.command).finish_non_exhaustive()
    }
}

/// The output of a command.
#[derive(Debug, PartialEq)]
struct CommandOutput {
    values: Vec<(&'static str, String)>,
    expires: Option<Timestamp>,
}

/// Parses the output of a command. Fails with the reason, which does not repeat the output.
fn parse(form: CredentialForm, stdout: &str, now: Timestamp) -> Result<CommandOutput, String> {
    let text = stdout.trim();
    if text.is_empty() {
        return Err("the command printed nothing on stdout".to_owned());
    }
    let json = serde_json::from_str::<Value>(text);
    let values = match form {
        CredentialForm::Key => vec![(KEY_COMMAND, key(text, json.as_ref().ok())?)],
        CredentialForm::Aws => aws(json.as_ref().unwrap_or(&Value::Null))?,
    };
    let expires = json.ok().and_then(|it| expiration(&it, now));
    match expires.filter(|it| *it <= now) {
        Some(at) => Err(format!("the command printed a credential that expired at {at}")),
        None => Ok(CommandOutput { values, expires }),
    }
}

/// Returns the key in the output of a command. `json` is the parsed output; `None` if the output is not JSON.
fn key(text: &str, json: Option<&Value>) -> Result<String, String> {
    let found = match json {
        Some(Value::Object(json)) => TOKENS.iter().find_map(|it| json.get(*it)?.as_str()),
        Some(Value::String(text)) => Some(text.as_str()),
        Some(Value::Number(_)) => Some(text),
        Some(Value::Null | Value::Bool(_) | Value::Array(_)) => None,
        None => Some(text).filter(|it| !it.starts_with('{')),
    };
    let is_one_word = |it: &&str| !it.is_empty() && !it.contains(char::is_whitespace);
    let key = found.map(str::trim).filter(is_one_word).ok_or(
        "the command must print only a key, or JSON with `token`, `accessToken` or `access_token`",
    )?;
    if key.len() > LONGEST {
        return Err(format!(
            "the command printed {} bytes, and a key has at most {LONGEST}",
            key.len()
        ));
    }
    Ok(key.to_owned())
}

/// Returns the credentials of AWS in the output of a command.
fn aws(json: &Value) -> Result<Vec<(&'static str, String)>, String> {
    if json.get("Version").is_some_and(|it| *it != 1) {
        return Err("the command printed a `Version` other than 1".to_owned());
    }
    let part = |key: &str| json[key].as_str().map(str::trim).filter(|it| !it.is_empty());
    let (Some(id), Some(secret)) = (part("AccessKeyId"), part("SecretAccessKey")) else {
        let message = "the command must print JSON with `AccessKeyId` and `SecretAccessKey`, as \
                       `aws configure export-credentials` does";
        return Err(message.to_owned());
    };
    let token = part("SessionToken").map(|it| (SESSION_TOKEN, it.to_owned()));
    let values = [(ACCESS_KEY, id.to_owned()), (SECRET_KEY, secret.to_owned())];
    Ok(values.into_iter().chain(token).collect())
}

/// Returns the expiration in printed JSON: a time of RFC 3339, or seconds since 1970. `expires_in` is the number of
/// seconds from now. Returns `None` if there is no readable expiration.
fn expiration(json: &Value, now: Timestamp) -> Option<Timestamp> {
    let number = |value: &Value| value.as_i64().or_else(|| value.as_str()?.trim().parse().ok());
    let time = |value: &Value| match number(value) {
        Some(seconds) => Timestamp::from_second(seconds).ok(),
        None => value.as_str()?.trim().parse().ok(),
    };
    EXPIRATIONS.iter().find_map(|key| time(&json[*key])).or_else(|| {
        let seconds = now.as_second().checked_add(number(&json["expires_in"])?)?;
        Timestamp::from_second(seconds).ok()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use kindlm_types::BoxFuture;

    use super::*;
    use crate::options::RunCommand;

    fn now() -> Timestamp {
        "2026-01-02T03:00:00Z".parse().unwrap()
    }

    /// Returns the parts of a credential, separated by spaces, and the number of seconds until it expires.
    fn parsed(form: CredentialForm, stdout: &str) -> Result<(String, Option<i64>), String> {
        let CommandOutput { values, expires } = parse(form, stdout, now())?;
        let values: Vec<String> = values.into_iter().map(|(_, value)| value).collect();
        Ok((values.join(" "), expires.map(|it| it.as_second() - now().as_second())))
    }

    #[test]
    fn reads_every_form_of_a_key() {
        for (stdout, expected) in [
            ("ya29.abc\n", ("ya29.abc", None)),
            ("\"ya29.abc\"\n", ("ya29.abc", None)),
            ("12345678", ("12345678", None)),
            (r#"{"token":"a-b","expiration":"2026-01-02T04:00:00Z"}"#, ("a-b", Some(3_600))),
            (r#"{"token":"a","expiresOn":"2026-01-02T06:00:00+02:00"}"#, ("a", Some(3_600))),
            // `az account get-access-token` prints a local time, and since 2.54 also seconds.
            (r#"{"accessToken":"a","expiresOn":"2026-01-02 05:00:00.000000"}"#, ("a", None)),
            (
                r#"{"accessToken":"a","expiresOn":"2026-01-02 05:00:00.0","expires_on":1767324600}"#,
                ("a", Some(1_800)),
            ),
            // The metadata server of Google Cloud.
            (r#"{"access_token":"a","expires_in":3599,"token_type":"Bearer"}"#, ("a", Some(3_599))),
            // The identity endpoint of Azure.
            (r#"{"access_token":"a","expires_on":"1767324600"}"#, ("a", Some(1_800))),
            (r#"{"access_token":"a","expires_in":"soon"}"#, ("a", None)),
        ] {
            let (key, expires) = expected;
            let found = parsed(CredentialForm::Key, stdout);
            assert_eq!(found, Ok((key.to_owned(), expires)), "{stdout}");
        }
    }

    #[test]
    fn reads_credentials_of_aws() {
        for (stdout, expected) in [
            (r#"{"AccessKeyId":"A","SecretAccessKey":"S"}"#, ("A S", None)),
            (
                r#"{"Version":1,"AccessKeyId":"A","SecretAccessKey":"S","SessionToken":"T","Expiration":"2026-01-02T03:10:00+00:00"}"#,
                ("A S T", Some(600)),
            ),
        ] {
            let (parts, expires) = expected;
            let found = parsed(CredentialForm::Aws, stdout);
            assert_eq!(found, Ok((parts.to_owned(), expires)), "{stdout}");
        }
    }

    #[test]
    fn unreadable_output_is_not_repeated() {
        use CredentialForm::{Aws, Key};
        for (form, stdout, expected) in [
            (Key, " \n", "nothing"),
            (Key, "please log in", "only a key"),
            (Key, "a\nb", "only a key"),
            (Key, r#"{"token":"a""#, "only a key"),
            (Key, r#"{"key":"hunter2"}"#, "only a key"),
            (Key, r#"{"token":""}"#, "only a key"),
            (Key, "null", "only a key"),
            (Key, "true", "only a key"),
            (Key, r#"["a"]"#, "only a key"),
            (Key, r#"{"token":"a","expires_on":1}"#, "expired at 1970-01-01T00:00:01Z"),
            (Aws, "hunter2", "`AccessKeyId`"),
            (Aws, r#"{"AccessKeyId":"hunter2"}"#, "`SecretAccessKey`"),
            (
                Aws,
                r#"{"Version":2,"AccessKeyId":"hunter2","SecretAccessKey":"hunter2"}"#,
                "Version",
            ),
        ] {
            let why = parsed(form, stdout).unwrap_err();
            assert!(why.contains(expected) && !why.contains("hunter2"), "{stdout}: {why}");
        }
    }

    #[tokio::test]
    async fn a_renewal_that_was_cut_short_is_made_again() {
        let count = AtomicU32::new(0);
        let run: RunCommand = Arc::new(move |_: String, _: Duration| -> BoxFuture<'static, _> {
            let run = count.fetch_add(1, Ordering::SeqCst) + 1;
            Box::pin(async move {
                if run == 2 {
                    std::future::pending::<()>().await;
                }
                Ok(format!("key-{run}"))
            })
        });
        let (line, form) = (String::new(), CredentialForm::Key);
        let command = CredentialCommand { line, setting: "apiKeyCommand", form };
        let credential = Credential::new(command);
        let none = TransportOptions::new(Arc::new(|_| None));
        let options = TransportOptions { run_command: Some(run), ..none };
        let first = credential.current("p", &options).await.unwrap();
        let cut = credential.after_refusal(&first, "p", &options);
        assert!(tokio::time::timeout(Duration::ZERO, cut).await.is_err());
        let newer = credential.after_refusal(&first, "p", &options).await.unwrap().unwrap();
        assert_eq!((newer.number, newer.values[0].1.as_str()), (2, "key-3"));
    }

    #[test]
    fn a_credential_is_renewed_shortly_before_it_expires() {
        let long_ago = Instant::now().checked_sub(PAUSE * 2);
        for (expires_in, is_recent, expected) in [
            (None, false, true),
            (Some(EARLY + 1), false, true),
            (Some(EARLY), false, false),
            (Some(EARLY), true, true),
            (Some(1), true, true),
            (Some(0), true, false),
        ] {
            // Soon after the start of the machine, an `Instant` cannot represent a time that is long ago.
            let Some(printed) = (if is_recent { Some(Instant::now()) } else { long_ago }) else {
                continue;
            };
            let second = |it: i64| Timestamp::from_second(now().as_second() + it).unwrap();
            let issued = IssuedCredential {
                number: 1,
                form: CredentialForm::Key,
                values: Arc::new([]),
                expires: expires_in.map(second),
                printed,
            };
            assert_eq!(issued.is_fresh(now()), expected, "{expires_in:?} {is_recent}");
        }
    }
}
