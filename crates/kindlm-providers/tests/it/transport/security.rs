//! TLS settings and signing keys of one provider.
//!
//! The keys were generated for these tests and belong to no machine.

use kindlm_providers::transport::{ProviderSecurity, ProviderTls, RequestSigner, SignatureHash};
use kindlm_types::{Models, Unlimited};

use super::*;

const RSA: &[u8] = include_bytes!("security/rsa.pem");
const EC: &[u8] = include_bytes!("security/ec.pem");
const ENCRYPTED: &[u8] = include_bytes!("security/encrypted.pem");
const CERTIFICATE: &[u8] = include_bytes!("security/certificate.pem");

/// The expected signature is that of `openssl dgst -sha256 -sign`.
#[test]
fn signatures_are_those_of_openssl() {
    let signer = RequestSigner::new(RSA, SignatureHash::Sha256, "a{{signatureTimestamp}}");
    let expected = include_str!("security/rsa-sha256.txt").trim();
    assert_eq!(signer.unwrap().sign("1700000000000").as_deref(), Ok(expected));
    let signer = RequestSigner::new(EC, SignatureHash::Sha256, "a").unwrap();
    assert!(signer.sign("1").is_ok_and(|it| it.len() > 80));
}

#[test]
fn refuses_keys_that_cannot_sign() {
    for (key, hash, expected) in [
        (ENCRYPTED, SignatureHash::Sha256, "is encrypted"),
        (CERTIFICATE, SignatureHash::Sha256, "has no private key"),
        (EC, SignatureHash::Sha512, "P-256 signs with SHA256"),
    ] {
        let err = RequestSigner::new(key, hash, "a").unwrap_err();
        assert!(err.contains(expected), "{err}");
    }
}

#[test]
fn damaged_certificates_are_an_error() {
    let tls = |ca: &[u8], cert: &[u8], key: &[u8]| ProviderTls {
        ca_pem: Some(ca.to_vec()),
        cert_pem: Some(cert.to_vec()),
        key_pem: Some(key.to_vec()),
        accepts_any: false,
    };
    for (tls, expected) in [
        (tls(CERTIFICATE, CERTIFICATE, RSA), None),
        (tls(b"x", CERTIFICATE, RSA), Some("no certificate")),
        (tls(CERTIFICATE, b"x", RSA), Some("not valid PEM")),
        (tls(CERTIFICATE, CERTIFICATE, ENCRYPTED), Some("is encrypted")),
    ] {
        let found = ProviderSecurity::new(Some(tls), None).err();
        match expected {
            None => assert_eq!(found, None),
            Some(part) => assert!(found.as_ref().is_some_and(|it| it.contains(part)), "{found:?}"),
        }
    }
}

const FILES: Memory = Memory(&[
    ("ca.pem", include_str!("tls/authority.pem")),
    ("elsewhere.pem", include_str!("tls/elsewhere-authority.pem")),
    ("client.pem", include_str!("security/certificate.pem")),
    ("client.key", include_str!("security/rsa.pem")),
]);

async fn asked(config: Value) -> Result<String, String> {
    let config = providers(json!({"http": config}));
    let client = Client::new(&config, &FILES, client_options()).map_err(|problems| {
        problems.iter().map(|it| [&it.pointer, ": ", &it.message].concat()).collect::<String>()
    })?;
    let reply = Models::complete(&client, "http", &prompt("hi"), LONG, &Unlimited).await;
    reply.map(|it| it.text).map_err(|err| err.message)
}

#[tokio::test]
async fn a_provider_has_its_own_certificates() {
    let url = format!("https://{}/chat", super::tls::serve());
    for (tls, expected) in [
        (json!({"caPath": "ca.pem"}), Ok("secret")),
        (
            json!({"caPath": "ca.pem", "certPath": "client.pem", "keyPath": "client.key"}),
            Ok("secret"),
        ),
        (json!({"verify": false}), Ok("secret")),
        (json!({"caPath": "elsewhere.pem"}), Err("invalid peer certificate")),
        (json!({"caPath": "none.pem"}), Err("/http/tls/caPath: `none.pem` does not exist")),
        (json!({"certPath": "client.pem"}), Err("`keyPath` is missing beside `certPath`")),
        (
            json!({"caPath": "ca.pem", "certPath": "client.pem", "keyPath": "client.pem"}),
            Err("/http/tls: the file has no private key in PEM"),
        ),
    ] {
        let found = asked(json!({"url": url, "tls": tls})).await;
        match expected {
            Ok(text) => assert_eq!(found.as_deref(), Ok(text), "{tls}"),
            Err(part) => {
                assert!(found.as_ref().is_err_and(|it| it.contains(part)), "{tls}: {found:?}");
            }
        }
    }
}

#[tokio::test]
async fn scripts_do_not_use_the_tls_settings_of_a_provider() {
    let url = format!("https://{}/chat", super::tls::serve());
    let tls = ProviderTls { accepts_any: true, ..ProviderTls::default() };
    let security = ProviderSecurity::new(Some(tls), None).unwrap();
    let transport = transport().with_security("scripts", security);
    let fetched = transport.fetch(("GET", &url), &[], Vec::new(), LONG, 1024).await;
    assert!(fetched.is_err(), "{fetched:?}");
}

#[tokio::test]
async fn requests_have_a_new_signature() {
    let server = server();
    let config = json!({
        "url": format!("{}/chat?t={{{{signatureTimestamp}}}}", server.url()),
        "headers": {"X-Signature": "{{signature}}"},
        "signature": {"keyPath": "client.key", "data": "a{{signatureTimestamp}}"},
        "template": "jinja",
        "body": {"time": "{{signatureTimestamp}}", "signed": "{{signature}}", "q": "{{prompt}}"},
    });
    asked(config.clone()).await.unwrap();
    let sent = server.requests();
    let body = sent[0].json();
    let time = body["time"].as_str().unwrap();
    assert!(time.len() == 13 && time.bytes().all(|it| it.is_ascii_digit()), "{body}");
    assert_eq!(sent[0].path, format!("/chat?t={time}"));
    let signer = RequestSigner::new(RSA, SignatureHash::Sha256, "a{{signatureTimestamp}}").unwrap();
    let expected = signer.sign(time).unwrap();
    assert_eq!(sent[0].header("x-signature"), Some(expected.as_str()));
    assert_eq!(body["signed"], expected);
    let missing = json!({"keyPath": "none.key", "data": "a"});
    let config = json!({"url": config["url"], "signature": missing});
    let err = asked(config).await.unwrap_err();
    assert!(err.contains("/http/signature/keyPath: `none.key` does not exist"), "{err}");
}

#[tokio::test]
async fn an_embedding_is_found_by_its_path() {
    let server = MockServer::answering(|request| {
        assert_eq!(request.json(), json!({"inputs": "a text"}));
        kindlm_testing::MockReply::json(&json!([[0.5, 1]]))
    })
    .unwrap();
    let config =
        json!({"url": server.url(), "template": "jinja", "body": {"inputs": "{{prompt}}"}});
    let mut with_path = config.clone();
    with_path["embeddingPath"] = json!("");
    let client = client(json!({"http": with_path, "other": {"type": "http", "url": server.url()}}));
    let vector = Models::embed(&client, "http", "m", "a text", LONG).await.unwrap();
    assert_eq!(&*vector.vector, &[0.5, 1.0]);
    let err = Models::embed(&client, "other", "m", "a text", LONG).await.unwrap_err();
    assert!(err.message.contains("`embeddingPath`"), "{err}");
}
