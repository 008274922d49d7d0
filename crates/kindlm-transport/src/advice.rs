//! Error messages for error responses and TLS failures, with advice.

use kindlm_types::{MalformedKind, ProviderError, ProviderErrorKind as Kind};
use rustls::{CertificateError, Error as TlsError};

use crate::HttpResponse;

/// The advice for an incomplete response.
const INCOMPLETE: &str =
    "it is incomplete: the server, or a proxy on the way, has cut it; try again";

/// Returns the error message for an error that a codec decoded from a response.
///
/// `host` is the server. `key` names the provider's setting that holds the address, such as `baseUrl`.
pub(super) fn explain(
    host: &str,
    key: &str,
    err: &ProviderError,
    response: &HttpResponse,
) -> String {
    let message = refusal_advice(host, err, response.status);
    match advice(key, err, response) {
        Some(advice) => format!("{}; {advice}", message.trim_end_matches(['.', ' '])),
        None => message,
    }
}

/// Returns the error message without advice. The message names the host.
fn refusal_advice(host: &str, err: &ProviderError, status: u16) -> String {
    let message = &err.message;
    match (message.strip_prefix("the answer "), err.kind) {
        (Some(rest), Kind::MalformedResponse) => format!("the answer of `{host}` {rest}"),
        (None, Kind::MalformedResponse) => {
            format!("the answer of `{host}` cannot be used: {message}")
        }
        // The codec found no error message in the body. The codec's own message begins with the status.
        _ if message.starts_with("status ") => format!("`{host}` answered with {message}"),
        // A successful response, or an event of its stream, reports the error.
        _ if (200..300).contains(&status) => format!("`{host}` reported an error: {message}"),
        _ => format!("`{host}` answered with status {status}: {message}"),
    }
}

/// Returns advice for an error, depending on its kind and the response. Returns `None` if there is no advice.
fn advice(key: &str, err: &ProviderError, response: &HttpResponse) -> Option<String> {
    let kind = err.kind;
    let advice = match kind {
        Kind::Auth if response.status == 403 => "check that the account may use this model",
        Kind::Auth => "check that the key is valid, and meant for this provider",
        Kind::QuotaExhausted => "add credit, or raise the limits of the account",
        Kind::RateLimited => {
            "set the model's `limits` (`rpm`, `tpm`, `concurrency`) to those of the account, lower `--concurrency`, \
             or ask the provider for a higher limit"
        }
        Kind::ModelNotFound => "check `model` in the config, and that the account may use it",
        Kind::ContextLength => "shorten the prompt, or use a model that reads more",
        Kind::InvalidRequest if response.status == 413 => "shorten the prompt",
        Kind::Overloaded | Kind::Server | Kind::Timeout => {
            "the provider has a problem: try again later"
        }
        Kind::MalformedResponse if is_page(response) => {
            return Some(format!(
                "it is a web page: check `{key}`, and whether a proxy wants you to sign in"
            ));
        }
        Kind::MalformedResponse
            if err.malformed != MalformedKind::Incomplete
                && str::from_utf8(&response.body).is_err() =>
        {
            "it is not UTF-8: the server, or a proxy on the way, has damaged it"
        }
        Kind::MalformedResponse if breaks_off(response) => INCOMPLETE,
        Kind::MalformedResponse => match err.malformed {
            MalformedKind::Unknown => {
                return Some(format!("check that `{key}` leads to the API of a model"));
            }
            MalformedKind::Faulty => {
                "the server wrote a faulty answer: update it, or report it to its makers"
            }
            MalformedKind::Incomplete => INCOMPLETE,
            MalformedKind::Unsupported => return None,
        },
        _ => return None,
    };
    Some(advice.to_owned())
}

fn is_page(response: &HttpResponse) -> bool {
    response.header("content-type").is_some_and(|it| it.to_ascii_lowercase().contains("html"))
}

/// Returns true if the body is truncated JSON; false for an empty body.
fn breaks_off(response: &HttpResponse) -> bool {
    let body = response.body.trim_ascii();
    let read = serde_json::from_slice::<serde::de::IgnoredAny>(body);
    !body.is_empty() && read.is_err_and(|err| err.is_eof())
}

/// Returns the reason for a TLS failure, with advice.
pub(super) fn on_tls(err: &TlsError, key: &str) -> String {
    let address;
    let (reason, advice) = match err {
        TlsError::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => {
            address = format!("check the host in `{key}`");
            ("its certificate is for another host", address.as_str())
        }
        TlsError::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => (
            "its certificate is not valid today",
            "check the clock of this machine; if it is right, the server needs a new certificate",
        ),
        // rustls has no variant for this webpki error.
        TlsError::InvalidCertificate(CertificateError::Other(why))
            if why.to_string().contains("CaUsedAsEndEntity") =>
        {
            (
                "its certificate is that of an authority, and not of a server",
                "a server needs a certificate of its own that the authority has signed (in OpenSSL, `basicConstraints=CA:FALSE`): \
                 to trust this one with `SSL_CERT_FILE` does not help",
            )
        }
        TlsError::InvalidCertificate(_) => (
            "its certificate is not trusted",
            "if your network has a certificate authority of its own, set `SSL_CERT_FILE` to its PEM file",
        ),
        TlsError::InvalidMessage(_) => {
            address = format!("if that is right, `{key}` must begin with `http://`");
            ("it does not seem to speak TLS", address.as_str())
        }
        _ => {
            address = format!("check `{key}`, and whether a proxy stands in between");
            ("TLS failed", address.as_str())
        }
    };
    format!("{reason} ({err}); {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successful_status_is_not_named() {
        let err = ProviderError::new(Kind::Server, "p", "model fell over");
        for (status, expected) in [
            (200, "`h` reported an error: model fell over"),
            (500, "`h` answered with status 500: model fell over"),
        ] {
            assert_eq!(refusal_advice("h", &err, status), expected);
        }
    }

    #[test]
    fn the_fault_of_an_answer_decides_the_advice() {
        let quoted = "the answer is odd: `the answer has a duplicate key, which is unsupported`";
        for (kind, expected) in [
            (MalformedKind::Unknown, Some("check that `baseUrl` leads to the API of a model")),
            (
                MalformedKind::Faulty,
                Some("the server wrote a faulty answer: update it, or report it to its makers"),
            ),
            (MalformedKind::Incomplete, Some(INCOMPLETE)),
            (MalformedKind::Unsupported, None),
        ] {
            let err = ProviderError::new(Kind::MalformedResponse, "p", quoted).with_malformed(kind);
            let response = HttpResponse::new(200, "{}");
            assert_eq!(advice("baseUrl", &err, &response).as_deref(), expected, "{kind:?}");
        }
        // A stream can be cut within a character.
        let err = ProviderError::new(Kind::MalformedResponse, "p", quoted)
            .with_malformed(MalformedKind::Incomplete);
        let response = HttpResponse::new(200, b"data: {\"a\": \"\xc3".to_vec());
        assert_eq!(advice("baseUrl", &err, &response).as_deref(), Some(INCOMPLETE));
    }
}
