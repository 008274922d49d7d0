//! The TLS settings and the signing key of one provider.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::BASE64;
use reqwest::Client;
use rustls::SignatureScheme;
use rustls::sign::SigningKey;

use crate::message::{SIGNATURE, SIGNATURE_TIMESTAMP};
use crate::options::{Env, TransportOptions};
use crate::own_tls::{self, ProviderTls, private_key};

/// The hash function of a signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignatureHash {
    /// SHA-256.
    #[default]
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// A key that signs each request of a provider, and the text that it signs.
#[derive(Clone)]
pub struct RequestSigner {
    key: Arc<dyn SigningKey>,
    scheme: [SignatureScheme; 2],
    data: String,
}

impl RequestSigner {
    /// Reads a private key in PEM: RSA or EC, as PKCS#8, PKCS#1 or SEC1. In `data`, `{{signatureTimestamp}}` stands for
    /// the time of the request, in milliseconds since 1970. Fails with the reason if the key is invalid, or cannot sign
    /// with this hash function.
    pub fn new(
        key_pem: &[u8],
        hash: SignatureHash,
        data: impl Into<String>,
    ) -> Result<Self, String> {
        let key = private_key(key_pem)?;
        let key = rustls::crypto::ring::sign::any_supported_type(&key)
            .map_err(|_| "the private key is none of RSA (2,048 bits or more) and EC".to_owned())?;
        let scheme = match hash {
            SignatureHash::Sha256 => {
                [SignatureScheme::RSA_PKCS1_SHA256, SignatureScheme::ECDSA_NISTP256_SHA256]
            }
            SignatureHash::Sha384 => {
                [SignatureScheme::RSA_PKCS1_SHA384, SignatureScheme::ECDSA_NISTP384_SHA384]
            }
            SignatureHash::Sha512 => {
                [SignatureScheme::RSA_PKCS1_SHA512, SignatureScheme::ECDSA_NISTP521_SHA512]
            }
        };
        if key.choose_scheme(&scheme).is_none() {
            let message = "the private key cannot sign with this hash function: P-256 signs with SHA256, and P-384 with \
                SHA384";
            return Err(message.to_owned());
        }
        Ok(Self { key, scheme, data: data.into() })
    }

    /// Signs the data of a request. `timestamp` is the time of the request, in milliseconds since 1970. Returns the
    /// signature in Base64. Fails if the key cannot sign.
    pub fn sign(&self, timestamp: &str) -> Result<String, String> {
        let data = ["{{signatureTimestamp}}", "{{ signatureTimestamp }}"]
            .iter()
            .fold(self.data.clone(), |data, it| data.replace(it, timestamp));
        let signer = self.key.choose_scheme(&self.scheme).ok_or("the key does not fit")?;
        signer.sign(data.as_bytes()).map(|it| BASE64.encode(&it)).map_err(|err| err.to_string())
    }
}

impl fmt::Debug for RequestSigner {
    /// Shows no key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestSigner").field("data", &self.data).finish_non_exhaustive()
    }
}

/// The TLS settings and the signing key of one provider.
#[derive(Default)]
pub struct ProviderSecurity {
    tls: Option<ProviderTls>,
    client: OnceLock<Result<Client, String>>,
    signer: Option<RequestSigner>,
}

impl ProviderSecurity {
    /// Creates the settings. Fails with the reason if a certificate or a key is invalid.
    pub fn new(tls: Option<ProviderTls>, signer: Option<RequestSigner>) -> Result<Self, String> {
        if let Some(tls) = &tls {
            own_tls::check(tls)?;
        }
        Ok(Self { tls, client: OnceLock::new(), signer })
    }

    /// Returns the provider's own client, which is built on first use. Returns `None` without TLS settings.
    pub(crate) fn client(&self, options: &TransportOptions) -> Option<&Result<Client, String>> {
        let tls = self.tls.as_ref()?;
        Some(self.client.get_or_init(|| own_tls::build(options, tls)))
    }

    /// Returns a look-up of variables that also resolves a new signature and its time. Returns `None` without a signing
    /// key. Fails if the key cannot sign.
    pub(crate) fn signed(&self, env: &Env) -> Option<Result<Env, String>> {
        let signer = self.signer.as_ref()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let timestamp = now.as_millis().to_string();
        let signature = match signer.sign(&timestamp) {
            Ok(signature) => signature,
            Err(why) => return Some(Err(why)),
        };
        let env = Arc::clone(env);
        Some(Ok(Arc::new(move |name: &str| match name {
            SIGNATURE => Some(signature.clone()),
            SIGNATURE_TIMESTAMP => Some(timestamp.clone()),
            _ => env(name),
        })))
    }
}

impl fmt::Debug for ProviderSecurity {
    /// Shows no key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderSecurity").finish_non_exhaustive()
    }
}
