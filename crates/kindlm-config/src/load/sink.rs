//! The collection of problems of all passes.

use std::collections::HashSet;
use std::sync::Arc;

use kindlm_source::{Code, Diagnostic, Level, MAX_DIAGNOSTICS, Piece, Span, without_echoes};
use kindlm_types::{FileError, MemberPart, Problem};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The help for a file outside of the suite's folder.
pub(super) const OUTSIDE_HELP: &str =
    "only files below that folder are read, unless `--allow-outside` is given";

/// The errors and warnings of all passes. Each pass gives the sink to the next pass.
#[derive(Debug, Default)]
pub(super) struct Sink {
    pub(super) errors: Vec<Diagnostic>,
    pub(super) warnings: Vec<Diagnostic>,
    /// The reported problems, to avoid duplicates. An alias can cause the same problem several times.
    seen: HashSet<(Code, usize, Span, String)>,
    pub(super) is_full: bool,
    /// The number of reported problems, including duplicates.
    pub(super) count: usize,
}

impl Sink {
    /// Creates a sink with the errors of the parser.
    pub(super) fn new(errors: Vec<Diagnostic>) -> Self {
        Self { errors, ..Self::default() }
    }

    /// Adds a problem, unless it is a duplicate, or its list already has [`MAX_DIAGNOSTICS`] problems.
    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        self.count += 1;
        let place = Arc::as_ptr(&diagnostic.source) as usize;
        let key = (diagnostic.code, place, diagnostic.span, diagnostic.message.clone());
        let list = match diagnostic.level {
            Level::Error => &mut self.errors,
            Level::Warning => &mut self.warnings,
        };
        if list.len() < MAX_DIAGNOSTICS && self.seen.insert(key) {
            list.push(diagnostic);
        }
        self.is_full = self.errors.len() >= MAX_DIAGNOSTICS;
    }

    /// Returns the numbers of errors and of warnings.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.errors.len(), self.warnings.len())
    }

    /// Adds a text to the labels of all problems after the first `errors` errors and the first `warnings` warnings.
    pub(super) fn label_from(&mut self, (errors, warnings): (usize, usize), label: &str) {
        let later = self.errors.iter_mut().skip(errors);
        for it in later.chain(self.warnings.iter_mut().skip(warnings)) {
            if !it.label.is_empty() {
                it.label.push_str(", ");
            }
            it.label.push_str(label);
        }
    }

    /// Reports the problems of a part. `at` is the pointer of the part within the piece.
    pub(super) fn report(&mut self, piece: Piece<'_>, at: &str, problems: Vec<Problem>) {
        for problem in without_echoes(problems) {
            self.push(piece.problem(problem.under(at)));
        }
    }

    /// Deserializes a value that is valid by its schema.
    ///
    /// A failure is a bug of KindLM. It is reported as an error, and the result is `None`.
    pub(super) fn parse_value<T: DeserializeOwned>(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        value: Value,
    ) -> Option<T> {
        match serde_json::from_value(value) {
            Ok(read) => Some(read),
            Err(err) => {
                let diagnostic = piece
                    .error(Code::INVALID_VALUE, at, MemberPart::Value, err.to_string())
                    .with_help("this is a bug in KindLM: its schema accepts what it cannot read");
                self.push(diagnostic);
                None
            }
        }
    }

    /// Reports a file that cannot be used, at the value that names it.
    pub(super) fn report_file(&mut self, piece: Piece<'_>, at: &str, err: &FileError) {
        let help = match err {
            FileError::NotFound { .. } => "the path is relative to the folder of the config file",
            FileError::Outside { .. } => OUTSIDE_HELP,
            FileError::NotText { .. } => "save the file as UTF-8",
            FileError::TooMuch { unit: "files", .. } => {
                "name a smaller folder, or raise `workspace.maxFiles`"
            }
            FileError::TooMuch { .. } => "name a smaller folder, or raise `workspace.maxBytes`",
            FileError::TooLarge { .. } => "split it: `file://cases-*.jsonl` reads many files",
            FileError::Other { .. } => "see that the file can be read",
        };
        let diagnostic =
            piece.error(Code::FILE, at, MemberPart::Value, err.to_string()).with_help(help);
        self.push(diagnostic);
    }

    /// Warns of an entry that has no effect.
    pub(super) fn no_effect(&mut self, piece: Piece<'_>, at: &str, message: &str) {
        let diagnostic = piece.error(Code::NO_EFFECT, at, MemberPart::Key, message).into_warning();
        self.push(diagnostic);
    }
}
