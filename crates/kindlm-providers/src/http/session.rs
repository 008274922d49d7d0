//! The request that opens a session before each request to the model.

use std::collections::BTreeMap;

use kindlm_types::{Problem, Prompt, ProviderError, ProviderErrorKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::path::Path;
use super::{Body, Config, Http, Verb, printed};
use crate::{Codec as _, HttpRequest, HttpResponse};

/// The template variable that holds the session's id.
pub(super) const SESSION_ID: &str = "sessionId";

/// The request that opens a session. `{{sessionId}}` inserts the id of the session into the request to the model.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HttpSession")]
pub(super) struct SessionConfig {
    /// The address, as a template.
    #[schemars(length(min = 1))]
    url: String,
    /// The HTTP method; `POST` by default.
    #[serde(default)]
    method: Verb,
    /// The headers, in the format of the provider's `headers`.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The body, in which each text is a Jinja template; empty by default.
    #[serde(default)]
    body: Option<Value>,
    /// The path of the session's id in the body of the answer. Without it, `idHeader` is necessary.
    #[serde(default)]
    id_path: Option<String>,
    /// The header of the answer that holds the session's id.
    #[serde(default)]
    #[schemars(length(min = 1))]
    id_header: Option<String>,
}

/// A checked request that opens a session.
#[derive(Debug)]
pub(super) struct Session {
    request: Http,
    id: IdPlace,
}

/// The place of the session's id in an answer.
#[derive(Debug)]
enum IdPlace {
    Body(Path),
    /// The header with this lower-case name.
    Header(String),
}

impl Session {
    /// Checks a configuration. Fails with its problems, whose pointers are relative to `session`.
    pub(super) fn new(config: &SessionConfig) -> Result<Self, Vec<Problem>> {
        let id = match (&config.id_path, &config.id_header) {
            (Some(path), None) => Path::parse(path)
                .map(IdPlace::Body)
                .map_err(|message| vec![Problem::new("/idPath", message)])?,
            (None, Some(name)) => IdPlace::Header(name.to_ascii_lowercase()),
            _ => {
                let problem = Problem::new("", "set exactly one of `idPath` and `idHeader`");
                return Err(vec![problem.with_help("name the place of the session's id")]);
            }
        };
        let own = json!({
            "url": config.url,
            "headers": config.headers,
            "body": config.body,
            "template": "jinja",
        });
        let own: Config =
            serde_json::from_value(own).map_err(|err| vec![Problem::new("", err.to_string())])?;
        let mut request = Http::new(&own)?;
        request.method = config.method.into();
        // Without this value, the request would have a body in OpenAI's format.
        request.body.get_or_insert(Body::Jinja(Value::Null));
        Ok(Self { request, id })
    }

    pub(super) fn request(&self, prompt: &Prompt) -> Result<HttpRequest, String> {
        self.request.request(prompt)
    }

    /// Returns the prompt with the session's id as a variable. Fails if the answer is a failure or has no id.
    pub(super) fn opened(
        &self,
        prompt: &Prompt,
        response: &HttpResponse,
    ) -> Result<Prompt, ProviderError> {
        self.request.accept(response)?;
        let id = match &self.id {
            IdPlace::Header(name) => response.header(name).unwrap_or_default().to_owned(),
            IdPlace::Body(path) => {
                let text = || String::from_utf8_lossy(&response.body).into_owned();
                let answer = serde_json::from_slice(&response.body);
                let answer = answer.unwrap_or_else(|_| Value::String(text()));
                path.first(&answer).map(printed).unwrap_or_default()
            }
        };
        if id.is_empty() {
            let message = "the answer to the request of `session` has no id of a session";
            let kind = ProviderErrorKind::MalformedResponse;
            return Err(ProviderError::new(kind, "http", message));
        }
        let mut prompt = prompt.clone();
        prompt.vars.insert(SESSION_ID.to_owned(), id.into());
        Ok(prompt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(config: Value) -> Result<Session, Vec<Problem>> {
        Session::new(&serde_json::from_value(config).unwrap())
    }

    #[test]
    fn the_id_is_in_the_body_or_a_header() {
        let response = |status, body: &str| {
            let mut response = HttpResponse::new(status, body);
            response.headers.push(("x-session".to_owned(), "from header".to_owned()));
            response
        };
        let url = "https://h.example/s";
        for (config, response, expected) in [
            (json!({"url": url, "idPath": "a.b"}), response(200, r#"{"a": {"b": 7}}"#), Some("7")),
            (json!({"url": url, "idPath": ""}), response(201, "bare"), Some("bare")),
            (json!({"url": url, "idHeader": "X-Session"}), response(204, ""), Some("from header")),
            (json!({"url": url, "idPath": "a"}), response(200, "{}"), None),
            (json!({"url": url, "idHeader": "x-other"}), response(200, "{}"), None),
            (json!({"url": url, "idPath": "a"}), response(500, r#"{"a": "b"}"#), None),
        ] {
            let opened = session(config.clone()).unwrap().opened(&Prompt::default(), &response);
            let id = opened.ok().map(|it| it.vars["sessionId"].as_str().unwrap().to_owned());
            assert_eq!(id.as_deref(), expected, "{config}");
        }
    }

    #[test]
    fn a_session_needs_one_place_of_its_id() {
        for config in [
            json!({"url": "https://h.example"}),
            json!({"url": "https://h.example", "idPath": "a", "idHeader": "b"}),
            json!({"url": "no address", "idPath": "a"}),
        ] {
            assert!(session(config.clone()).is_err(), "{config}");
        }
    }

    #[test]
    fn a_session_without_a_body_sends_none() {
        let session = session(json!({"url": "https://h.example", "idPath": "a"})).unwrap();
        assert_eq!(session.request(&Prompt::default()).unwrap().body, Value::Null);
    }
}
