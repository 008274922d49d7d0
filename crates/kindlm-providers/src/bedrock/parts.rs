//! Parts of messages as blocks of the Converse API, with data in Base64.

use kindlm_types::{ContentPart, Media, MediaKind, Message, ProviderError};
use serde_json::{Value, json};

use crate::dialect::content::{self, Refused};

/// The names of document formats in the Converse API, by media type.
const DOCUMENTS: [(&str, &str); 9] = [
    ("application/pdf", "pdf"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/markdown", "md"),
    ("text/plain", "txt"),
    ("application/msword", "doc"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
];

/// Returns the parts of a message as blocks. Fails if the API does not accept one of them.
pub(super) fn blocks(message: &Message) -> Result<Vec<Value>, ProviderError> {
    let block = |part: &ContentPart| {
        let block = match part {
            ContentPart::Text(text) => Ok(json!({"text": text})),
            ContentPart::Media(media) => of_media(media),
            ContentPart::Raw(raw) => match raw.text() {
                Some(text) => Ok(json!({"text": text})),
                None => of_raw(raw.value()),
            },
        };
        block.map_err(|Refused(why)| content::unsupported("bedrock", &part.label(), &why))
    };
    message.parts.iter().map(block).collect()
}

fn of_media(media: &Media) -> Result<Value, Refused> {
    let (data, media_type) = (content::data(media)?, content::media_type(media)?);
    match media.kind {
        MediaKind::Image => Ok(image(media_type, data)),
        MediaKind::Audio => Err(content::unknown_kind(media, "images and documents")),
        MediaKind::File => document(media_type, &media.name, data),
    }
}

/// Returns a raw part as a block. Blocks of this API are sent unchanged, except for `data:` URLs in them.
///
/// Images in the formats of Anthropic and `OpenAI` are converted, because promptfoo accepts them too.
fn of_raw(value: &Value) -> Result<Value, Refused> {
    let source = &value["source"];
    match value["type"].as_str() {
        None => own_block(value),
        Some("image_url") => {
            let url = value["image_url"]["url"].as_str().unwrap_or_default();
            let (media_type, data) = data_url(url).ok_or_else(only_data)?;
            Ok(image(media_type, data))
        }
        Some(kind @ ("image" | "document")) => {
            let written = source["data"].as_str().ok_or_else(only_data)?;
            let declared = source["media_type"].as_str();
            let (found, data) =
                data_url(written).map_or((None, written), |(found, data)| (Some(found), data));
            let media_type = declared.or(found).unwrap_or("image/png");
            match kind {
                "image" => Ok(image(media_type, data)),
                _ => document(media_type, value["title"].as_str().unwrap_or(kind), data),
            }
        }
        Some(kind) => Err(Refused(format!(
            "this API has no part of the type `{kind}`; write a block of the Converse API, such as `{{\"image\": \
             {{\"format\": \"png\", \"source\": {{\"bytes\": \"…\"}}}}}}`"
        ))),
    }
}

/// Returns a block of this API. A `data:` URL in `bytes` is replaced by its data. Fails for an image, a document or a
/// video with neither `bytes` nor an S3 location.
fn own_block(value: &Value) -> Result<Value, Refused> {
    let mut block = value.clone();
    for kind in ["image", "document", "video"] {
        let Some(member) = block.get_mut(kind) else { continue };
        let source = &member["source"];
        let Some(bytes) = source["bytes"].as_str() else {
            if source.get("s3Location").is_some() {
                continue;
            }
            let help =
                "write its data in Base64, for example with a variable `image: file://cat.png`";
            return Err(Refused(format!("its `source` has no `bytes`; {help}")));
        };
        if let Some((media_type, data)) = data_url(bytes) {
            let (format, data) = (json!(format_of(media_type)), json!(data));
            if kind != "document" || member["format"].is_null() {
                member["format"] = format;
            }
            member["source"]["bytes"] = data;
        }
        if member["format"] == "jpg" {
            member["format"] = json!("jpeg");
        }
    }
    Ok(block)
}

fn image(media_type: &str, data: &str) -> Value {
    json!({"image": {"format": format_of(media_type), "source": {"bytes": data}}})
}

/// Returns a document. The API rejects dots in the name of a document.
fn document(media_type: &str, name: &str, data: &str) -> Result<Value, Refused> {
    let format = DOCUMENTS.iter().find(|(it, _)| *it == media_type).map(|(_, it)| *it);
    let format = format.ok_or_else(|| {
        let known = DOCUMENTS.map(|(_, it)| it).join(", ");
        Refused(format!("this API takes no `{media_type}`; the documents are {known}"))
    })?;
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let name: String =
        stem.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).collect();
    Ok(json!({"document": {"format": format, "name": name, "source": {"bytes": data}}}))
}

/// Returns the subtype of a media type, which is the name of the format.
fn format_of(media_type: &str) -> &str {
    match media_type.rsplit('/').next().unwrap_or(media_type) {
        "jpg" => "jpeg",
        format => format,
    }
}

/// Returns the media type and the data of a `data:` URL; `None` for other texts.
fn data_url(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix("data:")?.split_once(";base64,")
}

fn only_data() -> Refused {
    Refused("this API takes the data, not an address; save the file beside the suite".to_owned())
}
