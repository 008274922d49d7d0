//! A warning about limits for the time to the first token, on models that do not stream.

use kindlm_providers::servers;
use kindlm_source::{Code, Piece};
use kindlm_types::MemberPart;
use serde_json::Value;

use super::Builder;
use crate::load::text;

/// The assertion that needs streamed answers.
const FIRST_TOKEN: &str = "max-first-token";

/// The providers with the setting `stream`, besides the servers with OpenAI's API.
const STREAMING: [&str; 3] = ["anthropic", "openai", "openai-responses"];

impl Builder<'_> {
    /// Records a test that limits the time to the first token on a model that does not stream.
    ///
    /// Without the warning, the user would pay for each answer before the check is errored.
    pub(super) fn note_unstreamed(&mut self, piece: Piece<'_>, at: &str, test: &Value) {
        let checks = test.pointer("/expect/assert").and_then(Value::as_array);
        let Some(index) = checks.and_then(|it| it.iter().position(is_first_token)) else { return };
        let others = ["agent", "command", "transcript"];
        if others.iter().any(|it| test.get(*it).is_some()) {
            return;
        }
        let ids: Vec<&str> = match test.get("models").and_then(Value::as_array) {
            Some(own) => own.iter().filter_map(Value::as_str).collect(),
            None => self.base.listed.iter().map(String::as_str).collect(),
        };
        let found = ids.into_iter().find_map(|id| Some((id, self.unstreamed_provider(id)?)));
        let Some((model, provider)) = found else { return };
        let name = text(test, "name").unwrap_or_default();
        let message = format!(
            "the test `{name}` limits the time to the first token, but `{provider}` does not stream the answers of \
             `{model}`"
        );
        let help = format!("add `stream: true` to `providers.{provider}`, or remove the check");
        self.unstreamed.1 += 1;
        if self.unstreamed.0.is_none() {
            let at = format!("{at}/expect/assert/{index}");
            let diagnostic = piece.error(Code::INVALID_VALUE, &at, MemberPart::Value, message);
            self.unstreamed.0 = Some(diagnostic.with_help(help).into_warning());
        }
    }

    /// Returns the provider of a model if the provider can stream, but its setting `stream` is off.
    fn unstreamed_provider(&self, id: &str) -> Option<&str> {
        let model = self.base.suite.models.iter().find(|it| it.id == id)?;
        let provider = model.provider.as_str();
        let config = self.base.suite.providers.get(provider)?;
        let known = self.base.around.known_providers;
        let (registration, config) = kindlm_providers::configured(known, provider, config)?;
        let kind = registration.meta.id;
        let can_stream = STREAMING.contains(&kind) || servers::find(kind).is_some();
        let streams = config.get("stream").and_then(Value::as_bool).unwrap_or(false);
        (can_stream && !streams).then_some(provider)
    }

    /// Reports all tests that [`note_unstreamed`](Self::note_unstreamed) has recorded, as one warning.
    pub(super) fn report_unstreamed(&mut self) {
        let Some(mut first) = self.unstreamed.0.take() else { return };
        if self.unstreamed.1 > 1 {
            let others = self.unstreamed.1 - 1;
            first.message = format!("{}; the same holds for {others} more", first.message);
        }
        self.base.sink.push(first);
    }
}

/// Returns true if an entry of `assert` limits the time to the first token.
fn is_first_token(entry: &Value) -> bool {
    text(entry, "type").is_some_and(|it| it.strip_prefix("not-").unwrap_or(it) == FIRST_TOKEN)
}
