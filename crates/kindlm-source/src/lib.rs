//! Reads YAML, JSON and CSV into values with places, and reports problems at these places.
//!
//! A [`Source`] is the text of a file, and a [`Span`] is a range of that text. [`read_yaml`] parses a tree of [`Node`]s
//! in bounded time and memory. [`rows()`] reads a table. A [`Diagnostic`] has the place, the message and the help of a
//! problem. [`render`] formats a diagnostic.
//!
//! ```
//! use kindlm_source::{Code, Piece, decode, read_yaml, render};
//! use kindlm_types::MemberPart;
//!
//! let source = decode("a.yaml", b"tests:\n  - name: 5\n").unwrap();
//! let tree = read_yaml(&source, 0..source.text().len());
//! let root = tree.root.unwrap();
//! let piece = Piece::new(&source, &root, "");
//! let problem = piece.error(Code::INVALID_VALUE, "/tests/0/name", MemberPart::Value, "expected a text");
//! assert_eq!(problem.path, "tests[0].name");
//! assert!(render(&problem, false).contains("a.yaml:2:11"));
//! ```
#![deny(clippy::disallowed_methods)]

mod decode;
mod diagnostic;
mod piece;
mod rows;
mod source;
mod tree;

pub use decode::{MAX_BYTES, decode};
pub use diagnostic::{Code, Diagnostic, Level, MAX_DIAGNOSTICS, Related, render};
pub use piece::{Piece, meant_key, without_echoes};
pub use rows::{Row, Rows, rows};
pub use source::{Position, Source, Span};
pub use tree::{
    Key, Kind, LocatedSpan, MAX_ALIASED, MAX_DEPTH, MAX_NODES, Node, Tree, locate, read_json,
    read_yaml,
};
