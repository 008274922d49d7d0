//! Files that a promptfoo config refers to.

use kindlm_source::{Code, Node, Source, Span, read};
use serde_json::Value;

use super::Translator;

/// How a file is named.
const FILE: &str = "file://";

/// The path of a `file://` text.
pub(super) fn path(text: &str) -> Option<&str> {
    text.strip_prefix(FILE)
}

/// The ending of a path, in lower case, without a function behind it.
pub(super) fn extension(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let extension = file.rsplit_once('.').map_or("", |(_, it)| it);
    extension.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

/// True if a file of this ending is a program that would have to run before the suite is known.
pub(super) fn is_script(extension: &str) -> bool {
    matches!(extension, "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" | "py" | "rb")
}

impl Translator<'_> {
    /// The files that a path or pattern names.
    pub(super) fn paths(&mut self, span: Span, path: &str) -> Vec<String> {
        if !path.contains(['*', '?', '[', '{']) {
            return vec![path.to_owned()];
        }
        match self.inputs.files.glob(path) {
            Ok(paths) if paths.is_empty() => {
                let help = "the pattern is relative to the folder of the config file";
                self.file_error(span, format!("`{path}` matches no file"), help);
                Vec::new()
            }
            Ok(paths) => paths,
            Err(err) => {
                self.file_error(span, err.to_string(), "the path is relative to the config file");
                Vec::new()
            }
        }
    }

    /// The text of a file.
    pub(super) fn content(&mut self, span: Span, path: &str) -> Option<String> {
        match self.inputs.files.read(path) {
            Ok(text) => Some(text.trim_start_matches('\u{feff}').to_owned()),
            Err(err) => {
                self.file_error(span, err.to_string(), "the path is relative to the config file");
                None
            }
        }
    }

    /// A JSON or YAML file as nodes, all at the place that names it.
    pub(super) fn document_of(&mut self, span: Span, path: &str) -> Option<Node> {
        let text = self.content(span, path)?;
        let value = self.parse(span, path, &text)?;
        Some(Node::at(span, &value))
    }

    /// Reads YAML or JSON out of another file. Its problems are reported at the place that names the file.
    pub(super) fn parse(&mut self, span: Span, path: &str, text: &str) -> Option<Value> {
        let source = std::sync::Arc::new(Source::new(path, text));
        let tree = read(&source, 0..text.len());
        if let Some(first) = tree.diagnostics.first() {
            let line = source.position(first.span.start).line;
            let message = format!("`{path}`, line {line}: {}", first.message);
            self.file_error(span, message, "the file must be YAML or JSON");
            return None;
        }
        Some(tree.root.map_or(Value::Null, |it| it.to_json()))
    }

    pub(super) fn file_error(&mut self, span: Span, message: String, help: &str) {
        let diagnostic = kindlm_source::Diagnostic::error(Code::FILE, message, self.source, span);
        self.diagnostics.push(diagnostic.with_help(help));
    }
}
