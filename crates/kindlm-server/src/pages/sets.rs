//! `/sets`: assertion sets, their versions, and the form that makes a new version.

use askama::Template;
use axum::extract::{Extension, Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Form, Router};
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::access::guarded;
use super::checks::{Fields, yaml};
use super::frame::{Frame, Look, Moment, PageError, ok, page};
use super::playground::look;
use crate::access::Caller;
use crate::app::App;
use crate::problem::Problem;
use crate::records::{self, Evaluated};
use crate::routes::body::is_short;
use crate::store::adoption::Page;
use crate::store::samples::{Sample, SampleFilter};
use crate::store::sets::{ExpectedVersion, SetSummary, SetVersion};
use crate::store::tokens::Scope;

/// The maximum number of samples that a set is tried on.
const TRIED: u32 = 10;

pub(super) fn routes(app: &App) -> Router<App> {
    let reads = Router::new().route("/sets", get(list)).route("/sets/{name}", get(show));
    let tries = Router::new().route("/sets/{name}/try", post(try_samples));
    let writes = Router::new().route("/sets", post(save));
    let tries = guarded(app, Scope::Evaluate, tries);
    guarded(app, Scope::Read, reads.merge(tries)).merge(guarded(app, Scope::Admin, writes))
}

#[derive(Template)]
#[template(path = "sets.html")]
struct SetList {
    frame: Frame,
    has_judge: bool,
    sets: Vec<Version>,
    name: String,
    /// The digest of the version that the form changes; empty if the form can store a new set.
    base: String,
    /// The name of the set that has the version `base`.
    base_of: String,
    fields: Fields,
    error: String,
}

/// A version of a set, as a row.
struct Version {
    name: String,
    number: i64,
    author: String,
    time: Moment,
    digest: String,
    is_shown: bool,
}

impl Version {
    fn new(it: SetSummary) -> Self {
        let digest = it.digest.chars().take("sha256:".len() + 12).collect();
        let author = if it.author.is_empty() { "–".to_owned() } else { it.author };
        Self {
            name: it.name,
            number: it.version,
            author,
            time: Moment::of_text(&it.created_at),
            digest,
            is_shown: false,
        }
    }
}

async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, PageError> {
    let form = SaveForm::default();
    Ok(ok(&set_list(&app, &caller, form, String::new()).await?))
}

async fn set_list(
    app: &App,
    caller: &Caller,
    form: SaveForm,
    error: String,
) -> Result<SetList, PageError> {
    let SaveForm { name, rules, checks, base, base_of } = form;
    Ok(SetList {
        frame: Frame::new("Assertion sets", "/sets", caller),
        has_judge: app.records.has_judge(),
        sets: app.store.sets().await?.into_iter().map(Version::new).collect(),
        name,
        base,
        base_of,
        fields: Fields { rules, yaml: checks },
        error,
    })
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct SaveForm {
    name: String,
    rules: String,
    checks: String,
    /// The digest of the newest version when the page was loaded; empty if the form can store a new set.
    base: String,
    /// The name of the set that has the version `base`. If the form has another name, `base` is ignored.
    base_of: String,
}

async fn save(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Form(form): Form<SaveForm>,
) -> Result<Response, PageError> {
    let name = form.name.trim();
    let fields = Fields { rules: form.rules.clone(), yaml: form.checks.clone() };
    let error = match fields.checks() {
        Err(error) => error,
        Ok(_) if name.is_empty() => "Write the name of the set.".to_owned(),
        Ok(checks) => {
            // `base` is a version of the set with the old name, so it does not apply to a new name.
            let is_renamed = !form.base_of.is_empty() && name != form.base_of.trim();
            let expected = match form.base.as_str() {
                _ if is_renamed => ExpectedVersion::Any,
                "" => ExpectedVersion::Any,
                base => ExpectedVersion::Digest(vec![base.to_owned()]),
            };
            let checks = Value::Object(checks);
            match records::put_set(&app, name, checks, caller.name(), &expected).await {
                Ok(_) => return Ok(Redirect::to(&format!("/sets/{name}")).into_response()),
                Err(problem) if [412, 422].contains(&problem.status) => problem.detail,
                Err(problem) => return Err(problem.into()),
            }
        }
    };
    let shown = set_list(&app, &caller, form, error).await?;
    Ok(page(StatusCode::UNPROCESSABLE_ENTITY, &shown))
}

#[derive(Template)]
#[template(path = "set.html")]
struct SetPage {
    frame: Frame,
    has_judge: bool,
    set: SetVersion,
    time: Moment,
    content: String,
    diff: Vec<DiffLine>,
    is_newest: bool,
    /// The digest of the newest version.
    base: String,
    versions: Vec<Version>,
    fields: Fields,
    agent: String,
    tried: Option<Tried>,
}

struct DiffLine {
    class: &'static str,
    sign: char,
    text: String,
}

/// The results of a set on the newest samples of an agent.
struct Tried {
    line: String,
    rows: Vec<TriedRow>,
}

struct TriedRow {
    id: String,
    look: Look,
    failed: String,
    output: String,
}

#[derive(Deserialize)]
struct ShowQuery {
    version: Option<i64>,
}

async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Query(query): Query<ShowQuery>,
) -> Result<Response, PageError> {
    Ok(ok(&set_page(&app, &caller, &name, query.version).await?))
}

async fn set_page(
    app: &App,
    caller: &Caller,
    name: &str,
    number: Option<i64>,
) -> Result<SetPage, PageError> {
    let set = app.store.set(name, number).await?.ok_or_else(|| {
        let detail = format!("there is no version of the set \"{name}\" with this number");
        let detail = if number.is_some() { detail } else { format!("there is no set \"{name}\"") };
        Problem::new(StatusCode::NOT_FOUND, "unknown-set", detail)
    })?;
    let versions = app.store.set_versions(name).await?;
    let base = versions.first().map(|it| it.digest.clone()).unwrap_or_default();
    let versions = versions.into_iter().map(Version::new);
    let versions: Vec<Version> =
        versions.map(|it| Version { is_shown: it.number == set.version, ..it }).collect();
    Ok(SetPage {
        frame: Frame::new(format!("{name}, version {}", set.version), "/sets", caller),
        has_judge: app.records.has_judge(),
        time: Moment::of_text(&set.created_at),
        content: yaml(&Value::Object(set.content.clone())),
        diff: set.diff.lines().filter_map(diff_line).collect(),
        is_newest: versions.first().is_some_and(|it| it.is_shown),
        base,
        versions,
        fields: Fields::from_content(&set.content),
        agent: String::new(),
        tried: None,
        set,
    })
}

/// Splits a line of a unified diff. Returns `None` for lines that are not part of a text, such as the header of a hunk.
fn diff_line(line: &str) -> Option<DiffLine> {
    let (class, sign) = match line.chars().next() {
        Some('+') => ("added", '+'),
        Some('-') => ("removed", '−'),
        Some('@' | '\\') => return None,
        _ => ("same", ' '),
    };
    Some(DiffLine { class, sign, text: line.get(1..).unwrap_or_default().to_owned() })
}

#[derive(Deserialize)]
struct TryForm {
    agent: String,
    version: i64,
}

async fn try_samples(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Form(form): Form<TryForm>,
) -> Result<Response, PageError> {
    let mut shown = set_page(&app, &caller, &name, Some(form.version)).await?;
    let filter = SampleFilter { agent: Some(form.agent.clone()), ..SampleFilter::default() };
    let samples = if is_short(&form.agent) {
        app.store.samples(&filter, TRIED, None).await?.items
    } else {
        Vec::new()
    };
    let set = format!("{name}@{}", form.version);
    let start = Instant::now();
    let rows = join_all(samples.iter().map(|it| try_sample(&app, &set, it))).await;
    if !rows.is_empty() {
        records::add_page_evaluation(&app, Page::Set, start).await;
    }
    let passed = rows.iter().filter(|it| it.look.tone == "good").count();
    let line = match rows.len() {
        0 => format!("There is no sample of the agent \"{}\".", form.agent),
        all => format!("{passed} of the newest {all} samples of \"{}\" passed.", form.agent),
    };
    shown.agent = form.agent;
    shown.tried = Some(Tried { line, rows });
    Ok(ok(&shown))
}

async fn try_sample(app: &App, set: &str, sample: &Sample) -> TriedRow {
    let mut record: Map<String, Value> = sample.sample.clone();
    record.insert("set".to_owned(), set.into());
    let json = serde_json::to_vec(&record).unwrap_or_default();
    let output = short(record.get("agent_output").unwrap_or(&Value::Null));
    let (look, failed) = match records::evaluate(app, json).await {
        Ok(Evaluated { evaluation, .. }) => {
            let failed = evaluation.results.iter().filter(|it| !it.pass);
            let names = failed.map(|it| it.id.as_ref().unwrap_or(&it.label).clone());
            app.metrics.add_evaluation("page", evaluation.outcome);
            (look(&evaluation.outcome), names.collect::<Vec<_>>().join(", "))
        }
        Err(why) => {
            why.problem.report_cause(app.runs.world());
            (Look::from_name("errored"), why.problem.detail)
        }
    };
    TriedRow { id: sample.id.clone(), look, failed, output }
}

/// Returns the start of an output, at most 160 characters. An output that is not a text is shown as JSON.
pub(super) fn short(output: &Value) -> String {
    const LONGEST: usize = 160;
    let text = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}
