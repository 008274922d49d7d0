//! A case folder: runs its commands, and compares the results.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use similar::TextDiff;

use crate::binary;
use crate::normalise::normalise;

/// The files of a case folder that are not input.
const OWN: [&str; 6] = ["cmd", "base", "stdout", "stderr", "exit", "files"];

/// A case folder.
pub(crate) struct Case {
    folder: PathBuf,
}

/// The actual results of a case. The keys are the names of the files with the expected results.
pub(crate) type Got = BTreeMap<&'static str, String>;

impl Case {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf() }
    }

    fn name(&self) -> String {
        self.folder.file_name().unwrap().to_str().unwrap().to_owned()
    }

    /// Runs all lines of `cmd` in a copy of the folder.
    pub(crate) fn run(&self) -> Got {
        let scratch = tempfile::tempdir().unwrap();
        // The suite is in a subfolder, so that files outside of its folder can exist.
        let place = scratch.path().canonicalize().unwrap().join("case");
        fs::create_dir(&place).unwrap();
        if let Ok(base) = fs::read_to_string(self.folder.join("base")) {
            copy(&self.folder.join(base.trim()), &place);
        }
        copy(&self.folder, &place);
        let before = snapshot(&place);

        let commands = fs::read_to_string(self.folder.join("cmd")).unwrap();
        let lines: Vec<&str> =
            commands.lines().filter(|it| !it.is_empty() && !it.starts_with('#')).collect();
        let mut got = Got::from([
            ("stdout", String::new()),
            ("stderr", String::new()),
            ("exit", String::new()),
        ]);
        for line in &lines {
            let output = step(line, &place);
            for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
                let text = got.get_mut(name).unwrap();
                let said = normalise(&String::from_utf8_lossy(bytes), place.to_str().unwrap());
                if lines.len() > 1 && !said.is_empty() {
                    let gap = if text.is_empty() { "" } else { "\n" };
                    writeln!(text, "{gap}$ {line}").unwrap();
                }
                text.push_str(&said);
            }
            let code = output.status.code().unwrap_or(-1);
            writeln!(got.get_mut("exit").unwrap(), "{code}").unwrap();
        }
        let mut files = String::new();
        for (path, content) in snapshot(&place) {
            let path = normalise(&path, place.to_str().unwrap());
            match before.get(&path) {
                None => writeln!(files, "{path}").unwrap(),
                Some(old) if *old != content => writeln!(files, "{path} (changed)").unwrap(),
                Some(_) => {}
            }
        }
        got.insert("files", files);
        got
    }

    /// Returns a diff between the expected and the actual results.
    ///
    /// Returns `None` if they are equal.
    pub(crate) fn difference(&self, got: &Got) -> Option<String> {
        let mut text = String::new();
        for (name, actual) in got {
            let expected = fs::read_to_string(self.folder.join(name)).unwrap_or_default();
            if expected != *actual {
                let diff = TextDiff::from_lines(&expected, actual);
                let title = format!("{}/{name}", self.name());
                write!(text, "{}", diff.unified_diff().header(&title, "actual")).unwrap();
            }
        }
        (!text.is_empty()).then_some(text)
    }

    /// Writes the actual results as the expected results. An empty result has no file.
    pub(crate) fn bless(&self, got: &Got) {
        for (name, actual) in got {
            let path = self.folder.join(name);
            if !actual.is_empty() {
                fs::write(path, actual).unwrap();
            } else if path.exists() {
                fs::remove_file(path).unwrap();
            }
        }
    }
}

/// Runs one command: `[NAME=value…]`, then `kindlm`, `cat`, `rm`, `mkdir` or `cp`, with its arguments.
///
/// `< file` sets stdin. Other redirections are not supported.
fn step(line: &str, place: &Path) -> Output {
    let mut words = split(line).into_iter().peekable();
    let mut env = Vec::new();
    while let Some((name, value)) = words.peek().and_then(|it| it.split_once('=')) {
        env.push((name.to_owned(), value.to_owned()));
        words.next();
    }
    let program = words.next().unwrap();
    let words: Vec<String> = words.collect();
    let (args, input) = match words.iter().position(|it| it == "<") {
        Some(at) => (&words[..at], Some(words[at + 1].clone())),
        None => (&words[..], None),
    };
    let program = match program.as_str() {
        "kindlm" => binary(),
        "cat" | "rm" | "mkdir" | "cp" => program.as_str(),
        other => panic!("a case cannot run `{other}`"),
    };
    let stdin = match input {
        Some(file) => Stdio::from(fs::File::open(place.join(file)).unwrap()),
        None => Stdio::null(),
    };
    Command::new(program)
        .args(args)
        .current_dir(place)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", place)
        .envs(env)
        .stdin(stdin)
        .output()
        .unwrap()
}

/// Splits a line into words like a shell; quotes keep words together.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

fn copy(from: &Path, to: &Path) {
    for item in fs::read_dir(from).unwrap() {
        let path = item.unwrap().path();
        let name = path.file_name().unwrap();
        let is_state = name == ".kindlm" && !from.join("cmd").is_file();
        if is_state || OWN.iter().any(|it| name == *it) {
            continue;
        }
        let target = to.join(name);
        if path.is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy(&path, &target);
        } else {
            fs::write(&target, fs::read(&path).unwrap()).unwrap();
        }
    }
}

/// Returns all files below a folder with their contents.
fn snapshot(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for item in fs::read_dir(next).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let relative = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                files.insert(relative, fs::read(path).unwrap());
            }
        }
    }
    files
}
