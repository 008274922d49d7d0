//! Decodes trace files: JSON, JSON lines of the OpenTelemetry Collector, or protobuf, optionally with gzip.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;
use serde_json::Value;

use crate::json::decode_any;
use crate::{DecodeError, Decoded, decode_protobuf};

/// The first bytes of gzip data.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Decompresses gzip data. Fails if the data is invalid, or if the result has more than `limit` bytes.
pub fn gunzip(bytes: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    let mut unpacked = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    MultiGzDecoder::new(bytes)
        .take(most)
        .read_to_end(&mut unpacked)
        .map_err(|err| DecodeError::Gzip(err.to_string()))?;
    if unpacked.len() > limit { Err(DecodeError::TooLarge { limit }) } else { Ok(unpacked) }
}

/// Decodes a trace file in any supported format.
///
/// Fails if the format is not supported, if the data is invalid, or if it has more than `limit` bytes after
/// decompression.
pub fn decode_file(bytes: &[u8], limit: usize) -> Result<Decoded, DecodeError> {
    if bytes.starts_with(&GZIP) {
        return decode_unpacked(&gunzip(bytes, limit)?);
    }
    if bytes.len() > limit {
        return Err(DecodeError::TooLarge { limit });
    }
    decode_unpacked(bytes)
}

fn decode_unpacked(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let text = bytes.trim_ascii_start();
    match (bytes.first(), text.first()) {
        (None, _) | (_, None) => Err(DecodeError::Empty),
        // The length prefix of a protobuf message below 16 MiB begins with 0. No other format begins with 0.
        (Some(0), _) => decode_framed(bytes),
        // A protobuf message with traces begins with the byte of a line feed, and JSON may begin with a line feed too.
        (Some(b'\n'), Some(b'{' | b'[')) => {
            decode_lines(text).or_else(|err| decode_protobuf(bytes).map_err(|_| err))
        }
        (_, Some(b'{' | b'[')) => decode_lines(text),
        (Some(b'\n'), _) => decode_protobuf(bytes),
        _ => Err(DecodeError::UnknownFormat),
    }
}

/// Decodes consecutive JSON values.
///
/// The values may belong to different signals, because the OpenTelemetry Collector may write all signals to one file.
fn decode_lines(text: &[u8]) -> Result<Decoded, DecodeError> {
    let mut all = Decoded::default();
    for payload in serde_json::Deserializer::from_slice(text).into_iter::<Value>() {
        let payload = payload.map_err(|err| DecodeError::Json(err.to_string()))?;
        all.append(decode_any(&payload)?);
    }
    Ok(all)
}

/// Decodes protobuf messages, each with a length prefix of four bytes, big-endian.
fn decode_framed(mut bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let mut all = Decoded::default();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let Some((message, rest)) = rest.split_at_checked(length) else {
            return Err(DecodeError::CutOff);
        };
        all.append(decode_protobuf(message)?);
        bytes = rest;
    }
    if bytes.is_empty() { Ok(all) } else { Err(DecodeError::CutOff) }
}

impl Decoded {
    pub(crate) fn append(&mut self, more: Self) {
        let Self { spans, events, rejected, rejected_traces, passed_over } = more;
        self.spans.extend(spans);
        self.events.extend(events);
        self.rejected.extend(rejected);
        self.rejected_traces.extend(rejected_traces);
        self.passed_over += passed_over;
    }
}
