//! The promptfoo config from which a suite is made, and the files that its parts come from.

use std::sync::Arc;

use kindlm_source::{Node, Source, Span, read_yaml};
use kindlm_types::Files;
use serde_json::{Map, Value};

/// The endings of files with tests.
const TESTS: [&str; 8] = ["csv", "json", "jsonl", "ndjson", "yaml", "yml", "xlsx", "xls"];

/// A promptfoo config with its translation. The nodes of the translation have places in the promptfoo config.
pub(in crate::load) struct Original<'a> {
    pub(in crate::load) source: &'a Arc<Source>,
    /// The translated document.
    pub(in crate::load) root: &'a Node,
    pub(in crate::load) files: &'a dyn Files,
}

impl Original<'_> {
    /// Returns the path at a place in the config; `None` if the text there is not a single path.
    fn path_at(&self, span: Span) -> Option<&str> {
        let text = self.source.slice(span).trim().trim_matches(['"', '\'']);
        let path = text.strip_prefix("file://").unwrap_or(text);
        let is_path = !path.is_empty() && !path.contains([' ', '\n', '*', '{', '"', '\'', ':']);
        is_path.then_some(path)
    }

    /// Returns the path at a place in the config; `None` if it is not the path of a file with tests.
    pub(super) fn tests_file(&self, span: Span) -> Option<&str> {
        let path = self.path_at(span)?;
        let file = path.split('#').next().unwrap_or(path);
        let (_, ending) = file.rsplit_once('.')?;
        TESTS.contains(&ending.to_ascii_lowercase().as_str()).then_some(path)
    }

    /// Returns the `file://` reference to the file with exactly the text or messages of a prompt; `None` without such a
    /// file.
    pub(super) fn prompt_file(&self, name: &str, entry: &Map<String, Value>) -> Option<String> {
        let node = self.root.get("prompts")?.get(name)?;
        let places = [Some(node.span), node.get("user").map(|it| it.span)];
        let path = places.into_iter().flatten().find_map(|it| self.path_at(it))?;
        let content = self.files.read_file(path).ok()?;
        let content = content.trim_start_matches('\u{feff}').trim_end();
        let is_list = [".json", ".yaml", ".yml"].iter().any(|it| path.ends_with(it));
        let list = || {
            let source = Arc::new(Source::new(path, content));
            let root = read_yaml(&source, 0..content.len()).root?;
            Some(root.to_json()).filter(Value::is_array)
        };
        let is_same = match (entry.get("user"), entry.get("messages")) {
            (Some(user), None) => {
                *user == content && !(is_list && entry.len() == 1 && list().is_some())
            }
            (None, Some(messages)) => is_list && list().as_ref() == Some(messages),
            _ => false,
        };
        is_same.then(|| format!("file://{path}"))
    }
}
