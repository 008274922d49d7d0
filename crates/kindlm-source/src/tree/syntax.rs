//! Error messages for YAML syntax errors, for users who write configuration files.

use granit_parser::{ErrorKind, ScanError};

use super::MAX_DEPTH;

/// Returns the error message and the optional help for an error of the parser.
pub(super) fn describe(error: &ScanError) -> (String, Option<&'static str>) {
    let (message, help) = match error.kind() {
        ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabNotAllowed => ("a tab cannot indent in YAML", "indent with spaces"),
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => {
            ("a `:` is not allowed here", "put a value that contains `: ` in quotes")
        }
        ErrorKind::UnknownQuotedScalarEscape => (
            "unknown escape in a double-quoted text",
            "write `\\\\` for a backslash, or use single quotes",
        ),
        ErrorKind::InvalidTrailingDoubleQuotedScalar
        | ErrorKind::InvalidTrailingSingleQuotedScalar => (
            "something follows the closing quote",
            "put the whole value in quotes, or add the missing `,` or `:`",
        ),
        ErrorKind::UnclosedQuotedScalar => {
            ("the quoted text that starts here never ends", "close the quotes")
        }
        ErrorKind::InvalidQuotedScalarIndent => (
            "a quoted text is not closed, or this line of it is not indented enough",
            "close the quotes further up, or indent the text below its key",
        ),
        ErrorKind::CommentNotSeparated | ErrorKind::CommentInterceptedScalar => (
            "`#` begins a comment here",
            "put a value that has a `#` in quotes; a comment needs a space before its `#`",
        ),
        ErrorKind::UnknownAnchor => (
            "the alias refers to an anchor that is not defined before it",
            "define it with `&name` further up, or put a text that starts with `*` in quotes",
        ),
        ErrorKind::RecursionLimitExceeded => {
            return (
                format!("nested deeper than {MAX_DEPTH} levels"),
                Some("no configuration needs that: is a bracket not closed?"),
            );
        }
        ErrorKind::InvalidIndentation
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::InvalidSimpleKey
        | ErrorKind::SimpleKeyExpected => (
            "expected a key here",
            "keys of one mapping start in the same column, and are followed by `: `",
        ),
        ErrorKind::ExpectedBlockSequenceEntry | ErrorKind::BlockSequenceEntryNotAllowed => (
            "a list item is not expected here",
            "items of one list start in the same column with `- `",
        ),
        ErrorKind::UnclosedFlowCollection { .. }
        | ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::ExpectedFlowSequenceSeparator => {
            ("a bracket is not closed", "add the missing `,`, `]` or `}`")
        }
        ErrorKind::UnexpectedCharacter { character } => {
            return (
                format!("a value cannot start with `{character}`"),
                Some("put the value in quotes"),
            );
        }
        _ => return (error.info(), None),
    };
    (message.to_owned(), Some(help))
}
