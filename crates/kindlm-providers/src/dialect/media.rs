//! Images and sounds in answers. Reports and journals store their name and digest, not their data.

use kindlm_types::{Media, MediaKind, Reply};
use serde_json::Value;

/// Replaces each `data:` URL of an image or a sound in a reply by its label. Adds the images to the images of the
/// reply.
pub(crate) fn label_media(reply: &mut Reply) {
    let mut images = std::mem::take(&mut reply.images);
    if let Some(media) = media_of(&reply.text) {
        reply.text = media.label();
        add(&mut images, media);
    }
    let values = reply.output_json.iter_mut().chain(&mut reply.response);
    for value in values.chain(reply.metadata.values_mut()) {
        label_in(value, &mut images);
    }
    reply.images = images;
}

fn label_in(value: &mut Value, images: &mut Vec<Media>) {
    match value {
        Value::String(text) => {
            if let Some(media) = media_of(text) {
                *text = media.label();
                add(images, media);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|it| label_in(it, images)),
        Value::Object(entries) => entries.values_mut().for_each(|it| label_in(it, images)),
        _ => {}
    }
}

/// Adds an image that is new. A reply often has an image in its text and in the provider's response.
fn add(images: &mut Vec<Media>, media: Media) {
    if media.kind == MediaKind::Image && !images.iter().any(|it| it.sha256 == media.sha256) {
        images.push(media);
    }
}

/// Returns the data of a text that is only the `data:` URL of an image or a sound. Returns `None` for other texts.
fn media_of(text: &str) -> Option<Media> {
    let kind = match text.strip_prefix("data:")?.split('/').next()? {
        "image" => MediaKind::Image,
        "audio" => MediaKind::Audio,
        _ => return None,
    };
    Media::of_data_url(kind, text)
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
        let images: Vec<_> = reply.images.iter().map(Media::address).collect();
        assert_eq!(images, [Some(url.to_owned())]);
        let expected = json!({"images": [{"data": label}], "raw": "data:text/plain;base64,aGk="});
        assert_eq!(reply.response, Some(expected));
        let mut reply = Reply::text("see data:image/png;base64,iVBORw==");
        label_media(&mut reply);
        assert_eq!(reply.text, "see data:image/png;base64,iVBORw==");
    }
}
