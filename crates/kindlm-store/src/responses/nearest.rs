//! Finds the recording that is most similar to a request, and describes the differences.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use kindlm_types::ecma;
use serde_json::Value;

use super::differences::differences;
use super::recording::{self, request_in};
use super::request::{Request, addressee};
use super::sketch::Sketch;

/// The maximum number of recordings that are read.
const MAX_RECORDINGS: usize = 5_000;
/// The maximum size of a recording that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The recordings of a folder, for finding the most similar recording.
#[derive(Debug, Default)]
pub(super) struct Catalogue(Vec<Item>);

#[derive(Debug)]
struct Item {
    provider: String,
    model: String,
    is_embedding: bool,
    digest: String,
    sketch: Sketch,
}

impl Catalogue {
    /// Reads the recordings of a folder. Unreadable files are skipped.
    pub(super) fn load(folder: &Path) -> Self {
        let files = sorted(folder).into_iter().flat_map(|it| sorted(&it));
        let json = files.filter(|it| it.extension().is_some_and(|it| it == "json"));
        Self(json.take(MAX_RECORDINGS).filter_map(|it| Item::load(&it)).collect())
    }

    /// Returns the error message for a request without a recording.
    ///
    /// The message names the most similar recording of the same provider, model and kind, if there is one, and gives
    /// advice.
    pub(super) fn miss(&self, folder: &Path, request: &Request) -> String {
        let advice = "run once with `--responses cache` to record what is missing";
        let folder_name = folder.display();
        if self.0.is_empty() {
            return format!("there are no recordings in `{folder_name}`: {advice}");
        }
        let (provider, model) = request.addressee();
        let Some((path, recorded)) = self.nearest(folder, request) else {
            let kind = if is_embedding(&request.value) { "vectors" } else { "answers" };
            let many = self.0.len();
            return format!(
                "none of the {many} recordings in `{folder_name}` has {kind} of `{model}` from `{provider}`: {advice}"
            );
        };
        let path = path.display();
        let differences = differences(&recorded, &request.value);
        format!(
            "this request is not recorded; the nearest recording `{path}` differs in {differences}; {advice}"
        )
    }

    fn nearest(&self, folder: &Path, request: &Request) -> Option<(PathBuf, Value)> {
        let (provider, model) = request.addressee();
        let embedding = is_embedding(&request.value);
        let sketch = Sketch::from_text(&ecma::stringify(&request.value));
        let of_model = self.0.iter().filter(|it| {
            it.provider == provider && it.model == model && it.is_embedding == embedding
        });
        // Of equally similar recordings, take the first, so that the error message is stable.
        let nearest = of_model.rev().max_by_key(|it| it.sketch.in_common(&sketch))?;
        let path = recording::path(folder, &nearest.digest);
        let recorded = read_request(&path)?;
        Some((path, recorded))
    }
}

impl Item {
    fn load(path: &Path) -> Option<Self> {
        let digest = path.file_stem()?.to_str()?.to_owned();
        let request = read_request(path)?;
        let (provider, model) = addressee(&request);
        Some(Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            is_embedding: is_embedding(&request),
            digest,
            sketch: Sketch::from_text(&ecma::stringify(&request)),
        })
    }
}

fn is_embedding(request: &Value) -> bool {
    request.get("messages").is_none()
}

/// Reads the request of a recording; returns `None` if the file cannot be used.
fn read_request(path: &Path) -> Option<Value> {
    let mut text = String::new();
    let file = fs::File::open(path).ok()?;
    file.take(MAX_BYTES + 1).read_to_string(&mut text).ok()?;
    if text.len() as u64 > MAX_BYTES { None } else { request_in(&text) }
}

/// Returns the paths in a folder, sorted; empty if the folder cannot be read.
fn sorted(folder: &Path) -> Vec<PathBuf> {
    let items = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = items.filter_map(|it| Some(it.ok()?.path())).collect();
    paths.sort_unstable();
    paths
}
