//! Finds the files that one text imports or names.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use kindlm_engine::Digest;
use kindlm_types::{FileError, Files, TreeLimits};
use serde_json::Value;

use super::{File, Imports};

/// The longest quoted text or word that can be a path, in bytes.
const LONGEST: usize = 256;
/// The prefixes of paths relative to the folder of the config file.
const SUITE: [&str; 2] = ["$KINDLM_SUITE/", "${KINDLM_SUITE}/"];
/// Extensions that a JavaScript import may omit, also for `index` files.
const IMPLIED: [&str; 7] = [".js", ".cjs", ".mjs", ".json", ".ts", ".cts", ".mts"];
/// JavaScript extensions in imports, each with its TypeScript extension.
const TYPESCRIPT: [(&str, &str); 3] = [(".js", ".ts"), (".mjs", ".mts"), (".cjs", ".cts")];
/// The extensions of JavaScript and TypeScript.
const JAVASCRIPT: [&str; 6] = ["js", "cjs", "mjs", "ts", "cts", "mts"];
/// The extensions, besides [`JAVASCRIPT`], that make a quoted text a path.
const ENDINGS: [&str; 18] = [
    "json", "py", "rb", "sh", "bash", "pl", "php", "jsonl", "csv", "tsv", "txt", "md", "yaml",
    "yml", "toml", "xml", "html", "wasm",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    JavaScript,
    Python,
    Ruby,
    Shell,
}

impl Language {
    /// Returns the language by the file's extension, or else by the first line.
    ///
    /// Returns `None` for other languages.
    fn detect(path: &str, text: &str) -> Option<Self> {
        Self::by_ending(path).or_else(|| Self::by_first_line(text))
    }

    pub(super) fn by_ending(path: &str) -> Option<Self> {
        let ending = ending(path)?;
        Some(match ending.to_ascii_lowercase().as_str() {
            "py" => Self::Python,
            "rb" => Self::Ruby,
            "sh" | "bash" => Self::Shell,
            ending if JAVASCRIPT.contains(&ending) => Self::JavaScript,
            _ => return None,
        })
    }

    /// Returns the language in a first line such as `#!/usr/bin/env python3`.
    ///
    /// Returns `None` for other lines.
    fn by_first_line(text: &str) -> Option<Self> {
        let words = text.strip_prefix("#!")?.lines().next()?.split_whitespace();
        let mut names = words.map(|it| it.rsplit('/').next().unwrap_or(it));
        let runs = names.find(|it| *it != "env" && !it.starts_with('-') && !it.contains('='))?;
        Some(match runs.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.') {
            "python" | "pypy" => Self::Python,
            "node" | "bun" | "tsx" | "ts-node" => Self::JavaScript,
            "ruby" => Self::Ruby,
            "sh" | "bash" | "dash" | "zsh" | "ksh" => Self::Shell,
            _ => return None,
        })
    }
}

/// A search that collects existing files.
pub(super) struct Search<'s> {
    files: &'s dyn Files,
    known: &'s mut HashMap<String, Option<File>>,
    found: BTreeSet<String>,
}

impl<'s> Search<'s> {
    pub(super) fn find_files(
        files: &'s dyn Files,
        known: &'s mut HashMap<String, Option<File>>,
        start: impl FnOnce(&mut Self),
    ) -> BTreeSet<String> {
        let mut search = Self { files, known, found: BTreeSet::new() };
        start(&mut search);
        search.found
    }

    /// Adds a file if it exists. Returns true if the file exists.
    pub(super) fn take(&mut self, path: &str) -> bool {
        if path.is_empty() || self.found.contains(path) {
            return !path.is_empty();
        }
        let is_there = if let Some(known) = self.known.get(path) {
            known.is_some()
        } else {
            let read = load_file(self.files, path);
            let is_there = read.is_some();
            self.known.insert(path.to_owned(), read);
            is_there
        };
        is_there && self.found.insert(path.to_owned())
    }

    pub(super) fn imports(&mut self, language: Language, folder: &str, text: &str) {
        match language {
            Language::JavaScript => self.javascript(folder, text),
            Language::Python => {
                self.quoted(folder, text);
                self.python(folder, text);
            }
            Language::Ruby => {
                self.quoted(folder, text);
                self.ruby(folder, text);
            }
            Language::Shell => self.search_command("", text),
        }
    }

    pub(super) fn named_in(&mut self, key: &str, config: &Value, cwd: &str) {
        match config {
            Value::String(text) => {
                if let Some(named) = text.strip_prefix("file://") {
                    // A function name may follow the path, after a colon.
                    let ends = named.match_indices(':').map(|(at, _)| at).chain([named.len()]);
                    let paths: Vec<String> =
                        ends.filter_map(|end| Some(joined("", named.get(..end)?))).collect();
                    let _ = paths.iter().any(|it| self.take(it));
                } else if key == "file" {
                    self.take(&joined("", text));
                } else if key == "answerCalls" {
                    self.javascript("", text);
                } else if matches!(key, "command" | "args") {
                    self.search_command(cwd, text);
                }
            }
            Value::Array(items) => items.iter().for_each(|it| self.named_in(key, it, cwd)),
            Value::Object(entries) => {
                entries.iter().for_each(|(key, it)| self.named_in(key, it, cwd));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Collects the files among the words of a command line or shell script.
    ///
    /// Paths are relative to `cwd` or to the folder of an earlier `cd` command. `cwd` is relative to the config file's
    /// folder.
    pub(super) fn search_command(&mut self, cwd: &str, text: &str) {
        let apart = |it: char| it.is_whitespace() || "\"'`;|&<>()=,".contains(it);
        let mut folders = vec![joined("", cwd)];
        // A file that the script itself writes is not an input of the script.
        let mut written = BTreeSet::new();
        let (mut goes, mut writes) = (false, false);
        for piece in text.split_inclusive(apart) {
            let word = piece.trim_end_matches(apart);
            let of_suite = SUITE.iter().find_map(|it| word.strip_prefix(it));
            // Options, variables, URLs and absolute paths are not files of the project.
            let is_path = !word.starts_with(['-', '/', '$', '~']) && !word.contains("://");
            if !word.is_empty() && word.len() <= LONGEST {
                if std::mem::take(&mut writes) {
                    written.insert(word);
                } else if let Some(path) = of_suite {
                    self.take(&joined("", path));
                } else if is_path && goes {
                    folders.extend(folders.last().map(|it| joined(it, word)));
                } else if is_path && !written.contains(word) {
                    for folder in &folders {
                        self.take(&joined(folder, word));
                    }
                }
                goes = word == "cd";
            }
            writes = match piece.chars().last() {
                Some('>') => true,
                Some(end) => writes && (end.is_whitespace() || matches!(end, '"' | '\'')),
                None => false,
            };
        }
    }

    /// Collects the relative imports and quoted paths of JavaScript. Examples: `from './x'`, `import('./x')`,
    /// `require('./x')`, `readFileSync('./x.json')`.
    fn javascript(&mut self, folder: &str, text: &str) {
        for quoted in quoted(text) {
            if is_relative(quoted) && !self.beside(folder, quoted) {
                let path = joined(folder, quoted);
                for (javascript, typescript) in TYPESCRIPT {
                    if let Some(stem) = path.strip_suffix(javascript) {
                        self.take(&format!("{stem}{typescript}"));
                    }
                }
                for end in IMPLIED {
                    self.take(&format!("{path}{end}"));
                }
                for end in IMPLIED {
                    self.take(&joined(&path, &format!("index{end}")));
                }
                self.take(&joined(&path, "package.json"));
            } else if !is_relative(quoted) {
                self.beside(folder, quoted);
            }
        }
    }

    /// Collects the files in quoted texts that have a known file extension.
    fn quoted(&mut self, folder: &str, text: &str) {
        for quoted in quoted(text) {
            self.beside(folder, quoted);
        }
    }

    /// Adds the files with this name in the program's folder and in the config file's folder.
    ///
    /// Programs run in the config file's folder. Returns true if at least one of the files exists.
    fn beside(&mut self, folder: &str, named: &str) -> bool {
        let path_like = !named.contains(|it: char| it.is_whitespace() || "*?<>|\"'`$".contains(it));
        if !path_like || named.contains("://") || !ending(named).is_some_and(is_known) {
            return false;
        }
        let named = named.strip_prefix('/').unwrap_or(named);
        let here = self.take(&joined(folder, named));
        (!folder.is_empty() && self.take(&joined("", named))) || here
    }

    /// Collects the modules of Python imports.
    ///
    /// Examples are `import a.b`, `from a import b` and `from . import b`. Modules can be in the program's folder or in
    /// the config file's folder.
    fn python(&mut self, folder: &str, text: &str) {
        for line in python_lines(text) {
            for statement in line.split(';') {
                self.python_import(folder, statement.trim_start());
            }
        }
    }

    fn python_import(&mut self, folder: &str, statement: &str) {
        if let Some(rest) = statement.strip_prefix("import ") {
            for module in rest.split(',').filter_map(|it| it.split_whitespace().next()) {
                self.module(folder, module);
            }
        } else if let Some(rest) = statement.strip_prefix("from ")
            && let Some((module, names)) = rest.split_once(" import")
        {
            let module = module.trim();
            self.module(folder, module);
            let names = names.split(|it: char| ",()#".contains(it));
            for name in names.filter_map(|it| it.split_whitespace().next()) {
                let dot = if module.ends_with('.') { "" } else { "." };
                self.module(folder, &format!("{module}{dot}{name}"));
            }
        }
    }

    fn module(&mut self, folder: &str, name: &str) {
        let above = name.len() - name.trim_start_matches('.').len();
        let name = name.trim_start_matches('.');
        let mut starts = vec![joined(folder, &"../".repeat(above.saturating_sub(1)))];
        if above == 0 && !folder.is_empty() {
            starts.push(String::new());
        }
        for start in starts {
            let mut path = start;
            self.take(&joined(&path, "__init__.py"));
            for part in name.split('.').filter(|it| !it.is_empty()) {
                path = joined(&path, part);
                self.take(&format!("{path}.py"));
                self.take(&joined(&path, "__init__.py"));
            }
        }
    }

    /// Collects `require_relative 'x'` and `require './x'`, which omit `.rb`.
    fn ruby(&mut self, folder: &str, text: &str) {
        for line in text.lines().filter(|it| it.contains("require")) {
            for quoted in quoted(line) {
                if !quoted.contains(char::is_whitespace) {
                    self.take(&joined(folder, &format!("{quoted}.rb")));
                }
            }
        }
    }
}

fn is_relative(text: &str) -> bool {
    matches!(text, "." | "..") || text.starts_with("./") || text.starts_with("../")
}

fn ending(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map(|(_, ending)| ending)
}

fn is_known(ending: &str) -> bool {
    let ending = ending.to_ascii_lowercase();
    JAVASCRIPT.contains(&ending.as_str()) || ENDINGS.contains(&ending.as_str())
}

fn load_file(files: &dyn Files, path: &str) -> Option<File> {
    let nothing = || Imports::Found(Arc::default());
    match files.read_file(path) {
        Ok(text) => {
            let digest = Digest::default().text(&text).finish();
            let language = Language::detect(path, &text);
            let imports = language.map_or_else(nothing, |it| Imports::In(it, text));
            Some(File { digest, imports })
        }
        // A file of this size is not a program, and reading it may take minutes. The digest only covers the size.
        Err(FileError::TooLarge { bytes, .. }) => {
            let digest = Digest::default().text("too large").number(bytes).finish();
            Some(File { digest, imports: nothing() })
        }
        Err(FileError::NotText { .. }) => {
            let tree = files.tree(path, TreeLimits::NONE).ok()?;
            let digest = Digest::default().text(&tree.digest).finish();
            Some(File { digest, imports: nothing() })
        }
        Err(_) => None,
    }
}

/// Returns the lines of a Python program. An import over several lines is joined to one line.
fn python_lines(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let mut lines = text.lines();
    std::iter::from_fn(move || {
        let mut whole = Cow::from(lines.next()?);
        while is_open(&whole)
            && let Some(next) = lines.next()
        {
            let so_far = without_comment(&whole).trim_end().trim_end_matches('\\');
            whole = Cow::from([so_far, " ", without_comment(next)].concat());
        }
        Some(whole)
    })
}

/// Returns true if a Python import continues on the next line.
fn is_open(line: &str) -> bool {
    let statement = line.trim_start();
    if !statement.starts_with("import ") && !statement.starts_with("from ") {
        return false;
    }
    let code = without_comment(statement).trim_end();
    let names = code.split_once(" import").map_or("", |(_, names)| names.trim_start());
    code.ends_with('\\') || names.starts_with('(') && !names.contains(')')
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default()
}

/// Returns the quoted texts of each line.
///
/// Every quote may open a text. Therefore an apostrophe in a comment does not hide the quotes after it.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| {
        line.match_indices(['"', '\'', '`']).filter_map(|(at, quote)| {
            let rest = line.get(at + 1..)?;
            let within = rest.as_bytes().iter().take(LONGEST);
            let end = within.into_iter().position(|it| quote.as_bytes() == [*it])?;
            rest.get(..end).filter(|it| !it.is_empty())
        })
    })
}

/// Joins a folder and a path, and resolves `.` and `..`.
///
/// A `..` above the first folder stays in the path.
pub(super) fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|it| !it.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|it| *it != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}
