//! Images and sounds in answers: a report and a journal keep their name and digest, not their data.

use kindlm_types::{Media, MediaKind, Reply};
use serde_json::Value;

/// Replaces each `data:` URL of an image or a sound in a reply by its label.
pub(crate) fn label_media(reply: &mut Reply) {
    if let Some(label) = label_of(&reply.text) {
        reply.text = label;
    }
    for value in reply.output_json.iter_mut().chain(&mut reply.response) {
        label_in(value);
    }
    reply.metadata.values_mut().for_each(label_in);
}

fn label_in(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(label) = label_of(text) {
                *text = label;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(label_in),
        Value::Object(entries) => entries.values_mut().for_each(label_in),
        _ => {}
    }
}

/// Returns the label of a text that is only the `data:` URL of an image or a sound. Returns `None` for other texts.
fn label_of(text: &str) -> Option<String> {
    let kind = match text.strip_prefix("data:")?.split('/').next()? {
        "image" => MediaKind::Image,
        "audio" => MediaKind::Audio,
        _ => return None,
    };
    Media::of_data_url(kind, text).map(|it| it.label())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_of_images_becomes_a_label() {
        let url = "data:image/png;base64,iVBORw==";
        let label = "[image image.png: image/png, 4 bytes, sha256 0f4636c78f65]";
        let mut reply = Reply {
            response: Some(
                json!({"images": [{"data": url}], "raw": "data:text/plain;base64,aGk="}),
            ),
            ..Reply::text(url)
        };
        label_media(&mut reply);
        assert_eq!(reply.text, label);
        let expected = json!({"images": [{"data": label}], "raw": "data:text/plain;base64,aGk="});
        assert_eq!(reply.response, Some(expected));
        let mut reply = Reply::text("see data:image/png;base64,iVBORw==");
        label_media(&mut reply);
        assert_eq!(reply.text, "see data:image/png;base64,iVBORw==");
    }
}
