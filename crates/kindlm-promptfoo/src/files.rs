//! Files that a promptfoo config refers to.

use kindlm_source::{Code, Node, Source, Span, read_yaml};
use kindlm_types::FileError;
use serde_json::Value;

use super::Translator;

/// The prefix of a text that names a file.
const FILE: &str = "file://";

/// Returns the path of a text with the prefix `file://`.
///
/// Returns `None` for other texts.
pub(super) fn path(text: &str) -> Option<&str> {
    text.strip_prefix(FILE)
}

/// Returns the extension of a path in lower case. A function name behind the extension is ignored.
pub(super) fn extension(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    // The name of a method in Python has a dot: `tests.py:Maker.make`.
    let file = file.split_once(".py:").map_or(file, |_| "program.py");
    let extension = file.rsplit_once('.').map_or("", |(_, it)| it);
    extension.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

/// True if a file with this extension is a program.
pub(super) fn is_script(extension: &str) -> bool {
    matches!(extension, "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" | "py" | "rb")
}

impl Translator<'_> {
    /// Returns the files that match a pattern, or a plain path unchanged.
    ///
    /// Reports errors at `span` and then returns no files.
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

    /// Reads a text file without its byte order mark. If this fails, reports an error at `span` and returns `None`.
    pub(super) fn content(&mut self, span: Span, path: &str) -> Option<String> {
        match self.inputs.files.read_file(path) {
            Ok(text) => Some(text.trim_start_matches('\u{feff}').to_owned()),
            Err(err) => {
                self.file_error(span, err.to_string(), "the path is relative to the config file");
                None
            }
        }
    }

    /// Returns false for a missing file, which is reported at `span`.
    pub(super) fn exists(&mut self, span: Span, path: &str) -> bool {
        // The limit is 0, so an existing file fails as too large, and its content is not read.
        match self.inputs.files.read_bytes(path, 0) {
            Err(err @ FileError::NotFound { .. }) => {
                self.file_error(span, err.to_string(), "the path is relative to the config file");
                false
            }
            _ => true,
        }
    }

    /// Reads a JSON or YAML file as nodes, or returns `None` after an error.
    ///
    /// All nodes have the source location of the reference to the file.
    pub(super) fn document_of(&mut self, span: Span, path: &str) -> Option<Node> {
        let text = self.content(span, path)?;
        let value = self.parse(span, path, &text)?;
        Some(Node::at(span, &value))
    }

    /// Parses the YAML or JSON of another file, or returns `None` after an error.
    ///
    /// Errors are reported at the reference to the file.
    pub(super) fn parse(&mut self, span: Span, path: &str, text: &str) -> Option<Value> {
        let source = std::sync::Arc::new(Source::new(path, text));
        let tree = read_yaml(&source, 0..text.len());
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
