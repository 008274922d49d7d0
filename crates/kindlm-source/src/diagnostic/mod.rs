//! Problems in a user's file, with their place, message and help.

mod render;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use kindlm_redact::mask_keys;
use kindlm_types::pointer;
use serde::{Serialize, Serializer};

pub use render::render;

use crate::source::{Position, Source, Span};

/// The maximum number of collected errors, and separately of collected warnings.
pub const MAX_DIAGNOSTICS: usize = 500;

/// A stable name for the type of a problem, for `validate --format json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Code(&'static str);

impl Code {
    /// Invalid syntax, a file that is not text, or a parser limit that was exceeded.
    pub const SYNTAX: Self = Self("CONFIG_SYNTAX");
    /// A file that is larger than allowed.
    pub const TOO_LARGE: Self = Self("CONFIG_TOO_LARGE");
    /// An unknown key.
    pub const UNKNOWN_KEY: Self = Self("CONFIG_UNKNOWN_KEY");
    /// A missing required key.
    pub const MISSING_KEY: Self = Self("CONFIG_MISSING_KEY");
    /// A value of the wrong type, out of range, or not among the allowed values.
    pub const INVALID_VALUE: Self = Self("CONFIG_INVALID_VALUE");
    /// A reference to a name that does not exist.
    pub const UNKNOWN_REFERENCE: Self = Self("CONFIG_UNKNOWN_REFERENCE");
    /// A duplicate key or name.
    pub const DUPLICATE: Self = Self("CONFIG_DUPLICATE");
    /// A `{{variable}}` without a value.
    pub const MISSING_VARIABLE: Self = Self("CONFIG_MISSING_VARIABLE");
    /// A `{{variable}}` at a position where its value cannot be quoted safely.
    pub const UNSAFE_TEMPLATE: Self = Self("CONFIG_UNSAFE_TEMPLATE");
    /// A file that the config refers to and that cannot be used.
    pub const FILE: Self = Self("CONFIG_FILE");
    /// A valid entry without effect.
    pub const NO_EFFECT: Self = Self("CONFIG_NO_EFFECT");

    /// A model that judges its own answers.
    pub const SELF_JUDGED: Self = Self("CONFIG_SELF_JUDGED");

    /// A part of another tool's config without an equivalent.
    pub const UNSUPPORTED: Self = Self("CONFIG_UNSUPPORTED");
    /// The failure of a program that generates a part of the suite.
    pub const PROGRAM: Self = Self("CONFIG_PROGRAM");

    /// All codes.
    pub const ALL: [Self; 14] = [
        Self::SYNTAX,
        Self::TOO_LARGE,
        Self::UNKNOWN_KEY,
        Self::MISSING_KEY,
        Self::INVALID_VALUE,
        Self::UNKNOWN_REFERENCE,
        Self::DUPLICATE,
        Self::MISSING_VARIABLE,
        Self::UNSAFE_TEMPLATE,
        Self::FILE,
        Self::NO_EFFECT,
        Self::SELF_JUDGED,
        Self::UNSUPPORTED,
        Self::PROGRAM,
    ];

    /// Returns the name of the code.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The suite cannot run.
    Error,
    /// The suite can run, but the entry is probably a mistake.
    Warning,
}

/// Another place that is related to a problem.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Related {
    /// The file.
    pub source: Arc<Source>,
    /// The place.
    pub span: Span,
    /// The description of the place.
    pub label: String,
}

/// A problem in a user's file.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// The type of the problem.
    pub code: Code,
    /// The severity of the problem.
    pub level: Level,
    /// The message: a lower-case fragment without a full stop.
    pub message: String,
    /// The file.
    pub source: Arc<Source>,
    /// The place, which is a part of one line.
    pub span: Span,
    /// The description of the place; may be empty.
    pub label: String,
    /// The path in the document, such as `tests[0].expect.output`.
    ///
    /// The path is empty for the whole document.
    pub path: String,
    /// Other places that are related to the problem.
    pub related: Vec<Related>,
    /// The advice for solving the problem; `None` without advice.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Creates an error at the first line of a place.
    pub fn error(code: Code, message: impl Into<String>, source: &Arc<Source>, span: Span) -> Self {
        Self {
            code,
            level: Level::Error,
            message: message.into(),
            source: Arc::clone(source),
            span: source.first_line(span),
            label: String::new(),
            path: String::new(),
            related: Vec::new(),
            help: None,
        }
    }

    /// Sets the description of the place.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Sets the advice for solving the problem.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds another place that is related to the problem.
    #[must_use]
    pub fn with_related(
        mut self,
        source: &Arc<Source>,
        span: Span,
        label: impl Into<String>,
    ) -> Self {
        let span = source.first_line(span);
        self.related.push(Related { source: Arc::clone(source), span, label: label.into() });
        self
    }

    /// Sets the path from a JSON pointer.
    #[must_use]
    pub fn with_path(mut self, pointer: &str) -> Self {
        self.path = readable(pointer);
        self
    }

    /// Turns the diagnostic into a warning.
    #[must_use]
    pub fn into_warning(self) -> Self {
        Self { level: Level::Warning, ..self }
    }

    /// Returns the name of the file; see [`Source::name`].
    pub fn file(&self) -> &str {
        self.source.name()
    }

    /// Returns the line and column where the place starts.
    pub fn position(&self) -> Position {
        self.source.position(self.span.start)
    }
}

/// Converts a JSON pointer to a readable path.
///
/// For example, `/tests/0/vars` becomes `tests[0].vars`.
fn readable(pointer: &str) -> String {
    let mut text = String::new();
    for segment in pointer.split('/').skip(1) {
        if !segment.is_empty() && segment.bytes().all(|it| it.is_ascii_digit()) {
            text.extend(["[", segment, "]"]);
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(&pointer::key(segment));
        }
    }
    text
}

/// The JSON form of a diagnostic, with lines and columns instead of bytes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    code: Code,
    level: Level,
    message: Cow<'a, str>,
    file: &'a str,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
    #[serde(skip_serializing_if = "str::is_empty")]
    path: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    label: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related: Vec<WireRelated<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct WireRelated<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    label: Cow<'a, str>,
}

impl Serialize for Diagnostic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let start = self.position();
        let end = self.source.position(self.span.end);
        let related = self.related.iter().map(|it| {
            let Position { line, column } = it.source.position(it.span.start);
            WireRelated { file: it.source.name(), line, column, label: mask_keys(&it.label) }
        });
        Wire {
            code: self.code,
            level: self.level,
            message: mask_keys(&self.message),
            file: self.file(),
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
            path: mask_keys(&self.path),
            label: mask_keys(&self.label),
            related: related.collect(),
            help: self.help.as_deref().map(mask_keys),
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_become_readable_paths() {
        for (pointer, path) in
            [("", ""), ("/a", "a"), ("/tests/0/vars", "tests[0].vars"), ("/p/a~1b~0", "p.a/b~")]
        {
            assert_eq!(readable(pointer), path);
        }
    }

    #[test]
    fn keys_are_masked_in_each_text_of_the_json_form() {
        let key = "sk-test-SECRETSECRET";
        let source = Arc::new(Source::new("a.yaml", "a: 1"));
        let diagnostic = Diagnostic::error(Code::FILE, key, &source, Span::default())
            .with_label(key)
            .with_path(&format!("/{key}"))
            .with_related(&source, Span::default(), key)
            .with_help(key);
        let json = serde_json::to_string(&diagnostic).unwrap();
        assert_eq!(json.matches("sk-*****************").count(), 5, "{json}");
        assert!(!json.contains("SECRET"), "{json}");
    }
}
