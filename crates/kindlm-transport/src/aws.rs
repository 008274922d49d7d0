//! Authorization of requests to AWS: a bearer token, or a signature of version 4.

use std::time::SystemTime;

#[cfg(feature = "aws")]
use aws_credential_types::Credentials;
#[cfg(feature = "aws")]
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
#[cfg(feature = "aws")]
use aws_sigv4::sign::v4;
use kindlm_types::{ProviderError, ProviderErrorKind};
use reqwest::Url;
#[cfg(feature = "aws")]
use reqwest::header::CONTENT_TYPE;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue as RawValue};

use super::AwsAuth;

pub(super) const ACCESS_KEY: &str = "AWS_ACCESS_KEY_ID";
pub(super) const SECRET_KEY: &str = "AWS_SECRET_ACCESS_KEY";
pub(super) const SESSION_TOKEN: &str = "AWS_SESSION_TOKEN";

/// The credentials that authorize requests to one AWS service.
pub(super) enum AwsAccess {
    /// A key that is sent as a bearer token.
    Key(String),
    /// Credentials that sign each request.
    #[cfg(feature = "aws")]
    Signed { credentials: Credentials, auth: AwsAuth },
}

impl AwsAccess {
    /// Reads the credentials from the environment. Fails if there are none.
    pub(super) fn from_env(
        provider: &str,
        auth: &AwsAuth,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ProviderError> {
        match auth.key.as_deref().and_then(|it| value(env, it)) {
            Some(key) => Ok(Self::Key(key)),
            None => Self::signed(provider, auth, env),
        }
    }

    /// Reads the credentials of a signature from the environment. Fails if there are none.
    #[cfg(feature = "aws")]
    fn signed(
        provider: &str,
        auth: &AwsAuth,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ProviderError> {
        let (Some(access), Some(secret)) = (value(env, ACCESS_KEY), value(env, SECRET_KEY)) else {
            return Err(missing(provider, auth));
        };
        let token = value(env, SESSION_TOKEN);
        let credentials = Credentials::new(access, secret, token, None, "environment");
        Ok(Self::Signed { credentials, auth: auth.clone() })
    }

    /// Fails, because this build cannot sign requests.
    #[cfg(not(feature = "aws"))]
    fn signed(
        provider: &str,
        auth: &AwsAuth,
        _env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ProviderError> {
        let key = auth.key.as_ref().map(|it| format!(", or set an API key in `{it}`"));
        let message = format!(
            "this build of KindLM cannot sign requests to AWS; `cargo install --path crates/kindlm-cli --features full` \
             builds one that can; in a crate, enable the feature `aws` of `kindlm-transport`{}",
            key.unwrap_or_default()
        );
        let err = ProviderError::new(ProviderErrorKind::Auth, provider, message);
        Err(ProviderError { attempts: 0, ..err })
    }

    /// Returns the secrets, which must be redacted.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        let (first, second) = match self {
            Self::Key(key) => (key.as_str(), None),
            #[cfg(feature = "aws")]
            Self::Signed { credentials, .. } => {
                (credentials.secret_access_key(), credentials.session_token())
            }
        };
        std::iter::once(first).chain(second)
    }

    /// Adds the authorization to the headers of a request.
    ///
    /// A signature is valid for a few minutes after `now`, so each attempt needs a new one.
    #[cfg_attr(
        not(feature = "aws"),
        expect(unused_variables, reason = "only a signature depends on the request and the time")
    )]
    pub(super) fn authorize(
        &self,
        (method, url): (&str, &Url),
        headers: &mut HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> Result<(), String> {
        match self {
            Self::Key(key) => insert(headers, "authorization", &format!("Bearer {key}")),
            #[cfg(feature = "aws")]
            Self::Signed { credentials, auth } => {
                let signed = signature(credentials, auth, (method, url), headers, body, now)?;
                signed.iter().try_for_each(|(name, value)| insert(headers, name, value))
            }
        }
    }
}

/// Returns the trimmed value of a variable; `None` if it is unset or blank.
fn value(env: &dyn Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    // A value that was read from a file often ends with a line break.
    let value = env(name).unwrap_or_default().trim().to_owned();
    (!value.is_empty()).then_some(value)
}

/// Returns the headers of a signature.
#[cfg(feature = "aws")]
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

#[cfg(feature = "aws")]
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
#[cfg(feature = "aws")]
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

#[cfg(test)]
#[cfg(not(feature = "aws"))]
mod tests_without_signatures {
    use super::*;

    #[test]
    fn only_an_api_key_authorizes() {
        let auth = AwsAuth::new("bedrock", "us-east-1", Some("API_KEY".into()));
        let access = |set: &'static [&str]| {
            AwsAccess::from_env("bedrock", &auth, &|name| set.contains(&name).then(|| "a".into()))
        };
        assert!(matches!(access(&["API_KEY"]), Ok(AwsAccess::Key(key)) if key == "a"));
        let err = access(&[ACCESS_KEY, SECRET_KEY]).err().unwrap();
        assert_eq!((err.kind, err.attempts), (ProviderErrorKind::Auth, 0));
        assert!(err.message.contains("--features full"), "{err}");
        assert!(err.message.contains("set an API key in `API_KEY`"), "{err}");
    }
}
