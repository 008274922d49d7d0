//! Problems, collected over all passes.

use std::collections::HashSet;
use std::sync::Arc;

use kindlm_source::{Code, Diagnostic, Level, MAX_DIAGNOSTICS, Piece, Span, without_echoes};
use kindlm_types::{FileError, Place, Problem};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What to do about a file that may not be read.
pub(super) const OUTSIDE_HELP: &str =
    "only files below that folder are read, unless `--allow-outside` is given";

/// Where all passes report what is wrong. It goes with the struct of each pass.
#[derive(Debug, Default)]
pub(super) struct Sink {
    pub(super) errors: Vec<Diagnostic>,
    pub(super) warnings: Vec<Diagnostic>,
    /// What is already reported: aliases bring the same place in many times.
    seen: HashSet<(Code, usize, Span, String)>,
    pub(super) is_full: bool,
    /// How often something was found, told or not.
    pub(super) count: usize,
}

impl Sink {
    /// A sink that has the problems of reading the text.
    pub(super) fn new(errors: Vec<Diagnostic>) -> Self {
        Self { errors, ..Self::default() }
    }

    /// Adds a problem, unless it is already reported.
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

    /// Reports problems of a part at `at` within a piece.
    pub(super) fn report(&mut self, piece: Piece<'_>, at: &str, problems: Vec<Problem>) {
        for problem in without_echoes(problems) {
            self.push(piece.problem(problem.under(at)));
        }
    }

    /// Reads a value that has passed its shape.
    pub(super) fn read<T: DeserializeOwned>(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        value: Value,
    ) -> Option<T> {
        match serde_json::from_value(value) {
            Ok(read) => Some(read),
            Err(err) => {
                let diagnostic = piece
                    .error(Code::INVALID_VALUE, at, Place::Value, err.to_string())
                    .with_help("this is a bug in KindLM: its schema accepts what it cannot read");
                self.push(diagnostic);
                None
            }
        }
    }

    /// Reports a file that cannot be used, at the place that names it.
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
        let diagnostic = piece.error(Code::FILE, at, Place::Value, err.to_string()).with_help(help);
        self.push(diagnostic);
    }

    /// Warns of something that has no effect.
    pub(super) fn no_effect(&mut self, piece: Piece<'_>, at: &str, message: &str) {
        let diagnostic = piece.error(Code::NO_EFFECT, at, Place::Key, message).into_warning();
        self.push(diagnostic);
    }
}
