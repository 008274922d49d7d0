//! `/`: the playground, which checks one output.

use askama::Template;
use axum::extract::{Extension, Query, State};
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::response::sse;
use axum::routing::get;
use axum::{Form, Router};
use futures_util::{StreamExt as _, stream};
use kindlm_wire::evaluate::{EvaluatedResult, Evaluation};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::access::guarded;
use super::checks::Fields;
use super::frame::{Frame, Look, PageError, ok, page};
use crate::access::Caller;
use crate::app::App;
use crate::progress::{self, Progress};
use crate::records::{self, Unevaluated};
use crate::store::adoption::Page;
use crate::store::tokens::Scope;

/// The media type of server-sent events.
const EVENTS: &str = "text/event-stream";

/// An example that needs no judge.
const EXAMPLE: (&str, &str, &str) = (
    "My mug arrived broken. Can I have my money back?",
    "Sorry about the broken mug! We refund 24.90 EUR to your card today. You need not send it back.",
    "output:\n  contains: [\"refund\", \"24.90\"]\n  notContains: [\"unfortunately\"]\n  maxLength: 300\n",
);

pub(super) fn routes(app: &App) -> Router<App> {
    guarded(app, Scope::Evaluate, Router::new().route("/", get(show).post(evaluate)))
}

#[derive(Template)]
#[template(path = "playground.html")]
struct Playground {
    frame: Frame,
    has_judge: bool,
    input: String,
    output: String,
    fields: Fields,
    /// The name of the set that the checks come from; empty for none.
    set: String,
    error: String,
    verdict: Option<Verdict>,
}

/// The part of the page with all results.
#[derive(Template)]
#[template(path = "verdict.html")]
struct VerdictPart {
    verdict: Verdict,
}

/// The part of the page with one result.
#[derive(Template)]
#[template(path = "card.html")]
struct CardPart {
    card: Card,
}

/// The results of an evaluation.
struct Verdict {
    look: Look,
    line: String,
    cards: Vec<Card>,
}

struct Card {
    look: Look,
    id: String,
    score: String,
    reason: String,
}

impl Verdict {
    fn new(evaluation: &Evaluation) -> Self {
        let Evaluation { passed, total, score, .. } = evaluation;
        let score = score.map(|it| format!(", score {it:.2}")).unwrap_or_default();
        let undecided = total - passed - evaluation.failed;
        let undecided = match undecided {
            0 => String::new(),
            number => format!(", {number} could not be decided"),
        };
        Self {
            look: look(&evaluation.outcome),
            line: format!("{passed} of {total} passed{undecided}{score}"),
            cards: evaluation.results.iter().map(Card::new).collect(),
        }
    }
}

impl Card {
    fn new(result: &EvaluatedResult) -> Self {
        let reason = result.reasoning.as_ref().or(result.failure_message.as_ref());
        Self {
            look: look(&result.status),
            id: result.id.as_ref().unwrap_or(&result.label).clone(),
            score: result.score.map(|it| format!("{it:.2}")).unwrap_or_default(),
            reason: reason.cloned().unwrap_or_default(),
        }
    }
}

/// Returns the look of a status or an outcome by its name in JSON.
pub(super) fn look(status: &impl serde::Serialize) -> Look {
    let name = serde_json::to_value(status).unwrap_or_default();
    Look::from_name(name.as_str().unwrap_or_default())
}

#[derive(Deserialize)]
struct ShowQuery {
    set: Option<String>,
}

async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<ShowQuery>,
) -> Result<Response, PageError> {
    let (input, output, example) = EXAMPLE;
    let mut shown = Playground {
        frame: Frame::new("Playground", "/", &caller),
        has_judge: app.records.has_judge(),
        input: input.to_owned(),
        output: output.to_owned(),
        fields: Fields { rules: String::new(), yaml: example.to_owned() },
        set: String::new(),
        error: String::new(),
        verdict: None,
    };
    if let Some(set) = query.set {
        caller.require(Scope::Read)?;
        let found = records::find(&app, &set.into()).await?;
        shown.fields = Fields::from_content(&found.content);
        shown.set = found.name;
    }
    Ok(ok(&shown))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EvaluateForm {
    input: String,
    output: String,
    rules: String,
    checks: String,
    name: String,
}

async fn evaluate(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Form(form): Form<EvaluateForm>,
) -> Response {
    let mut shown = Playground {
        frame: Frame::new("Playground", "/", &caller),
        has_judge: app.records.has_judge(),
        input: form.input,
        output: form.output,
        fields: Fields { rules: form.rules, yaml: form.checks },
        set: form.name,
        error: String::new(),
        verdict: None,
    };
    let json = shown.fields.checks().and_then(|checks| record(&shown, checks));
    if headers.get(ACCEPT).is_some_and(|it| it.as_bytes() == EVENTS.as_bytes()) {
        return stream_results(app, json);
    }
    let evaluated = match json {
        Ok(json) => evaluated(&app, json).await,
        Err(error) => Err(error),
    };
    match evaluated {
        Ok(verdict) => {
            shown.verdict = Some(verdict);
            ok(&shown)
        }
        Err(error) => {
            shown.error = error;
            page(StatusCode::UNPROCESSABLE_ENTITY, &shown)
        }
    }
}

/// Returns the record of a form as JSON.
fn record(shown: &Playground, checks: Map<String, Value>) -> Result<Vec<u8>, String> {
    // Forms end lines with CR LF.
    let text = |it: &str| Value::from(it.replace("\r\n", "\n"));
    let mut record = checks;
    record.insert("agent_output".to_owned(), text(&shown.output));
    // Rules need the key `agent_input`, so an empty field is sent as an empty input.
    record.insert("agent_input".to_owned(), text(&shown.input));
    serde_json::to_vec(&record).map_err(|err| err.to_string())
}

async fn evaluated(app: &App, json: Vec<u8>) -> Result<Verdict, String> {
    let start = Instant::now();
    let done = records::evaluate(app, json).await.map_err(|it| reported(app, &it))?;
    app.metrics.add_evaluation("page", done.evaluation.outcome);
    records::add_page_evaluation(app, Page::Playground, start).await;
    Ok(Verdict::new(&done.evaluation))
}

/// Returns the error for the visitor, and sends its cause to the operator of the server.
fn reported(app: &App, error: &Unevaluated) -> String {
    error.problem.report_cause(app.runs.world());
    error.problem.detail.clone()
}

/// Sends parts of the page as server-sent events: a `result` for each evaluated check, then `verdict` or `problem`.
fn stream_results(app: App, json: Result<Vec<u8>, String>) -> Response {
    let json = match json {
        Ok(json) => json,
        Err(error) => return progress::events(stream::iter([problem(&error)])),
    };
    let parts =
        progress::parts(progress::evaluate(app.clone(), json, ("page", Some(Page::Playground))));
    progress::events(parts.map(move |it| match it {
        Progress::Result(result) => part("result", &CardPart { card: Card::new(&result) }),
        Progress::End(Ok(done)) => {
            part("verdict", &VerdictPart { verdict: Verdict::new(&done.evaluation) })
        }
        Progress::End(Err(error)) => problem(&reported(&app, &error)),
    }))
}

fn problem(error: &str) -> sse::Event {
    // The data of an event cannot contain CR.
    sse::Event::default().event("problem").data(error.replace('\r', ""))
}

fn part(name: &str, template: &impl Template) -> sse::Event {
    let (name, data) = match template.render() {
        Ok(html) => (name, html),
        Err(_) => ("problem", "The server cannot show the result. Evaluate again.".to_owned()),
    };
    // The data of an event cannot contain CR.
    sse::Event::default().event(name).data(data.replace('\r', ""))
}
