//! TLS tests against a real server whose certificate has its own authority.
//!
//! The key beside the certificates was generated for this test and belongs to no machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use kindlm_providers::limit::RateLimiter;
use kindlm_providers::transport::{HttpTransport, TransportOptions};
use kindlm_types::ProviderErrorKind as Kind;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::*;

/// The authority that signed the certificate for this machine.
const AUTHORITY: &[u8] = include_bytes!("tls/authority.pem");
const SERVER: &[u8] = include_bytes!("tls/server.pem");
const SERVER_KEY: &[u8] = include_bytes!("tls/server.key");

/// The authority that signed the certificate for `elsewhere.example`.
pub(super) const ELSEWHERE_AUTHORITY: &[u8] = include_bytes!("tls/elsewhere-authority.pem");
const ELSEWHERE: &[u8] = include_bytes!("tls/elsewhere.pem");
const ELSEWHERE_KEY: &[u8] = include_bytes!("tls/elsewhere.key");

/// Starts a TLS server that answers every connection with `secret`.
pub(super) fn serve() -> SocketAddr {
    serve_with(SERVER, SERVER_KEY)
}

/// Starts a TLS server with a certificate for another machine.
pub(super) fn serve_as_elsewhere() -> SocketAddr {
    serve_with(ELSEWHERE, ELSEWHERE_KEY)
}

fn serve_with(certificate: &[u8], key: &[u8]) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate).unwrap()],
            PrivateKeyDer::from_pem_slice(key).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, socket.unwrap());
            if stream.read(&mut [0; 4096]).is_ok() {
                let body = r#"{"choices":[{"message":{"content":"secret"}}]}"#;
                let length = body.len();
                let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
                let _ = stream.flush();
            }
        }
    });
    address
}

#[tokio::test]
async fn a_custom_authority_is_trusted_and_only_if_given() {
    let url = format!("https://{}", serve());
    let trusting = TransportOptions { ca_pem: Some(AUTHORITY.into()), ..options() };
    let called = HttpTransport::new(trusting)
        .unwrap()
        .call("openai", &request(&url), LONG, &RateLimiter::default().enqueue(0), decode)
        .await
        .unwrap();
    assert_eq!((called.value.as_str(), called.attempts), ("secret", 1));
    let err = call(&url, LONG).await.unwrap_err();
    assert_eq!((err.kind, err.attempts), (Kind::Connection, 1), "{err}");
    assert!(err.message.contains("invalid peer certificate"), "{err}");
    assert!(err.message.contains("SSL_CERT_FILE"), "{err}");
}
