//! The parser of the service's answer: a JSON object with `pass`, and optionally `score` and `reason`.

use kindlm_types::AssertionResult;
use serde_json::{Map, Value};

use super::{ID, Webhook};
use crate::core::grade::{Grade, PASSED};
use crate::core::scripting::grading::with_rest;
use crate::core::service;

impl Webhook {
    /// Returns the result for an answer.
    pub(super) fn grade(&self, body: &str) -> AssertionResult {
        match parse_reply(body) {
            Ok(reply) => self.graded(&reply),
            Err(why) => {
                let shown = service::shown(body);
                let message = format!("the webhook {why}. It replied: {shown:?}");
                self.failed(message).with_metadata("reply", shown)
            }
        }
    }

    fn graded(&self, Reply { held, score: given, object: reply }: &Reply) -> AssertionResult {
        let negate = self.own.negate;
        let pass = *held != negate;
        let score = match given {
            Some(score) if negate => 1.0 - score,
            Some(score) => *score,
            None => f64::from(u8::from(pass)),
        };
        let reason = reply.get("reason").and_then(Value::as_str).filter(|it| !it.is_empty());
        let reason = match reason {
            Some(reason) => reason.to_owned(),
            None if pass => PASSED.to_owned(),
            None => format!("Webhook returned {negate}"),
        };
        with_rest(ID, Grade { pass, score, reason }.result(ID, &self.label), reply)
    }
}

/// A valid reply.
struct Reply {
    held: bool,
    /// The score from 0 to 1, if the reply has one.
    score: Option<f64>,
    object: Map<String, Value>,
}

/// Parses a reply, or returns the reason why it is invalid.
///
/// The reason completes a sentence that starts with "the webhook".
fn parse_reply(body: &str) -> Result<Reply, String> {
    let object = match serde_json::from_str(body) {
        Ok(Value::Object(reply)) => reply,
        Ok(_) => return Err("did not answer with a JSON object".to_owned()),
        Err(err) => return Err(format!("did not answer with JSON: {err}")),
    };
    let held = object.get("pass").and_then(Value::as_bool);
    let held = held.ok_or("returned no verdict: its answer needs a boolean `pass`")?;
    let score = match object.get("score") {
        None | Some(Value::Null) => None,
        Some(score) => Some(service::score(score)?),
    };
    // Named scores become metrics of the report, so an invalid score makes the whole reply invalid.
    if let Some(Value::Object(named)) = object.get("namedScores") {
        for (name, score) in named {
            service::score(score).map_err(|it| format!("{it}: `{name}` of its `namedScores`"))?;
        }
    }
    Ok(Reply { held, score, object })
}

#[cfg(test)]
mod tests {
    use super::parse_reply;

    #[test]
    fn named_scores_are_scores() {
        for (body, expected) in [
            (r#"{"pass": true, "namedScores": {"a": 0, "b": 1}}"#, None),
            (
                r#"{"pass": true, "namedScores": {"a": 0, "b": 7}}"#,
                Some(
                    "returned the score 7, which is not between 0 and 1: `b` of its `namedScores`",
                ),
            ),
            (
                r#"{"pass": true, "namedScores": {"a": null}}"#,
                Some("returned the score null, which is not a number: `a` of its `namedScores`"),
            ),
        ] {
            assert_eq!(parse_reply(body).err().as_deref(), expected, "{body}");
        }
    }
}
