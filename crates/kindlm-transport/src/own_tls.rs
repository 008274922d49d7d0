//! The TLS settings of one provider.

use reqwest::{Certificate, Client, Identity};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use crate::options::TransportOptions;
use crate::tls::{self, install_tls};

/// The TLS settings of one provider.
#[derive(Clone, Default)]
pub struct ProviderTls {
    /// The certificates to trust instead of the system's, in PEM.
    pub ca_pem: Option<Vec<u8>>,
    /// The client's certificate, in PEM.
    pub cert_pem: Option<Vec<u8>>,
    /// The key of the client's certificate, in PEM.
    pub key_pem: Option<Vec<u8>>,
    /// True to accept every certificate of the server.
    pub accepts_any: bool,
}

/// Builds the client of a provider with TLS settings of its own. Fails with the reason if the settings are invalid. If
/// the provider has certificate authorities of its own, they replace those of the system and of `options`.
pub(super) fn build(options: &TransportOptions, own: &ProviderTls) -> Result<Client, String> {
    install_tls();
    let identity = identity(own)?;
    let own_builder = || {
        let builder = tls::builder(options).tls_danger_accept_invalid_certs(own.accepts_any);
        match identity.clone() {
            Some(identity) => builder.identity(identity),
            None => builder,
        }
    };
    if let Some(authorities) = authorities(own)? {
        let built = own_builder().tls_certs_only(authorities).build();
        return built.map_err(|err| tls::chain(&err));
    }
    let custom = tls::check(options.ca_pem.as_deref()).map_err(|err| err.to_string())?;
    tls::built_with_roots(own_builder, custom)
}

/// Checks the certificates and the key. Fails with the reason if one of them is invalid.
pub(super) fn check(own: &ProviderTls) -> Result<(), String> {
    authorities(own)?;
    identity(own).map(|_| ())
}

/// Reads the authorities of a provider. Returns `None` if it has none of its own.
fn authorities(own: &ProviderTls) -> Result<Option<Vec<Certificate>>, String> {
    let Some(pem) = &own.ca_pem else { return Ok(None) };
    tls::check(Some(pem)).map(Some).map_err(|err| err.to_string())
}

/// Reads the client's certificate and its key. Returns `None` if the provider has none.
fn identity(own: &ProviderTls) -> Result<Option<Identity>, String> {
    let (Some(cert), Some(key)) = (&own.cert_pem, &own.key_pem) else { return Ok(None) };
    private_key(key)?;
    let both = [cert.as_slice(), b"\n", key.as_slice()].concat();
    let identity = Identity::from_pem(&both);
    identity.map(Some).map_err(|_| "the client's certificate is not valid PEM".to_owned())
}

/// Reads a private key in PEM. Fails with the reason, which never contains a part of the file.
pub(super) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let text = String::from_utf8_lossy(pem);
    if text.contains("ENCRYPTED") {
        let message = "the private key is encrypted: `openssl pkey -in KEY.pem -out PLAIN.pem` writes one that is not";
        return Err(message.to_owned());
    }
    if !text.contains("PRIVATE KEY-----") {
        return Err("the file has no private key in PEM (`-----BEGIN PRIVATE KEY-----`)".to_owned());
    }
    PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| "the private key is damaged, or not in PEM".to_owned())
}
