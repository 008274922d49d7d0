//! Authorization of requests to AWS: a bearer token, or a signature of version 4.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use kindlm_types::{ProviderError, ProviderErrorKind};
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue as RawValue};

use super::AwsAuth;

pub(super) const ACCESS_KEY: &str = "AWS_ACCESS_KEY_ID";
pub(super) const SECRET_KEY: &str = "AWS_SECRET_ACCESS_KEY";
pub(super) const SESSION_TOKEN: &str = "AWS_SESSION_TOKEN";

/// The credentials that authorize requests to one AWS service.
pub(super) enum AwsAccess {
    /// A key that is sent as a bearer token.
    Key(String),
    /// Credentials that sign each request.
    Signed { credentials: Credentials, auth: AwsAuth },
}

impl AwsAccess {
    /// Reads the credentials from the environment. Fails if there are none.
    pub(super) fn from_env(
        provider: &str,
        auth: &AwsAuth,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ProviderError> {
        // A value that was read from a file often ends with a line break.
        let value = |name: &str| {
            let value = env(name).unwrap_or_default().trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        if let Some(key) = auth.key.as_deref().and_then(value) {
            return Ok(Self::Key(key));
        }
        let (Some(access), Some(secret)) = (value(ACCESS_KEY), value(SECRET_KEY)) else {
            return Err(missing(provider, auth));
        };
        let credentials =
            Credentials::new(access, secret, value(SESSION_TOKEN), None, "environment");
        Ok(Self::Signed { credentials, auth: auth.clone() })
    }

    /// Returns the secrets, which must be redacted.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        let (first, second) = match self {
            Self::Key(key) => (key.as_str(), None),
            Self::Signed { credentials, .. } => {
                (credentials.secret_access_key(), credentials.session_token())
            }
        };
        std::iter::once(first).chain(second)
    }

    /// Adds the authorization to the headers of a request.
    ///
    /// A signature is valid for a few minutes after `now`, so each attempt needs a new one.
    pub(super) fn authorize(
        &self,
        (method, url): (&str, &Url),
        headers: &mut HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> Result<(), String> {
        match self {
            Self::Key(key) => insert(headers, "authorization", &format!("Bearer {key}")),
            Self::Signed { credentials, auth } => {
                let signed = signature(credentials, auth, (method, url), headers, body, now)?;
                signed.iter().try_for_each(|(name, value)| insert(headers, name, value))
            }
        }
    }
}

/// Returns the headers of a signature.
fn signature(
    credentials: &Credentials,
    auth: &AwsAuth,
    (method, url): (&str, &Url),
    headers: &HeaderMap,
    body: &[u8],
    now: SystemTime,
) -> Result<Vec<(String, String)>, String> {
    let identity = credentials.clone().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(&auth.region)
        .name(&auth.service)
        .time(now)
        .settings(SigningSettings::default())
        .build()
        .map_err(|err| err.to_string())?
        .into();
    // Only the content type is signed, because proxies may change the other headers.
    let kind = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let signed = kind.map(|it| (CONTENT_TYPE.as_str(), it)).into_iter();
    let request = SignableRequest::new(method, url.as_str(), signed, SignableBody::Bytes(body))
        .map_err(|err| err.to_string())?;
    let (instructions, _) = sign(request, &params).map_err(|err| err.to_string())?.into_parts();
    Ok(instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let name = HeaderName::try_from(name).map_err(|err| err.to_string())?;
    let mut value = RawValue::try_from(value).map_err(|_| {
        "an AWS credential has characters that a header cannot carry, such as a line break"
            .to_owned()
    })?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

fn missing(provider: &str, auth: &AwsAuth) -> ProviderError {
    let key = auth.key.as_ref().map(|it| format!(", or an API key in `{it}`")).unwrap_or_default();
    let message = format!(
        "no credentials of AWS: set `{ACCESS_KEY}` and `{SECRET_KEY}`{key}; for a profile, a role or a login, write \
         `credentialsCommand: aws configure export-credentials`"
    );
    let mut err = ProviderError::new(ProviderErrorKind::Auth, provider, message);
    err.attempts = 0;
    err
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

    fn auth() -> AwsAuth {
        AwsAuth {
            service: "bedrock".to_owned(),
            region: "us-east-1".to_owned(),
            key: Some("AWS_BEARER_TOKEN_BEDROCK".to_owned()),
        }
    }

    /// Returns the headers of a request with these variables.
    fn headers(variables: &[(&str, &str)]) -> Result<HeaderMap, ProviderError> {
        let env = |name: &str| {
            variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
        };
        let access = AwsAccess::from_env("bedrock", &auth(), &env)?;
        let url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-v2%3A1/converse";
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, RawValue::from_static("application/json"));
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045);
        access
            .authorize(
                ("POST", &Url::parse(url).unwrap()),
                &mut headers,
                br#"{"messages":[]}"#,
                now,
            )
            .unwrap();
        Ok(headers)
    }

    /// The expected signatures are those of `botocore`, AWS's own library in Python.
    #[test]
    fn signatures_are_those_of_the_sdk_of_aws() {
        let scope =
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/us-east-1/bedrock/aws4_request";
        let keys = [(ACCESS_KEY, "AKIDEXAMPLE"), (SECRET_KEY, SECRET)];
        let signed = headers(&keys).unwrap();
        assert_eq!(
            signed["authorization"],
            format!(
                "{scope}, SignedHeaders=content-type;host;x-amz-date, \
                 Signature=b453e4c4c70c7f7f3dddf066e9c40cbe1eba83b2038f3fbc41c3172e17e65a65"
            )
        );
        assert_eq!(signed["x-amz-date"], "20260102T030405Z");
        assert_eq!(signed.get("x-amz-security-token"), None);
        let signed = headers(&[keys[0], keys[1], (SESSION_TOKEN, "TOKEN\n")]).unwrap();
        assert_eq!(
            signed["authorization"],
            format!(
                "{scope}, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, \
                 Signature=a4511fa2fd2791e7325ecf88d8dfd243a39ea15c32cb8704c80fc1d5a60a23dc"
            )
        );
        assert_eq!(signed["x-amz-security-token"], "TOKEN");
        assert!(!format!("{signed:?}").contains("AKIDEXAMPLE"));
    }

    #[test]
    fn a_key_replaces_the_signature() {
        let keys = [(ACCESS_KEY, "A"), (SECRET_KEY, SECRET), ("AWS_BEARER_TOKEN_BEDROCK", "key")];
        let signed = headers(&keys).unwrap();
        assert_eq!(signed["authorization"], "Bearer key");
        assert_eq!(signed.get("x-amz-date"), None);
    }

    #[test]
    fn missing_credentials_are_an_error_before_sending() {
        for variables in [&[][..], &[(ACCESS_KEY, "A")], &[(ACCESS_KEY, "A"), (SECRET_KEY, " ")]] {
            let err = headers(variables).unwrap_err();
            assert_eq!((err.kind, err.attempts), (ProviderErrorKind::Auth, 0), "{err}");
            assert!(err.message.contains("aws configure export-credentials"), "{err}");
        }
    }
}
