//! The file format of a recording: a request and its answer.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kindlm_redact::Secrets;
use kindlm_types::{Channel, Coverage, Embedding, Event, FinishReason, Reply, ToolCall, Usage};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::request::{self, Request};
use crate::io_error::is_absent;
use crate::{StoreError, atomic, describe_io_error};

/// The `schemaVersion` of new files.
const VERSION: u32 = 1;

/// The content of a recording file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recording<Q, R> {
    schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recorded_at: Option<String>,
    request: Q,
    response: R,
}

/// The stored form of a model's reply.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordedReply {
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_json: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    events: Vec<Event>,
    /// The kinds of evidence that are complete; absent if all kinds are complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    complete_for: Option<BTreeSet<Channel>>,
    /// The kinds of evidence of which a part is known to be lost.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    lost_evidence: BTreeSet<Channel>,
    #[serde(default)]
    usage: Usage,
    #[serde(default = "stop")]
    finish_reason: FinishReason,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log_probs: Option<Vec<f64>>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latency_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_token_ms: Option<f64>,
}

/// The stored form of an embedding vector, for reading.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordedVector {
    vector: Vec<f64>,
    #[serde(default)]
    input_tokens: Option<u64>,
}

/// The stored form of an embedding vector, for writing it on one line.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenVector {
    vector: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u64>,
}

fn stop() -> FinishReason {
    FinishReason::Stop
}

/// An answer that can be stored.
pub(super) trait Answer: Sized {
    /// The form for reading.
    type Wire: DeserializeOwned + Into<Self>;
    /// The form for writing.
    type Json: Serialize;

    /// Returns the stored form with secrets masked, and true if a secret was masked.
    ///
    /// Returns `None` if JSON cannot represent a number in the answer, such as NaN.
    fn to_json(&self, secrets: &Secrets) -> Option<(Self::Json, bool)>;

    /// Returns true if the stored form has all data that checks use. A stored form has no data of images.
    fn is_stored_whole(&self) -> bool {
        true
    }
}

/// Returns a time in milliseconds with three decimals, which are precise enough.
fn rounded(ms: f64) -> f64 {
    (ms * 1000.0).round() / 1000.0
}

impl Answer for Reply {
    type Wire = RecordedReply;
    type Json = Value;

    fn to_json(&self, secrets: &Secrets) -> Option<(Value, bool)> {
        let mut value = serde_json::to_value(RecordedReply {
            text: self.text.clone(),
            output_json: self.output_json.clone(),
            tool_calls: self.tool_calls.clone(),
            events: self.events.clone(),
            complete_for: self.coverage.complete_for().cloned(),
            lost_evidence: self.coverage.lost().clone(),
            usage: self.usage,
            finish_reason: self.finish_reason.clone(),
            model: self.model.clone(),
            fingerprint: self.fingerprint.clone(),
            refusal: self.refusal.clone(),
            log_probs: self.log_probs.clone(),
            metadata: self.metadata.clone(),
            cost_usd: self.cost_usd,
            response: self.response.clone(),
            latency_ms: Some(rounded(self.latency_ms)),
            first_token_ms: self.first_token_ms.map(rounded),
        })
        .ok()?;
        let redacted = secrets.redact_value(&mut value);
        Some((value, redacted))
    }

    fn is_stored_whole(&self) -> bool {
        self.images.is_empty()
    }
}

impl From<RecordedReply> for Reply {
    fn from(recorded: RecordedReply) -> Self {
        Self {
            text: recorded.text,
            output_json: recorded.output_json,
            tool_calls: recorded.tool_calls,
            events: recorded.events,
            coverage: Coverage::new(recorded.complete_for, recorded.lost_evidence),
            usage: recorded.usage,
            finish_reason: recorded.finish_reason,
            model: recorded.model,
            fingerprint: recorded.fingerprint,
            refusal: recorded.refusal,
            log_probs: recorded.log_probs,
            metadata: recorded.metadata,
            cost_usd: recorded.cost_usd,
            response: recorded.response,
            images: Vec::new(),
            latency_ms: recorded.latency_ms.unwrap_or(0.0),
            first_token_ms: recorded.first_token_ms,
            attempts: 0,
            cached: true,
        }
    }
}

impl Answer for Embedding {
    type Wire = RecordedVector;
    type Json = WrittenVector;

    fn to_json(&self, _secrets: &Secrets) -> Option<(WrittenVector, bool)> {
        if !self.vector.iter().all(|it| it.is_finite()) {
            return None;
        }
        let vector = to_raw_value(&*self.vector).ok()?;
        let input_tokens = Some(self.usage.input_tokens).filter(|it| *it > 0);
        Some((WrittenVector { vector, input_tokens }, false))
    }
}

impl From<RecordedVector> for Embedding {
    fn from(recorded: RecordedVector) -> Self {
        let tokens = recorded.input_tokens;
        let usage = Usage::counted(tokens, tokens.map(|_| 0), None, None);
        Self { cached: true, ..Self::new(recorded.vector, usage) }
    }
}

/// Returns the path of the recording with this digest.
pub(super) fn path(folder: &Path, digest: &str) -> PathBuf {
    folder.join(digest.get(..2).unwrap_or_default()).join(format!("{digest}.json"))
}

/// Loads the answer to a request; returns `None` if the answer is not stored.
///
/// The error message of an unusable file names the file.
///
/// An empty file counts as missing, because a machine crash can leave an empty file.
pub(super) fn find<A: Answer>(folder: &Path, request: &Request) -> Result<Option<A>, String> {
    let path = path(folder, &request.digest);
    let spoiled = |what: &str| {
        format!(
            "the recording `{}` cannot be used: {what}; remove it, or record it again",
            path.display()
        )
    };
    let text = match fs::read_to_string(&path) {
        Ok(text) if text.is_empty() => return Ok(None),
        Ok(text) => text,
        Err(err) if is_absent(&err) => return Ok(None),
        Err(err) => return Err(spoiled(&describe_io_error(&err))),
    };
    // The journal is parsed from bytes, too. One kind of input is compiled once.
    let recording: Recording<Value, A::Wire> = serde_json::from_slice(text.as_bytes())
        .map_err(|err| spoiled(&what_is_wrong(&text, &err)))?;
    if recording.schema_version != VERSION {
        return Err(spoiled(&other_version(recording.schema_version)));
    }
    let mut asked = recording.request;
    asked.sort_all_objects();
    if request::digest(&asked) != request.digest {
        return Err(spoiled("its request does not match its name"));
    }
    Ok(Some(recording.response.into()))
}

/// Returns the description of a file's problem.
///
/// An unsupported version is reported first. In another format, the error about a missing key would mislead the user.
fn what_is_wrong(text: &str, err: &serde_json::Error) -> String {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        schema_version: u32,
    }
    match serde_json::from_str::<Version>(text) {
        Ok(it) if it.schema_version != VERSION => other_version(it.schema_version),
        _ => err.to_string(),
    }
}

fn other_version(found: u32) -> String {
    format!("it has `schemaVersion` {found}, and this KindLM reads {VERSION}")
}

/// Returns the request of a recording; `None` if the text is not a recording.
pub(super) fn request_in(text: &str) -> Option<Value> {
    #[derive(Deserialize)]
    struct StoredRequest {
        request: Value,
    }
    let mut request = serde_json::from_str::<StoredRequest>(text).ok()?.request;
    request.sort_all_objects();
    request.is_object().then_some(request)
}

/// Stores the answer to a request, and returns true if a secret was masked.
///
/// A file that differs only in its time and latency stays unchanged. Fails if JSON cannot represent a number in the
/// answer, such as NaN, or if the file cannot be written.
pub(super) fn keep<A: Answer>(
    folder: &Path,
    request: &Request,
    answer: &A,
    recorded_at: Option<&str>,
    secrets: &Secrets,
) -> Result<bool, StoreError> {
    let path = path(folder, &request.digest);
    let unwritable = |message: &str| StoreError::Io {
        action: "write",
        path: path.display().to_string(),
        message: message.to_owned(),
    };
    let Some((response, redacted)) = answer.to_json(secrets) else {
        return Err(unwritable("the answer has a number that JSON cannot hold"));
    };
    let recorded_at = recorded_at.map(str::to_owned);
    let recording =
        Recording { schema_version: VERSION, recorded_at, request: &request.value, response };
    let mut text =
        serde_json::to_string_pretty(&recording).map_err(|err| unwritable(&err.to_string()))?;
    text.push('\n');
    let same = fs::read_to_string(&path).is_ok_and(|before| is_same(&before, &text));
    if !same {
        atomic::write(&path, text.as_bytes())?;
    }
    Ok(redacted)
}

/// Returns true if two recordings are equal except for their time and latency.
fn is_same(before: &str, now: &str) -> bool {
    let timeless = |text: &str| {
        let mut value: Value = serde_json::from_str(text).ok()?;
        value.as_object_mut()?.shift_remove("recordedAt");
        let response = value.get_mut("response")?.as_object_mut()?;
        response.shift_remove("latencyMs");
        response.shift_remove("firstTokenMs");
        Some(value)
    };
    timeless(before).is_some_and(|before| Some(before) == timeless(now))
}
