//! The execution of a script that reads an answer.

use std::sync::Arc;
use std::time::Duration;

use kindlm_types::script::{ScriptQuestion, ScriptSource};
use kindlm_types::{Prompt, ProviderError, ProviderErrorKind, Reply};
use serde_json::{Map, Value, json};

use super::response::{arguments, headers};
use crate::HttpResponse;
use crate::dialect::media::label_media;
use crate::dialect::script_reply::reply_of;
use crate::dialect::scripts::Scripts;
use kindlm_transport::Called;

/// A request whose answer a script reads.
pub(crate) struct ScriptRead<'a> {
    /// The provider's key in the suite.
    pub(crate) name: &'a str,
    pub(crate) source: &'a ScriptSource,
    pub(crate) prompt: &'a Prompt,
    pub(crate) timeout: Duration,
}

impl ScriptRead<'_> {
    /// Runs the script on an answer, and returns the reply. Fails if the script fails or returns no valid reply.
    pub(crate) async fn read_reply(
        &self,
        scripts: &Scripts,
        called: &Called<HttpResponse>,
    ) -> Result<Reply, ProviderError> {
        let args = arguments(self.prompt, &called.value, called.latency_ms);
        let question = ScriptQuestion::new(scripts.runtime, self.source.clone())
            .with_args(args.into_iter().map(Into::into).collect())
            .with_permissions(Arc::clone(&scripts.permissions))
            .with_timeout(self.timeout);
        let failed = |message: String| {
            let kind = ProviderErrorKind::MalformedResponse;
            let mut err = ProviderError::new(kind, self.name, message);
            err.attempts = called.attempts;
            err
        };
        let answer = scripts.runner.run(&question).await;
        let answer =
            answer.map_err(|err| failed(format!("`transformResponse`: {}", err.message)))?;
        let mut reply = reply_of("transformResponse", self.prompt, &answer).map_err(failed)?;
        label_media(&mut reply);
        let http = json!({"status": called.value.status, "headers": headers(&called.value)});
        reply.metadata.insert("http".to_owned(), http);
        let mut response = if let Some(Value::Object(response)) = reply.response.take() {
            response
        } else {
            let output = reply.output_json.clone();
            let output = output.unwrap_or_else(|| reply.text.as_str().into());
            Map::from_iter([("output".to_owned(), output)])
        };
        let raw = || String::from_utf8_lossy(&called.value.body).into_owned().into();
        response.entry("raw").or_insert_with(raw);
        response.insert("metadata".to_owned(), Value::Object(reply.metadata.clone()));
        reply.response = Some(Value::Object(response));
        let (latency_ms, attempts) = (called.latency_ms, called.attempts);
        Ok(Reply { latency_ms, attempts, ..reply })
    }
}
