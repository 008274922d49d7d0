//! Variables: values from files, and lists that expand to several tests.

use std::rc::Rc;

use kindlm_source::{Key, Kind, Node, Span};
use kindlm_types::{Media, MediaKind, image_type_of, media_type_of};
use serde_json::{Map, Value};

use super::Translator;
use super::build::node;
use super::files::{extension, is_script, path};

/// The variables of one test.
pub(super) type Vars = Vec<(Key, Node)>;

/// The maximum number of tests that one test may expand to.
const MOST: usize = 100_000;

/// Merges the variables of a test over the defaults. Variables of the defaults come first.
pub(super) fn merged(defaults: &[(Key, Node)], own: &[(Key, Node)]) -> Vars {
    let mut vars = defaults.to_vec();
    for (key, value) in own {
        match vars.iter_mut().find(|(it, _)| it.name == key.name) {
            Some(entry) => *entry = (key.clone(), value.clone()),
            None => vars.push((key.clone(), value.clone())),
        }
    }
    vars
}

/// The maximum size of an image, a sound or a video that a program gets, in bytes.
const MAX_DATA: u64 = 20 * 1024 * 1024;

/// True if a file is an image, a sound or a video by its extension.
pub(super) fn is_media(file: &str) -> bool {
    let kinds = ["image/", "audio/", "video/"];
    media_type_of(file).is_some_and(|it| kinds.iter().any(|kind| it.starts_with(kind)))
}

/// Removes the line break at the end of a text, as promptfoo does. Other values stay the same.
pub(super) fn without_last_break(value: Node) -> Node {
    match value.text().and_then(|it| it.strip_suffix('\n')) {
        Some(text) => Node { kind: Kind::Text(Rc::from(text)), ..value },
        None => value,
    }
}

/// Converts variables to a JSON object.
pub(super) fn values(vars: &Vars) -> Map<String, Value> {
    vars.iter().map(|(key, it)| (key.name.to_string(), it.to_json())).collect()
}

impl Translator<'_> {
    /// Reads a `vars` block: a mapping, a file, or a list of both.
    pub(super) fn vars(&mut self, block: Option<&Node>) -> Vars {
        let Some(block) = block else { return Vec::new() };
        match &block.kind {
            Kind::Mapping(entries) => entries.to_vec(),
            Kind::Text(text) => {
                let text = path(text).unwrap_or(text).to_owned();
                let mut vars = Vec::new();
                for file in self.paths(block.span, &text) {
                    let Some(read) = self.document_of(block.span, &file) else { continue };
                    vars = merged(&vars, read.entries());
                }
                vars
            }
            Kind::List(items) => {
                let mut vars = Vec::new();
                for item in items.iter() {
                    vars = merged(&vars, &self.vars(Some(item)));
                }
                vars
            }
            Kind::Null => Vec::new(),
            _ => {
                self.error(block.span, "expected variables: a mapping of names to values", None);
                Vec::new()
            }
        }
    }

    /// Returns the variables of all tests to which one test expands.
    ///
    /// A list of texts expands to one test per text, and a pattern to one test per file, in every combination. The last
    /// variable changes fastest. The result is empty if there are too many tests, or if no file of a variable can be
    /// read.
    pub(super) fn combinations(&mut self, vars: &[(Key, Node)], expand: bool) -> Vec<Vars> {
        let mut all: Vec<Vars> = vec![Vec::new()];
        for (key, value) in vars {
            let values = self.values(value, expand);
            if all.len().saturating_mul(values.len()) > MOST {
                let message = format!("the lists of variables stand for more than {MOST} tests");
                let help = "give fewer values, or `options: { disableVarExpansion: true }` where a list is one value";
                self.error(value.span, message, Some(help));
                return Vec::new();
            }
            all = all
                .into_iter()
                .flat_map(|vars| {
                    values.iter().map(move |value| {
                        let mut vars = vars.clone();
                        vars.push((key.clone(), value.clone()));
                        vars
                    })
                })
                .collect();
        }
        all
    }

    /// Returns the variables as programs get them, with the data of images, sounds and videos.
    ///
    /// An image is a `data:` URL, and other data is Base64. Returns `None` after an error, which is reported.
    pub(super) fn with_data(&mut self, vars: &Vars) -> Option<Map<String, Value>> {
        let mut values = values(vars);
        for (key, node) in vars {
            let Some(file) = node.text().and_then(path).filter(|it| is_media(it)) else { continue };
            let data = self.data_of(node.span, file)?;
            values.insert(key.name.to_string(), data.into());
        }
        Some(values)
    }

    fn data_of(&mut self, span: Span, file: &str) -> Option<String> {
        let bytes = match self.inputs.files.read_bytes(file, MAX_DATA) {
            Ok(bytes) => bytes,
            Err(err) => {
                self.file_error(span, err.to_string(), "the path is relative to the config file");
                return None;
            }
        };
        let media_type = image_type_of(&bytes).or_else(|| media_type_of(file))?;
        let media = Media::of_bytes(MediaKind::File, media_type, file, &bytes);
        if media_type.starts_with("image/") {
            media.address()
        } else {
            media.data().map(str::to_owned)
        }
    }

    fn values(&mut self, value: &Node, expand: bool) -> Vec<Node> {
        let items = match &value.kind {
            Kind::List(items) if expand && items.first().is_some_and(|it| it.text().is_some()) => {
                items.to_vec()
            }
            _ => vec![value.clone()],
        };
        items.iter().flat_map(|it| self.contents(it)).map(without_last_break).collect()
    }

    /// Returns the value itself, or the contents of the files that it names. Reports errors in files.
    fn contents(&mut self, value: &Node) -> Vec<Node> {
        let Some(file) = value.text().and_then(path).map(str::to_owned) else {
            return vec![value.clone()];
        };
        let extension = extension(&file);
        // The program runs later, when the prompt and the provider are known.
        if is_script(&extension) {
            return vec![value.clone()];
        }
        let mut found = Vec::new();
        for file in self.paths(value.span, &file) {
            let read = match extension.as_str() {
                "yaml" | "yml" | "json" => self.document_of(value.span, &file).map(|it| match it {
                    // promptfoo inserts content that is not a text as JSON.
                    Node { kind: Kind::Text(_), .. } => it,
                    it => node(value.span, Kind::Text(Rc::from(it.to_json().to_string()))),
                }),
                "pdf" => {
                    let help = "save its text beside the config, or send the PDF itself: `kindlm import` writes a \
                        `kindlm.yaml`, in which a message can have the part `file: file://a.pdf`";
                    self.unsupported(value.span, "a variable with the text of a PDF", Some(help));
                    None
                }
                // The data is inserted when the prompt is rendered, so that the test keeps the reference.
                _ if is_media(&file) => {
                    Some(node(value.span, Kind::Text(Rc::from(format!("file://{file}")))))
                }
                _ => self
                    .content(value.span, &file)
                    .map(|it| node(value.span, Kind::Text(Rc::from(it.trim())))),
            };
            found.extend(read);
        }
        found
    }
}
