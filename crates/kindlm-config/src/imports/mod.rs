//! Finds the files that belong to a program.
//!
//! The files are its main file, and the files that it imports or names.
//!
//! The search scans texts and does not parse them. An extra file in the result only causes an unnecessary run. If the
//! search misses a file, a change of that file does not invalidate stored results. The search follows neither packages
//! of npm and pip, nor paths that programs build at run time.

mod search;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kindlm_engine::{Digest, Fingerprint};
use kindlm_types::Files;
use serde_json::Value;

use search::{Language, Search, joined};

/// The maximum number of files in the result of one search. Further files are left out.
const MOST: usize = 4096;
/// The files that belong to a program: paths relative to the folder of the config file, with digests of the content.
pub type Parts = BTreeMap<String, Fingerprint>;

/// A search for the files that programs import and name.
///
/// Each file is read only once, so create a new value when files may have changed.
///
/// ```
/// use kindlm_config::Programs;
/// use kindlm_types::NoFiles;
/// use serde_json::json;
///
/// let programs = Programs::new(&NoFiles);
/// assert!(programs.named_in(&json!({"command": "python3 model.py"})).is_empty());
/// assert_eq!(programs.of_command("python3 model.py"), None);
/// ```
pub struct Programs<'a> {
    files: &'a dyn Files,
    known: Mutex<ImportCache>,
}

#[derive(Default)]
struct ImportCache {
    /// Files by path. `None` stands for a file that cannot be read.
    files: HashMap<String, Option<File>>,
    /// The results of earlier searches, by the files from which the search starts.
    found: HashMap<BTreeSet<String>, (Arc<Parts>, Fingerprint)>,
}

struct File {
    digest: Fingerprint,
    imports: Imports,
}

enum Imports {
    /// The language and the text, which has not been searched yet.
    In(Language, Arc<str>),
    Found(Arc<BTreeSet<String>>),
}

impl fmt::Debug for Programs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Programs").finish_non_exhaustive()
    }
}

impl<'a> Programs<'a> {
    /// Creates a search in these files.
    pub fn new(files: &'a dyn Files) -> Self {
        Self { files, known: Mutex::default() }
    }

    /// Returns the files that a provider's or agent's config names, and their imports.
    ///
    /// The config names files in these places:
    ///
    /// - texts such as `file://path`,
    /// - the key `file`,
    /// - the script `answerCalls`,
    /// - words of the command line under `command` and `args`, which runs in the folder `cwd`.
    ///
    /// Files that cannot be read are left out, because the code that uses them reports the error.
    pub fn named_in(&self, config: &Value) -> Arc<Parts> {
        let cwd = config.get("cwd").and_then(Value::as_str).unwrap_or_default();
        self.all(|search| search.named_in("", config, cwd)).0
    }

    /// Returns a digest of the files that a command line names, and of their imports.
    ///
    /// Returns `None` if the command line names no file that can be read.
    pub fn of_command(&self, line: &str) -> Option<Fingerprint> {
        let (parts, digest) = self.all(|search| search.search_command("", line));
        (!parts.is_empty()).then_some(digest)
    }

    /// Returns a file and its imports. The result is empty if the file cannot be read.
    pub(crate) fn find_parts(&self, path: &str) -> Arc<Parts> {
        self.all(|search| {
            search.take(&joined("", path));
        })
        .0
    }

    fn all(&self, start: impl FnOnce(&mut Search<'_>)) -> (Arc<Parts>, Fingerprint) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let ImportCache { files, found } = &mut *known;
        let starts = Search::find_files(self.files, files, start);
        if let Some((parts, digest)) = found.get(&starts) {
            return (Arc::clone(parts), *digest);
        }
        let parts = self.follow(files, &starts);
        let sum = parts
            .iter()
            .fold(Digest::default(), |sum, (path, digest)| sum.text(path).fingerprint(*digest));
        let all = (Arc::new(parts), sum.finish());
        found.insert(starts, (Arc::clone(&all.0), all.1));
        all
    }

    fn follow(
        &self,
        files: &mut HashMap<String, Option<File>>,
        starts: &BTreeSet<String>,
    ) -> Parts {
        let mut parts = Parts::new();
        let mut open: Vec<String> = starts.iter().cloned().collect();
        while let Some(path) = open.pop().filter(|_| parts.len() < MOST) {
            let Some(Some(file)) = files.get(&path) else { continue };
            if parts.insert(path.clone(), file.digest).is_some() {
                continue;
            }
            let imports = match &file.imports {
                Imports::Found(imports) => Arc::clone(imports),
                Imports::In(language, text) => {
                    let (language, text) = (*language, Arc::clone(text));
                    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                    let imports = Search::find_files(self.files, files, |search| {
                        search.imports(language, folder, &text);
                    });
                    let imports = Arc::new(imports);
                    if let Some(Some(file)) = files.get_mut(&path) {
                        file.imports = Imports::Found(Arc::clone(&imports));
                    }
                    imports
                }
            };
            open.extend(imports.iter().filter(|it| !parts.contains_key(*it)).cloned());
        }
        parts
    }
}

/// Returns true if the extension of a path belongs to a [`Language`], so that the search follows the file's imports.
pub(crate) fn is_program(path: &str) -> bool {
    Language::by_ending(path).is_some()
}
