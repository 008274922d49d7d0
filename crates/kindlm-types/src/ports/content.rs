//! Parts of messages that are not only text: images, sounds and files.
//!
//! The data of a part is in memory once, and is never serialized. Journals, reports and baselines have the name, media
//! type, size and SHA-256 of the part instead.

use std::fmt;
use std::sync::Arc;

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, HEXLOWER};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ContentPart {
    /// A text.
    Text(String),
    /// An image, a sound or a file.
    Media(Media),
    /// A part in the form of the provider's API, which is sent unchanged.
    Raw(RawPart),
}

/// The kind of a [`Media`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MediaKind {
    /// An image.
    Image,
    /// A sound.
    Audio,
    /// Any other file, such as a PDF.
    File,
}

impl MediaKind {
    /// Returns the name: `image`, `audio` or `file`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Audio => "audio",
            Self::File => "file",
        }
    }
}

/// An image, a sound or a file in a message.
///
/// A new value has either data or an address (URL). Records do not store data, so a value that is loaded from a record
/// may have neither.
///
/// ```
/// use kindlm_types::{Media, MediaKind};
///
/// let media = Media::of_bytes(MediaKind::Image, "image/png", "cat.png", b"\x89PNG");
/// assert_eq!(media.data(), Some("iVBORw=="));
/// assert_eq!(media.label(), "[image cat.png: image/png, 4 bytes, sha256 0f4636c78f65]");
/// let stored = serde_json::to_string(&media).unwrap();
/// assert!(!stored.contains("iVBORw"), "{stored}");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Media {
    /// The kind: an image, a sound or another file.
    pub kind: MediaKind,
    /// The media type, such as `image/png`; `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The name for people and for providers, such as `cat.png`.
    pub name: String,
    /// The URL, which KindLM sends to the provider and never requests itself. `None` for a media with data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The size of the data in bytes; `None` for a media with an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The SHA-256 of the data, in lower-case hex; `None` for a media with an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The data in Base64.
    #[serde(skip)]
    data: Option<Data>,
}

/// Data in Base64. Clones share the text, and `Debug` prints only its length.
#[derive(Clone, PartialEq)]
struct Data(Arc<str>);

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} characters", self.0.len())
    }
}

/// The deserialized form of a [`Media`]. `data` is Base64; records of runs do not have it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenMedia {
    kind: MediaKind,
    media_type: Option<String>,
    name: String,
    url: Option<String>,
    size: Option<u64>,
    sha256: Option<String>,
    data: Option<String>,
}

impl<'de> Deserialize<'de> for Media {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let written = WrittenMedia::deserialize(input)?;
        let WrittenMedia { kind, media_type, name, url, size, sha256, data } = written;
        let known = Self { kind, media_type, name, url, size, sha256, data: None };
        let Some(data) = data else { return Ok(known) };
        let bytes = BASE64.decode(data.as_bytes()).map_err(D::Error::custom)?;
        Ok(known.with_bytes(&bytes))
    }
}

/// The number of digits of a SHA-256 in texts for people.
const SHOWN_DIGITS: usize = 12;

impl Media {
    /// Creates a media with data.
    pub fn of_bytes(
        kind: MediaKind,
        media_type: impl Into<String>,
        name: impl Into<String>,
        bytes: &[u8],
    ) -> Self {
        let media_type = Some(media_type.into());
        let (url, size, sha256, data) = (None, None, None, None);
        Self { kind, media_type, name: name.into(), url, size, sha256, data }.with_bytes(bytes)
    }

    /// Creates a media with an address. The media type comes from the extension of the path; an unknown extension gives
    /// `None`.
    pub fn of_url(kind: MediaKind, url: impl Into<String>) -> Self {
        let url = url.into();
        let path = url.split(['?', '#']).next().unwrap_or_default();
        let name = path.rsplit('/').next().filter(|it| !it.is_empty()).unwrap_or("file").to_owned();
        let media_type = media_type_of(&name).map(str::to_owned);
        Self { kind, media_type, name, url: Some(url), size: None, sha256: None, data: None }
    }

    /// Creates a media from a `data:` URL with Base64; `None` for other texts.
    pub fn of_data_url(kind: MediaKind, url: &str) -> Option<Self> {
        let (about, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
        let media_type = about.split(';').next().filter(|it| it.contains('/'))?;
        let bytes = BASE64.decode(data.trim().as_bytes()).ok()?;
        let subtype = media_type.rsplit('/').next().unwrap_or_default();
        let name = format!("{}.{}", kind.as_str(), subtype.split('+').next().unwrap_or_default());
        Some(Self::of_bytes(kind, media_type, name, &bytes))
    }

    fn with_bytes(self, bytes: &[u8]) -> Self {
        Self {
            size: Some(bytes.len() as u64),
            sha256: Some(sha256(bytes)),
            data: Some(Data(BASE64.encode(bytes).into())),
            ..self
        }
    }

    /// Returns the same data as another kind, with another name.
    #[must_use]
    pub fn renamed(&self, kind: MediaKind, name: &str) -> Self {
        Self { kind, name: name.to_owned(), ..self.clone() }
    }

    /// Returns the data in Base64; `None` for a media with an address or loaded from a record.
    pub fn data(&self) -> Option<&str> {
        self.data.as_ref().map(|it| &*it.0)
    }

    /// Returns the data as a `data:` URL, or else the address.
    ///
    /// Returns `None` if there is neither, for example for a media with data that was loaded from a record.
    pub fn address(&self) -> Option<String> {
        match self.data() {
            Some(data) => {
                let media_type = self.media_type.as_deref().unwrap_or("application/octet-stream");
                Some(format!("data:{media_type};base64,{data}"))
            }
            None => self.url.clone(),
        }
    }

    /// Returns true if a text is the [label](Self::label) of an image with data.
    pub fn is_image_label(text: &str) -> bool {
        let inside = text.strip_prefix("[image ").and_then(|it| it.strip_suffix(']'));
        inside.is_some_and(|it| it.contains(", sha256 ") && !it.contains(['[', '\n']))
    }

    /// Returns a description in brackets, for people and judges.
    ///
    /// The description has the kind, the name and the media type. Then follows the address, or the size and the
    /// beginning of the SHA-256.
    pub fn label(&self) -> String {
        let mut facts: Vec<String> = self.media_type.iter().cloned().collect();
        if let Some(url) = &self.url {
            facts.push(url.clone());
        } else {
            facts.extend(self.size.map(|it| format!("{it} bytes")));
            let digits = self.sha256.as_deref().and_then(|it| it.get(..SHOWN_DIGITS));
            facts.extend(digits.map(|it| format!("sha256 {it}")));
        }
        format!("[{} {}: {}]", self.kind.as_str(), self.name, facts.join(", "))
    }
}

/// A part in the form of the provider's API, such as `{"type": "image_url", "image_url": {"url": "…"}}`.
///
/// Long data in the part is sent, but never serialized: records have the size and SHA-256 of the data instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Value", into = "Value")]
pub struct RawPart {
    sent: SentValue,
    recorded: Value,
    /// The size of the long data that `recorded` does not have, in bytes.
    omitted: u64,
}

/// The value to send. `Debug` prints only `…`.
#[derive(Clone, PartialEq)]
struct SentValue(Arc<Value>);

impl fmt::Debug for SentValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl From<Value> for RawPart {
    fn from(value: Value) -> Self {
        let mut omitted = 0;
        let recorded = recorded(&value, &mut omitted);
        Self { sent: SentValue(Arc::new(value)), recorded, omitted }
    }
}

impl From<RawPart> for Value {
    fn from(part: RawPart) -> Self {
        part.recorded
    }
}

impl RawPart {
    /// Returns the value to send.
    pub fn value(&self) -> &Value {
        &self.sent.0
    }

    /// Returns the value for records, without long data.
    pub fn recorded(&self) -> &Value {
        &self.recorded
    }

    /// Returns the text of a part that is a text in OpenAI's or Google's form; `None` for other parts.
    pub fn text(&self) -> Option<&str> {
        let value = self.value();
        let is_text = match value.get("type") {
            Some(kind) => matches!(kind.as_str(), Some("text" | "input_text" | "output_text")),
            None => value.as_object().is_some_and(|it| it.len() == 1),
        };
        value.get("text").filter(|_| is_text)?.as_str()
    }

    /// Returns the text of a part that is a text. For other parts, returns the type and the longest text in brackets.
    fn label(&self) -> String {
        if let Some(text) = self.text() {
            return text.to_owned();
        }
        let kind = self.recorded.get("type").and_then(Value::as_str);
        let first = || self.recorded.as_object()?.keys().next().map(String::as_str);
        let kind = kind.or_else(first).unwrap_or("part");
        match longest_text(&self.recorded).filter(|it| *it != kind) {
            Some(text) => format!("[{kind}: {text}]"),
            None => format!("[{kind}]"),
        }
    }
}

impl ContentPart {
    /// Returns true for a text, and for a raw part that is a text.
    pub fn is_text(&self) -> bool {
        match self {
            Self::Text(_) => true,
            Self::Media(_) => false,
            Self::Raw(part) => part.text().is_some(),
        }
    }

    /// Returns the text, or the label of a part that is not a text.
    pub fn label(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Media(media) => media.label(),
            Self::Raw(part) => part.label(),
        }
    }

    /// Returns the number of tokens that a budget and a rate limiter reserve for a part, besides its label.
    ///
    /// Providers count the tokens of media differently, so this formula is meant to overestimate. It reserves one token
    /// per 25 bytes of an image or a sound. For a file or a raw part's omitted data, it reserves one per 4 bytes.
    ///
    /// The result is 0 for a text, and 50,000 if the size is unknown. Otherwise, the result is from 2,000 to 1,000,000.
    /// The answer reports the real number.
    pub fn reserved_tokens(&self) -> u64 {
        const LEAST: u64 = 2_000;
        const MOST: u64 = 1_000_000;
        const UNKNOWN: u64 = 50_000;
        let of_size = |size: u64, bytes: u64| size.div_ceil(bytes).clamp(LEAST, MOST);
        match self {
            Self::Text(_) => 0,
            Self::Media(media) => match (media.size, media.kind) {
                (Some(size), MediaKind::Image | MediaKind::Audio) => of_size(size, 25),
                (Some(size), MediaKind::File) => of_size(size, 4),
                (None, _) => UNKNOWN,
            },
            Self::Raw(part) if part.text().is_some() => 0,
            Self::Raw(part) if part.omitted > 0 => of_size(part.omitted, 4),
            Self::Raw(_) => UNKNOWN,
        }
    }

    /// Applies a function to every text that is recorded, for example to mask secrets. If the record of a raw part
    /// changes, the changed record also replaces the value to send.
    pub fn for_each_recorded_text(&mut self, change: &mut dyn FnMut(&mut String)) {
        match self {
            Self::Text(text) => change(text),
            Self::Media(media) => {
                change(&mut media.name);
                media.url.iter_mut().for_each(change);
            }
            Self::Raw(part) => {
                let mut recorded = part.recorded.clone();
                each_text(&mut recorded, change);
                if recorded != part.recorded {
                    *part = Self::masked(recorded, part.omitted);
                }
            }
        }
    }

    fn masked(recorded: Value, omitted: u64) -> RawPart {
        RawPart { sent: SentValue(Arc::new(recorded.clone())), recorded, omitted }
    }
}

/// The minimum length, in bytes, of a text that may count as data. Shorter texts are recorded unchanged.
const SHORTEST_DATA: usize = 256;

/// Returns a short text that replaces long Base64 data in records: `data:image/png;base64,(70 bytes, sha256 …)`.
///
/// The number is the size of the decoded data in bytes. Returns `None` if the text has less than 256 bytes, or is not
/// Base64.
pub fn shortened_data(text: &str) -> Option<(String, u64)> {
    if text.len() < SHORTEST_DATA {
        return None;
    }
    let text = text.trim();
    let (prefix, data) = match text.split_once(";base64,") {
        Some((prefix, data)) if prefix.starts_with("data:") => (format!("{prefix};base64,"), data),
        _ => (String::new(), text),
    };
    let bytes = decode_base64(data)?;
    let sum = sha256(&bytes);
    Some((format!("{prefix}({} bytes, sha256 {sum})", bytes.len()), bytes.len() as u64))
}

/// Decodes Base64 in the usual or the URL-safe alphabet, with or without padding, in one or several lines.
///
/// All lines must have equal lengths, but the last one may be shorter. Returns `None` for other texts, such as a list
/// of words.
fn decode_base64(data: &str) -> Option<Vec<u8>> {
    let data = data.trim();
    let lines: Vec<&str> = data.lines().collect();
    let width = lines.first().map_or(0, |it| it.len());
    let (last, others) = lines.split_last()?;
    if last.len() > width || others.iter().any(|it| it.len() != width) {
        return None;
    }
    let joined = lines.concat();
    let encodings = [BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD];
    encodings.iter().find_map(|it| it.decode(joined.as_bytes()).ok())
}

/// Returns a value for records: at every level, the size and SHA-256 of long data replace the data.
pub fn without_long_data(value: &Value) -> Value {
    recorded(value, &mut 0)
}

/// Returns a value without long data, and adds the size of the long data in bytes to `omitted`.
fn recorded(value: &Value, omitted: &mut u64) -> Value {
    match value {
        Value::String(text) => match shortened_data(text) {
            Some((short, size)) => {
                *omitted += size;
                Value::String(short)
            }
            None => value.clone(),
        },
        Value::Array(items) => items.iter().map(|it| recorded(it, omitted)).collect(),
        Value::Object(entries) => {
            entries.iter().map(|(key, it)| (key.clone(), recorded(it, omitted))).collect()
        }
        other => other.clone(),
    }
}

fn each_text(value: &mut Value, change: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter_mut().for_each(|it| each_text(it, change)),
        Value::Object(entries) => entries.values_mut().for_each(|it| each_text(it, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn longest_text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Array(items) => items.iter().filter_map(longest_text).max_by_key(|it| it.len()),
        Value::Object(entries) => {
            entries.values().filter_map(longest_text).max_by_key(|it| it.len())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

/// Returns the media type of a file name by its extension; `None` for an unknown extension.
pub fn media_type_of(name: &str) -> Option<&'static str> {
    let extension = name.rsplit_once('.')?.1.to_ascii_lowercase();
    Some(match extension.as_str() {
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "bmp" => "image/bmp",
        "svg" => "image/svg+xml",
        "tif" | "tiff" => "image/tiff",
        "ico" => "image/x-icon",
        "avif" => "image/avif",
        "heic" | "heif" => "image/heic",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "ogg" | "oga" => "audio/ogg",
        "flac" => "audio/flac",
        "aac" => "audio/aac",
        "m4a" => "audio/mp4",
        "aiff" | "aif" => "audio/aiff",
        "opus" => "audio/opus",
        "pdf" => "application/pdf",
        "txt" => "text/plain",
        "md" => "text/markdown",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "json" => "application/json",
        "xml" => "application/xml",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "pptx" => "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "mp4" => "video/mp4",
        "mpeg" | "mpg" => "video/mpeg",
        "webm" => "video/webm",
        "mov" => "video/quicktime",
        _ => return None,
    })
}

/// Returns the media type of an image by its first bytes; `None` for other data.
pub fn image_type_of(bytes: &[u8]) -> Option<&'static str> {
    let starts = |beginning: &[u8]| bytes.starts_with(beginning);
    if starts(&[0xFF, 0xD8, 0xFF]) {
        Some("image/jpeg")
    } else if starts(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if starts(b"GIF87a") || starts(b"GIF89a") {
        Some("image/gif")
    } else if starts(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else if starts(b"BM") {
        Some("image/bmp")
    } else if starts(b"II*\0") || starts(b"MM\0*") {
        Some("image/tiff")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn long_data() -> String {
        BASE64.encode(&[7; 300])
    }

    #[test]
    fn data_is_sent_and_never_serialized() {
        let media = Media::of_bytes(MediaKind::File, "application/pdf", "a.pdf", &[7; 300]);
        let raw = json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{}", long_data())}});
        for part in [ContentPart::Media(media), ContentPart::Raw(raw.into())] {
            let stored = serde_json::to_string(&part).unwrap();
            let shown = format!("{part:?} {}", part.label());
            assert!(!stored.contains(&long_data()) && !shown.contains(&long_data()), "{stored}");
            let digest = sha256(&[7; 300]);
            assert!(stored.contains(&digest), "{stored}");
            let again: ContentPart = serde_json::from_str(&stored).unwrap();
            assert_eq!(serde_json::to_string(&again).unwrap(), stored);
        }
    }

    #[test]
    fn long_data_is_shortened_in_every_encoding() {
        let bytes: Vec<u8> = (0..=255).chain([250]).collect();
        let encoded = BASE64.encode(&bytes);
        let in_lines = |end: &str| {
            let lines: Vec<&[u8]> = encoded.as_bytes().chunks(76).collect();
            let lines = lines.into_iter().map(|it| std::str::from_utf8(it).unwrap());
            lines.collect::<Vec<_>>().join(end)
        };
        let short = format!("(257 bytes, sha256 {})", sha256(&bytes));
        for data in [
            encoded.clone(),
            BASE64_NOPAD.encode(&bytes),
            BASE64URL.encode(&bytes),
            BASE64URL_NOPAD.encode(&bytes),
            in_lines("\n"),
            in_lines("\r\n"),
            format!(" \n{encoded}\n "),
        ] {
            assert_eq!(shortened_data(&data), Some((short.clone(), 257)), "{data}");
            let url = format!("data:image/png;base64,{data}");
            let expected = format!("data:image/png;base64,{short}");
            assert_eq!(shortened_data(&url), Some((expected, 257)), "{url}");
        }
        let nested = json!({"a": [{"b": encoded}], "c": "text", "d": 1});
        let expected = json!({"a": [{"b": short}], "c": "text", "d": 1});
        assert_eq!(without_long_data(&nested), expected);
    }

    #[test]
    fn long_texts_are_not_data() {
        let words = ["apple\n", "banana\n", "fig\n"].concat().repeat(20);
        for text in ["a text with blanks ".repeat(20), words, format!("{}!", long_data())] {
            assert_eq!(shortened_data(&text), None, "{text}");
        }
    }

    #[test]
    fn written_data_gives_size_and_digest() {
        let written = json!({"media": {"kind": "image", "mediaType": "image/png", "name": "a.png", "data": "aGk="}});
        let ContentPart::Media(media) = serde_json::from_value(written).unwrap() else { panic!() };
        assert_eq!((media.data(), media.size), (Some("aGk="), Some(2)));
        assert_eq!(media.address().unwrap(), "data:image/png;base64,aGk=");
    }

    #[test]
    fn other_bytes_have_another_record() {
        let of = |bytes: &[u8]| {
            let media = Media::of_bytes(MediaKind::Image, "image/png", "a.png", bytes);
            (media.label(), serde_json::to_string(&media).unwrap())
        };
        let (first, second) = (of(b"a"), of(b"b"));
        assert!(first.0 != second.0 && first.1 != second.1, "{first:?}");
    }

    #[test]
    fn tokens_of_unknown_size_are_never_zero() {
        let of_size = |kind, size: usize| {
            let media = Media::of_bytes(kind, "x/y", "n", &vec![0; size]);
            ContentPart::Media(media).reserved_tokens()
        };
        assert_eq!(of_size(MediaKind::Image, 1), 2_000);
        assert_eq!(of_size(MediaKind::Audio, 100_000), 4_000);
        assert_eq!(of_size(MediaKind::File, 100_000), 25_000);
        let url = Media::of_url(MediaKind::Image, "https://example.com/a/cat.png?size=1");
        assert_eq!((url.name.as_str(), url.media_type.as_deref()), ("cat.png", Some("image/png")));
        assert_eq!(ContentPart::Media(url).reserved_tokens(), 50_000);
        let raw = |value: Value| ContentPart::Raw(value.into()).reserved_tokens();
        assert_eq!(raw(json!({"type": "text", "text": "hi"})), 0);
        assert_eq!(
            raw(json!({"type": "image_url", "image_url": {"url": "https://e.com"}})),
            50_000
        );
        assert_eq!(
            raw(json!({"type": "input_audio", "input_audio": {"data": long_data()}})),
            2_000
        );
    }

    #[test]
    fn labels_name_type_and_source() {
        let raw = |value: Value| ContentPart::Raw(value.into()).label();
        for (value, expected) in [
            (json!({"type": "text", "text": "hi"}), "hi"),
            (json!({"text": "hi"}), "hi"),
            (
                json!({"type": "image_url", "image_url": {"url": "https://e.com/a.png"}}),
                "[image_url: https://e.com/a.png]",
            ),
            (json!({"inlineData": {"data": "aGk="}}), "[inlineData: aGk=]"),
            (json!(1), "[part]"),
        ] {
            assert_eq!(raw(value), expected);
        }
    }

    #[test]
    fn masks_what_records_show() {
        let url = "https://e.com/a.png?key=secret";
        let mut media = ContentPart::Media(Media::of_url(MediaKind::Image, url));
        let mut raw = ContentPart::Raw(json!({"type": "image_url", "url": url}).into());
        for part in [&mut media, &mut raw] {
            part.for_each_recorded_text(&mut |text| *text = text.replace("secret", "***"));
            let stored = serde_json::to_string(part).unwrap();
            assert!(stored.contains("key=***") && !stored.contains("secret"), "{stored}");
        }
    }

    #[test]
    fn knows_images_by_their_bytes() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n..."[..], Some("image/png")),
            (b"\xFF\xD8\xFF\xE0", Some("image/jpeg")),
            (b"RIFF....WEBP", Some("image/webp")),
            (b"RIFF....WAVE", None),
            (b"", None),
        ] {
            assert_eq!(image_type_of(bytes), expected);
        }
    }
}
