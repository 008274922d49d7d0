//! The messages of a test, and its variables as evidence.

use std::borrow::Cow;

use kindlm_engine::BodyError;
use kindlm_promptfoo::read_chat;
use kindlm_types::{ContentPart, Message, without_long_data};
use serde_json::{Map, Value};

use crate::load::media::MediaFiles;
use crate::load::resolve::{ContentForm, Opening, PartKind};
use crate::template::Form;

/// Returns the messages of a prompt, and true if its rendered text is a chat. Fails if the prompt cannot be rendered.
pub(super) fn opening_messages(
    opening: &Opening,
    vars: &Map<String, Value>,
    media: &MediaFiles,
) -> Result<(Vec<Message>, bool), BodyError> {
    let messages = messages(opening, vars, media)?;
    let chat = match messages.as_slice() {
        [only] if opening.reads_chat => {
            read_chat(&only.content).map_err(|it| BodyError(it.to_string()))?
        }
        _ => None,
    };
    let is_chat = chat.is_some();
    Ok((chat.unwrap_or(messages), is_chat))
}

/// Returns the messages of a prompt. Fails if a template cannot be rendered, or a part is not valid.
fn messages(
    opening: &Opening,
    vars: &Map<String, Value>,
    media: &MediaFiles,
) -> Result<Vec<Message>, BodyError> {
    let inserted = if opening.inserts_data() { media.inserted(vars) } else { Cow::Borrowed(vars) };
    let with_data = &*inserted;
    let part = |(kind, form): &(PartKind, _)| {
        Ok(match kind {
            PartKind::Text => ContentPart::Text(fill(form, vars)?),
            PartKind::Raw => {
                let value: Value = serde_json::from_str(&fill(form, with_data)?)
                    .map_err(|err| BodyError(err.to_string()))?;
                ContentPart::Raw(value.into())
            }
            PartKind::Media(kind) => {
                let found = media.get(*kind, &fill(form, vars)?);
                ContentPart::Media(found.map_err(|err| BodyError(err.in_words().0))?)
            }
        })
    };
    let message = |(role, content): &(_, ContentForm)| {
        Ok(match content {
            ContentForm::Parts(parts) => {
                Message::of_parts(*role, parts.iter().map(part).collect::<Result<_, BodyError>>()?)
            }
            ContentForm::Text(form) if opening.reads_chat => {
                Message::new(*role, fill(form, with_data)?)
            }
            ContentForm::Text(form) => Message::new(*role, fill(form, vars)?),
        })
    };
    opening.parts.iter().map(message).collect()
}

/// Returns the variables of a test as evidence. Long data is replaced by its size and SHA-256.
///
/// The variables of a prompt that has only texts stay the same.
pub(super) fn evidence(opening: &Opening, mut vars: Map<String, Value>) -> Map<String, Value> {
    let has_parts = |(_, it): &(_, ContentForm)| matches!(it, ContentForm::Parts(_));
    if opening.reads_chat || opening.parts.iter().any(has_parts) {
        vars.values_mut().for_each(|it| *it = without_long_data(it));
    }
    vars
}

pub(super) fn fill(form: &Form, vars: &Map<String, Value>) -> Result<String, BodyError> {
    form.fill(vars).map_err(|err| BodyError(err.to_string()))
}
