//! What the service's answer means: a JSON object with `pass`, and `score` and `reason` if it likes.

use kindlm_types::AssertionResult;
use serde_json::{Map, Value};

use super::{ID, Webhook};
use crate::grade::{Grade, PASSED};
use crate::scripting::grading::with_rest;

impl Webhook {
    /// The verdict of an answer.
    pub(super) fn grade(&self, body: &str) -> AssertionResult {
        let reply: Map<String, Value> = match serde_json::from_str(body) {
            Ok(Value::Object(reply)) => reply,
            Ok(_) => return self.failed("The webhook did not answer with a JSON object"),
            Err(err) => {
                return self.failed(format!("The webhook did not answer with JSON: {err}"));
            }
        };
        let Some(held) = reply.get("pass").and_then(Value::as_bool) else {
            return self.failed("The webhook's answer has no verdict: it needs a boolean `pass`");
        };
        let given = match reply.get("score") {
            None | Some(Value::Null) => None,
            Some(score) => match score.as_f64() {
                Some(score) => Some(score),
                None => return self.failed(format!("The webhook's score {score} is no number")),
            },
        };
        let negate = self.own.negate;
        let pass = held != negate;
        let score = match given {
            Some(score) if negate => 1.0 - score,
            Some(score) => score,
            None => f64::from(u8::from(pass)),
        };
        let reason = reply.get("reason").and_then(Value::as_str).filter(|it| !it.is_empty());
        let reason = match reason {
            Some(reason) => reason.to_owned(),
            None if pass => PASSED.to_owned(),
            None => format!("Webhook returned {negate}"),
        };
        with_rest(ID, Grade { pass, score, reason }.result(ID, &self.label), &reply)
    }
}
