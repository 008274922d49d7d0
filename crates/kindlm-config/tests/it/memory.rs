//! Files in memory, and a valid config file to modify.

use std::collections::BTreeMap;
use std::sync::Arc;

use kindlm_config::{Diagnostic, Loaded, load, render};
use kindlm_types::{FileError, Files};

/// Files by path. A glob must contain one `*`.
#[derive(Debug, Default)]
pub(crate) struct Memory(BTreeMap<String, String>);

impl Memory {
    pub(crate) fn from_files<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let owned = |(path, text): (&str, &str)| (normal(path), text.to_owned());
        Self(files.into_iter().map(owned).collect())
    }
}

fn normal(path: &str) -> String {
    path.trim_start_matches("./").to_owned()
}

fn leads_out(path: &str) -> bool {
    let mut depth = 0_i32;
    for part in path.split('/') {
        depth += match part {
            ".." => -1,
            "." | "" => 0,
            _ => 1,
        };
        if depth < 0 {
            return true;
        }
    }
    path.starts_with(['/', '\\']) || path.chars().nth(1) == Some(':')
}

impl Files for Memory {
    fn read_file(&self, path: &str) -> Result<Arc<str>, FileError> {
        if leads_out(path) {
            return Err(FileError::Outside { path: path.to_owned() });
        }
        self.0
            .get(&normal(path))
            .map(|it| Arc::from(it.as_str()))
            .ok_or_else(|| FileError::NotFound { path: path.to_owned(), folder: "/cfg".to_owned() })
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, FileError> {
        if leads_out(pattern) {
            return Err(FileError::Outside { path: pattern.to_owned() });
        }
        let (start, end) = pattern.split_once('*').unwrap();
        let fits = |it: &&String| it.starts_with(start) && it.ends_with(end);
        Ok(self.0.keys().filter(fits).cloned().collect())
    }
}

/// A small valid file with a test of a prompt and a test of a command.
pub(crate) const GOOD: &str = r#"kindlm: 1
project: demo
suite:
  name: support
providers:
  openai:
    apiKeyEnv: OPENAI_API_KEY
models:
  - id: fast
    provider: openai
    model: gpt-4o-mini
  - id: good
    provider: openai
    model: gpt-4o
prompts:
  greet:
    system: You are polite.
    user: "Greet {{name}}."
tests:
  - name: greets
    prompt: greet
    vars: { name: Ada }
    expect:
      output: { contains: [Ada] }
  - name: agent
    command: ./agent --name {{name}}
    vars:
      name: Grace Hopper
    expect:
      output:
        notContains: [error]
"#;

/// Returns [`GOOD`] with one part replaced. The part must occur exactly once.
pub(crate) fn with(part: &str, by: &str) -> String {
    assert_eq!(GOOD.matches(part).count(), 1, "`{part}`");
    GOOD.replace(part, by)
}

pub(crate) fn load_text(text: &str) -> Loaded {
    load_with(text, &Memory::default())
}

pub(crate) fn load_with(text: &str, files: &Memory) -> Loaded {
    let env = |name: &str| (name == "TENANT").then(|| "acme".to_owned());
    load("kindlm.yaml", text.as_bytes(), files, &env)
}

/// Returns all errors and warnings for a file, formatted without colours.
pub(crate) fn render_all(loaded: &Loaded) -> String {
    let all: Vec<String> =
        loaded.diagnostics.iter().chain(&loaded.warnings).map(|it| render(it, false)).collect();
    all.join("\n")
}

/// Returns the code, path and message of each diagnostic, one per line.
pub(crate) fn brief(diagnostics: &[Diagnostic]) -> Vec<String> {
    diagnostics.iter().map(|it| format!("{} {}: {}", it.code, it.path, it.message)).collect()
}
