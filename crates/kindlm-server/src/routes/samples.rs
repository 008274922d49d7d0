//! `/v1/samples` and `/v1/feedback`: outputs of agents in production, and the opinions of their users.

use std::collections::HashMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use kindlm_assertions::Redactor;
use kindlm_run::evaluate::service::check_evidence;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::blocking::blocking;
use super::body::{
    JSON, NDJSON, has_type, is_ndjson, is_short, json, not_json, request_key, wrong_type,
};
use super::runs::blocking as read_runs;
use crate::access::{Caller, guarded};
use crate::app::App;
use crate::case::{CaseForm, case, case_name};
use crate::problem::Problem;
use crate::runs::RunService;
use crate::store::samples::{
    Cursor, Feedback, NewFeedback, NewSample, SampleFilter, SamplePage, Stored,
};
use crate::store::tokens::Scope;

/// The keys that identify a sample, and are stored as they were sent.
const IDENTIFIERS: [&str; 4] = ["id", "agent", "subject", "version"];

/// The keys of a record that a sample does not have.
pub(crate) const NOT_IN_SAMPLES: [&str; 4] = ["assertions", "expect", "threshold", "set"];

/// The maximum number of samples in a request.
const MAX_SAMPLES: usize = 10_000;

/// The maximum number of tags of a sample.
const MAX_TAGS: usize = 20;

/// The maximum length of a note, in characters.
const LONGEST_NOTE: usize = 4000;

/// The highest number of samples or opinions in a response.
const MAX_LIMIT: u32 = 1000;

pub(super) fn routes(app: &App) -> OpenApiRouter<App> {
    let ingests = OpenApiRouter::new().routes(routes!(add)).routes(routes!(feedback));
    let reads = OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(opinions))
        .routes(routes!(make_case));
    let deletes = OpenApiRouter::new().routes(routes!(delete));
    guarded(app, Scope::Ingest, ingests).merge(guarded(app, Scope::Read, reads)).merge(guarded(
        app,
        Scope::Admin,
        deletes,
    ))
}

/// Stores samples, all or none. A sample that is stored already is not stored again.
///
/// An id is unique over all agents: a sample with the id of a stored sample, but with other content, is refused.
#[utoipa::path(post, path = "/v1/samples",
    params(("idempotency-key" = Option<String>, Header, description = "a key of this request; repeating the request within a day changes nothing, and returns the first response")),
    request_body(description = "a sample: `agent`, and optionally `id`, `subject`, `version`, `tags` and `error`, with the evidence of a record; or one sample per line",
        content((ref("#/components/schemas/NewSample") = "application/json"), (ref("#/components/schemas/NewSample") = "application/x-ndjson"))),
    responses(
        (status = 200, description = "the samples are stored", body = Stored),
        (status = 400, description = "the body is not JSON", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "the first request with the key has no response yet", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "the body is larger than 8 MiB", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "the body is neither JSON nor JSON lines", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "a sample is invalid, another sample has its id, or the key was used for another request; nothing is stored", body = Problem, content_type = "application/problem+json"),
    ))]
async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Stored>, Problem> {
    let is_lines = is_ndjson(&headers);
    if !is_lines && !has_type(&headers, JSON) {
        return Err(wrong_type(&format!("{JSON}` or `{NDJSON}")));
    }
    let key = request_key(&headers, &caller, "POST /v1/samples", &body)?;
    let redactor = app.redactor.clone();
    // Parsing and masking 8 MiB here would block other requests for too long.
    let samples = blocking(move || parse(redactor.as_deref(), &body, is_lines)).await??;
    let stored = app.store.add_samples(&samples, key.as_ref()).await?;
    if !stored.is_repetition {
        app.metrics.add_samples(stored.stored);
    }
    app.wake.notify_one();
    Ok(Json(stored))
}

/// Reads the samples of a body: one, or one per line. Fails if a sample is invalid, or if there are too many.
fn parse(
    redactor: Option<&Redactor>,
    body: &[u8],
    is_lines: bool,
) -> Result<Vec<NewSample>, Problem> {
    if !is_lines {
        return Ok(vec![sample(redactor, body, "")?]);
    }
    let lines = body.split(|it| *it == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    if lines.clone().nth(MAX_SAMPLES).is_some() {
        let detail = format!("a request has at most {MAX_SAMPLES} samples; send several requests");
        return Err(invalid(detail));
    }
    lines.map(|(at, line)| sample(redactor, line, &format!("line {}: ", at + 1))).collect()
}

/// Reads one sample. Error messages begin with `place`, such as `line 2: `.
fn sample(redactor: Option<&Redactor>, json: &[u8], place: &str) -> Result<NewSample, Problem> {
    let body: Value = serde_json::from_slice(json)
        .map_err(|err| not_json(format!("{place}the sample is not JSON: {err}")))?;
    let Value::Object(mut body) = body else {
        return Err(invalid(format!("{place}a sample is a JSON object")));
    };
    for key in NOT_IN_SAMPLES {
        if body.contains_key(key) {
            let detail = format!("{place}a sample has no `{key}`; remove it");
            return Err(invalid(detail));
        }
    }
    check_evidence(json).map_err(|why| invalid(format!("{place}{why}")))?;
    keep_digits(&mut body, json).map_err(|err| invalid(format!("{place}{err}")))?;
    let id = text(&body, "id", place)?;
    let agent = text(&body, "agent", place)?
        .ok_or_else(|| invalid(format!("{place}the sample has no `agent`")))?;
    let subject = text(&body, "subject", place)?.unwrap_or_default();
    let version = text(&body, "version", place)?.unwrap_or_default();
    check_tags(&body, place)?;
    if let Some(redactor) = redactor {
        let texts = body.iter_mut().filter(|(key, _)| !IDENTIFIERS.contains(&key.as_str()));
        texts.for_each(|(_, value)| redactor.redact_value(value));
    }
    let has_error = body.get("error").is_some_and(|it| !it.is_null());
    Ok(NewSample { id, agent, subject, version, has_error, body })
}

/// Checks the tags of a sample: a list of short texts.
fn check_tags(body: &Map<String, Value>, place: &str) -> Result<(), Problem> {
    let is_tag = |it: &Value| it.as_str().is_some_and(is_short);
    match body.get("tags") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Array(tags)) if tags.len() <= MAX_TAGS && tags.iter().all(is_tag) => Ok(()),
        Some(_) => Err(invalid(format!(
            "{place}`tags` must be a list of at most {MAX_TAGS} texts of 1 to 100 characters, without control characters"
        ))),
    }
}

/// Replaces identifiers that are numbers with a fraction, or larger than 64 bits, by their texts.
///
/// Such numbers are rounded to `f64`, so different ids could become equal.
fn keep_digits(body: &mut Map<String, Value>, json: &[u8]) -> serde_json::Result<()> {
    let is_rounded = |it: &Value| it.as_number().is_some_and(Number::is_f64);
    if !IDENTIFIERS.iter().any(|key| body.get(*key).is_some_and(is_rounded)) {
        return Ok(());
    }
    let written: HashMap<String, &RawValue> = serde_json::from_slice(json)?;
    for key in IDENTIFIERS {
        if let (Some(value), Some(raw)) = (body.get_mut(key), written.get(key))
            && is_rounded(value)
        {
            *value = Value::from(raw.get());
        }
    }
    Ok(())
}

fn text(body: &Map<String, Value>, key: &str, place: &str) -> Result<Option<String>, Problem> {
    match body.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if is_short(text) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(invalid(format!(
            "{place}`{key}` must be a text of 1 to 100 characters, without control characters"
        ))),
    }
}

/// The query that selects the samples to delete.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Selection {
    /// The name of the agent; all agents if absent.
    #[param(min_length = 1, max_length = 100)]
    agent: Option<String>,
    /// The person or account that the samples are about; all if absent.
    #[param(min_length = 1, max_length = 100)]
    subject: Option<String>,
    /// Only samples that were received before this time match (RFC 3339); no limit if absent.
    #[param(format = DateTime)]
    before: Option<String>,
}

impl Selection {
    fn filter(self) -> Result<SampleFilter, Problem> {
        let Self { agent, subject, before } = self;
        for (name, value) in [("agent", &agent), ("subject", &subject)] {
            // An empty text would mean the samples without a subject.
            if value.as_ref().is_some_and(|it| !is_short(it)) {
                let detail = format!(
                    "`{name}`: expected 1 to 100 characters; remove the parameter to match all"
                );
                return Err(Problem::new(StatusCode::BAD_REQUEST, "invalid-query", detail));
            }
        }
        let before = before.map(|it| it.parse::<Timestamp>().map(Timestamp::as_millisecond));
        let before = before.transpose().map_err(|err| {
            let detail = format!("`before`: expected a time such as 2026-01-31T00:00:00Z: {err}");
            Problem::new(StatusCode::BAD_REQUEST, "invalid-query", detail)
        })?;
        Ok(SampleFilter { agent, subject, before })
    }
}

/// The query of a list of samples.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Listing {
    /// The name of the agent; all agents if absent.
    #[param(min_length = 1, max_length = 100)]
    agent: Option<String>,
    /// The person or account that the samples are about; all if absent.
    #[param(min_length = 1, max_length = 100)]
    subject: Option<String>,
    /// Only samples that were received before this time match (RFC 3339); no limit if absent.
    #[param(format = DateTime)]
    before: Option<String>,
    /// The number of samples, from 1 to 1000; 50 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the previous response. If absent, the list begins with the newest sample.
    #[param(pattern = "^[0-9]{1,18}-")]
    cursor: Option<String>,
}

/// Lists samples, from the newest to the oldest.
#[utoipa::path(get, path = "/v1/samples", params(Listing),
    responses(
        (status = 200, description = "the samples, and the number of all that match", body = SamplePage),
        (status = 400, description = "a parameter is invalid", body = Problem, content_type = "application/problem+json"),
    ))]
async fn list(
    State(app): State<App>,
    Query(query): Query<Listing>,
) -> Result<Json<SamplePage>, Problem> {
    let bad = |detail: &str| Problem::new(StatusCode::BAD_REQUEST, "invalid-query", detail);
    let Listing { agent, subject, before, limit, cursor } = query;
    let limit = limit.unwrap_or(50);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(bad("`limit`: expected a number from 1 to 1000"));
    }
    let parse = |it: String| {
        Cursor::parse(&it).ok_or_else(|| bad("`cursor`: expected the `next` of a response"))
    };
    let cursor = cursor.map(parse).transpose()?;
    let filter = Selection { agent, subject, before }.filter()?;
    Ok(Json(app.store.samples(&filter, limit, cursor.as_ref()).await?))
}

/// Makes a test case of a sample: its input, output and variables, with the checks of an assertion set.
///
/// The response is a list with one item for `tests` of a suite. With `suite`, the item is also added to this suite.
#[utoipa::path(post, path = "/v1/samples/{id}/case",
    params(("id" = String, Path, description = "the id of the sample")),
    request_body(content = CaseForm, content_type = "application/json"),
    responses(
        (status = 200, description = "a list with the test case", body = Vec<Value>, content_type = "application/yaml"),
        (status = 201, description = "the test case is added to the suite", body = Vec<Value>, content_type = "application/yaml"),
        (status = 400, description = "the body is not JSON", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "there is no such sample or suite", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "the body is larger than 8 MiB", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "the body is not `application/json`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "the suite has a case of this sample already", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "a field is invalid, there is no such set, the sample lacks what the test needs, or the tests of the suite are not a block list", body = Problem, content_type = "application/problem+json"),
    ))]
async fn make_case(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let form =
        if body.is_empty() { CaseForm::default() } else { json(&headers, &body, "no-case")? };
    if form.suite.is_some() {
        caller.require(Scope::Admin)?;
    }
    let yaml = case(&app, &id, &form).await?;
    let status = if form.suite.is_some() { StatusCode::CREATED } else { StatusCode::OK };
    if let Some(suite) = form.suite {
        let (name, item) = (case_name(&id), yaml.clone());
        let path = suite.clone();
        let add = move |runs: &RunService| runs.append_test(&path, &name, &item);
        // With the lock, the versions of two requests are stored in the order of their changes.
        let _edits = app.suite_edits.lock().await;
        let texts = read_runs(app.clone(), add).await?;
        for (text, author) in [(texts.old, ""), (texts.new, caller.name())] {
            // The file has the case already. After an error, the client would repeat the request, which would then
            // fail.
            if let Err(err) = app.store.put_suite(&suite, &text, author).await {
                Problem::from(err).report_cause(app.runs.world());
            }
        }
    }
    Ok((status, [(CONTENT_TYPE, "application/yaml")], yaml).into_response())
}

/// The response to a deletion of samples.
#[derive(Serialize, ToSchema)]
struct Deleted {
    /// The number of deleted samples.
    deleted: u64,
}

/// Deletes the samples that match all given parameters, with their feedback and results. At least one parameter is
/// necessary.
#[utoipa::path(delete, path = "/v1/samples", params(Selection),
    responses(
        (status = 200, description = "the samples are deleted", body = Deleted),
        (status = 400, description = "a parameter is invalid, or there is none", body = Problem, content_type = "application/problem+json"),
    ))]
async fn delete(
    State(app): State<App>,
    Query(query): Query<Selection>,
) -> Result<Json<Deleted>, Problem> {
    let filter = query.filter()?;
    if filter.agent.is_none() && filter.subject.is_none() && filter.before.is_none() {
        let detail = "name the samples to delete: `agent`, `subject` or `before`";
        return Err(Problem::new(StatusCode::BAD_REQUEST, "invalid-query", detail));
    }
    Ok(Json(Deleted { deleted: app.store.delete_samples(&filter).await? }))
}

/// The opinion of a user.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Thumb {
    Up,
    Down,
}

/// The opinion of a user about a sample.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct FeedbackBody {
    /// The id of the sample.
    sample: String,
    /// `up` or `down`.
    value: Thumb,
    /// The words of the user, at most 4,000 characters.
    #[serde(default)]
    note: String,
    /// The user, at most 100 characters. A later opinion of the same user about the sample replaces this one.
    #[serde(default)]
    author: String,
}

/// The response to feedback that was stored.
#[derive(Serialize, ToSchema)]
struct FeedbackId {
    /// The id of the feedback.
    id: String,
}

/// Stores the opinion of a user about a sample. The list of samples counts the thumbs.
#[utoipa::path(post, path = "/v1/feedback",
    params(("idempotency-key" = Option<String>, Header, description = "a key of this request; repeating the request within a day changes nothing, and returns the first response")),
    request_body(content = FeedbackBody, content_type = "application/json"),
    responses(
        (status = 201, description = "the feedback is stored", body = FeedbackId),
        (status = 400, description = "the body is not JSON", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "there is no such sample", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "the first request with the key has no response yet", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "the body is larger than 8 MiB", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "the body is not `application/json`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "a field is missing, unknown or too long, or the key was used for another request", body = Problem, content_type = "application/problem+json"),
    ))]
async fn feedback(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Json<FeedbackId>), Problem> {
    let FeedbackBody { sample, value, mut note, author } =
        json(&headers, &body, "invalid-feedback")?;
    let invalid =
        |detail: &str| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-feedback", detail);
    if !author.is_empty() && !is_short(&author) {
        return Err(invalid("`author`: at most 100 characters, without control characters"));
    }
    if note.chars().count() > LONGEST_NOTE || note.contains('\0') {
        return Err(invalid("`note`: at most 4,000 characters, without NUL characters"));
    }
    if !is_short(&sample) {
        return Err(unknown_sample(&sample));
    }
    if let Some(redactor) = &app.redactor {
        note = redactor.redact(&note).into_owned();
    }
    let value = match value {
        Thumb::Up => "up",
        Thumb::Down => "down",
    };
    let feedback = NewFeedback { sample, value: value.to_owned(), note, author };
    let key = request_key(&headers, &caller, "POST /v1/feedback", &body)?;
    let id = app.store.add_feedback(&feedback, key.as_ref()).await?;
    let id = id.ok_or_else(|| unknown_sample(&feedback.sample))?;
    Ok((StatusCode::CREATED, Json(FeedbackId { id })))
}

fn unknown_sample(id: &str) -> Problem {
    let detail = format!("there is no sample with the id \"{id}\"");
    Problem::new(StatusCode::NOT_FOUND, "unknown-sample", detail)
}

/// The query of feedback.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct OpinionQuery {
    /// The id of the sample.
    sample: String,
}

/// Lists the newest feedback about a sample, at most 1000.
#[utoipa::path(get, path = "/v1/feedback", params(OpinionQuery),
    responses(
        (status = 200, description = "the feedback", body = Vec<Feedback>),
        (status = 400, description = "a parameter is invalid", body = Problem, content_type = "application/problem+json"),
    ))]
async fn opinions(
    State(app): State<App>,
    Query(OpinionQuery { sample }): Query<OpinionQuery>,
) -> Result<Json<Vec<Feedback>>, Problem> {
    Ok(Json(app.store.feedback(&sample, MAX_LIMIT).await?))
}

fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-sample", detail)
}
