//! Evaluates records. A record has its own checks, or names a stored assertion set: `"set": "name"` or `"name@3"`.

use std::time::Duration;

use axum::http::StatusCode;
use kindlm_run::evaluate::service::{
    self, CheckOutcome, JudgeCost, PendingRecord, RecordError, WatchResults,
};
use kindlm_wire::evaluate::Evaluation;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use crate::app::App;
use crate::problem::Problem;
use crate::routes::body::is_name;
use crate::store::adoption::Page;
use crate::store::sets::{ExpectedVersion, SetVersion};

/// The keys that the content of a set can have.
pub(crate) const SET_KEYS: [&str; 3] = ["assertions", "expect", "threshold"];

/// The time limit for a record, with the answers of its judges.
const PATIENCE: Duration = Duration::from_mins(2);

/// The results of a record.
#[derive(Debug, Serialize)]
pub(crate) struct Evaluated {
    /// The results of the checks.
    #[serde(flatten)]
    pub(crate) evaluation: Evaluation,
    /// The version of the assertion set, `name@version`, if the record named a set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) set: Option<String>,
    /// The outcome of each check and rule, under names that are the same for all records with the set.
    #[serde(skip)]
    pub(crate) outcomes: Vec<CheckOutcome>,
    /// The cost of the judges.
    #[serde(skip)]
    pub(crate) cost: JudgeCost,
}

/// The reason why a record has no results.
#[derive(Debug)]
pub(crate) struct Unevaluated {
    /// The record's id, if it could be read.
    pub(crate) id: Option<Value>,
    /// The error of the request that sent the record.
    pub(crate) problem: Problem,
    cost: Cost,
}

/// The cost of the judges of a record without results.
#[derive(Debug)]
enum Cost {
    Paid(JudgeCost),
    /// The evaluation still runs. Its cost is known when it ends.
    Pending(PendingRecord),
}

impl Unevaluated {
    /// Creates the error of a record for which no judge was asked.
    fn free(id: Option<Value>, problem: Problem) -> Self {
        Self { id, problem, cost: Cost::Paid(JudgeCost::default()) }
    }

    /// Creates the error of an invalid record whose id could not be read.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::free(None, invalid(detail))
    }

    /// Returns true if the record is at fault, and not a judge or the server.
    pub(crate) fn is_malformed(&self) -> bool {
        self.problem.status == StatusCode::UNPROCESSABLE_ENTITY.as_u16()
            && !self.problem.is(NO_JUDGE)
    }

    /// Returns the cost of the judges. After a timeout, this waits until the evaluation ends.
    pub(crate) async fn cost(self) -> JudgeCost {
        match self.cost {
            Cost::Paid(cost) => cost,
            Cost::Pending(record) => record.cost().await,
        }
    }
}

/// The kind of the error of a record that needs a judge, if the server has none.
const NO_JUDGE: &str = "no-judge";

/// The id of a record, and the keys that define its checks.
#[derive(Deserialize)]
struct Rules<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    set: Option<Value>,
    #[serde(borrow, default, deserialize_with = "text")]
    assertions: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "text")]
    expect: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "text")]
    threshold: Option<&'a RawValue>,
}

/// Reads a value as JSON text. Without this function, serde would read `null` like an absent key.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The JSON `null`. A key with this value counts as absent.
const NULL: &str = "null";

/// A record with the checks of its set.
struct Prepared {
    json: Vec<u8>,
    /// The record's id, if it could be read.
    id: Option<Value>,
    /// The version of the set, if the record names one.
    set: Option<SetVersion>,
}

/// Evaluates a record. Only the judges of the server's config are asked.
///
/// # Errors
///
/// Fails if:
///
/// - the record is invalid, names an unknown set, or has a check that is not permitted
/// - a check needs a judge model, and the config has none
/// - the time limit is exceeded
/// - the database or the evaluation fails
pub(crate) async fn evaluate(app: &App, json: Vec<u8>) -> Result<Evaluated, Unevaluated> {
    evaluate_watched(app, json, None).await
}

/// Evaluates a record like [`evaluate`]. `watch` receives results while other checks wait for their judges.
///
/// # Errors
///
/// Fails like [`evaluate`].
pub(crate) async fn evaluate_watched(
    app: &App,
    json: Vec<u8>,
    watch: Option<WatchResults>,
) -> Result<Evaluated, Unevaluated> {
    let Prepared { json, id, set } = with_set(app, json).await?;
    let end = Instant::now() + PATIENCE;
    let Ok(pending) = timeout_at(end, app.records.submit_watched(json, watch)).await else {
        return Err(Unevaluated::free(id, too_slow()));
    };
    let mut pending = match pending {
        Ok(pending) => pending,
        Err(err) => return Err(refused(err, id)),
    };
    let Ok(done) = timeout_at(end, pending.result()).await else {
        pending.abandon();
        let cost = Cost::Pending(pending);
        return Err(Unevaluated { id, problem: too_slow(), cost });
    };
    let done = done.map_err(|err| refused(err, id))?;
    let service::Evaluated { evaluation, outcomes, cost, .. } = done;
    if let Some(set) = set.as_ref().filter(|it| !it.has_verdict)
        && let Err(err) = app.store.note_verdict(&set.name, set.version).await
    {
        // The results are valid without the time of the verdict, so this error does not discard them.
        Problem::from(err).report_cause(app.runs.world());
    }
    let set = set.map(|it| format!("{}@{}", it.name, it.version));
    Ok(Evaluated { evaluation, set, outcomes, cost })
}

/// Counts an evaluation that a person started on a page, and that began at `start`.
pub(crate) async fn add_page_evaluation(app: &App, page: Page, start: Instant) {
    // The results are valid without the count, so this error does not discard them.
    if let Err(err) = app.store.add_page_evaluation(page, start.elapsed()).await {
        Problem::from(err).report_cause(app.runs.world());
    }
}

fn too_slow() -> Problem {
    let detail = format!(
        "the record took more than {} s; use fewer judged checks, or send the record again",
        PATIENCE.as_secs()
    );
    Problem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", detail)
}

/// Compiles the checks of a record, and asks no judge.
///
/// # Errors
///
/// Fails if the checks are invalid, or need more than is permitted.
async fn compile(app: &App, json: Vec<u8>) -> Result<(), Problem> {
    app.records.compile(json).await.map_err(|err| refused(err, None).problem)
}

/// Stores a set, and returns its newest version, and true if this version is new.
///
/// A new version is stored if there is no such set, or if the content has changed.
///
/// # Errors
///
/// Fails if:
///
/// - the name, a key or a check is invalid
/// - the newest version is not the expected version
/// - the database fails
pub(crate) async fn put_set(
    app: &App,
    name: &str,
    content: Value,
    author: &str,
    expected: &ExpectedVersion,
) -> Result<(SetVersion, bool), Problem> {
    let invalid =
        |detail: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-set", detail);
    let Value::Object(content) = content else {
        return Err(invalid("a set is an object with `assertions`, `expect` or both".to_owned()));
    };
    if let Some(key) = content.keys().find(|it| !SET_KEYS.contains(&it.as_str())) {
        let detail =
            format!("unknown key \"{key}\"; a set has only `assertions`, `expect` and `threshold`");
        return Err(invalid(detail));
    }
    if !is_name(name) {
        let detail = "the name of a set has at most 100 letters, digits, `-`, `_` and `.`";
        return Err(invalid(detail.to_owned()));
    }
    compile(app, serde_json::to_vec(&content).unwrap_or_default()).await?;
    Ok(app.store.put_set(name, &content, author, expected).await?)
}

/// Reads the id of a record. If the record names a set, adds the checks of the set to the record.
///
/// Fails if the set cannot be found (see [`find`]), or if the record has `set` and its own checks.
async fn with_set(app: &App, json: Vec<u8>) -> Result<Prepared, Unevaluated> {
    // A record that cannot be parsed stays unchanged. The evaluation reports its error.
    let Ok(Rules { set: named, id, assertions, expect, threshold }) =
        serde_json::from_slice::<Rules<'_>>(&json)
    else {
        return Ok(Prepared { json, id: None, set: None });
    };
    let id: Option<Value> = id.and_then(|it| serde_json::from_str(it.get()).ok());
    let Some(named) = named else { return Ok(Prepared { json, id, set: None }) };
    let own = [("assertions", assertions), ("expect", expect), ("threshold", threshold)];
    let own = own.into_iter().filter_map(|(key, value)| Some((key, value?.get())));
    let (nulls, own): (Vec<_>, Vec<_>) = own.partition(|(_, value)| *value == NULL);
    if let Some((key, _)) = own.first() {
        let detail = format!("the record has `set` and `{key}`; remove one of them");
        return Err(Unevaluated::free(id, invalid(detail)));
    }
    let start = json.as_ptr().addr();
    let nulls: Vec<(usize, &str)> =
        nulls.into_iter().map(|(key, value)| (value.as_ptr().addr() - start, key)).collect();
    match find(app, &named).await {
        Ok(set) => Ok(Prepared { json: joined(json, nulls, &set), id, set: Some(set) }),
        Err(problem) => Err(Unevaluated::free(id, problem)),
    }
}

/// Adds the content of a set to the text of a JSON object that has at least one key.
///
/// `nulls` are the keys with the value `null`, each with the byte offset of that `null`. The set's value for the key
/// replaces the `null`.
fn joined(mut json: Vec<u8>, mut nulls: Vec<(usize, &str)>, set: &SetVersion) -> Vec<u8> {
    json.truncate(json.trim_ascii_end().len() - 1);
    let added =
        set.content.iter().filter(|(key, _)| nulls.iter().all(|(_, null)| *null != key.as_str()));
    for (key, value) in added {
        json.extend_from_slice(format!(",{}:{value}", Value::from(key.as_str())).as_bytes());
    }
    json.push(b'}');
    // The last `null` is replaced first, because a longer value would move the offsets after it.
    nulls.sort_unstable();
    for (at, key) in nulls.into_iter().rev() {
        if let Some(value) = set.content.get(key) {
            drop(json.splice(at..at + NULL.len(), value.to_string().into_bytes()));
        }
    }
    json
}

/// Finds the set that a record or an agent names: `name` or `name@version`.
///
/// # Errors
///
/// Fails if the name is invalid, there is no such version, or the database fails.
pub(crate) async fn find(app: &App, named: &Value) -> Result<SetVersion, Problem> {
    let Value::String(text) = named else {
        return Err(invalid(
            "`set`: expected the name of a set, such as \"support\" or \"support@3\"",
        ));
    };
    let (name, number) = match text.split_once('@') {
        None => (text.as_str(), None),
        Some((name, number)) => {
            let Ok(version) = number.parse::<i64>() else {
                let detail = format!("`set`: \"{number}\" is not the number of a version");
                return Err(invalid(detail));
            };
            (name, Some(version))
        }
    };
    let found = if is_name(name) { app.store.set(name, number).await? } else { None };
    found.ok_or_else(|| {
        let detail =
            format!("`set`: unknown set \"{text}\"; `GET /v1/assertion-sets` lists all sets");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "unknown-set", detail)
    })
}

fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-record", detail)
}

/// Converts the error of a record into the error of its request. `known` is the record's id, if it could be read.
fn refused(error: RecordError, known: Option<Value>) -> Unevaluated {
    let cost = Cost::Paid(error.cost());
    let (id, problem) = match error {
        RecordError::Invalid { id, message } => (id, invalid(message)),
        RecordError::NoJudge => {
            let detail =
                "some checks need a judge model, but the config of the server has no `models`";
            (known, Problem::new(StatusCode::UNPROCESSABLE_ENTITY, NO_JUDGE, detail))
        }
        _ => {
            let detail = "the evaluation failed; the standard error of the server has the details";
            (known, Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail))
        }
    };
    Unevaluated { id, problem, cost }
}
