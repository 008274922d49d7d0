//! Encodes the responses of a receiver. OTLP/HTTP requires that a response has the encoding of its request.

use prost::Message as _;
use serde_json::json;

use crate::wire;

/// The kind of data in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Log records.
    Logs,
    /// Data points.
    Metrics,
}

impl Signal {
    /// Returns the JSON key for the number of rejected items.
    fn rejected_key(self) -> &'static str {
        match self {
            Self::Traces => "rejectedSpans",
            Self::Logs => "rejectedLogRecords",
            Self::Metrics => "rejectedDataPoints",
        }
    }
}

/// The encoding of a request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/x-protobuf`.
    Protobuf,
}

impl Encoding {
    /// Returns the encoding of a `Content-Type` value; `None` if OTLP does not use it.
    ///
    /// The parameters of the value are ignored.
    pub fn of_content_type(value: &str) -> Option<Self> {
        let essence = value.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case("application/json") {
            Some(Self::Json)
        } else if essence.eq_ignore_ascii_case("application/x-protobuf") {
            Some(Self::Protobuf)
        } else {
            None
        }
    }

    /// Returns the `Content-Type` value.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/x-protobuf",
        }
    }

    /// Encodes the response to an accepted request. Some items of the request may be rejected.
    ///
    /// `rejected` has a message for each rejected item. The response has the number of rejected items, and at most
    /// three of the messages. Consecutive equal messages count as one. A client does not send rejected data again.
    pub fn accepted(self, signal: Signal, rejected: &[String]) -> Vec<u8> {
        let count = i64::try_from(rejected.len()).unwrap_or(i64::MAX);
        let mut different: Vec<&str> = rejected.iter().map(String::as_str).collect();
        different.dedup();
        let mut words = different.iter().take(3).copied().collect::<Vec<_>>().join("; ");
        if different.len() > 3 {
            words.push_str("; …");
        }
        match self {
            Self::Json if rejected.is_empty() => b"{}".to_vec(),
            // In protobuf's JSON mapping, 64-bit numbers are text.
            Self::Json => json!({"partialSuccess": {
                signal.rejected_key(): count.to_string(), "errorMessage": words,
            }})
            .to_string()
            .into_bytes(),
            Self::Protobuf => {
                let partial = wire::PartialSuccess { rejected: count, error_message: words };
                let partial_success = (!rejected.is_empty()).then_some(partial);
                wire::ExportResponse { partial_success }.encode_to_vec()
            }
        }
    }

    /// Encodes the response to a refused request.
    ///
    /// The response is a `google.rpc.Status` with this gRPC code.
    pub fn refused(self, code: i32, message: &str) -> Vec<u8> {
        match self {
            Self::Json => json!({"code": code, "message": message}).to_string().into_bytes(),
            Self::Protobuf => wire::RpcStatus { code, message: message.to_owned() }.encode_to_vec(),
        }
    }
}
