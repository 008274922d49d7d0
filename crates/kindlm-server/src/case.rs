//! Makes a test case from a sample: [`case`].

use axum::http::StatusCode;
use kindlm_run::evaluate::service::expect_of;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::app::App;
use crate::problem::Problem;
use crate::records;
use crate::store::samples::Sample;
use crate::store::sets::SetVersion;

/// The keys of a sample that are copied into the transcript without a change.
const OF_TRANSCRIPT: [&str; 5] = ["usage", "latency_ms", "cost_usd", "finish_reason", "tools"];

/// The keys of a sample that are converted for a test case, and the keys that only identify the sample.
const CONVERTED: [&str; 9] = [
    "id",
    "agent",
    "subject",
    "version",
    "agent_input",
    "agent_output",
    "transcript",
    "tool_calls",
    "vars",
];

/// The settings for a test case that is made from a sample.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CaseForm {
    /// The assertion set: `name` or `name@version`. By default, the set that evaluated the sample, or else the set of
    /// its agent.
    pub(crate) set: Option<String>,
    /// The name of a prompt of the suite. The test sends the input of the sample to this prompt. If absent, the test
    /// checks the recorded conversation, and runs nothing.
    pub(crate) prompt: Option<String>,
    /// The variable of the prompt that gets the input of the sample; `input` by default.
    pub(crate) variable: Option<String>,
    /// The path of a suite below the folder of suites. The case is added to its list `tests`, which needs the scope
    /// `admin`.
    pub(crate) suite: Option<String>,
}

/// Returns the name of the test case of a sample.
pub(crate) fn case_name(sample: &str) -> String {
    format!("sample {sample}")
}

/// Returns a test case as YAML: a list with one item for `tests` of a suite.
///
/// # Errors
///
/// Fails if:
///
/// - the sample or the set does not exist
/// - the sample lacks data that the test needs, or has data that the test cannot have (status 422)
/// - the database fails
pub(crate) async fn case(app: &App, id: &str, form: &CaseForm) -> Result<String, Problem> {
    let Some(sample) = app.store.sample(id).await? else {
        let detail = format!("there is no sample with the id \"{id}\"");
        return Err(Problem::new(StatusCode::NOT_FOUND, "unknown-sample", detail));
    };
    let evaluated = sample.evaluation.as_ref().and_then(|it| it["set"].as_str());
    let set = if let Some(named) = form.set.as_deref().or(evaluated) {
        named.to_owned()
    } else {
        let agent = app.store.agent(&sample.agent).await?.ok_or_else(|| {
            refused(format!(
                "the agent \"{}\" has no assertion set, and a test without checks always passes; name one as `set`",
                sample.agent
            ))
        })?;
        agent.set
    };
    let set = records::find(app, &Value::from(set)).await?;
    let (test, left_out) = test(&sample, &set, form)?;
    written(&sample, &set, &test, &left_out)
}

fn refused(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "no-case", detail)
}

/// Returns a test, and the keys of the sample that the test leaves out. Fails as [`case`] describes.
fn test<'s>(
    sample: &'s Sample,
    set: &SetVersion,
    form: &CaseForm,
) -> Result<(Value, Vec<&'s str>), Problem> {
    let body = &sample.sample;
    let mut vars = body.get("vars").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut test = Map::from_iter([("name".to_owned(), json!(case_name(&sample.id)))]);
    let has_vars = !vars.is_empty();
    let mut left_out: Vec<&str> = body.keys().map(String::as_str).collect();
    left_out.retain(|it| !CONVERTED.contains(it));
    if let Some(prompt) = &form.prompt {
        let Some(input) = body.get("agent_input").filter(|it| !it.is_null()) else {
            return Err(refused(
                "the sample has no `agent_input` that a prompt could send; leave out `prompt`",
            ));
        };
        let variable = form.variable.as_deref().unwrap_or("input");
        if has_vars && vars.contains_key(variable) {
            return Err(refused(format!(
                "the sample has a variable `{variable}` already; name another one as `variable`"
            )));
        }
        vars.insert(variable.to_owned(), input.clone());
        test.insert("prompt".to_owned(), json!(prompt));
    } else {
        test.insert("transcript".to_owned(), transcript(body)?);
        left_out.retain(|it| !OF_TRANSCRIPT.contains(it) && *it != "complete_for");
    }
    if !vars.is_empty() {
        test.insert("vars".to_owned(), Value::Object(vars));
    }
    if let Some(threshold) = set.content.get("threshold") {
        test.insert("threshold".to_owned(), threshold.clone());
    }
    test.insert("expect".to_owned(), expect_of(&set.content, has_vars));
    Ok((Value::Object(test), left_out))
}

/// Returns the recorded conversation of a sample.
///
/// Fails if the sample has `events`: a transcript cannot have events, and without them, a check could pass by mistake.
/// Fails too if the messages are incomplete (see [`messages`]).
fn transcript(body: &Map<String, Value>) -> Result<Value, Problem> {
    if body.get("events").is_some_and(|it| !it.is_null()) {
        return Err(refused(
            "the sample has `events`, which a recorded conversation cannot have; name a `prompt` that gets its input",
        ));
    }
    let mut transcript = match body.get("transcript") {
        Some(Value::Object(whole)) => whole.clone(),
        Some(Value::Null) | None => {
            Map::from_iter([("messages".to_owned(), Value::Array(messages(body)?))])
        }
        Some(messages) => Map::from_iter([("messages".to_owned(), messages.clone())]),
    };
    for key in OF_TRANSCRIPT {
        if let Some(value) = body.get(key).filter(|it| !it.is_null()) {
            transcript.insert(key.to_owned(), value.clone());
        }
    }
    // Without `complete_for`, a record is complete only for the keys that it has. But a transcript is complete for all
    // messages and actions. So `complete_for` of the transcript lists the channels of the record's keys.
    let is_given = |key: &str| body.get(key).is_some_and(|it| !it.is_null());
    let channels = [("agent_output", "messages"), ("tool_calls", "actions"), ("usage", "usage")];
    let complete = match body.get("complete_for").filter(|it| !it.is_null()) {
        Some(complete) => Some(complete.clone()),
        None if is_given("transcript") => None,
        None => {
            let channels = channels.into_iter().filter(|(key, _)| is_given(key));
            Some(channels.map(|(_, channel)| Value::from(channel)).collect())
        }
    };
    transcript.extend(complete.map(|it| ("complete_for".to_owned(), it)));
    Ok(Value::Object(transcript))
}

/// Returns the messages of a sample without a transcript, in the format of OpenAI's Chat Completions.
///
/// Fails if a call of a tool has no `response`, or if the sample has no `agent_output`.
fn messages(body: &Map<String, Value>) -> Result<Vec<Value>, Problem> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut messages = Vec::new();
    if let Some(input) = body.get("agent_input").filter(|it| !it.is_null()) {
        messages.push(json!({"role": "user", "content": text(input)}));
    }
    let calls = body.get("tool_calls").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for (index, call) in calls.iter().enumerate() {
        let Some(response) = call.get("response") else {
            return Err(refused(format!(
                "`tool_calls[{index}]` of the sample has no `response`, and a recorded conversation needs it; name a \
                 `prompt` that gets the input"
            )));
        };
        let id = call["id"].as_str().map_or_else(|| format!("call_{index}"), str::to_owned);
        let arguments = call.get("arguments").map_or_else(|| "{}".to_owned(), text);
        let function = json!({"name": call["name"], "arguments": arguments});
        let tool_calls = json!([{"id": id, "type": "function", "function": function}]);
        messages.push(json!({"role": "assistant", "tool_calls": tool_calls}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": text(response)}));
    }
    let Some(output) = body.get("agent_output").filter(|it| !it.is_null()) else {
        return Err(refused(
            "the sample has no `agent_output`; name a `prompt` that gets its input",
        ));
    };
    messages.push(json!({"role": "assistant", "content": text(output)}));
    Ok(messages)
}

/// Writes a test as YAML, with a comment about its source.
fn written(
    sample: &Sample,
    set: &SetVersion,
    test: &Value,
    left_out: &[&str],
) -> Result<String, Problem> {
    let Sample { id, agent, received_at, .. } = sample;
    // `{:?}` escapes line breaks, so that no text of the sample can end the comment.
    let mut lines = vec![
        format!("# Sample {id:?} of the agent {agent:?}, received {received_at}"),
        format!("# Checks: {}@{}", set.name, set.version),
    ];
    if !left_out.is_empty() {
        lines.push(format!("# Without these keys of the sample: {left_out:?}"));
    }
    lines.push(yaml(std::slice::from_ref(test))?);
    Ok(lines.join("\n"))
}

fn yaml<T: Serialize + ?Sized>(value: &T) -> Result<String, Problem> {
    serde_yaml::to_string(value).map_err(|err| {
        let detail =
            "the test case could not be written; the standard error of the server has the details";
        let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail);
        Problem { cause: Some(format!("a test case cannot be written as YAML: {err}")), ..problem }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that `serde_yaml` cannot serialize.
    struct Bytes;

    impl Serialize for Bytes {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(b"a")
        }
    }

    #[test]
    fn test_that_cannot_be_written_is_an_error_of_the_server() {
        let problem = yaml(&[Bytes]).unwrap_err();
        assert_eq!(problem.status, 500);
        assert!(problem.cause.unwrap().contains("YAML"));
    }
}
