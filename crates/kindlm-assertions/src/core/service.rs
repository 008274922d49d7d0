//! The shared parts of checks that call a service over HTTP: the host, the request and the answer.

use std::sync::Arc;
use std::time::Duration;

use kindlm_types::script::{
    ScriptOutcome, ScriptQuestion, ScriptRuntime, ScriptSource, ScriptValue,
};
use kindlm_types::{HostPattern, Problem, Question, ecma};
use serde_json::{Value, json};

use crate::core::scripting::ScriptSettings;

/// The default time limit of a service.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The script that sends the request.
///
/// The script runs in the sandbox with KindLM's own HTTP client, so it reaches only permitted hosts. The script can
/// read the key only from a permitted environment variable.
const SEND: &str = "const headers = { 'content-type': 'application/json' }; \
     if (key) { \
       const value = process.env[key.variable]; \
       if (!value) { throw new Error('the environment variable ' + key.variable + ' is not set'); } \
       headers[key.header] = value; \
     } \
     const answer = await fetch(url, { method: 'POST', headers, body }); \
     return { status: answer.status, body: await answer.text() }";

/// The key that the service requires.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// The name of the header with the key.
    pub(crate) header: &'static str,
    /// The environment variable that holds the key.
    pub(crate) variable: String,
}

/// Returns the host of an HTTP URL, with its port; `None` for any other text.
///
/// Messages show only the host, because the rest of the URL may contain a secret.
pub(crate) fn host(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    (!host.is_empty()).then_some(host)
}

/// Returns the problem of a check that has no permission to reach its service; `None` if the hosts of `net` permit it.
///
/// The pointer of the problem starts at the check.
pub(crate) fn not_permitted(at: &str, url: &str, host: &str, net: &[String]) -> Option<Problem> {
    let message = if net.is_empty() {
        "this check may not use the network".to_owned()
    } else if may_reach(url, host, net) {
        return None;
    } else {
        format!("this check may not reach `{host}`")
    };
    let help = format!("add `scripts: {{ net: [\"{host}\"] }}` to the suite or to the check");
    Some(Problem::new(at, message).with_help(help))
}

/// Returns true if a host of the list matches the host of a URL.
///
/// Also returns true for a host that only a URL parser can compare. The request itself checks every host.
fn may_reach(url: &str, host: &str, net: &[String]) -> bool {
    let (name, port) = match host.rsplit_once(':').filter(|(_, it)| !it.contains(']')) {
        Some((name, port)) if !port.is_empty() => (name, port.parse().ok()),
        Some((name, _)) => (name, Some(default_port(url))),
        None => (host, Some(default_port(url))),
    };
    let name = name.to_ascii_lowercase();
    let is_plain = name.chars().all(|it| it.is_ascii_alphanumeric() || ".-_:[]".contains(it));
    let mut patterns = net.iter().filter_map(|it| HostPattern::parse(it).ok());
    !is_plain || patterns.any(|it| it.matches(&name, port))
}

fn default_port(url: &str) -> u16 {
    if url.starts_with("https:") { 443 } else { 80 }
}

/// Returns the question that posts `body` to a service.
pub(crate) fn question(
    url: &str,
    body: &Value,
    key: Option<&Key>,
    settings: &ScriptSettings,
    timeout: Duration,
) -> Question {
    let url = ecma::stringify(&json!(url));
    let body = ecma::stringify(&json!(ecma::stringify(body)));
    let key = key.map(|it| json!({"header": it.header, "variable": it.variable}));
    let source = ScriptSource::Body {
        params: ["url", "body", "key"].map(str::to_owned).to_vec(),
        code: SEND.into(),
    };
    let question = ScriptQuestion::new(ScriptRuntime::QuickJs, source)
        .with_args(vec![url.into(), body.into(), ecma::stringify(&json!(key)).into()])
        .with_permissions(Arc::clone(&settings.permissions))
        .with_timeout(timeout);
    Question::Script(question)
}

/// Returns the body of a service's answer.
///
/// Fails if the service could not be reached or did not answer, or if the HTTP status is not 2xx.
///
/// The error message is the rest of a sentence that starts with the service's name.
pub(crate) fn body(outcome: &ScriptOutcome) -> Result<String, String> {
    let answer = match outcome {
        ScriptOutcome::Returned(ScriptValue::Json(answer)) => answer,
        ScriptOutcome::Returned(_) => return Err("did not answer".to_owned()),
        ScriptOutcome::Threw { message, thrown, .. } => {
            let why = message.as_ref().unwrap_or(thrown);
            return Err(format!("could not be reached: {why}"));
        }
    };
    let status = answer.get("status").and_then(Value::as_u64).unwrap_or_default();
    if !(200..300).contains(&status) {
        return Err(format!("answered with the status {status}"));
    }
    Ok(answer.get("body").and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// The highest number of characters of an unusable reply in an error message.
const SHOWN: usize = 200;

/// Returns the start of a reply for an error message.
pub(crate) fn shown(body: &str) -> String {
    body.chars().take(SHOWN).collect()
}

/// Returns the score of a service. Fails if `value` is not a number from 0 to 1.
///
/// The error message is the rest of a sentence that starts with the service's name.
pub(crate) fn score(value: &Value) -> Result<f64, String> {
    let told = || ecma::stringify(value);
    let score = value
        .as_f64()
        .ok_or_else(|| format!("returned the score {}, which is not a number", told()))?;
    if !(0.0..=1.0).contains(&score) {
        return Err(format!("returned the score {}, which is not between 0 and 1", told()));
    }
    Ok(score)
}

#[cfg(test)]
mod tests {
    use super::{host, may_reach, score};
    use serde_json::json;

    #[test]
    fn scores_are_numbers_from_0_to_1() {
        for value in [json!(0), json!(0.5), json!(1), json!(1.0)] {
            assert_eq!(score(&value).ok(), value.as_f64());
        }
        for value in [json!(-0.1), json!(1.01), json!(7), json!(1e300), json!("0.5"), json!(true)] {
            assert!(score(&value).unwrap_err().contains(&value.to_string()), "{value}");
        }
    }

    #[test]
    fn hosts_are_compared_with_their_ports() {
        for (url, net, expected) in [
            ("https://A.example/x", "a.example", true),
            ("https://a.example/x", "b.example", false),
            ("https://a.example/x", "*.a.example", false),
            ("https://x.a.example/x", "*.a.example", true),
            ("https://a.example/x", "a.example:443", true),
            ("http://a.example/x", "a.example:443", false),
            ("http://a.example:8080", "a.example:80", false),
            ("http://[::1]:80/x", "[::1]", true),
            ("https://bücher.example/x", "xn--bcher-kva.example", true),
        ] {
            let net = [net.to_owned()];
            assert_eq!(may_reach(url, host(url).unwrap(), &net), expected, "{url} {net:?}");
        }
    }

    #[test]
    fn only_the_host_of_a_url_is_shown() {
        for (url, expected) in [
            ("https://a.example/x?token=y", Some("a.example")),
            ("http://me:word@a.example:8080/x", Some("a.example:8080")),
            ("https://a.example?x", Some("a.example")),
            ("https://", None),
            ("https:///x", None),
            ("ftp://a.example", None),
            ("a.example/x", None),
        ] {
            assert_eq!(host(url), expected, "{url}");
        }
    }
}
