//! File access of workers: modules of the suite, and other permitted files.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use kindlm_types::script::ScriptPermissions;
use serde_json::{Value, json};

use crate::frame::{Format, Loaded, Look, Refusal};
use crate::limits;

/// The file extensions that are tried, in order, if no file has the exact path. These extensions are also tried for
/// the `index` file of a folder.
const ENDINGS: [&str; 7] = [".js", ".cjs", ".mjs", ".json", ".ts", ".cts", ".mts"];
/// TypeScript imports use the JavaScript file names, so these extensions are mapped.
const TYPESCRIPT: [(&str, &str); 3] = [(".js", ".ts"), (".mjs", ".mts"), (".cjs", ".cts")];

/// The files of a suite.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
    /// True if scripts may load modules.
    loads: bool,
    read: Mutex<HashMap<PathBuf, Arc<[u8]>>>,
}

impl Files {
    pub(crate) fn new(root: &Path, loads: bool) -> Self {
        // If the root does not exist, each load fails.
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Self { root, loads, read: Mutex::default() }
    }

    /// Returns the path of the root for workers. If scripts may not load files, the path is `/`, to hide the real
    /// folder.
    pub(crate) fn root_text(&self) -> String {
        if self.loads { text(&self.root) } else { "/".to_owned() }
    }

    /// Resolves and reads a module. Fails if scripts may not load modules, or if the module is missing, too large or
    /// outside of the permitted folders.
    pub(crate) fn load(
        &self,
        permissions: &ScriptPermissions,
        from: Option<&str>,
        specifier: &str,
    ) -> Result<(Value, Vec<u8>), Refusal> {
        // The message is the same for every path, so that a script cannot find out which files exist.
        if !self.loads {
            let message =
                format!("Cannot find module '{specifier}': this script cannot load files");
            return Err(refuse("MODULE_NOT_FOUND", message));
        }
        let folder = from.and_then(|from| Path::new(from).parent()).unwrap_or(&self.root);
        let wanted = normalize(&folder.join(specifier));
        let folders = self.folders(permissions);
        let outside = || {
            refuse(
                "MODULE_NOT_FOUND",
                format!(
                    "'{specifier}' lies outside the folder of the suite (`{}`): move it there, or add its folder to `scripts.read`",
                    self.root.display()
                ),
            )
        };
        if !self.is_inside(&wanted, &folders) {
            return Err(outside());
        }
        let Some(found) = candidates(&wanted).into_iter().find(|path| path.is_file()) else {
            let by = from.map_or_else(String::new, |from| {
                format!(", which '{}' asks for", self.short(from))
            });
            return Err(refuse(
                "MODULE_NOT_FOUND",
                format!(
                    "Cannot find module '{specifier}'{by}: there is no file `{}`",
                    self.short(&text(&wanted))
                ),
            ));
        };
        // A symbolic link may point to a file outside of the permitted folders.
        let found = found.canonicalize().map_err(|err| disk(&found, &err))?;
        if !self.is_inside(&found, &folders) {
            return Err(outside());
        }
        let content = self.content(&found)?;
        let loaded = Loaded { path: text(&found), format: format(&found) };
        let facts =
            serde_json::to_value(loaded).map_err(|err| refuse("EINVAL", err.to_string()))?;
        Ok((facts, content.to_vec()))
    }

    /// Executes a disk operation. Fails without the permission, or if the operation fails.
    pub(crate) fn look(
        &self,
        permissions: &ScriptPermissions,
        op: Look,
        path: &str,
    ) -> Result<(Value, Vec<u8>), Refusal> {
        let wanted = normalize(&self.root.join(path));
        let folders: Vec<PathBuf> = self.folders(permissions);
        let refused = || {
            refuse(
                "EACCES",
                format!("reading '{path}' is not permitted: add its folder to `scripts.read`"),
            )
        };
        if !folders.iter().any(|folder| wanted.starts_with(folder)) {
            return Err(refused());
        }
        let real = match wanted.canonicalize() {
            Ok(real) => real,
            Err(err) if err.kind() == std::io::ErrorKind::NotFound && matches!(op, Look::Stat) => {
                return Ok((json!({ "exists": false }), Vec::new()));
            }
            Err(err) => return Err(disk(&wanted, &err)),
        };
        if !folders.iter().any(|folder| real.starts_with(folder)) {
            return Err(refused());
        }
        match op {
            Look::Read => {
                let content = read_file(&real)?;
                Ok((json!({}), content))
            }
            Look::List => {
                let mut names = Vec::new();
                for entry in std::fs::read_dir(&real).map_err(|err| disk(&real, &err))? {
                    let entry = entry.map_err(|err| disk(&real, &err))?;
                    let folder = entry.path().is_dir();
                    names.push((entry.file_name().to_string_lossy().into_owned(), folder));
                }
                names.sort();
                Ok((json!({ "names": names }), Vec::new()))
            }
            Look::Stat => {
                let about = real.metadata().map_err(|err| disk(&real, &err))?;
                let modified =
                    about.modified().ok().and_then(|it| it.duration_since(UNIX_EPOCH).ok());
                let facts = json!({
                    "exists": true, "file": about.is_file(), "folder": about.is_dir(), "size": about.len(),
                    "modified_ms": modified.map_or(0.0, |it| it.as_secs_f64() * 1000.0),
                });
                Ok((facts, Vec::new()))
            }
        }
    }

    /// Returns the folders that the script may read, with symbolic links resolved.
    fn folders(&self, permissions: &ScriptPermissions) -> Vec<PathBuf> {
        let real = |folder: &String| {
            let folder = normalize(&self.root.join(folder));
            folder.canonicalize().unwrap_or(folder)
        };
        permissions.read.iter().map(real).collect()
    }

    fn is_inside(&self, path: &Path, folders: &[PathBuf]) -> bool {
        path.starts_with(&self.root) || folders.iter().any(|folder| path.starts_with(folder))
    }

    fn content(&self, path: &Path) -> Result<Arc<[u8]>, Refusal> {
        // The map is valid even if a thread panicked while it held the lock.
        if let Some(known) = self.read.lock().unwrap_or_else(PoisonError::into_inner).get(path) {
            return Ok(Arc::clone(known));
        }
        let content: Arc<[u8]> = read_file(path)?.into();
        let mut known = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(known.entry(path.to_owned()).or_insert(content)))
    }

    /// Returns a path relative to the root, as users write it. A path outside of the root stays unchanged.
    fn short(&self, path: &str) -> String {
        let root = self.root_text();
        let inside = path.strip_prefix(&root).and_then(|path| path.strip_prefix('/'));
        inside.unwrap_or(path).to_owned()
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, Refusal> {
    const MOST: u64 = limits::CONTENT as u64;
    let about = path.metadata().map_err(|err| disk(path, &err))?;
    // Reading a pipe or a device may never end, and this read has no timeout.
    if !about.is_file() && !about.is_dir() {
        return Err(refuse("EINVAL", format!("EINVAL: `{}` is not a file", path.display())));
    }
    let too_large = |size: u64| {
        let message = format!(
            "`{}` has {} MiB; at most {} MiB are read",
            path.display(),
            size >> 20,
            MOST >> 20
        );
        refuse("EFBIG", message)
    };
    if about.len() > MOST {
        return Err(too_large(about.len()));
    }
    let file = std::fs::File::open(path).map_err(|err| disk(path, &err))?;
    let mut content = Vec::new();
    // The content of some files is longer than their metadata shows, and some files grow.
    file.take(MOST + 1).read_to_end(&mut content).map_err(|err| disk(path, &err))?;
    if content.len() as u64 > MOST {
        return Err(too_large(content.len() as u64));
    }
    Ok(content)
}

fn candidates(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    let name = path.as_os_str();
    let with = |ending: &str| {
        let mut name = name.to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    for (javascript, typescript) in TYPESCRIPT {
        if let Some(stem) = name.to_str().and_then(|name| name.strip_suffix(javascript)) {
            found.push(PathBuf::from(format!("{stem}{typescript}")));
        }
    }
    found.extend(ENDINGS.iter().map(|ending| with(ending)));
    found.extend(ENDINGS.iter().map(|ending| path.join(format!("index{ending}"))));
    found
}

fn format(path: &Path) -> Format {
    match path.extension().and_then(|it| it.to_str()) {
        Some("mjs" | "mts") => Format::Module,
        Some("cjs" | "cts") => Format::Commonjs,
        Some("json") => Format::Json,
        // promptfoo accepts CommonJS and ES modules, regardless of `package.json`. So the content determines the
        // format.
        _ => Format::Either,
    }
}

/// Resolves `.` and `..` in a path without reading the disk, so symbolic links are not resolved.
fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

fn text(path: &Path) -> String {
    let text = path.to_string_lossy();
    if cfg!(windows) {
        text.trim_start_matches(r"\\?\").replace('\\', "/")
    } else {
        text.into_owned()
    }
}

fn refuse(code: &str, message: String) -> Refusal {
    Refusal::new(code, message)
}

fn disk(path: &Path, err: &std::io::Error) -> Refusal {
    let code = match err.kind() {
        std::io::ErrorKind::NotFound => "ENOENT",
        std::io::ErrorKind::PermissionDenied => "EACCES",
        std::io::ErrorKind::NotADirectory => "ENOTDIR",
        std::io::ErrorKind::IsADirectory => "EISDIR",
        _ => "EIO",
    };
    refuse(code, format!("{code}: `{}`: {err}", path.display()))
}
