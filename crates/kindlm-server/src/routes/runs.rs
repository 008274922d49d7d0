//! `/v1/suites` and `/v1/runs`: runs of suites, their events, reports and comparisons.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, Query, State};
use axum::http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    VARY,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use kindlm_otlp::gunzip;
use kindlm_run::World;
use kindlm_wire::v1::RunHead;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::{json as read_json, request_key};
use crate::access::{Caller, guarded};
use crate::app::App;
use crate::problem::Problem;
use crate::runs::{
    Event, Events, LiveRun, NewRun, NotRead, NotStarted, PastCases, PlannedRun, RunInfo,
    RunService, RunState,
};
use crate::store::digest;
use crate::store::idempotency::RequestKey;
use crate::store::tokens::Scope;

/// The time between two comments that keep a connection for events open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The number of cases of a stored run whose events are read at once.
const PORTION: usize = 200;

/// The header with the id of the last event that a client has seen.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) fn routes(app: &App) -> OpenApiRouter<App> {
    let starts = OpenApiRouter::new().routes(routes!(start)).routes(routes!(cancel));
    let reads = OpenApiRouter::new()
        .routes(routes!(suites))
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(events))
        .routes(routes!(head))
        .routes(routes!(index))
        .routes(routes!(chunk))
        .routes(routes!(report))
        .routes(routes!(compare));
    let deletes = OpenApiRouter::new().routes(routes!(delete));
    guarded(app, Scope::Evaluate, starts).merge(guarded(app, Scope::Read, reads)).merge(guarded(
        app,
        Scope::Admin,
        deletes,
    ))
}

/// The suites that can run.
#[derive(Serialize, ToSchema)]
struct Suites {
    /// The paths below the folder of suites, sorted.
    items: Vec<String>,
}

/// Lists the suites that can run: the files `kindlm.yaml` and `<name>.kindlm.yaml` below `--suites`.
#[utoipa::path(get, path = "/v1/suites", responses((status = 200, description = "the suites", body = Suites)))]
async fn suites(State(app): State<App>) -> Result<Json<Suites>, Problem> {
    let items = blocking(app, |runs| runs.suites().map_err(NotRead::from)).await?;
    Ok(Json(Suites { items }))
}

/// Starts a run of a suite, or resumes one. The run waits while the maximum number of runs (`--runs`) is going on.
#[utoipa::path(post, path = "/v1/runs",
    params(("idempotency-key" = Option<String>, Header, description = "a key of this request; repeating the request within a day starts nothing, and returns the first response")),
    request_body = NewRun, responses(
    (status = 202, description = "the run is planned; the header `location` is its path", body = RunInfo),
    (status = 400, description = "the body is not JSON", body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "the run is going on already, or the first request with the key has no response yet", body = Problem, content_type = "application/problem+json"),
    (status = 413, description = "the body is larger than 8 MiB", body = Problem, content_type = "application/problem+json"),
    (status = 415, description = "the body is not `application/json`", body = Problem, content_type = "application/problem+json"),
    (status = 422, description = "there is no such suite, or the suite or the selection is invalid; `detail` has a line for each error of the suite. Or the key was used for another request", body = Problem, content_type = "application/problem+json"),
    (status = 429, description = "too many runs wait", body = Problem, content_type = "application/problem+json"),
))]
async fn start(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let new: NewRun = read_json(&headers, &body, "invalid-run")?;
    let key = request_key(&headers, &caller, "POST /v1/runs", &body)?;
    // The task continues if the client leaves, so that the response is stored with its key.
    let author = caller.name().to_owned();
    let started = tokio::spawn(async move { start_once(&app, new, key, &author).await }).await;
    let run = started.map_err(|err| NotStarted::Internal(err.to_string()))??;
    let location = format!("/v1/runs/{}", run["id"].as_str().unwrap_or_default());
    Ok((StatusCode::ACCEPTED, [("location", location)], Json(run)).into_response())
}

/// Starts a run, and describes it. A repeated request with the same key starts nothing.
async fn start_once(
    app: &App,
    new: NewRun,
    key: Option<RequestKey>,
    author: &str,
) -> Result<Value, Problem> {
    if let Some(key) = &key
        && let Some(first) = app.store.begin_request(key).await?
    {
        return Ok(first);
    }
    let planned = match plan_run(app, new, author).await {
        Ok(planned) => planned,
        Err(why) => {
            if let Some(key) = &key {
                app.store.release_request(key).await?;
            }
            return Err(why.into());
        }
    };
    let run = json!(RunInfo::of_live(planned.run()));
    // The run starts after its response is stored. Otherwise, a repeated request could start a second run.
    if let Some(key) = &key
        && let Err(err) = app.store.answer_request(key, &run).await
    {
        drop(planned);
        if let Err(err) = app.store.withdraw_request(key, &run).await {
            Problem::from(err).report_cause(app.runs.world());
        }
        return Err(err.into());
    }
    planned.start();
    Ok(run)
}

/// Starts a run, and stores the version of its suite. The run starts even if the client leaves.
pub(crate) async fn start_run(
    app: &App,
    new: NewRun,
    author: &str,
) -> Result<Arc<LiveRun>, NotStarted> {
    let (app, author) = (app.clone(), author.to_owned());
    let started = tokio::spawn(async move {
        let planned = plan_run(&app, new, &author).await?;
        Ok::<_, NotStarted>(planned.start())
    });
    started.await.map_err(|err| NotStarted::Internal(err.to_string()))?
}

/// Plans a run, and stores the version of its suite. The operator gets a notice if the version cannot be stored.
async fn plan_run(app: &App, new: NewRun, author: &str) -> Result<PlannedRun, NotStarted> {
    let planned = app.runs.plan(new).await?;
    let run = planned.run();
    if let Some(text) = planned.text() {
        match app.store.put_run_version(&run.id, &run.suite, text, author).await {
            Ok(version) => {
                let _ = run.suite_version.set(version);
            }
            // The run can start without the version, so this error must not make the client repeat the request.
            Err(err) => Problem::from(err).report_cause(app.runs.world()),
        }
    }
    Ok(planned)
}

/// Cancels a run: running executions may end, and no others start. A second request aborts the running executions.
#[utoipa::path(post, path = "/v1/runs/{id}/cancel", params(("id" = String, Path, description = "the id of the run")), responses(
    (status = 202, description = "the run ends soon", body = RunInfo),
    (status = 404, description = "there is no such run", body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "the run has ended, or another process runs it", body = Problem, content_type = "application/problem+json"),
))]
pub(crate) async fn cancel(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    if let Some(run) = app.runs.live(&id).filter(|it| !it.has_ended()) {
        run.cancel();
        return Ok((StatusCode::ACCEPTED, Json(RunInfo::of_live(&run))).into_response());
    }
    blocking(app, move |runs| runs.described(&id)).await?;
    let detail = "the run has ended, or another process runs it";
    Err(Problem::new(StatusCode::CONFLICT, "not-running", detail))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Limit {
    /// The maximum number of runs, from 1 to 1000; 50 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u16>,
}

/// The newest runs.
#[derive(Serialize, ToSchema)]
struct Listed {
    /// The number of all runs.
    total: usize,
    /// The newest runs, newest first.
    items: Vec<RunInfo>,
}

/// Lists the newest runs of all suites, also those of `kindlm test`.
#[utoipa::path(get, path = "/v1/runs", params(Limit), responses(
    (status = 200, description = "the runs", body = Listed),
    (status = 400, description = "a parameter is invalid", body = Problem, content_type = "application/problem+json"),
))]
async fn list(
    State(app): State<App>,
    Query(Limit { limit }): Query<Limit>,
) -> Result<Json<Listed>, Problem> {
    let limit = limit.unwrap_or(50);
    if !(1..=1000).contains(&limit) {
        let detail = "`limit`: expected a number from 1 to 1000";
        return Err(Problem::new(StatusCode::BAD_REQUEST, "invalid-query", detail));
    }
    let (items, total) = listed(app, limit.into()).await?;
    Ok(Json(Listed { total, items }))
}

/// Returns the newest runs with the versions of their suites, and the number of all runs.
pub(crate) async fn listed(app: App, limit: usize) -> Result<(Vec<RunInfo>, usize), Problem> {
    let versions = app.store.run_versions(i64::try_from(limit).unwrap_or(i64::MAX)).await?;
    let (mut runs, total) = blocking(app, move |runs| runs.list(limit)).await?;
    for run in &mut runs {
        run.suite_version = run.suite_version.or_else(|| versions.get(&run.id).copied());
    }
    Ok((runs, total))
}

/// Returns a run with the version of its suite, and the head of its report if it has one.
pub(crate) async fn described(app: App, id: String) -> Result<(RunInfo, Option<RunHead>), Problem> {
    let version = app.store.run_version(&id).await?;
    let (mut run, head) = blocking(app, move |runs| runs.described(&id)).await?;
    run.suite_version = run.suite_version.or(version);
    Ok((run, head))
}

/// Deletes a run, with its report. A run that is going on must be cancelled first.
#[utoipa::path(delete, path = "/v1/runs/{id}", params(("id" = String, Path, description = "the id of the run")), responses(
    (status = 204, description = "the run is deleted"),
    (status = 404, description = "there is no such run", body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "the run is going on, or a baseline has its results", body = Problem, content_type = "application/problem+json"),
))]
async fn delete(State(app): State<App>, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    let run = id.clone();
    blocking(app.clone(), move |runs| runs.delete(&run)).await?;
    // The run is deleted, so this error must not make the client repeat the request. A version without a run is not
    // shown. The version is not deleted first, because the deletion of the run may fail.
    if let Err(err) = app.store.delete_run_version(&id).await {
        Problem::from(err).report_cause(app.runs.world());
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Describes a run.
#[utoipa::path(get, path = "/v1/runs/{id}", params(("id" = String, Path, description = "the id of the run")), responses(
    (status = 200, description = "the run", body = RunInfo),
    (status = 404, description = "there is no such run", body = Problem, content_type = "application/problem+json"),
))]
async fn show(State(app): State<App>, Path(id): Path<String>) -> Result<Json<RunInfo>, Problem> {
    described(app, id).await.map(|(run, _)| Json(run))
}

/// Follows a run as server-sent events: `progress`, `case`, `gate`, and `done` at the end.
///
/// A client that reconnects with the header `last-event-id` gets only the events after the event with this id. If the
/// run was resumed or the server was restarted, it gets all events. Of past `progress` events, only the last one is
/// sent. A run that did not run in this process has no `progress` events, and its cases are in the order of the report.
/// The event `omitted` replaces older events that the server has removed from memory; the report has their cases.
#[utoipa::path(get, path = "/v1/runs/{id}/events",
    params(("id" = String, Path, description = "the id of the run"), ("last-event-id" = Option<String>, Header, description = "the id of the last event that was received")),
    responses(
        (status = 200, description = "the events; the `data` of each is a JSON object", body = ref("#/components/schemas/EventText"), content_type = "text/event-stream"),
        (status = 204, description = "the last event was received already"),
        (status = 404, description = "there is no such run", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "another process runs it", body = Problem, content_type = "application/problem+json"),
    ))]
pub(crate) async fn events(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let last = headers.get(LAST_EVENT_ID).and_then(|it| it.to_str().ok());
    if let Some(run) = app.runs.live(&id) {
        let (series, seen) = (run.series, seen(last, run.series));
        let events = run.events(seen);
        if events.is_at_end() {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        let events = stream::unfold(events, move |mut it: Events| async move {
            let (number, event) = it.next().await?;
            Some((Ok::<_, Infallible>(sent(series, number, &event)), it))
        });
        let events = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
        return Ok(events.into_response());
    }
    let world = app.runs.world().clone();
    let past = blocking(app, move |runs| PastRun::open(runs, &id)).await?;
    let seen = seen(last, past.series);
    if seen == past.count() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(Sse::new(past.events(seen, world)).into_response())
}

/// Makes an event. Its id contains `series`, because a resumed run begins a new series of events.
fn sent(series: i64, number: usize, event: &Event) -> sse::Event {
    sse::Event::default().id(format!("{series}-{number}")).event(event.name).data(&*event.data)
}

/// Returns the number of events of a series that a client has seen. `last` is the id of the client's last event.
fn seen(last: Option<&str>, series: i64) -> usize {
    let (known, number) = last.and_then(|it| it.rsplit_once('-')).unwrap_or_default();
    if known == series.to_string() { number.parse().unwrap_or(0) } else { 0 }
}

/// The events of a stored run.
struct PastRun {
    id: String,
    /// The series of the events: the time at which the report was written, in milliseconds since 1970.
    series: i64,
    cases: PastCases,
    /// The events after the events of the cases.
    last: Vec<Event>,
}

impl PastRun {
    fn open(runs: &RunService, id: &str) -> Result<Self, NotRead> {
        let (run, head) = runs.described(id)?;
        let head = head.ok_or_else(|| NotRead::NoReport(id.to_owned()))?;
        let done = Event::done(&run.id, run.state, None);
        let last = Event::of_gates(&head).chain([done]).collect();
        let (series, cases) = (runs.report_time(id)?, runs.past_cases(id)?);
        Ok(Self { id: run.id, series, cases, last })
    }

    /// Returns the number of all events.
    fn count(&self) -> usize {
        self.cases.len() + self.last.len()
    }

    /// Returns the events after the first `seen` events. Events are read in portions, so that a long run needs no more
    /// memory than a short one. If a case cannot be read, the operator gets a notice, and the last event is `done` with
    /// the error.
    fn events(
        self,
        seen: usize,
        world: World,
    ) -> impl Stream<Item = Result<sse::Event, Infallible>> + use<> {
        let past = Arc::new(self);
        let portions = stream::unfold(seen, move |seen| {
            let (past, world) = (Arc::clone(&past), world.clone());
            async move {
                if seen >= past.count() {
                    return None;
                }
                let reader = Arc::clone(&past);
                let read = tokio::task::spawn_blocking(move || reader.portion(seen)).await;
                let read = read.unwrap_or_else(|err| Err(NotRead::Failed(err.to_string())));
                let (events, next) = match read {
                    Ok(events) => {
                        let next = seen + events.len();
                        (events, next)
                    }
                    Err(why) => (vec![past.unreadable(seen, why, &world)], past.count()),
                };
                Some((stream::iter(events.into_iter().map(Ok::<_, Infallible>)), next))
            }
        });
        portions.flatten()
    }

    /// Notifies the operator that a case cannot be read, and returns the last event. The event has the number of the
    /// last event that was read, so that a client that reconnects asks for the case again.
    fn unreadable(&self, seen: usize, why: NotRead, world: &World) -> sse::Event {
        let why = Problem::from(why).detail;
        let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ");
        world
            .notify(&format!("{time} error: the events of the run `{}` end early: {why}", self.id));
        sent(self.series, seen, &Event::done(&self.id, RunState::Unreadable, Some(&why)))
    }

    /// Reads the next events after the first `seen` events: at least one, if any is left.
    fn portion(&self, seen: usize) -> Result<Vec<sse::Event>, NotRead> {
        let cases = self.cases.len();
        let events = if seen < cases {
            self.cases.events(seen..cases.min(seen + PORTION))?
        } else {
            self.last[seen - cases..].to_vec()
        };
        let numbered = (seen + 1..).zip(&events);
        Ok(numbered.map(|(number, event)| sent(self.series, number, event)).collect())
    }
}

/// Returns the head of a finished run: its totals and gates.
#[utoipa::path(get, path = "/v1/runs/{id}/wire/head", params(("id" = String, Path, description = "the id of the run")), responses(
    (status = 200, description = "the head", body = Value),
    (status = 304, description = "the head has the digest of `if-none-match`"),
    (status = 404, description = "there is no such run", body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "the run has no report yet", body = Problem, content_type = "application/problem+json"),
))]
async fn head(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let head = blocking(app, move |runs| runs.head(&id)).await?;
    let json = serde_json::to_vec(&head).unwrap_or_default();
    Ok(with_etag(&headers, "application/json", false, json))
}

/// Returns the index of the cases of a finished run, compressed with gzip if the client accepts it.
#[utoipa::path(get, path = "/v1/runs/{id}/wire/index", params(("id" = String, Path, description = "the id of the run")), responses(
    (status = 200, description = "the index", body = Value),
    (status = 304, description = "the index has the digest of `if-none-match`"),
    (status = 404, description = "there is no such run", body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "the run has no report yet", body = Problem, content_type = "application/problem+json"),
))]
async fn index(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    blocking(app, move |runs| gzip_or_json(&headers, &runs.served(&id)?.index)).await
}

/// Returns a part of the cases of a finished run, compressed with gzip if the client accepts it.
#[utoipa::path(get, path = "/v1/runs/{id}/wire/chunk/{number}",
    params(("id" = String, Path, description = "the id of the run"), ("number" = usize, Path, description = "the number of the part, from 0")),
    responses(
        (status = 200, description = "the cases", body = Value),
        (status = 304, description = "the part has the digest of `if-none-match`"),
        (status = 404, description = "there is no such run or part", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "the run has no report yet", body = Problem, content_type = "application/problem+json"),
    ))]
async fn chunk(
    State(app): State<App>,
    Path((id, number)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = blocking(app, move |runs| {
        let served = runs.served(&id)?;
        let chunk = number.parse().ok().and_then(|it: usize| served.chunks.get(it));
        chunk.map(|it| gzip_or_json(&headers, it)).transpose()
    });
    found.await?.ok_or_else(|| {
        Problem::of_status(StatusCode::NOT_FOUND, "the run has no part with this number")
    })
}

/// The formats of reports: the ending, the reporter, and the media type.
const FORMATS: [(&str, &str, &str); 4] = [
    ("json", "json", "application/json"),
    ("html", "html", "text/html; charset=utf-8"),
    ("junit", "junit", "application/xml"),
    ("md", "markdown", "text/markdown; charset=utf-8"),
];

/// Returns the report of a finished run: `report.json`, `report.html`, `report.junit` or `report.md`.
#[utoipa::path(get, path = "/v1/runs/{id}/{report}",
    params(("id" = String, Path, description = "the id of the run"), ("report" = String, Path, description = "`report.json`, `report.html`, `report.junit` or `report.md`")),
    responses(
        (status = 200, description = "the report", content((Value = "application/json"), (String = "text/html"), (String = "application/xml"), (String = "text/markdown"))),
        (status = 404, description = "there is no such run or format", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "the run has no report yet", body = Problem, content_type = "application/problem+json"),
    ))]
pub(crate) async fn report(
    State(app): State<App>,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let format = name
        .strip_prefix("report.")
        .and_then(|it| FORMATS.iter().find(|(ending, ..)| *ending == it));
    let Some((_, reporter, media_type)) = format else {
        let detail = "the reports are `report.json`, `report.html`, `report.junit` and `report.md`";
        return Err(Problem::of_status(StatusCode::NOT_FOUND, detail));
    };
    let bytes = blocking(app, move |runs| runs.report(&id, reporter)).await?;
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    // The page of the report has its own policy. This header keeps the page out of frames.
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("frame-ancestors 'none'"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    Ok(response)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Base {
    /// The id of the earlier run.
    base: String,
}

/// Compares a finished run with an earlier one, as `kindlm compare` without a margin does.
#[utoipa::path(get, path = "/v1/runs/{id}/compare", params(("id" = String, Path, description = "the id of the run"), Base), responses(
    (status = 200, description = "the comparison", body = Value),
    (status = 400, description = "the query has no `base`", body = Problem, content_type = "application/problem+json"),
    (status = 404, description = "there is no such run", body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "a run has no report yet", body = Problem, content_type = "application/problem+json"),
))]
async fn compare(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(Base { base }): Query<Base>,
) -> Result<Response, Problem> {
    let comparison = blocking(app, move |runs| runs.compare(&base, &id)).await?;
    Ok(Json(comparison).into_response())
}

/// Reads runs in another thread, because reading files would block other requests.
pub(crate) async fn blocking<T: Send + 'static>(
    app: App,
    read: impl FnOnce(&RunService) -> Result<T, NotRead> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(move || read(&app.runs)).await;
    done.map_err(|err| NotRead::Failed(err.to_string()))?.map_err(Problem::from)
}

/// Makes a response of compressed JSON. The JSON is decompressed for a client that does not accept gzip.
fn gzip_or_json(headers: &HeaderMap, gzip: &[u8]) -> Result<Response, NotRead> {
    let is_gzip = accepts_gzip(headers);
    let bytes = if is_gzip {
        gzip.to_owned()
    } else {
        gunzip(gzip, usize::MAX).map_err(|err| NotRead::Failed(err.to_string()))?
    };
    let mut response = with_etag(headers, "application/json", is_gzip, bytes);
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
    Ok(response)
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let is_accepted = |expected: &str| {
        let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|it| it.to_str().ok());
        values.flat_map(|it| it.split(',')).find_map(|coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
            let weight = weight.trim().strip_prefix("q=").and_then(|it| it.parse::<f64>().ok());
            name.trim().eq_ignore_ascii_case(expected).then_some(weight != Some(0.0))
        })
    };
    // `*` stands for the codings that the header does not name.
    is_accepted("gzip").or_else(|| is_accepted("*")).unwrap_or(false)
}

/// Makes a response whose `etag` is the digest of its content. If the client already has this content, the response
/// has the status 304 and no content.
pub(crate) fn with_etag(
    headers: &HeaderMap,
    media_type: &'static str,
    is_gzip: bool,
    bytes: Vec<u8>,
) -> Response {
    let etag = format!("\"{}\"", digest(&bytes));
    let is_known = headers.get_all(IF_NONE_MATCH).iter().any(|it| it.as_bytes() == etag.as_bytes());
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(CONTENT_TYPE, media_type)], bytes).into_response()
    };
    if is_gzip && !is_known {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    response
}

fn unknown_suite(status: StatusCode, name: &str) -> Problem {
    let detail = format!("there is no suite `{name}`; `GET /v1/suites` lists all suites");
    Problem::new(status, "unknown-suite", detail)
}

impl From<NotStarted> for Problem {
    fn from(why: NotStarted) -> Self {
        let invalid = StatusCode::UNPROCESSABLE_ENTITY;
        match why {
            NotStarted::NoSuite(name) => unknown_suite(invalid, &name),
            NotStarted::NoInline(option) => Self::new(
                invalid,
                "no-inline-suites",
                format!(
                    "the server runs no inline suites, because it was started without `{option}`"
                ),
            ),
            NotStarted::Invalid(failure) => {
                let texts = [failure.message, failure.help].into_iter().flatten();
                Self::new(invalid, "invalid-run", texts.collect::<Vec<_>>().join("; "))
            }
            NotStarted::TooMany(limit) => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too-many-runs",
                format!("{limit} runs wait or run already; send the request again later"),
            ),
            NotStarted::Running(id) => Self::new(
                StatusCode::CONFLICT,
                "running",
                format!("the run `{id}` is going on already"),
            ),
            NotStarted::Internal(why) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", why)
            }
        }
    }
}

impl From<NotRead> for Problem {
    fn from(why: NotRead) -> Self {
        match why {
            NotRead::NoRun(_) => Self::of_status(StatusCode::NOT_FOUND, "there is no such run"),
            NotRead::NoReport(id) => Self::new(
                StatusCode::CONFLICT,
                "no-report",
                format!("the run `{id}` has no report yet"),
            ),
            NotRead::Kept(why) => Self::new(StatusCode::CONFLICT, "run-kept", why),
            NotRead::NoSuite(name) => unknown_suite(StatusCode::NOT_FOUND, &name),
            NotRead::NoSide(name) => Self::new(
                StatusCode::NOT_FOUND,
                "unknown-side",
                format!("the suite has no baseline and no finished run `{name}`"),
            ),
            NotRead::NoBaseline(label) => Self::of_status(
                StatusCode::NOT_FOUND,
                format!("the suite has no baseline `{label}`"),
            ),
            NotRead::HasCase(name) => Self::new(
                StatusCode::CONFLICT,
                "case-exists",
                format!("the suite has a case \"{name}\" already"),
            ),
            NotRead::NotAppended(why) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "no-case", why)
            }
            NotRead::Refused(why) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-baseline", why)
            }
            NotRead::Failed(why) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", why),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http_body_util::BodyExt as _;
    use kindlm_wire::v1;

    use super::*;

    #[tokio::test]
    async fn case_that_cannot_be_read_ends_the_events() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let json = serde_json::to_vec(&v1::Report::from(&kindlm_testing::sample_report())).unwrap();
        std::fs::write(&path, &json).unwrap();
        let cases = PastCases(kindlm_store::open_report(&path).unwrap());
        std::fs::write(&path, vec![b'x'; json.len()]).unwrap();
        let past = PastRun { id: "r".to_owned(), series: 7, cases, last: Vec::new() };
        let notices = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&notices);
        let world = World {
            notices: Arc::new(move |it: &str| seen.lock().unwrap().push(it.to_owned())),
            ..World::new(folder.path(), Arc::new(|_| None))
        };
        let response = Sse::new(past.events(1, world)).into_response();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = std::str::from_utf8(&body).unwrap();
        assert!(body.starts_with("id: 7-1\nevent: done\n"), "{body}");
        assert!(body.contains("\"state\":\"unreadable\""), "{body}");
        assert!(body.contains("\"error\":\"cannot read result 1 of the report"), "{body}");
        let notices = notices.lock().unwrap();
        assert!(
            notices.len() == 1 && notices[0].contains("events of the run `r` end early"),
            "{notices:?}"
        );
    }
}
