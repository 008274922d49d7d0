//! Encodes messages with images, sounds and files in the vendors' formats.

use kindlm_types::{
    ContentPart, Media, MediaKind, Message, Prompt, ProviderError, ProviderErrorKind,
};
use serde_json::{Value, json};

/// The reason why an API does not accept an image, a sound or a file, with advice.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) String);

/// A function that encodes an image, a sound or a file in a vendor's format.
pub(crate) type MediaForm = fn(&Media) -> Result<Value, Refused>;

/// The functions that encode message parts in a vendor's format.
#[derive(Clone, Copy)]
pub(crate) struct PartForms {
    /// The provider's id, for errors.
    pub(crate) provider: &'static str,
    pub(crate) text: fn(&str) -> Value,
    pub(crate) media: MediaForm,
    /// Encodes a raw part: JSON that the suite has written for an API.
    pub(crate) raw: fn(&Value) -> Value,
}

impl PartForms {
    /// Creates the encoders of an API that uses the text parts of OpenAI's chat API. Raw parts are sent unchanged.
    pub(crate) const fn chat(provider: &'static str, media: MediaForm) -> Self {
        Self { provider, text: chat_text, media, raw: Value::clone }
    }

    /// Encodes the parts of a message. Fails if the API does not accept one of them.
    pub(crate) fn encode_parts(&self, message: &Message) -> Result<Vec<Value>, ProviderError> {
        let form = |part: &ContentPart| match part {
            ContentPart::Text(text) => Ok((self.text)(text)),
            ContentPart::Raw(raw) => Ok((self.raw)(raw.value())),
            ContentPart::Media(media) => {
                (self.media)(media).map_err(|why| refused(self.provider, media, &why))
            }
        };
        message.parts.iter().map(form).collect()
    }
}

/// Returns the error for an image, a sound or a file that an API does not accept.
pub(crate) fn refused(provider: &str, media: &Media, Refused(why): &Refused) -> ProviderError {
    unsupported(provider, &media.label(), why)
}

/// Returns the error for a part with this label that an API does not accept.
pub(crate) fn unsupported(provider: &str, label: &str, why: &str) -> ProviderError {
    let message = format!("cannot send {label}: {why}");
    ProviderError::new(ProviderErrorKind::Unsupported, provider, message)
}

const TEXTS_ALONE: &str = "this provider takes texts alone; use a model of another provider";

/// Fails if a message has a part that is not text, for providers that take only texts.
pub(crate) fn texts_only(provider: &str, prompt: &Prompt) -> Result<(), ProviderError> {
    check_texts(provider, &prompt.messages, TEXTS_ALONE)
}

/// Fails if a message has an image, a sound or a file, for providers that take only texts and raw parts.
pub(crate) fn texts_or_raw(provider: &str, prompt: &Prompt) -> Result<(), ProviderError> {
    match prompt.messages.iter().flat_map(Message::media).next() {
        Some(media) => Err(unsupported(provider, &media.label(), TEXTS_ALONE)),
        None => Ok(()),
    }
}

/// Fails if a system message has a part that is not text.
pub(crate) fn check_system(provider: &str, message: &Message) -> Result<(), ProviderError> {
    let why = "a system message of this API is text; move it into a message of the user";
    check_texts(provider, std::slice::from_ref(message), why)
}

fn check_texts(provider: &str, messages: &[Message], why: &str) -> Result<(), ProviderError> {
    match messages.iter().flat_map(|it| &it.parts).find(|it| !it.is_text()) {
        Some(part) => Err(unsupported(provider, &part.label(), why)),
        None => Ok(()),
    }
}

/// Returns the data in Base64. Fails if `media` has an address instead of data, or if its data was not recorded.
pub(crate) fn data(media: &Media) -> Result<&str, Refused> {
    media.data().ok_or_else(|| match media.url {
        Some(_) => Refused(
            "this API takes the data, not an address; save the file beside the suite".to_owned(),
        ),
        None => unrecorded(),
    })
}

/// Returns the data as a `data:` URL, or the address. Fails if the data was not recorded.
pub(crate) fn address(media: &Media) -> Result<String, Refused> {
    media.address().ok_or_else(unrecorded)
}

/// Returns the media type. Fails if it is unknown.
pub(crate) fn media_type(media: &Media) -> Result<&str, Refused> {
    media.media_type.as_deref().ok_or_else(|| {
        Refused("its media type is unknown; use an address with an extension".to_owned())
    })
}

/// Returns the reason for a kind of media that an API does not support. `known` lists the supported kinds.
pub(crate) fn unknown_kind(media: &Media, known: &str) -> Refused {
    Refused(format!("this API has no input for {}; it takes {known}", plural(media.kind)))
}

fn unrecorded() -> Refused {
    Refused("its data was not recorded".to_owned())
}

fn plural(kind: MediaKind) -> &'static str {
    match kind {
        MediaKind::Image => "images",
        MediaKind::Audio => "sounds",
        MediaKind::File => "files",
    }
}

fn chat_text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Encodes an image, a sound or a file in the format of OpenAI's chat API. Compatible servers support more audio
/// formats than OpenAI.
pub(crate) fn openai(media: &Media) -> Result<Value, Refused> {
    Ok(match media.kind {
        MediaKind::Image => json!({"type": "image_url", "image_url": {"url": address(media)?}}),
        MediaKind::Audio => {
            let (data, kind) = (data(media)?, media_type(media)?);
            json!({"type": "input_audio", "input_audio": {"data": data, "format": audio_format(kind)}})
        }
        MediaKind::File => {
            data(media)?;
            if media.media_type.as_deref() != Some("application/pdf") {
                return Err(Refused(
                    "this API takes PDF files alone; `openai-responses` takes other files, and a text can be written \
                     into the prompt"
                        .to_owned(),
                ));
            }
            json!({"type": "file", "file": {"filename": media.name, "file_data": address(media)?}})
        }
    })
}

/// Returns OpenAI's name of an audio format: `mp3` or `wav`, or else the subtype of the media type.
fn audio_format(media_type: &str) -> &str {
    match media_type {
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/mp4" => "m4a",
        other => other.rsplit('/').next().unwrap_or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sounds_have_the_format_names_of_openai() {
        for (media_type, expected) in [
            ("audio/mpeg", "mp3"),
            ("audio/wav", "wav"),
            ("audio/x-wav", "wav"),
            ("audio/flac", "flac"),
        ] {
            assert_eq!(audio_format(media_type), expected);
        }
    }
}
