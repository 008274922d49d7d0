//! The TLS settings, the signature of requests, and the statuses of answers.

use std::ops::RangeInclusive;

#[cfg(feature = "http")]
use kindlm_transport::{ProviderSecurity, ProviderTls, RequestSigner, SignatureHash};
#[cfg(feature = "http")]
use kindlm_types::Files;
use kindlm_types::Problem;
use schemars::JsonSchema;
use serde::Deserialize;
#[cfg(feature = "http")]
use serde_json::Value;

/// The TLS settings of the connection. All files are PEM, relative to the suite.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HttpTls")]
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only the client reads it"))]
pub(super) struct TlsConfig {
    /// The file of the certificates to trust instead of the system's.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(super) ca_path: Option<String>,
    /// The file of the client's certificate. It needs `keyPath`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(super) cert_path: Option<String>,
    /// The file of the private key of the client's certificate.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(super) key_path: Option<String>,
    /// False to accept every certificate of the server, such as a self-signed one; true by default.
    #[serde(default = "yes")]
    pub(super) verify: bool,
}

fn yes() -> bool {
    true
}

/// The signature of each request. `{{signature}}` and `{{signatureTimestamp}}` insert it into the request.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HttpSignature")]
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only the client reads it"))]
pub(super) struct SignatureConfig {
    /// The file of the private key in PEM, RSA or EC, relative to the suite.
    #[schemars(length(min = 1))]
    pub(super) key_path: String,
    /// The text to sign. `{{signatureTimestamp}}` in it is the time of the request in milliseconds since 1970.
    pub(super) data: String,
    /// The hash function; `SHA256` by default.
    #[serde(default)]
    pub(super) algorithm: Algorithm,
}

/// The hash function of a signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(rename = "HttpSignatureAlgorithm")]
pub(super) enum Algorithm {
    #[default]
    Sha256,
    Sha384,
    Sha512,
}

/// Checks the TLS settings and the signature. Returns their problems.
pub(super) fn check(
    tls: Option<&TlsConfig>,
    signature: Option<&SignatureConfig>,
) -> impl Iterator<Item = Problem> {
    tls.and_then(check_tls).into_iter().chain(signature.and_then(check_signature))
}

/// Checks the TLS settings. Returns the problem of a certificate without a key, or of a key without a certificate.
fn check_tls(tls: &TlsConfig) -> Option<Problem> {
    let (missing, given) = match (&tls.cert_path, &tls.key_path) {
        (Some(_), None) => ("keyPath", "certPath"),
        (None, Some(_)) => ("certPath", "keyPath"),
        _ => return None,
    };
    let message = format!("`{missing}` is missing beside `{given}`");
    Some(Problem::new("/tls", message).with_help("a client's certificate needs both files"))
}

/// Checks the text to sign. Returns a problem for a template other than `{{signatureTimestamp}}`, because only this one
/// is filled in.
fn check_signature(signature: &SignatureConfig) -> Option<Problem> {
    let rest = ["{{signatureTimestamp}}", "{{ signatureTimestamp }}"]
        .iter()
        .fold(signature.data.clone(), |rest, it| rest.replace(it, ""));
    if !kindlm_template::is_template(&rest) {
        return None;
    }
    let problem = Problem::new("/signature/data", "this template is not filled in");
    Some(problem.with_help("only `{{signatureTimestamp}}` is filled in"))
}

/// The statuses that are answers, as ranges.
pub(super) type Statuses = Vec<RangeInclusive<u16>>;

/// Returns the statuses that are answers, 200 to 299 by default, and adds their problems to `problems`.
pub(super) fn accepted(written: Option<&[String]>, problems: &mut Vec<Problem>) -> Statuses {
    let Some(written) = written else { return vec![200..=299] };
    statuses(written).map_err(|problem| problems.push(problem)).unwrap_or_default()
}

/// Parses statuses: `404` or `200-299`. Fails with the problem of the first invalid text.
fn statuses(written: &[String]) -> Result<Statuses, Problem> {
    let range = |(at, text): (usize, &String)| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |it: &str| it.trim().parse().ok().filter(|it| (100..600).contains(it));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => Ok(first..=last),
            _ => {
                let message = format!("`{text}` is neither a status nor a range of statuses");
                let problem = Problem::new(format!("/acceptStatus/{at}"), message);
                Err(problem.with_help("write `404` or `200-299`"))
            }
        }
    };
    written.iter().enumerate().map(range).collect()
}

/// Reads the files of a configuration's TLS settings and signature. Returns `None` without both. Fails with the
/// problems of the files.
#[cfg(feature = "http")]
pub(crate) fn load(
    config: &Value,
    files: &dyn Files,
) -> Result<Option<ProviderSecurity>, Vec<Problem>> {
    let read = |key: &str| config.get(key).filter(|it| !it.is_null()).cloned();
    let tls = read("tls").and_then(|it| serde_json::from_value::<TlsConfig>(it).ok());
    let signature =
        read("signature").and_then(|it| serde_json::from_value::<SignatureConfig>(it).ok());
    if tls.is_none() && signature.is_none() {
        return Ok(None);
    }
    let mut problems = Vec::new();
    let mut content = |pointer: &str, path: &str| match files.read_bytes(path, MOST) {
        Ok(bytes) => Some(bytes),
        Err(err) => {
            problems.push(Problem::new(pointer, err.to_string()));
            None
        }
    };
    let tls = tls.map(|tls| {
        let mut file = |key: &str, path: &Option<String>| {
            path.as_deref().and_then(|it| content(&format!("/tls/{key}"), it))
        };
        ProviderTls {
            ca_pem: file("caPath", &tls.ca_path),
            cert_pem: file("certPath", &tls.cert_path),
            key_pem: file("keyPath", &tls.key_path),
            accepts_any: !tls.verify,
        }
    });
    let with_key = signature.and_then(|signature| {
        let key = content("/signature/keyPath", &signature.key_path)?;
        Some((key, signature))
    });
    let signer = with_key.and_then(|(key, signature)| {
        let hash = match signature.algorithm {
            Algorithm::Sha256 => SignatureHash::Sha256,
            Algorithm::Sha384 => SignatureHash::Sha384,
            Algorithm::Sha512 => SignatureHash::Sha512,
        };
        RequestSigner::new(&key, hash, signature.data)
            .map_err(|why| problems.push(Problem::new("/signature/keyPath", why)))
            .ok()
    });
    if !problems.is_empty() {
        return Err(problems);
    }
    let security = ProviderSecurity::new(tls, signer);
    security.map(Some).map_err(|why| vec![Problem::new("/tls", why)])
}

/// The maximum size of a file with a certificate or a key, in bytes.
#[cfg(feature = "http")]
const MOST: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_timestamp_is_filled_in() {
        for (data, expected) in [
            ("a{{signatureTimestamp}}", true),
            ("a{{ signatureTimestamp }}", true),
            ("a", true),
            ("{{env.ID}}{{signatureTimestamp}}", false),
            ("{{ signatureTimestamp | upper }}", false),
        ] {
            let config = serde_json::json!({"keyPath": "key.pem", "data": data});
            let signature: SignatureConfig = serde_json::from_value(config).unwrap();
            assert_eq!(check_signature(&signature).is_none(), expected, "{data}");
        }
    }

    #[test]
    fn reads_ranges_of_statuses() {
        for (text, expected) in [
            ("404", Some(404..=404)),
            ("200-299", Some(200..=299)),
            ("99", None),
            ("299-200", None),
            ("2xx", None),
        ] {
            let found = statuses(&[text.to_owned()]).ok();
            assert_eq!(found, expected.map(|it| vec![it]), "{text}");
        }
    }
}
