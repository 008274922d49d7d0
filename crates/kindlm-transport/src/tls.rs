//! The TLS configuration of the HTTP client.

use reqwest::{Certificate, Client, ClientBuilder, redirect};

use super::TransportOptions;
use super::fault::causes;

/// Installs ring as the process-wide crypto provider, unless one is installed.
///
/// Call this function first in `main`. The transport calls it before its first request, so you only need the call if
/// another library uses TLS earlier. Repeated calls have no effect.
pub fn install_tls() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // This fails only if another thread has just installed a provider, which then serves the same purpose.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// An error in the certificates of a custom authority.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaError {
    /// The file is not PEM, or a certificate in it is damaged.
    #[error("the file with certificate authorities is not valid PEM")]
    NotPem,
    /// The file is PEM without a certificate.
    #[error("the file with certificate authorities has no certificate in it")]
    Empty,
}

/// Parses the custom certificates. Returns an empty list if no certificates are configured. Fails for invalid PEM, and
/// for PEM without a certificate.
pub(super) fn check(ca_pem: Option<&[u8]>) -> Result<Vec<Certificate>, CaError> {
    let Some(pem) = ca_pem else { return Ok(Vec::new()) };
    let certificates = Certificate::from_pem_bundle(pem).map_err(|_| CaError::NotPem)?;
    if certificates.is_empty() { Err(CaError::Empty) } else { Ok(certificates) }
}

/// Builds the client with the system's root certificates and the custom certificates. If that fails, uses Mozilla's
/// root certificates instead of the system's.
pub(super) fn build(options: &TransportOptions) -> Result<Client, String> {
    install_tls();
    let custom = check(options.ca_pem.as_deref()).map_err(|err| err.to_string())?;
    built_with_roots(|| builder(options), custom)
}

/// Builds the client of websockets, which has only version 1 of HTTP.
#[cfg(feature = "websocket")]
pub(super) fn build_for_sockets(options: &TransportOptions) -> Result<Client, String> {
    install_tls();
    let custom = check(options.ca_pem.as_deref()).map_err(|err| err.to_string())?;
    built_with_roots(|| builder(options).http1_only(), custom)
}

/// Builds a client with the system's root certificates, or else with Mozilla's, and with the custom certificates.
pub(super) fn built_with_roots(
    builder: impl Fn() -> ClientBuilder,
    custom: Vec<Certificate>,
) -> Result<Client, String> {
    let with_system = builder();
    let with_system =
        if custom.is_empty() { with_system } else { with_system.tls_certs_merge(custom.clone()) };
    with_system.build().or_else(|_| {
        let mozilla = webpki_root_certs::TLS_SERVER_ROOT_CERTS
            .iter()
            .filter_map(|der| Certificate::from_der(der).ok());
        builder().tls_certs_only(mozilla.chain(custom)).build().map_err(|err| chain(&err))
    })
}

/// Returns a builder with the options of all clients.
pub(super) fn builder(options: &TransportOptions) -> ClientBuilder {
    let builder = Client::builder()
        .user_agent(concat!("kindlm/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(options.connect_timeout)
        .redirect(redirect::Policy::none())
        .referer(false);
    if options.system_proxy { builder } else { builder.no_proxy() }
}

/// Returns the texts of an error and its causes, on one line.
pub(super) fn chain(err: &reqwest::Error) -> String {
    let texts: Vec<String> = causes(Some(err)).map(ToString::to_string).collect();
    texts.join(": ")
}
