//! Which files a program is made of: the one that is named, and those that it imports or reads by name.
//!
//! Texts are searched and not parsed. A file too many costs a run that was not needed, one too few keeps the verdict of
//! a program that is gone. Packages of npm and pip, and paths that a program puts together, are not followed.

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

/// The most files that one program is followed to.
const MOST: usize = 4096;
/// Files by their paths below the folder of the config file, each with a digest of its content.
pub type Parts = BTreeMap<String, Fingerprint>;

/// Follows programs to what they import and name. However often it is asked, each file is read once: it lives as long as
/// what is asked about may be taken not to change.
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
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// By path; `None` for what is not there.
    files: HashMap<String, Option<File>>,
    /// What was found from these files.
    found: HashMap<BTreeSet<String>, (Arc<Parts>, Fingerprint)>,
}

struct File {
    digest: Fingerprint,
    imports: Imports,
}

enum Imports {
    /// The text has not been searched.
    In(Language, Arc<str>),
    Found(Arc<BTreeSet<String>>),
}

impl fmt::Debug for Programs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Programs").finish_non_exhaustive()
    }
}

impl<'a> Programs<'a> {
    /// Programs among these files.
    pub fn new(files: &'a dyn Files) -> Self {
        Self { files, known: Mutex::default() }
    }

    /// The files that the configuration of a provider or an agent names, and all that these import.
    ///
    /// Files are named as `file://path`, under the key `file`, and as words of a command line under `command` and `args`,
    /// which runs in the folder `cwd`. Files that cannot be read are left out; the code that needs one reports it.
    pub fn named_in(&self, config: &Value) -> Arc<Parts> {
        let cwd = config.get("cwd").and_then(Value::as_str).unwrap_or_default();
        self.all(|search| search.named_in("", config, cwd)).0
    }

    /// Tells whether anything has changed in the files that a command line names, and in what these import; `None` where
    /// it names none.
    pub fn of_command(&self, line: &str) -> Option<Fingerprint> {
        let (parts, digest) = self.all(|search| search.words("", line));
        (!parts.is_empty()).then_some(digest)
    }

    /// A file and all that it imports; empty if it cannot be read.
    pub(crate) fn of(&self, path: &str) -> Arc<Parts> {
        self.all(|search| {
            search.take(&joined("", path));
        })
        .0
    }

    fn all(&self, start: impl FnOnce(&mut Search<'_>)) -> (Arc<Parts>, Fingerprint) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { files, found } = &mut *known;
        let starts = Search::of(self.files, files, start);
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
                    let imports = Search::of(self.files, files, |search| {
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

/// True if a file may import others.
pub(crate) fn is_program(path: &str) -> bool {
    Language::by_ending(path).is_some()
}
