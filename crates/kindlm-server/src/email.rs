//! Alerts by e-mail: [`Email`].

use std::time::Duration;

use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::AsyncSmtpTransportBuilder;
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
    /// Fails if:
    ///
    /// - an address or the URL is invalid
    /// - the URL has a password
    /// - the URL names a user, and `password` is `None`
    /// - TLS cannot be used
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
        let mut server = mail_server(&host, url.port().unwrap_or(port), tls);
        if !url.username().is_empty() {
            let user = percent_decode_str(url.username()).decode_utf8();
            let user = user.map_err(|_| EmailError::Url)?.into_owned();
            let password = password.ok_or(EmailError::NoPassword)?;
            server = server.credentials(Credentials::new(user, password.to_owned()));
        }
        Ok(Self { to, from, host, server: server.build(), limit: LONGEST_SEND })
    }

    /// Returns the key of the messages to this recipient in the database. The key does not reveal the address.
    pub(crate) fn key(&self) -> String {
        digest(format!("email {}", self.to).as_bytes())
    }

    /// Returns the option and the mail server, for messages to the operator.
    pub(crate) fn name(&self) -> String {
        format!("`--alert-email` by {}", self.host)
    }

    /// Sends a message once. `id` becomes a part of its `Message-ID`, so the recipient can detect a repeated message.
    ///
    /// Fails with the reason if the mail server refuses the message, or takes longer than [`LONGEST_SEND`].
    pub(crate) async fn send(&self, id: &str, text: &str) -> Result<(), String> {
        let message = self.message(id, text)?;
        // The time limit of `mail_server` covers only the connection.
        let sent = tokio::time::timeout(self.limit, self.server.send(message)).await;
        let sent = sent.map_err(|_| "the mail server did not answer in time".to_owned())?;
        sent.map(drop).map_err(|err| one_line(&err.to_string()))
    }

    /// Makes a message. The first line of the text becomes the subject.
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

/// Describes a mail server. No connection is opened.
fn mail_server(host: &str, port: u16, tls: Tls) -> AsyncSmtpTransportBuilder {
    AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host)
        .port(port)
        .tls(tls)
        .timeout(Some(PATIENCE))
}

/// Replaces line breaks and other control characters by spaces, so that a name cannot start a header or a line.
pub(crate) fn one_line(text: &str) -> String {
    let is_break = |it: char| it.is_control() || matches!(it, '\u{2028}' | '\u{2029}');
    text.replace(is_break, " ")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::{Arc, mpsc};

    use lettre::transport::smtp::client::Certificate;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    use super::*;

    /// The certificate of a server on this machine, its key, and the authority that signed it.
    const SERVER: &[u8] =
        include_bytes!("../../kindlm-providers/tests/it/transport/tls/server.pem");
    const SERVER_KEY: &[u8] =
        include_bytes!("../../kindlm-providers/tests/it/transport/tls/server.key");
    const AUTHORITY: &[u8] =
        include_bytes!("../../kindlm-providers/tests/it/transport/tls/authority.pem");

    /// Reads a line. Returns an empty line at the end of the connection.
    fn line(stream: &mut impl Read) -> String {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while stream.read(&mut byte).is_ok_and(|it| it == 1) && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    /// Answers the commands of a client, and sends them to `seen`. Returns true after STARTTLS.
    fn converse(
        stream: &mut (impl Read + Write),
        hello: &str,
        seen: &mpsc::Sender<String>,
    ) -> bool {
        loop {
            let command = line(stream);
            let _ = seen.send(command.clone());
            let reply = match command.split(' ').next().unwrap_or_default() {
                "" => return false,
                "EHLO" => hello,
                "STARTTLS" => "220 begin",
                "DATA" => {
                    stream.write_all(b"354 send\r\n").unwrap();
                    while line(stream) != "." {}
                    "250 stored"
                }
                _ => "250 done",
            };
            if stream.write_all(format!("{reply}\r\n").as_bytes()).is_err() {
                return false;
            }
            let _ = stream.flush();
            if command == "STARTTLS" {
                return true;
            }
        }
    }

    /// Starts a mail server for one connection. `hello` is its answer to EHLO before TLS. Returns its port and the
    /// commands that it receives. Commands inside TLS begin with `tls `.
    fn serve(hello: &'static str) -> (u16, mpsc::Receiver<String>) {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(SERVER).unwrap()],
                PrivateKeyDer::from_pem_slice(SERVER_KEY).unwrap(),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, commands) = mpsc::channel();
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.write_all(b"220 mail\r\n").unwrap();
            if converse(&mut socket, hello, &seen) {
                let connection = rustls::ServerConnection::new(Arc::new(config)).unwrap();
                let mut stream = rustls::StreamOwned::new(connection, socket);
                let (encrypted, lines) = mpsc::channel();
                converse(&mut stream, "250 mail", &encrypted);
                drop(encrypted);
                for line in lines {
                    let _ = seen.send(format!("tls {line}"));
                }
            }
        });
        (port, commands)
    }

    /// Sends a message, with mandatory TLS, to a mail server on this machine.
    async fn send_with_tls(port: u16, trusts: bool) -> Result<(), String> {
        let mut tls = TlsParameters::builder("127.0.0.1".to_owned());
        if trusts {
            tls = tls.add_root_certificate(Certificate::from_pem(AUTHORITY).unwrap());
        }
        let tls = Tls::Required(tls.build().unwrap());
        let email = email("ann@example.com", "k@example.com", "smtp://localhost", None).unwrap();
        let server = mail_server("127.0.0.1", port, tls).build();
        Email { server, ..email }.send("id", "text").await
    }

    #[tokio::test]
    async fn starttls_comes_before_the_message() {
        let (port, commands) = serve("250-mail\r\n250 STARTTLS");
        send_with_tls(port, true).await.unwrap();
        let commands: Vec<String> = commands.iter().collect();
        let names: Vec<&str> = commands.iter().map(|it| it.trim_end()).collect();
        let plain = names.iter().take_while(|it| !it.starts_with("tls ")).count();
        assert!(names[0].starts_with("EHLO ") && names[1] == "STARTTLS" && plain == 2, "{names:?}");
        for part in ["tls MAIL FROM:<k@example.com>", "tls RCPT TO:<ann@example.com>", "tls DATA"] {
            assert!(names.iter().any(|it| it.starts_with(part)), "{part}: {names:?}");
        }
    }

    #[tokio::test]
    async fn no_message_is_sent_without_trusted_tls() {
        for (hello, trusts) in [("250 mail", true), ("250-mail\r\n250 STARTTLS", false)] {
            let (port, commands) = serve(hello);
            send_with_tls(port, trusts).await.unwrap_err();
            let commands: Vec<String> = commands.iter().collect();
            assert!(commands[0].starts_with("EHLO "), "{commands:?}");
            assert!(!commands.iter().any(|it| it.contains("MAIL") || it.contains("DATA")));
        }
    }

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
        // The message replaces line breaks in its subject.
        let message = email.message("id", "a\rBcc: eve@evil.test").unwrap();
        let bytes = String::from_utf8(message.formatted()).unwrap();
        let (head, _) = bytes.split_once("\r\n\r\n").unwrap();
        assert!(!head.contains("\rBcc") && !head.contains("\nBcc"), "{head}");
    }

    #[tokio::test]
    async fn silent_mail_server_is_an_error() {
        // The system accepts connections to the listener, but no program answers.
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
