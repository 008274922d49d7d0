//! Converts problems with JSON pointers into diagnostics with places.

use std::sync::Arc;

use kindlm_types::{MemberPart, Problem, ProblemKind, SourcePlace, pointer};

use crate::diagnostic::{Code, Diagnostic};
use crate::source::Source;
use crate::tree::{Node, locate};

/// A part of a document. Pointers are relative to this part.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Piece<'a> {
    /// The file that contains the part.
    pub source: &'a Arc<Source>,
    /// The node of the part.
    pub root: &'a Node,
    /// The JSON pointer of the part in the document.
    ///
    /// An example is `/3` for the fourth item of a list. The pointer is empty for the whole document.
    pub prefix: &'a str,
}

impl<'a> Piece<'a> {
    /// Creates a part of a document. `prefix` is the JSON pointer of the part in the document.
    pub fn new(source: &'a Arc<Source>, root: &'a Node, prefix: &'a str) -> Self {
        Self { source, root, prefix }
    }

    /// Creates an error at the value or key to which a JSON pointer points.
    pub fn error(
        &self,
        code: Code,
        pointer: &str,
        place: MemberPart,
        message: impl Into<String>,
    ) -> Diagnostic {
        let found = locate(self.source, self.root, pointer, place);
        let diagnostic = Diagnostic::error(code, message, self.source, found.span)
            .with_path(&format!("{}{pointer}", self.prefix));
        match found.used_at {
            Some(used_at) => diagnostic.with_related(self.source, used_at, "used here"),
            None => diagnostic,
        }
    }

    /// Returns the place of the value or key to which a JSON pointer points.
    pub fn place(&self, pointer: &str, part: MemberPart) -> SourcePlace {
        let found = locate(self.source, self.root, pointer, part);
        let position = self.source.position(found.span.start);
        let number = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        SourcePlace::new(self.source.name(), number(position.line), number(position.column))
    }

    /// Converts a problem into a diagnostic at its place.
    pub fn problem(&self, problem: Problem) -> Diagnostic {
        let code = code(&problem.kind);
        let label = match code {
            Code::UNKNOWN_KEY => "unknown here",
            Code::MISSING_KEY => "missing here",
            _ => "",
        };
        let mut diagnostic =
            self.error(code, &problem.pointer, problem.place, problem.message).with_label(label);
        if let ProblemKind::MissingKey { key } = &problem.kind {
            let pointer = format!("{}{}/{}", self.prefix, problem.pointer, pointer::segment(key));
            diagnostic = diagnostic.with_path(&pointer);
        }
        diagnostic.help = problem.help;
        diagnostic
    }
}

/// Returns the diagnostic code of a problem.
fn code(kind: &ProblemKind) -> Code {
    match kind {
        ProblemKind::InvalidValue => Code::INVALID_VALUE,
        ProblemKind::UnknownKey { .. } => Code::UNKNOWN_KEY,
        ProblemKind::MissingKey { .. } => Code::MISSING_KEY,
        ProblemKind::UnknownReference => Code::UNKNOWN_REFERENCE,
        ProblemKind::MissingVariable { .. } => Code::MISSING_VARIABLE,
        ProblemKind::NoEffect => Code::NO_EFFECT,
        ProblemKind::File { .. } => Code::FILE,
    }
}

/// Drops the problem of a missing key if the same object has a similar unknown key.
pub fn without_echoes(problems: Vec<Problem>) -> Vec<Problem> {
    let meant: Vec<(String, String)> = problems.iter().filter_map(meant_key).collect();
    let is_echo = |problem: &Problem| match &problem.kind {
        ProblemKind::MissingKey { key } => {
            meant.iter().any(|(at, meant)| *at == problem.pointer && meant == key)
        }
        _ => false,
    };
    problems.into_iter().filter(|it| !is_echo(it)).collect()
}

/// Returns the parent's pointer and the probable correct key for an unknown key.
///
/// Returns `None` for other problems, and for unknown keys without a suggestion.
pub fn meant_key(problem: &Problem) -> Option<(String, String)> {
    let ProblemKind::UnknownKey { meant: Some(meant) } = &problem.kind else { return None };
    let (parent, _) = problem.pointer.rsplit_once('/')?;
    Some((parent.to_owned(), meant.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_schema::Shape;
    use serde_json::json;

    #[test]
    fn problems_of_shapes_get_their_codes() {
        let shape = Shape::new(json!({
            "properties": {"a": {"type": "integer"}, "b": {"required": ["c"]}},
            "required": ["id"], "additionalProperties": false,
        }));
        let problems = shape.problems(&json!({"a": "x", "b": {}, "zz": 1}));
        let codes: Vec<_> = problems.iter().map(|it| code(&it.kind).as_str()).collect();
        assert_eq!(
            codes,
            [
                "CONFIG_MISSING_KEY",
                "CONFIG_INVALID_VALUE",
                "CONFIG_MISSING_KEY",
                "CONFIG_UNKNOWN_KEY"
            ]
        );
    }
}
