//! Streamed answers. Server-sent events are combined into the JSON that the server sends without streaming.

use std::cell::Cell;
use std::convert::Infallible;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use kindlm_types::{MalformedKind, ProviderError, ProviderErrorKind as Kind, Reply};
use serde_json::{Value, json};
use sse_stream::SseStream;

use super::answer::{Reader, parse};
use super::part::Malformed;
use crate::HttpResponse;

/// Combines the events of one vendor into the whole answer.
pub(crate) trait Assembler: Default {
    /// The name of the event that ends a stream, for error messages.
    const END: &'static str;

    /// Adds an event, which is an object. Fails if the event is malformed. The event [`DONE`] is passed as
    /// `{"type": "[DONE]"}`.
    fn add(&mut self, event: Value) -> Result<Progress, Malformed>;
}

/// The meaning of an event.
pub(crate) enum Progress {
    /// The event has a part of the answer: text, reasoning or a tool call.
    Part,
    /// The event has no part of the answer.
    Other,
    /// The answer has ended. The value is the JSON that the server sends without streaming.
    End(Value),
    /// The provider failed. The value has the key `error`.
    Failed(Value),
}

/// The event that ends streams of the chat dialect. It is not JSON.
pub(crate) const DONE: &str = "[DONE]";

/// The end of an event. It is appended to the body, because some servers omit it after the last event.
const END_OF_EVENT: &[u8] = b"\n\n";

/// Decodes a response with `decode`. A streamed answer is first converted to the JSON that the server sends without
/// streaming.
///
/// `decode` gets error responses, and the JSON of a server that ignores `stream`, unchanged. Fails if `decode` fails,
/// or if the stream cannot be read, reports an error, or has no end.
pub(crate) fn decode<A: Assembler>(
    reader: &Reader<'_>,
    response: &HttpResponse,
    decode: impl FnOnce(&HttpResponse) -> Result<Reply, ProviderError>,
) -> Result<Reply, ProviderError> {
    let is_whole = response.body.trim_ascii_start().starts_with(b"{");
    if is_whole || !(200..300).contains(&response.status) {
        return decode(response);
    }
    let (whole, first_token_ms) = assemble::<A>(reader, response)?;
    Ok(Reply { first_token_ms, ..decode(&whole)? })
}

/// Combines a streamed answer. Returns the answer, and the time to its first part in milliseconds, if it was measured.
fn assemble<A: Assembler>(
    reader: &Reader<'_>,
    response: &HttpResponse,
) -> Result<(HttpResponse, Option<f64>), ProviderError> {
    let (arrived, at_end) = (Cell::new(None), Cell::new(false));
    let pieces = pieces(response).into_iter().map(Some).chain([None]);
    let chunks = stream::iter(pieces).map(|piece| {
        at_end.set(piece.is_none());
        let (piece, after) = piece.unwrap_or((END_OF_EVENT, None));
        arrived.set(after);
        Ok::<&[u8], Infallible>(piece)
    });
    let mut events = std::pin::pin!(SseStream::from_bytes_stream(chunks));
    let (mut assembler, mut first, mut has_event) = (A::default(), None, false);
    // The whole body has arrived, so the stream is never pending.
    while let Some(event) = events.next().now_or_never().flatten() {
        let event = match event {
            Ok(event) => event,
            // The body ends within a line.
            Err(_) if at_end.get() => break,
            Err(err) => {
                let why = format!("the answer is not a stream of events ({err})");
                return Err(reader.malformed(&why, response));
            }
        };
        let Some(data) = event.data.filter(|it| !it.is_empty()) else { continue };
        let malformed = |why: &str| {
            let (status, body) = (response.status, data.clone().into_bytes());
            reader.malformed(why, &HttpResponse::new(status, body))
        };
        let value = match data.trim() {
            DONE => json!({"type": DONE}),
            json => match parse(json.as_bytes()) {
                Ok(value) => value,
                // The body ends within an event.
                Err(it) if at_end.get() && it.kind == MalformedKind::Unknown => break,
                Err(it) => return Err(malformed(&it.why).with_malformed(it.kind)),
            },
        };
        if !value.is_object() {
            return Err(malformed("an event of the answer is not a JSON object"));
        }
        has_event = true;
        match assembler.add(value).map_err(|it| malformed(&it.why).with_malformed(it.kind))? {
            Progress::Other => {}
            Progress::Part => first = first.or(Some(arrived.get())),
            Progress::Failed(value) => {
                let err = reader.reported_error(&value, response);
                return Err(failed(err, first.is_some()));
            }
            Progress::End(whole) => {
                let mut complete = HttpResponse::new(response.status, whole.to_string());
                complete.headers.clone_from(&response.headers);
                return Ok((complete, first.flatten().map(|it| it.as_secs_f64() * 1000.0)));
            }
        }
    }
    let message = format!("the answer broke off: the stream ended without `{}`", A::END);
    let is_stream = has_event || ends_within_event(&response.body);
    let kind = if is_stream { MalformedKind::Incomplete } else { MalformedKind::Unknown };
    Err(reader.malformed(&message, response).with_malformed(kind).retryable())
}

/// Returns true if a body ends within an event with JSON.
fn ends_within_event(body: &[u8]) -> bool {
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    let last = body.rsplit(|it| *it == b'\n').next().unwrap_or_default();
    let data = last.strip_prefix(b"data:").map(<[u8]>::trim_ascii);
    last.starts_with(b"event:") || data.is_some_and(|it| it.is_empty() || it.starts_with(b"{"))
}

/// Returns an error that the provider reported in a stream. The status of the stream is a success, so the kind of the
/// error decides if a retry may help. If a part of the answer has arrived, the provider may charge for the answer.
fn failed(err: ProviderError, has_part: bool) -> ProviderError {
    let is_temporary = matches!(err.kind, Kind::Overloaded | Kind::RateLimited | Kind::Server);
    let err = if is_temporary { err.retryable() } else { err };
    if has_part { err.lost() } else { err }
}

/// Returns the pieces of a body in order, each with the time of its arrival, if it was measured.
fn pieces(response: &HttpResponse) -> Vec<(&[u8], Option<Duration>)> {
    let mut pieces = Vec::with_capacity(response.arrivals.len() + 1);
    let mut rest = &*response.body;
    for arrival in &response.arrivals {
        let start = response.body.len() - rest.len();
        let Some((piece, after)) = rest.split_at_checked(arrival.end.saturating_sub(start)) else {
            break;
        };
        pieces.push((piece, Some(arrival.after)));
        rest = after;
    }
    pieces.push((rest, None));
    pieces
}

/// Appends a piece to `value`: a text to a text, or items to a list. A text and a list become one list. `null` changes
/// nothing. Any other piece replaces `value`.
pub(crate) fn append(value: &mut Value, piece: Value) {
    *value = match (value.take(), piece) {
        (value, Value::Null) => value,
        (Value::String(mut text), Value::String(piece)) => {
            text.push_str(&piece);
            Value::String(text)
        }
        (Value::Array(mut items), Value::Array(more)) => {
            items.extend(more);
            Value::Array(items)
        }
        (Value::Array(mut items), piece @ Value::String(_)) => {
            items.push(piece);
            Value::Array(items)
        }
        (text @ Value::String(_), Value::Array(mut items)) => {
            items.insert(0, text);
            Value::Array(items)
        }
        (_, piece) => piece,
    };
}

/// Returns true if a value holds a part of the answer.
pub(crate) fn is_part(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
    }
}
