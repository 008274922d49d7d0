//! Alerts by e-mail: [`Email`].

use std::time::Duration;

use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use percent_encoding::percent_decode_str;
use url::Url;

use crate::local::is_loopback;
use crate::store::digest;

/// The time limit for the connection to a mail server.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time limit for sending a message. It is shorter than the lease of a delivery.
const LONGEST_SEND: Duration = Duration::from_secs(30);

/// The port of SMTP with TLS from the start.
const SMTPS: u16 = 465;

/// The port of SMTP with STARTTLS.
const SUBMISSION: u16 = 587;

/// The port of SMTP without TLS, for a server on this machine.
const SMTP: u16 = 25;

/// The maximum length of a subject, in characters.
const LONGEST_SUBJECT: usize = 200;

/// The reason why e-mails cannot be sent with these settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmailError {
    /// The recipient is not an address.
    #[error("`--alert-email`: expected an address such as `team@example.com`, and not \"{0}\"")]
    To(String),
    /// The sender is not an address.
    #[error("`--alert-from`: expected an address such as `kindlm@example.com`, and not \"{0}\"")]
    From(String),
    /// The URL of the mail server is invalid. It is not shown, because it may have a password.
    #[error("`--smtp-url`: expected `smtps://<user>@<host>:<port>` or `smtp://<host>:<port>`")]
    Url,
    /// The URL of the mail server has a password.
    #[error(
        "`--smtp-url`: other users of the machine can see a password in it; set the variable `KINDLM_SMTP_PASSWORD` instead"
    )]
    Password,
    /// The password of the user is not known.
    #[error("`--smtp-url` names a user; set the variable `KINDLM_SMTP_PASSWORD` to the password")]
    NoPassword,
    /// TLS cannot be used.
    #[error("`--smtp-url`: cannot use TLS: {0}")]
    Tls(String),
}

/// A recipient of alerts, and the mail server that sends them.
#[derive(Clone, Debug)]
pub struct Email {
    to: Mailbox,
    from: Mailbox,
    host: String,
    server: AsyncSmtpTransport<Tokio1Executor>,
    limit: Duration,
}

impl Email {
    /// Checks the addresses and the URL of the mail server. No connection is opened.
    ///
    /// `smtps://` uses TLS from the start. `smtp://` uses STARTTLS, and no TLS for a server on this machine.
    ///
    /// # Errors
    ///
    /// Fails if an address or the URL is invalid, if the URL has a password, or names a user without `password`.
    pub fn new(
        to: &str,
        from: &str,
        url: &str,
        password: Option<&str>,
    ) -> Result<Self, EmailError> {
        let to = to.parse().map_err(|_| EmailError::To(to.to_owned()))?;
        let from = from.parse().map_err(|_| EmailError::From(from.to_owned()))?;
        let url = Url::parse(url).map_err(|_| EmailError::Url)?;
        if url.password().is_some() {
            return Err(EmailError::Password);
        }
        let host = url.host_str().filter(|it| !it.is_empty()).ok_or(EmailError::Url)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls =
            || TlsParameters::new(host.clone()).map_err(|err| EmailError::Tls(err.to_string()));
        let (tls, port) = match url.scheme() {
            "smtps" => (Tls::Wrapper(tls()?), SMTPS),
            "smtp" if is_loopback(&host) => (Tls::None, SMTP),
            "smtp" => (Tls::Required(tls()?), SUBMISSION),
            _ => return Err(EmailError::Url),
        };
        let mut server = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host.clone())
            .port(url.port().unwrap_or(port))
            .tls(tls)
            .timeout(Some(PATIENCE));
        if !url.username().is_empty() {
            let user = percent_decode_str(url.username()).decode_utf8();
            let user = user.map_err(|_| EmailError::Url)?.into_owned();
            let password = password.ok_or(EmailError::NoPassword)?;
            server = server.credentials(Credentials::new(user, password.to_owned()));
        }
        Ok(Self { to, from, host, server: server.build(), limit: LONGEST_SEND })
    }

    /// Returns the key of its messages in the database. It does not show the address.
    pub(crate) fn key(&self) -> String {
        digest(format!("email {}", self.to).as_bytes())
    }

    /// Returns its option and the mail server, for messages to the operator.
    pub(crate) fn name(&self) -> String {
        format!("`--alert-email` by {}", self.host)
    }

    /// Sends a message once. `id` identifies it, also if it is sent again.
    pub(crate) async fn send(&self, id: &str, text: &str) -> Result<(), String> {
        let message = self.message(id, text)?;
        // The time limit of the mail server is only about the connection.
        let sent = tokio::time::timeout(self.limit, self.server.send(message)).await;
        let sent = sent.map_err(|_| "the mail server did not answer in time".to_owned())?;
        sent.map(drop).map_err(|err| one_line(&err.to_string()))
    }

    /// Makes a message. The first line of the text is its subject.
    fn message(&self, id: &str, text: &str) -> Result<Message, String> {
        let (first, _) = text.split_once('\n').unwrap_or((text, ""));
        let subject: String = one_line(first).chars().take(LONGEST_SUBJECT).collect();
        Message::builder()
            .from(self.from.clone())
            .to(self.to.clone())
            .message_id(Some(format!("<{}@{}>", one_line(id), self.from.email.domain())))
            .subject(subject)
            .header(ContentType::TEXT_PLAIN)
            .body(text.to_owned())
            .map_err(|err| err.to_string())
    }
}

/// Replaces line breaks and other control characters by spaces, so that a name cannot start a header or a line.
pub(crate) fn one_line(text: &str) -> String {
    let is_break = |it: char| it.is_control() || matches!(it, '\u{2028}' | '\u{2029}');
    text.replace(is_break, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn email(to: &str, from: &str, url: &str, password: Option<&str>) -> Result<Email, EmailError> {
        Email::new(to, from, url, password)
    }

    #[tokio::test]
    async fn names_cannot_inject_headers() {
        let email =
            email("ann@example.com", "K <k@example.com>", "smtp://localhost", None).unwrap();
        let text = "Fallen: a\r\nBcc: eve@evil.test\r\n\r\nbody: shop\n.\nsecond\u{2028}line";
        for name in [text, "ä\r\nBcc: eve@evil.test", &"long ".repeat(1000)] {
            // The text of an alert has each name on one line.
            let message = email.message("id-1\r\nBcc: eve@evil.test", &one_line(name)).unwrap();
            assert_eq!(message.envelope().to().len(), 1);
            let bytes = String::from_utf8(message.formatted()).unwrap();
            let (head, _) = bytes.split_once("\r\n\r\n").unwrap();
            let names: Vec<&str> = head
                .split("\r\n")
                .filter(|it| !it.starts_with([' ', '\t']))
                .filter_map(|it| it.split_once(':'))
                .map(|(name, _)| name)
                .collect();
            let known = [
                "From",
                "To",
                "Message-ID",
                "Subject",
                "Content-Type",
                "Date",
                "MIME-Version",
                "Content-Transfer-Encoding",
            ];
            assert!(names.iter().all(|it| known.contains(it)), "{head}");
            assert!(head.split("\r\n").all(|it| !it.contains(['\r', '\n'])), "{head}");
        }
        // A subject that reaches this function with line breaks has none in the header.
        let message = email.message("id", "a\rBcc: eve@evil.test").unwrap();
        let bytes = String::from_utf8(message.formatted()).unwrap();
        let (head, _) = bytes.split_once("\r\n\r\n").unwrap();
        assert!(!head.contains("\rBcc") && !head.contains("\nBcc"), "{head}");
    }

    #[tokio::test]
    async fn silent_mail_server_is_an_error() {
        // The system accepts connections to the listener, and nothing is written to them.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("smtp://{}", listener.local_addr().unwrap());
        let email = email("ann@example.com", "k@example.com", &url, None).unwrap();
        let email = Email { limit: Duration::from_millis(50), ..email };
        let error = email.send("id", "text").await.unwrap_err();
        assert_eq!(error, "the mail server did not answer in time");
    }

    #[tokio::test]
    async fn settings_are_checked_and_passwords_are_not_shown() {
        let (to, from) = ("ann@example.com", "k@example.com");
        for (to, from, url, password, expected) in [
            ("ann", from, "smtps://m.example.com", None, "`--alert-email`"),
            (to, "k@", "smtps://m.example.com", None, "`--alert-from`"),
            (to, from, "m.example.com", None, "`--smtp-url`"),
            (to, from, "https://m.example.com", None, "`--smtp-url`"),
            (to, from, "smtps://u:s3cret@m.example.com", None, "KINDLM_SMTP_PASSWORD"),
            (to, from, "smtps://u@m.example.com", None, "KINDLM_SMTP_PASSWORD"),
            (
                "ann@example.com\r\nBcc: eve@evil.test",
                from,
                "smtps://m.example.com",
                None,
                "`--alert-email`",
            ),
        ] {
            let error = email(to, from, url, password).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("s3cret"), "{url}: {error}");
        }
        let good =
            email(to, from, "smtps://ann%40example.com@m.example.com", Some("s3cret")).unwrap();
        for text in [format!("{good:?}"), good.key(), good.name()] {
            assert!(!text.contains("s3cret"), "{text}");
        }
        let invalid = email(to, from, "smtps://%ff@m.example.com", Some("s3cret")).unwrap_err();
        assert!(matches!(invalid, EmailError::Url), "{invalid}");
    }
}
