//! `POST /v1/traces`: traces of agents, as OTLP/HTTP sends them.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use kindlm_otlp::{DecodeError, Decoded, Encoding, Signal, decode_json, decode_protobuf, gunzip};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::blocking::blocking;
use super::body::{MAX_BODY, wrong_type};
use crate::access::guarded;
use crate::app::App;
use crate::problem::Problem;
use crate::store::tokens::Scope;
use crate::traces::{Parts, parts, reader};

pub(super) fn routes(app: &App) -> OpenApiRouter<App> {
    guarded(app, Scope::Ingest, OpenApiRouter::new().routes(routes!(add)))
}

/// Stores traces of OTLP/HTTP. A trace becomes a sample, with the id of the trace, when its root span arrives.
///
/// The same span may be sent again. Later spans change the sample until its evaluation begins. The body may be gzipped.
#[utoipa::path(post, path = "/v1/traces",
    params(("content-encoding" = Option<String>, Header, description = "`gzip`, or nothing")),
    request_body(description = "an `ExportTraceServiceRequest` of OTLP",
        content((Object = "application/json"), (String = "application/x-protobuf"))),
    responses(
        (status = 200, description = "an `ExportTraceServiceResponse`; `partialSuccess` has the number of spans that are not used, and the reasons",
            content((Object = "application/json"), (String = "application/x-protobuf"))),
        (status = 400, description = "the body is not OTLP", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "the body is larger than 8 MiB, before or after decompression", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "the body is neither JSON nor protobuf, or has another encoding than gzip", body = Problem, content_type = "application/problem+json"),
    ))]
async fn add(State(app): State<App>, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let Some(encoding) = kind.and_then(Encoding::of_content_type) else {
        return Err(wrong_type("application/json` or `application/x-protobuf"));
    };
    let is_gzipped = is_gzipped(&headers)?;
    let redactor = app.redactor.clone();
    // Decoding and masking 8 MiB here would block other requests for too long.
    let divided = blocking(move || {
        decode(&body, encoding, is_gzipped).map(|it| parts(it, redactor.as_deref()))
    });
    let Parts { by_trace: parts, spans, mut rejected } =
        divided.await?.map_err(|err| refused(&err))?;
    let read = reader(app.trace_prices.clone());
    let stored = app.store.add_traces(parts, app.trace_delay, &read).await?;
    for (id, why) in stored.refused {
        let count = spans.get(&id).copied().unwrap_or(1);
        rejected.extend(std::iter::repeat_n(why, count));
    }
    app.metrics.add_samples(stored.samples);
    app.wake.notify_one();
    let body = encoding.accepted(Signal::Traces, &rejected);
    Ok(([(CONTENT_TYPE, encoding.content_type())], body).into_response())
}

fn is_gzipped(headers: &HeaderMap) -> Result<bool, Problem> {
    let value = headers.get(CONTENT_ENCODING).map(axum::http::HeaderValue::as_bytes);
    match value {
        None | Some(b"") => Ok(false),
        Some(it) if it.eq_ignore_ascii_case(b"identity") => Ok(false),
        Some(it) if it.eq_ignore_ascii_case(b"gzip") => Ok(true),
        Some(_) => {
            let detail = "the header `content-encoding` must be `gzip`, or absent";
            Err(Problem::of_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
        }
    }
}

fn decode(body: &[u8], encoding: Encoding, is_gzipped: bool) -> Result<Decoded, DecodeError> {
    let unpacked = is_gzipped.then(|| gunzip(body, MAX_BODY)).transpose()?;
    let body = unpacked.as_deref().unwrap_or(body);
    match encoding {
        Encoding::Json => decode_json(body),
        Encoding::Protobuf => decode_protobuf(body),
    }
}

fn refused(err: &DecodeError) -> Problem {
    let status = match err {
        DecodeError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::BAD_REQUEST,
    };
    Problem::new(status, "not-otlp", format!("the body is not used: {err}"))
}
