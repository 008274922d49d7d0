//! An OTLP/HTTP server that receives spans.
//!
//! Responses follow <https://opentelemetry.io/docs/specs/otlp/#otlphttp>. A response with status 200 describes the
//! rejected data. A response with status 4xx means that the client must not retry, and has a status message in the
//! encoding of the request.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use kindlm_otlp::{
    DecodeError, Decoded, Encoding, Received, Signal, decode_json, decode_logs_json,
    decode_logs_protobuf, decode_protobuf, gunzip,
};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};

use crate::http::{self, PATIENCE};

/// The maximum size of a request body, before and after decompression. It is 20 MiB, as in the OpenTelemetry Collector.
const MAX_BODY: usize = 20 * 1024 * 1024;

/// The size up to which an oversized body is read and discarded: 128 MiB.
const MAX_THROWN_AWAY: usize = 128 * 1024 * 1024;

/// The maximum size of all request bodies together, after decompression: 256 MiB.
const MAX_ALL: usize = 256 * 1024 * 1024;

/// The gRPC status codes in the responses to refused requests.
const INVALID_ARGUMENT: i32 = 3;
const RESOURCE_EXHAUSTED: i32 = 8;
const UNIMPLEMENTED: i32 = 12;

/// An open port and the data received on it.
pub(super) struct Receiver {
    listener: TcpListener,
    pub(super) address: SocketAddr,
    pub(super) inbox: Arc<Inbox>,
}

/// The data received so far.
#[derive(Default)]
pub(super) struct Inbox(Mutex<Contents>);

#[derive(Default)]
struct Contents {
    received: Received,
    bytes: usize,
    rejected: Vec<String>,
    /// The first message about lost data; `None` if no data was lost.
    lost: Option<String>,
    last: Option<Instant>,
}

/// The progress of receiving.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) spans: usize,
    /// The number of traces with a root span.
    pub(super) finished: usize,
    pub(super) traces: usize,
    /// The time at which data last arrived; `None` if no data has arrived.
    pub(super) last: Option<Instant>,
}

impl Inbox {
    pub(super) fn state(&self) -> State {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        State {
            spans: inner.received.spans(),
            finished: inner.received.finished_traces(),
            traces: inner.received.traces(),
            last: inner.last,
        }
    }

    /// Takes the received data and the messages about rejected data.
    ///
    /// Also returns the first message about lost data; `None` if no data was lost.
    pub(super) fn take(&self) -> (Received, Vec<String>, Option<String>) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Contents { received, rejected, lost, .. } = std::mem::take(&mut *inner);
        (received, rejected, lost)
    }

    fn put(&self, decoded: Decoded, bytes: usize) -> Result<Vec<String>, Refusal> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.bytes.saturating_add(bytes) > MAX_ALL {
            let words = format!("more than {} MiB arrived, and no more is accepted", MAX_ALL >> 20);
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, RESOURCE_EXHAUSTED, words));
        }
        inner.bytes += bytes;
        let has_news = !decoded.spans.is_empty() || !decoded.events.is_empty();
        let rejected = inner.received.add(decoded);
        if has_news {
            inner.last = Some(Instant::now());
        }
        for why in &rejected {
            inner.lose(why);
        }
        Ok(rejected)
    }

    fn refused(&self, words: &str, tells_something: bool) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tells_something { inner.lose(words) } else { inner.note(words) }
    }
}

impl Contents {
    /// Stores a message about rejected data. Only the first 100 messages are stored.
    fn note(&mut self, words: &str) {
        if self.rejected.len() < 100 {
            self.rejected.push(words.to_owned());
        }
    }

    /// Stores a message about rejected data that may have been evidence about the agent.
    fn lose(&mut self, words: &str) {
        self.lost.get_or_insert_with(|| words.to_owned());
        self.note(words);
    }
}

impl Receiver {
    pub(super) async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, inbox: Arc::default() })
    }

    /// Serves requests until the future is dropped, which aborts open requests.
    pub(super) async fn serve(&self) -> Infallible {
        let inbox = Arc::clone(&self.inbox);
        http::serve(&self.listener, move |request| {
            let inbox = Arc::clone(&inbox);
            async move { answer(request, &inbox).await }
        })
        .await
    }
}

/// The response to a refused request.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    code: i32,
    message: String,
}

impl Refusal {
    fn new(status: StatusCode, code: i32, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }
}

async fn answer(request: Request<Incoming>, inbox: &Inbox) -> Response<Full<Bytes>> {
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let encoding = content_type.and_then(Encoding::of_content_type);
    let path = request.uri().path().to_owned();
    // A POST can contain evidence about the agent, even with a wrong path. Other methods and metrics contain no
    // evidence.
    let tells_something = request.method() == Method::POST && path != "/v1/metrics";
    match take(request, encoding, inbox).await {
        Ok((signal, rejected)) => {
            let encoding = encoding.unwrap_or(Encoding::Json);
            respond(StatusCode::OK, encoding, encoding.accepted(signal, &rejected))
        }
        Err(Refusal { status, code, message }) => {
            let words = format!("a request to `{path}` was answered with {status}: {message}");
            inbox.refused(&words, tells_something);
            let encoding = encoding.unwrap_or(Encoding::Json);
            let mut response = respond(status, encoding, encoding.refused(code, &message));
            if status == StatusCode::METHOD_NOT_ALLOWED {
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            }
            response
        }
    }
}

fn respond(status: StatusCode, encoding: Encoding, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(encoding.content_type());
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// Stores the data of a request, and returns its kind with messages about its rejected parts.
///
/// Only the conversation events in logs are used. Metrics are ignored, because an error response would make the SDK
/// write to the agent's stderr.
async fn take(
    request: Request<Incoming>,
    encoding: Option<Encoding>,
    inbox: &Inbox,
) -> Result<(Signal, Vec<String>), Refusal> {
    let signal = match request.uri().path() {
        "/v1/traces" => Signal::Traces,
        "/v1/logs" => Signal::Logs,
        "/v1/metrics" => Signal::Metrics,
        _ => {
            let words = "spans are received at `/v1/traces`";
            return Err(Refusal::new(StatusCode::NOT_FOUND, UNIMPLEMENTED, words));
        }
    };
    if request.method() != Method::POST {
        let words = "it takes POST requests only";
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, UNIMPLEMENTED, words));
    }
    let Some(encoding) = encoding else {
        let words = "the content type must be `application/json` or `application/x-protobuf`";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, INVALID_ARGUMENT, words));
    };
    let is_gzipped = is_gzipped(request.headers())?;
    let Ok(body) = timeout(PATIENCE, read_body(request.into_body())).await else {
        let words = format!("the body did not arrive within {} s", PATIENCE.as_secs());
        return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, INVALID_ARGUMENT, words));
    };
    let body = Bytes::from(body?);
    if signal == Signal::Metrics {
        return Ok((signal, Vec::new()));
    }
    let body = if is_gzipped {
        Bytes::from(gunzip(&body, MAX_BODY).map_err(|err| malformed(&err))?)
    } else {
        body
    };
    let decode = match (signal, encoding) {
        (Signal::Logs, Encoding::Json) => decode_logs_json,
        (Signal::Logs, Encoding::Protobuf) => decode_logs_protobuf,
        (_, Encoding::Json) => decode_json,
        (_, Encoding::Protobuf) => decode_protobuf,
    };
    let decoded = decode(&body).map_err(|err| malformed(&err))?;
    Ok((signal, inbox.put(decoded, body.len())?))
}

/// Reads a body, and refuses an oversized body.
///
/// The rest of an oversized body is read and discarded, up to [`MAX_THROWN_AWAY`] bytes in total. This is needed
/// because a client reads the response only after it has sent the body.
async fn read_body(mut body: Incoming) -> Result<Vec<u8>, Refusal> {
    let mut all = Vec::new();
    let mut size = 0_usize;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            let words = "the body is incomplete";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, INVALID_ARGUMENT, words));
        };
        let Ok(data) = frame.into_data() else { continue };
        size = size.saturating_add(data.len());
        if size <= MAX_BODY {
            all.extend_from_slice(&data);
        } else if size > MAX_THROWN_AWAY {
            break;
        }
    }
    if size > MAX_BODY { Err(too_large()) } else { Ok(all) }
}

fn is_gzipped(headers: &HeaderMap) -> Result<bool, Refusal> {
    match headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None => Ok(false),
        Some(it) if it.eq_ignore_ascii_case(b"identity") || it.is_empty() => Ok(false),
        Some(it) if it.eq_ignore_ascii_case(b"gzip") => Ok(true),
        Some(_) => {
            let words = "the content encoding must be `gzip`, or none";
            Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, INVALID_ARGUMENT, words))
        }
    }
}

fn malformed(err: &DecodeError) -> Refusal {
    match err {
        DecodeError::TooLarge { .. } => too_large(),
        err => Refusal::new(StatusCode::BAD_REQUEST, INVALID_ARGUMENT, err.to_string()),
    }
}

fn too_large() -> Refusal {
    let words = format!("the body is larger than {} MiB", MAX_BODY >> 20);
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, RESOURCE_EXHAUSTED, words)
}
