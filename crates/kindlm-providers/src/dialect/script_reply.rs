//! The answer of a program, in the format of promptfoo's provider responses.

use kindlm_types::script::{ScriptAnswer, ScriptOutcome, ScriptValue};
use kindlm_types::{FinishReason, Prompt, Reply, Usage, ecma};
use serde_json::{Map, Value, json};

use super::answer::counted;

/// The keys of an answer that become part of the reply. An answer with other keys is also stored whole, for scripts.
const KNOWN: [&str; 9] = [
    "output",
    "error",
    "tokenUsage",
    "cost",
    "cached",
    "metadata",
    "finishReason",
    "logProbs",
    "guardrails",
];

/// Converts the answer of a program to a reply. `file` names the program in error messages.
///
/// Fails with the reason if the program threw, reported an error, or returned no valid reply.
pub(crate) fn reply_of(
    file: &str,
    prompt: &Prompt,
    answer: &ScriptAnswer,
) -> Result<Reply, String> {
    let value = match &answer.outcome {
        ScriptOutcome::Returned(ScriptValue::Json(value)) => value.clone(),
        ScriptOutcome::Returned(ScriptValue::Number(number)) => json!(number),
        ScriptOutcome::Returned(ScriptValue::Undefined) => Value::Null,
        ScriptOutcome::Returned(ScriptValue::Opaque { type_name, .. }) => {
            return Err(format!("`{file}` returned a {type_name}"));
        }
        ScriptOutcome::Threw { message, thrown, .. } => {
            let what = message.as_ref().unwrap_or(thrown);
            return Err(format!("`{file}` threw: {what}"));
        }
    };
    match value {
        Value::Null => Err(format!("`{file}` returned nothing")),
        Value::Object(answer) => of_object(file, prompt, &answer),
        value => Ok(Reply { model: prompt.model.clone(), ..output(&value) }),
    }
}

fn of_object(file: &str, prompt: &Prompt, answer: &Map<String, Value>) -> Result<Reply, String> {
    // promptfoo ignores an `error` that counts as false in JavaScript, such as an empty text.
    if let Some(error) = answer.get("error").filter(|it| is_true(it)) {
        return Err(format!("`{file}`: {}", text(error)));
    }
    let Some(written) = answer.get("output").filter(|it| !it.is_null()) else {
        return Err(format!("`{file}` returned no `output`"));
    };
    let tokens = |key: &str| answer.get("tokenUsage").and_then(|it| counted(it.get(key)?));
    let mut metadata =
        answer.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(flags) = answer.get("guardrails") {
        metadata.insert("guardrails".to_owned(), flags.clone());
    }
    let (input, generated) = (tokens("prompt"), tokens("completion"));
    let parts = input.unwrap_or(0).saturating_add(generated.unwrap_or(0));
    let total = tokens("total").map(|it| it.max(parts));
    let log_probs = answer.get("logProbs").and_then(Value::as_array);
    let finish_reason = answer.get("finishReason").and_then(Value::as_str);
    let cost = answer.get("cost").and_then(Value::as_f64);
    let has_other_keys = answer.keys().any(|it| !KNOWN.contains(&it.as_str()));
    Ok(Reply {
        usage: Usage::counted(input, generated, total, tokens("cached")),
        finish_reason: finish_reason
            .map_or(FinishReason::Stop, |it| FinishReason::from(it.to_owned())),
        log_probs: log_probs.and_then(|it| it.iter().map(Value::as_f64).collect()),
        model: prompt.model.clone(),
        metadata,
        cost_usd: cost.filter(|it| it.is_finite() && *it >= 0.0),
        cached: answer.get("cached") == Some(&Value::Bool(true)),
        response: has_other_keys.then(|| Value::Object(answer.clone())),
        ..output(written)
    })
}

/// Returns a reply for a value. A text stays unchanged. Any other value becomes JSON text and structured output.
fn output(value: &Value) -> Reply {
    match value {
        Value::String(text) => Reply::text(text.as_str()),
        value => Reply { output_json: Some(value.clone()), ..Reply::text(ecma::stringify(value)) },
    }
}

/// Returns true if a value counts as true in JavaScript.
pub(crate) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(it) => *it,
        Value::Number(it) => it.as_f64() != Some(0.0),
        Value::String(it) => !it.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| ecma::stringify(value), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(value: Value) -> Result<Reply, String> {
        let prompt = serde_json::from_value(json!({"model": "p.js", "messages": []})).unwrap();
        let outcome = ScriptOutcome::Returned(value.into());
        let answer = ScriptAnswer::new(outcome);
        reply_of("p.js", &prompt, &answer)
    }

    #[test]
    fn reads_answers_of_programs() {
        for (answer, text, value) in [
            (json!("hi"), "hi", None),
            (json!({"output": "hi", "error": null}), "hi", None),
            (json!({"output": "hi", "error": ""}), "hi", None),
            (json!({"output": "hi", "error": false}), "hi", None),
            (json!({"output": {"a": 1}}), r#"{"a":1}"#, Some(json!({"a": 1}))),
            (json!(2), "2", Some(json!(2.0))),
        ] {
            let reply = reply(answer.clone()).unwrap();
            assert_eq!(reply.text, text, "{answer}");
            assert_eq!(reply.output_json, value, "{answer}");
        }
        let full = reply(json!({
            "output": "hi", "tokenUsage": {"prompt": 1, "completion": 2}, "cost": 0.25, "cached": true,
            "finishReason": "length", "metadata": {"a": 1}, "guardrails": {"flagged": true},
        }))
        .unwrap();
        assert_eq!(full.usage.total_tokens, 3);
        assert_eq!(full.finish_reason, FinishReason::Length);
        assert_eq!(full.metadata["guardrails"]["flagged"], true);
        assert_eq!((full.cost_usd, full.cached, full.response), (Some(0.25), true, None));
        let more = reply(json!({"output": "hi", "raw": {"a": 1}})).unwrap();
        assert_eq!(more.response, Some(json!({"output": "hi", "raw": {"a": 1}})));
    }

    #[test]
    fn impossible_token_counts_are_missing() {
        for count in [json!(-1), json!(1e300)] {
            let answer = json!({"output": "hi", "tokenUsage": {"prompt": count, "total": count}});
            assert_eq!(reply(answer).unwrap().usage, Usage::default(), "{count}");
        }
    }

    #[test]
    fn incomplete_answers_name_the_missing_key() {
        for (answer, message) in [
            (json!({"error": "no luck"}), "`p.js`: no luck"),
            (json!({"output": "hi", "error": {}}), "`p.js`: {}"),
            (json!({"error": ""}), "`p.js` returned no `output`"),
            (json!({}), "`p.js` returned no `output`"),
            (Value::Null, "`p.js` returned nothing"),
        ] {
            assert_eq!(reply(answer.clone()).unwrap_err(), message, "{answer}");
        }
    }
}
