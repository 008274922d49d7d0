//! `/runs`: the runs of suites, the form that starts a run, and the page that follows a run.

use askama::Template;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Form, Router};
use kindlm_run::FailedCase;
use kindlm_wire::v1::RunHead;
use serde::Deserialize;

use super::access::guarded;
use super::frame::{Frame, Look, Moment, PageError, ok, page};
use crate::access::Caller;
use crate::app::App;
use crate::problem::Problem;
use crate::routes::runs as api;
use crate::runs::{LiveRun, NewRun, NotRead, RunInfo, RunService, RunState};
use crate::store::tokens::Scope;

/// The number of runs in the list.
const LISTED: usize = 100;

pub(super) fn routes(app: &App) -> Router<App> {
    let reads = Router::new()
        .route("/runs", get(list))
        .route("/runs/{id}", get(show))
        .route("/runs/{id}/part", get(part))
        .route("/runs/{id}/events", get(api::events))
        .route("/runs/{id}/{report}", get(api::report));
    let starts = Router::new().route("/runs", post(start)).route("/runs/{id}/cancel", post(cancel));
    guarded(app, Scope::Read, reads).merge(guarded(app, Scope::Evaluate, starts))
}

/// Returns the look of a state, and true if the run has not ended.
fn look(state: RunState) -> (Look, bool) {
    let (tone, mark, word, is_open) = match state {
        RunState::Queued => ("none", "…", "queued", true),
        RunState::Running => ("none", "…", "running", true),
        RunState::Passed => ("good", "✓", "passed", false),
        RunState::Failed => ("bad", "✗", "failed", false),
        RunState::Errored => ("trouble", "!", "error", false),
        RunState::Interrupted => ("warn", "!", "cancelled", false),
        RunState::Unfinished => ("warn", "!", "unfinished", false),
        RunState::Unreadable => ("trouble", "!", "unreadable", false),
    };
    (Look { tone, mark, word }, is_open)
}

#[derive(Template)]
#[template(path = "runs.html")]
struct RunList {
    frame: Frame,
    suites: Vec<String>,
    chosen: String,
    tests: String,
    error: String,
    total: usize,
    runs: Vec<Row>,
}

struct Row {
    id: String,
    suite: String,
    look: Look,
    held: String,
    start: Option<Moment>,
    duration: String,
}

impl Row {
    fn new(run: RunInfo) -> Self {
        let held = match (run.cases_held, run.cases) {
            (Some(held), Some(cases)) => format!("{held} of {cases}"),
            _ => String::new(),
        };
        Self {
            look: look(run.state).0,
            suite: run.suite.unwrap_or_default() + &version_text(run.suite_version),
            held,
            start: run.started_at.as_deref().map(Moment::of_text),
            duration: run.duration_ms.map(seconds).unwrap_or_default(),
            id: run.id,
        }
    }
}

/// Returns the text with the version of a suite, which follows the name of the suite; empty without a version.
fn version_text(version: Option<i64>) -> String {
    version.map(|it| format!(", version {it}")).unwrap_or_default()
}

fn seconds(milliseconds: f64) -> String {
    if milliseconds < 1000.0 {
        return format!("{milliseconds:.0} ms");
    }
    format!("{:.1} s", milliseconds / 1000.0)
}

async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, PageError> {
    let shown = run_list(app, &caller, StartForm::default(), String::new()).await?;
    Ok(ok(&shown))
}

async fn run_list(
    app: App,
    caller: &Caller,
    form: StartForm,
    error: String,
) -> Result<RunList, Problem> {
    let read = |runs: &RunService| -> Result<Vec<String>, NotRead> { Ok(runs.suites()?) };
    let suites = api::blocking(app.clone(), read).await?;
    let (runs, total) = api::listed(app, LISTED).await?;
    let StartForm { suite: chosen, tests } = form;
    let runs = runs.into_iter().map(Row::new).collect();
    let frame = Frame::new("Runs", "/runs", caller);
    Ok(RunList { frame, suites, chosen, tests, error, total, runs })
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct StartForm {
    suite: String,
    /// Names of test cases, one per line.
    tests: String,
}

async fn start(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Form(form): Form<StartForm>,
) -> Result<Response, PageError> {
    let tests = form.tests.lines().map(str::trim).filter(|it| !it.is_empty());
    let new = NewRun::new(form.suite.clone(), tests.map(str::to_owned).collect());
    match api::start_run(&app, new, caller.name()).await {
        Ok(run) => Ok(Redirect::to(&format!("/runs/{}", run.id)).into_response()),
        Err(why) => {
            let problem = Problem::from(why);
            // The form needs only the scope `evaluate`, but the list of runs needs `read`.
            if caller.require(Scope::Read).is_err() {
                return Err(problem.into());
            }
            let status = StatusCode::from_u16(problem.status).unwrap_or_default();
            let shown = run_list(app, &caller, form, problem.detail).await?;
            Ok(page(status, &shown))
        }
    }
}

async fn cancel(app: State<App>, id: Path<String>) -> Result<Response, PageError> {
    let back = format!("/runs/{}", *id);
    match api::cancel(app, id).await {
        Ok(_) => Ok(Redirect::to(&back).into_response()),
        // The run may have ended since the page was shown.
        Err(problem) if problem.is("not-running") => Ok(Redirect::to(&back).into_response()),
        Err(problem) => Err(problem.into()),
    }
}

#[derive(Template)]
#[template(path = "run.html")]
struct RunPage {
    frame: Frame,
    part: RunPart,
}

/// The part of the page that changes during the run.
#[derive(Template)]
#[template(path = "run_part.html")]
struct RunPart {
    id: String,
    look: Look,
    is_open: bool,
    has_report: bool,
    line: String,
    facts: String,
    started: Option<Moment>,
    error: String,
    /// The share of finished executions, in thousandths.
    done: u64,
    failures: Vec<Failure>,
    more: usize,
    gates: Vec<Gate>,
}

struct Failure {
    word: &'static str,
    name: String,
    model: String,
    place: String,
    reason: String,
}

impl Failure {
    fn new(case: FailedCase) -> Self {
        let place = case.place.map(|it| format!("{}:{}", it.file, it.line));
        Self {
            word: super::playground::look(&case.outcome).word,
            name: case.case,
            model: case.model,
            place: place.unwrap_or_default(),
            reason: case.reason,
        }
    }
}

struct Gate {
    look: Look,
    id: String,
    actual: String,
    threshold: String,
}

async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    let part = run_part(app, id).await?;
    let frame = Frame::new(format!("Run {}", part.id), "/runs", &caller);
    Ok(ok(&RunPage { frame, part }))
}

async fn part(State(app): State<App>, Path(id): Path<String>) -> Result<Response, PageError> {
    Ok(ok(&run_part(app, id).await?))
}

async fn run_part(app: App, id: String) -> Result<RunPart, Problem> {
    let live = app.runs.live(&id);
    let (run, head) = api::described(app, id).await?;
    Ok(RunPart::new(run, head.as_ref(), live.as_deref()))
}

impl RunPart {
    fn new(run: RunInfo, head: Option<&RunHead>, live: Option<&LiveRun>) -> Self {
        let (look, is_open) = look(run.state);
        let version = version_text(run.suite_version);
        let (finished, total) = (run.finished.unwrap_or(0), run.total.unwrap_or(0));
        let mut part = Self {
            id: run.id,
            look,
            is_open,
            has_report: head.is_some(),
            line: String::new(),
            facts: run.suite.unwrap_or_default() + &version,
            started: None,
            error: run.error.unwrap_or_default(),
            done: if is_open { (finished * 1000 / total.max(1)) as u64 } else { 1000 },
            failures: Vec::new(),
            more: 0,
            gates: Vec::new(),
        };
        let (mut cases_held, mut cases) = (0, 0);
        if let Some(known) = live.map(LiveRun::known) {
            (cases_held, cases) = (known.held, known.ended);
            part.failures = known.failures.into_iter().map(Failure::new).collect();
            part.more = known.more_failures;
        }
        part.line = match (head, is_open) {
            (Some(head), _) => {
                format!("{} of {} cases held", head.held.count, head.held.total)
            }
            (None, true) if total == 0 => "no case has started".to_owned(),
            (None, true) => format!(
                "so far {cases_held} of {cases} cases held; {finished} of {total} executions ended"
            ),
            (None, false) => "there is no report".to_owned(),
        };
        if let Some(head) = head {
            let duration = seconds(head.duration_ms);
            part.facts = format!("{} · {}{version} · {duration}", head.project, head.suite);
            part.started = Some(Moment::of_text(&head.started_at));
            part.gates = head.gates.iter().map(Gate::new).collect();
        }
        part
    }
}

impl Gate {
    fn new(gate: &kindlm_wire::v1::HeadGate) -> Self {
        Self {
            look: super::playground::look(&gate.status),
            id: gate.gate.clone(),
            actual: gate.actual.map_or_else(|| "–".to_owned(), number),
            threshold: number(gate.threshold),
        }
    }
}

fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
