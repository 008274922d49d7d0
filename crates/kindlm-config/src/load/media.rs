//! Images, sounds and files of prompts.
//!
//! KindLM reads each file once, when it reads the suite. A test has only references, such as `file://cat.png`. The data
//! replaces a reference when the test is executed.

use std::borrow::Cow;
use std::collections::HashMap;

use kindlm_types::{FileError, Files, Media, MediaKind, image_type_of, media_type_of};
use serde_json::{Map, Value};

use super::FILE;

/// The maximum size of one file, in bytes.
pub(super) const MAX_FILE: u64 = 20 * 1024 * 1024;

/// The maximum size of all files of a suite, in bytes.
const MAX_ALL: u64 = 512 * 1024 * 1024;

/// The files that prompts use, by their path, with the sum of their sizes in bytes.
#[derive(Debug, Default)]
pub(super) struct MediaFiles {
    files: HashMap<Box<str>, Media>,
    bytes: u64,
}

/// The reason why a reference gives no media.
#[derive(Debug)]
pub(super) enum MediaProblem {
    File(FileError),
    Reference(String, &'static str),
}

impl MediaProblem {
    /// Returns the message and the help.
    pub(super) fn in_words(&self) -> (String, &'static str) {
        let help = match self {
            Self::Reference(message, help) => return (message.clone(), help),
            Self::File(FileError::NotFound { .. }) => {
                "the path is relative to the folder of the config file"
            }
            Self::File(FileError::Outside { .. }) => super::sink::OUTSIDE_HELP,
            Self::File(FileError::TooLarge { .. }) => {
                "make the file smaller, or give its `https://` address, which the provider reads"
            }
            Self::File(_) => "see that the file can be read",
        };
        let Self::File(err) = self else { return (String::new(), help) };
        (err.to_string(), help)
    }
}

fn problem(message: String, help: &'static str) -> MediaProblem {
    MediaProblem::Reference(message, help)
}

impl MediaFiles {
    /// Returns the media of a reference. Reads the file of the reference, unless it was read before.
    ///
    /// Fails if the reference is invalid, or if the file cannot be read, is too large, or is of another kind. Also fails
    /// if all files of the suite together are too large.
    pub(super) fn load(
        &mut self,
        files: &dyn Files,
        kind: MediaKind,
        reference: &str,
    ) -> Result<Media, MediaProblem> {
        if let Some(path) = path_of(reference)
            && !self.files.contains_key(path)
        {
            let bytes = files.read_bytes(path, MAX_FILE).map_err(MediaProblem::File)?;
            let all = self.bytes + bytes.len() as u64;
            if all > MAX_ALL {
                let message =
                    format!("with `{path}`, the media of this suite exceed {MAX_ALL} bytes");
                return Err(problem(message, "split the suite, or use `https://` addresses"));
            }
            let name = path.rsplit('/').next().unwrap_or(path);
            let known = image_type_of(&bytes).or_else(|| media_type_of(name));
            let media_type = known.unwrap_or("application/octet-stream");
            let media = Media::of_bytes(kind_of(media_type), media_type, name, &bytes);
            self.files.insert(path.into(), media);
            self.bytes = all;
        }
        self.get(kind, reference)
    }

    /// Returns the media of a reference. Reads no file.
    ///
    /// Fails if [`load`](Self::load) has not read the file, if the reference is invalid, or if the media is of another
    /// kind.
    pub(super) fn get(&self, kind: MediaKind, reference: &str) -> Result<Media, MediaProblem> {
        let reference = reference.trim();
        let media = if let Some(path) = path_of(reference) {
            let known = self.files.get(path).cloned();
            known.ok_or_else(|| problem(format!("`{path}` was not read with the suite"), ""))?
        } else if reference.starts_with("https://") {
            return Ok(Media::of_url(kind, reference));
        } else if reference.starts_with("data:") {
            Media::of_data_url(kind, reference).ok_or_else(|| {
                problem(
                    "this is not a valid `data:` URL".to_owned(),
                    "write `data:`, the media type, `;base64,` and the data in Base64",
                )
            })?
        } else {
            let shown: String = reference.chars().take(80).collect();
            let message = format!("`{shown}` names no {}", kind.as_str());
            let help = "write `file://` and a path, an `https://` address or a `data:` URL";
            return Err(problem(message, help));
        };
        let media_type = media.media_type.as_deref().unwrap_or_default();
        if kind != MediaKind::File && kind_of(media_type) != kind {
            let what = if kind == MediaKind::Image { "an image" } else { "a sound" };
            let message = format!("`{}` is not {what}: its type is `{media_type}`", media.name);
            return Err(problem(message, "use `image:`, `audio:` or `file:` as it fits"));
        }
        let name = media.name.clone();
        Ok(media.renamed(kind, &name))
    }

    /// Returns the variables for raw parts and chats, with data in place of the names of files. As in promptfoo, an
    /// image becomes a `data:` URL, and other media become Base64.
    ///
    /// The variables are borrowed if none of them names one of the files.
    pub(super) fn inserted<'v>(&self, vars: &'v Map<String, Value>) -> Cow<'v, Map<String, Value>> {
        if !self.has_any(vars) {
            return Cow::Borrowed(vars);
        }
        let insert = |value: &Value| {
            let path = value.as_str().and_then(variable_path)?;
            let media = self.files.get(path)?;
            let is_image = media.kind == MediaKind::Image;
            if is_image { media.address() } else { media.data().map(str::to_owned) }
        };
        let each = vars.iter().map(|(name, value)| {
            (name.clone(), insert(value).map_or_else(|| value.clone(), Value::String))
        });
        Cow::Owned(each.collect())
    }

    /// Returns true if a variable names one of the files.
    fn has_any(&self, vars: &Map<String, Value>) -> bool {
        let is_file = |it: &Value| {
            it.as_str().and_then(variable_path).is_some_and(|it| self.files.contains_key(it))
        };
        !self.files.is_empty() && vars.values().any(is_file)
    }
}

/// Returns the path of a `file://` reference; `None` for other references.
fn path_of(reference: &str) -> Option<&str> {
    reference.trim().strip_prefix(FILE).filter(|it| !it.is_empty())
}

/// Returns the path of a variable that names an image, a sound or a video; `None` for other values.
pub(super) fn variable_path(text: &str) -> Option<&str> {
    let path = path_of(text).filter(|it| !it.contains('\n'))?;
    let is_media =
        |it: &&str| ["image/", "audio/", "video/"].iter().any(|kind| it.starts_with(kind));
    media_type_of(path).filter(is_media).map(|_| path)
}

/// Returns the kind of a media type, such as `image/png`. All types except images and sounds are files.
fn kind_of(media_type: &str) -> MediaKind {
    match media_type.split('/').next() {
        Some("image") => MediaKind::Image,
        Some("audio") => MediaKind::Audio,
        _ => MediaKind::File,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct One;

    impl Files for One {
        fn read_file(&self, path: &str) -> Result<std::sync::Arc<str>, FileError> {
            match path {
                "a.png" | "b.mp3" | "c.pdf" => Ok("bytes".into()),
                "large.png" => Ok("too many bytes".into()),
                _ => Err(FileError::NotFound { path: path.to_owned(), folder: "/".to_owned() }),
            }
        }

        fn glob(&self, _: &str) -> Result<Vec<String>, FileError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn reads_references_of_the_right_kind() {
        for (kind, reference, expected) in [
            (MediaKind::Image, "file://a.png", Ok("image/png")),
            (MediaKind::Audio, " file://b.mp3\n", Ok("audio/mpeg")),
            (MediaKind::File, "file://c.pdf", Ok("application/pdf")),
            (MediaKind::File, "file://a.png", Ok("image/png")),
            (MediaKind::Image, "https://e.com/x.webp?a=1", Ok("image/webp")),
            (MediaKind::Image, "data:image/gif;base64,aGk=", Ok("image/gif")),
            (MediaKind::Image, "file://c.pdf", Err("`c.pdf` is not an image")),
            (MediaKind::Audio, "data:image/gif;base64,aGk=", Err("is not a sound")),
            (MediaKind::Image, "data:image/gif;base64,!", Err("not a valid `data:` URL")),
            (MediaKind::Image, "http://e.com/x.webp", Err("names no image")),
            (MediaKind::Image, "cat.png", Err("`cat.png` names no image")),
            (MediaKind::Image, "file://d.png", Err("`d.png` does not exist")),
        ] {
            let mut files = MediaFiles::default();
            match (files.load(&One, kind, reference), expected) {
                (Ok(media), Ok(expected)) => {
                    assert_eq!(media.media_type.as_deref(), Some(expected), "{reference}");
                    assert_eq!(media.kind, kind, "{reference}");
                }
                (Err(err), Err(part)) => assert!(err.in_words().0.contains(part), "{err:?}"),
                (read, expected) => panic!("{reference}: {read:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn a_file_above_the_limit_of_the_suite_takes_no_room() {
        let mut files = MediaFiles { bytes: MAX_ALL - 5, ..MediaFiles::default() };
        for _ in 0..2 {
            let err = files.load(&One, MediaKind::Image, "file://large.png").unwrap_err();
            let message = err.in_words().0;
            let expected =
                format!("with `large.png`, the media of this suite exceed {MAX_ALL} bytes");
            assert_eq!(message, expected);
        }
        files.load(&One, MediaKind::Image, "file://a.png").unwrap();
        let err = files.load(&One, MediaKind::Audio, "file://b.mp3").unwrap_err();
        assert!(err.in_words().0.starts_with("with `b.mp3`, "), "{err:?}");
    }

    #[test]
    fn variables_are_inserted_as_in_promptfoo() {
        let mut files = MediaFiles::default();
        for reference in ["file://a.png", "file://b.mp3"] {
            files.load(&One, MediaKind::File, reference).unwrap();
        }
        let vars = json!({"i": "file://a.png", "s": "file://b.mp3", "t": "file://c.txt", "n": 1});
        let vars = vars.as_object().unwrap();
        let expected = json!({
            "i": "data:image/png;base64,Ynl0ZXM=", "s": "Ynl0ZXM=", "t": "file://c.txt", "n": 1,
        });
        assert_eq!(Value::Object(files.inserted(vars).into_owned()), expected);
        let others = json!({"t": "file://c.txt", "n": 1});
        let others = others.as_object().unwrap();
        assert!(matches!(files.inserted(others), Cow::Borrowed(it) if it == others));
    }
}
