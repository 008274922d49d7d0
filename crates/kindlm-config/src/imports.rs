//! Which files a program is made of: the one that is named, and those that it imports or reads by name.
//!
//! Texts are searched and not parsed. A file too many costs a run that was not needed, one too few keeps the verdict of
//! a program that is gone. Packages of npm and pip, and paths that a program puts together, are not followed.

use std::collections::BTreeMap;
use std::sync::Arc;

use kindlm_engine::{Digest, Fingerprint};
use kindlm_types::{FileError, Files};
use serde_json::Value;

/// The most files that one program is followed to.
const MOST: usize = 4096;
/// The longest text between quotes that is taken for a path, in bytes.
const LONGEST: usize = 256;
/// Endings that a relative import of JavaScript may leave out, each also of an `index` file.
const IMPLIED: [&str; 7] = [".js", ".cjs", ".mjs", ".json", ".ts", ".cts", ".mts"];
/// What files of programs end with, and files that programs read.
const ENDINGS: [&str; 24] = [
    "js", "cjs", "mjs", "ts", "cts", "mts", "json", "py", "rb", "sh", "bash", "pl", "php", "jsonl",
    "csv", "tsv", "txt", "md", "yaml", "yml", "toml", "xml", "html", "wasm",
];

/// Files by their paths below the folder of the config file, each with a digest of its content.
pub type Parts = BTreeMap<String, Fingerprint>;

/// The files that the configuration of a provider or an agent names, and all that these import.
///
/// Files are named as `file://path`, under the key `file`, and as words of a command line under `command` and `args`.
/// What cannot be read is left out: whoever needs it says so.
///
/// ```
/// use kindlm_config::files_named_in;
/// use kindlm_types::NoFiles;
/// use serde_json::json;
///
/// assert!(files_named_in(&NoFiles, &json!({"command": "python3 model.py"})).is_empty());
/// ```
pub fn files_named_in(files: &dyn Files, config: &Value) -> Parts {
    let mut search = Search { files, parts: Parts::new(), open: Vec::new() };
    search.named_in("", config);
    search.follow();
    search.parts
}

/// A file and all that it imports; empty if it cannot be read.
pub(crate) fn parts_of(files: &dyn Files, path: &str) -> Parts {
    let mut search = Search { files, parts: Parts::new(), open: Vec::new() };
    search.take(joined("", path).as_str());
    search.follow();
    search.parts
}

/// Whether a file may import others.
pub(crate) fn is_program(path: &str) -> bool {
    Language::of(path).is_some()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    JavaScript,
    Python,
    Ruby,
    Shell,
}

impl Language {
    fn of(path: &str) -> Option<Self> {
        Some(match ending(path)?.to_ascii_lowercase().as_str() {
            "js" | "cjs" | "mjs" | "ts" | "cts" | "mts" => Self::JavaScript,
            "py" => Self::Python,
            "rb" => Self::Ruby,
            "sh" | "bash" => Self::Shell,
            _ => return None,
        })
    }
}

struct Search<'a> {
    files: &'a dyn Files,
    parts: Parts,
    /// Files that were found and not searched yet.
    open: Vec<(String, Arc<str>)>,
}

impl Search<'_> {
    /// Adds a file if it can be read; says whether it is there.
    fn take(&mut self, path: &str) -> bool {
        if path.is_empty() || self.parts.contains_key(path) {
            return !path.is_empty();
        }
        if self.parts.len() >= MOST {
            return false;
        }
        let digest = match self.files.read(path) {
            Ok(text) => {
                let digest = Digest::default().text(&text).finish();
                self.open.push((path.to_owned(), text));
                digest
            }
            Err(FileError::NotText { .. } | FileError::TooLarge { .. }) => {
                match self.files.tree(path) {
                    Ok(tree) => Digest::default().text(&tree.digest).finish(),
                    Err(_) => return false,
                }
            }
            Err(_) => return false,
        };
        self.parts.insert(path.to_owned(), digest);
        true
    }

    fn follow(&mut self) {
        while let Some((path, text)) = self.open.pop() {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            match Language::of(&path) {
                Some(Language::JavaScript) => self.javascript(folder, &text),
                Some(Language::Python) => {
                    self.quoted(folder, &text);
                    self.python(folder, &text);
                }
                Some(Language::Ruby) => {
                    self.quoted(folder, &text);
                    self.ruby(folder, &text);
                }
                Some(Language::Shell) => self.words(&text),
                None => {}
            }
        }
    }

    fn named_in(&mut self, key: &str, config: &Value) {
        match config {
            Value::String(text) => {
                if let Some(named) = text.strip_prefix("file://") {
                    // Behind the path may stand the name of a function.
                    let ends = named.match_indices(':').map(|(at, _)| at).chain([named.len()]);
                    let paths: Vec<String> =
                        ends.filter_map(|end| Some(joined("", named.get(..end)?))).collect();
                    let _ = paths.iter().any(|it| self.take(it));
                } else if key == "file" {
                    self.take(&joined("", text));
                } else if matches!(key, "command" | "args") {
                    self.words(text);
                }
            }
            Value::Array(items) => items.iter().for_each(|it| self.named_in(key, it)),
            Value::Object(entries) => entries.iter().for_each(|(key, it)| self.named_in(key, it)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The words of a command line, or of a script of the shell, that are files. It runs in the folder of the config file.
    fn words(&mut self, text: &str) {
        let apart = |it: char| it.is_whitespace() || "\"'`;|&<>()=,".contains(it);
        for word in text.split(apart).filter(|it| it.len() <= LONGEST) {
            // Options, variables, and what lies outside are no files of the project.
            let is_path = word.contains('/') || ending(word).is_some_and(is_known);
            if is_path && !word.starts_with(['-', '/', '$', '~']) && !word.contains("://") {
                self.take(&joined("", word));
            }
        }
    }

    /// `from './x'`, `import './x'`, `import('./x')`, `require('./x')`, `readFileSync('./x.json')`, …
    fn javascript(&mut self, folder: &str, text: &str) {
        for quoted in quoted(text) {
            if is_relative(quoted) && !self.beside(folder, quoted) {
                let path = joined(folder, quoted);
                if let Some((stem, end)) = path.rsplit_once('.')
                    && matches!(end, "js" | "mjs" | "cjs")
                {
                    self.take(&format!("{stem}.{}", end.replace("js", "ts")));
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

    /// Texts between quotes that name a file by its ending.
    fn quoted(&mut self, folder: &str, text: &str) {
        for quoted in quoted(text) {
            self.beside(folder, quoted);
        }
    }

    /// Takes a file that is named from the folder of the program, or from that of the config file, where it runs.
    fn beside(&mut self, folder: &str, named: &str) -> bool {
        let path_like = !named.contains(|it: char| it.is_whitespace() || "*?<>|\"'`$".contains(it));
        if !path_like || named.contains("://") || !ending(named).is_some_and(is_known) {
            return false;
        }
        let named = named.strip_prefix('/').unwrap_or(named);
        let here = self.take(&joined(folder, named));
        (!folder.is_empty() && self.take(&joined("", named))) || here
    }

    /// `import a.b`, `from a import b`, `from . import b`: from the folder of the program, or that of the config file.
    fn python(&mut self, folder: &str, text: &str) {
        for statement in text.lines().flat_map(|it| it.split(';')) {
            let statement = statement.trim_start();
            if let Some(rest) = statement.strip_prefix("import ") {
                for module in rest.split(',').filter_map(|it| it.split_whitespace().next()) {
                    self.module(folder, module);
                }
            } else if let Some(rest) = statement.strip_prefix("from ")
                && let Some((module, names)) = rest.split_once(" import ")
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

    /// `require_relative 'x'`, `require './x'`, `load 'x.rb'`.
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
    ENDINGS.contains(&ending.to_ascii_lowercase().as_str())
}

/// The texts between two of the same quotes on one line. An apostrophe in a comment opens no text for the rest of the
/// line, as each quote is tried as the first.
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

/// A path from a folder, without `.` and `..` where they can be resolved.
fn joined(folder: &str, path: &str) -> String {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Texts(Vec<(&'static str, &'static str)>);

    impl Files for Texts {
        fn read(&self, path: &str) -> Result<Arc<str>, FileError> {
            let found = self.0.iter().find(|(name, _)| *name == path);
            found.map(|(_, text)| Arc::from(*text)).ok_or_else(|| FileError::NotFound {
                path: path.to_owned(),
                folder: "here".to_owned(),
            })
        }

        fn glob(&self, _: &str) -> Result<Vec<String>, FileError> {
            Ok(Vec::new())
        }
    }

    fn found(parts: &Parts) -> String {
        parts.keys().map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_program_is_followed_to_what_it_imports() {
        for (main, text, other, expected) in [
            ("a.mjs", "import {h} from './b.mjs';", "b.mjs", true),
            ("a.mjs", "import './b.mjs'", "b.mjs", true),
            ("a.mjs", "export * from \"./b.mjs\"", "b.mjs", true),
            ("a.mjs", "const b = await import(`./b.mjs`)", "b.mjs", true),
            ("a.js", "const b = require('./b')", "b.js", true),
            ("a.js", "const b = require('./b')", "b.json", true),
            ("a.js", "const b = require('./b')", "b/index.cjs", true),
            ("a.js", "const b = require('.')", "index.js", true),
            ("a.ts", "import b from './b.js'", "b.ts", true),
            ("lib/a.js", "require('../b.js')", "b.js", true),
            ("lib/a.js", "require('./b.js')", "lib/b.js", true),
            ("lib/a.js", "fs.readFileSync('data/b.csv')", "data/b.csv", true),
            ("lib/a.js", "path.join(__dirname, 'b.json')", "lib/b.json", true),
            ("a.js", "// don't\nrequire(\"./b.js\") // isn't", "b.js", true),
            ("a.js", "it's; require('./b.js')", "b.js", true),
            ("a.js", "require('b')", "b.js", false),
            ("a.py", "import b", "b.py", true),
            ("a.py", "import os, b as c", "b.py", true),
            ("lib/a.py", "from b import c", "b.py", true),
            ("lib/a.py", "from .b import c", "lib/b.py", true),
            ("lib/a.py", "    from . import (b, c)", "lib/b.py", true),
            ("lib/a.py", "from .. import b", "b.py", true),
            ("a.py", "from b.c import d", "b/c/d.py", true),
            ("a.py", "import b.c", "b/__init__.py", true),
            ("a.py", "open('b.json')", "b.json", true),
            ("a.rb", "require_relative 'b'", "b.rb", true),
            ("a.sh", "exec python3 ./b.py \"$@\"", "b.py", true),
            ("a.txt", "see './b.js'", "b.js", false),
        ] {
            let files = Texts(vec![(main, text), (other, "")]);
            let parts = parts_of(&files, main);
            assert_eq!(parts.contains_key(other), expected, "{main}: {text}: {}", found(&parts));
            assert!(parts.contains_key(main));
        }
    }

    #[test]
    fn circles_end_and_what_is_behind_counts() {
        let files = |last| {
            Texts(vec![
                ("a.js", "require('./b')"),
                ("b.js", "require('./a'); require('./c')"),
                ("c.js", last),
            ])
        };
        let (one, other) = (parts_of(&files("1"), "a.js"), parts_of(&files("2"), "./a.js"));
        assert_eq!(found(&one), "a.js b.js c.js");
        assert_ne!(one["c.js"], other["c.js"]);
        assert_eq!(one["a.js"], other["a.js"]);
        assert!(parts_of(&files(""), "absent.js").is_empty());
    }

    #[test]
    fn a_configuration_names_files() {
        let files = Texts(vec![
            ("model.sh", "exec node run.js"),
            ("run.js", ""),
            ("t.js", ""),
            ("replies.yaml", ""),
            ("README.md", ""),
        ]);
        for (config, expected) in [
            (json!({"command": "FLAG=1 ./model.sh --x=run.js"}), "model.sh run.js"),
            (json!({"command": "echo README"}), ""),
            (json!({"command": "sh", "args": ["-c", "node run.js"]}), "run.js"),
            (json!({"transformResponse": "file://./t.js:read"}), "t.js"),
            (json!({"body": {"nested": ["file://t.js"]}}), "t.js"),
            (json!({"file": "./replies.yaml"}), "replies.yaml"),
            (json!({"url": "http://host/t.js", "body": "t.js"}), ""),
        ] {
            assert_eq!(found(&files_named_in(&files, &config)), expected, "{config}");
        }
    }
}
