//! The failures of a case as entries of a list, for the formats of CI systems and code scanners.

use kindlm_types::{
    AnyReport, CaseResult, ExecutionError, FailureCode, Outcome, Severity, SourcePlace, Verdict,
    cause_key, error_cause_key,
};

use crate::amount::repeats;
use crate::plain::one_line;
use crate::{evidence, repeated};

/// The maximum number of schema errors that follow a message.
const SCHEMA_ERRORS: usize = 5;

/// The code of an execution that was not run.
const NOT_RUN: &str = "NOT_RUN";

/// The importance of an issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The issue made the case fail.
    Error,
    /// Any other issue, such as a low soft score, a failed repeat of a case that held, or a check that could not be
    /// decided.
    Warning,
}

/// A failed or errored check of a case, or an error of its executions.
#[derive(Debug)]
pub(crate) struct Issue<'a> {
    pub(crate) level: Level,
    /// The failure code, or [`NOT_RUN`].
    pub(crate) code: String,
    /// The key of the cause; see [`kindlm_types::cause_key`].
    pub(crate) cause: String,
    /// The label of the check, if there is one, and the message, as one line.
    pub(crate) message: String,
    /// The affected repeats, such as `repeat 2 of 5`; empty for an undecided case or a single repeat.
    pub(crate) repeats: String,
    /// The place of the check in the suite, if it is known.
    source: Option<&'a SourcePlace>,
}

/// Returns the issues of a case: the note that it is undecided, its findings, then the errors of its executions.
pub(crate) fn issues(case: &CaseResult) -> Vec<Issue<'_>> {
    let of = case.executions.len();
    let mut issues = Vec::new();
    if let Some(end) = repeated::end(case).filter(|_| case.is_undecided()) {
        issues.push(Issue {
            level: Level::Error,
            code: FailureCode::UNDECIDED.to_string(),
            cause: FailureCode::UNDECIDED.to_string(),
            message: end,
            repeats: String::new(),
            source: None,
        });
    }
    for finding in case.findings() {
        let result = finding.result;
        let Some(code) = result.verdict.code() else { continue };
        let Some(key) = cause_key(result) else { continue };
        let is_reason = case.outcome == Outcome::Failed
            && result.severity == Severity::Gate
            && matches!(result.verdict, Verdict::Fail { .. });
        let turn = result.turn.as_ref().map(|it| format!(" (turn {it})")).unwrap_or_default();
        let mut message = result.verdict.message().unwrap_or_default().to_owned();
        let errors = evidence::unnamed_errors(result);
        for error in errors.iter().take(SCHEMA_ERRORS) {
            message = format!("{message}; {error}");
        }
        if errors.len() > SCHEMA_ERRORS {
            message = format!("{message}; … {} more", errors.len() - SCHEMA_ERRORS);
        }
        issues.push(Issue {
            level: if is_reason { Level::Error } else { Level::Warning },
            code: code.to_string(),
            cause: key,
            message: one_line(&format!("{}{turn}: {message}", result.label)),
            repeats: repeats(&finding.repeats, of),
            source: result.source.as_ref(),
        });
    }
    // The errors of a skipped case only state that it was not run, which is no issue.
    let errors = case.errors().into_iter().filter(|_| case.outcome != Outcome::Skipped);
    issues.extend(errors.map(|it| Issue {
        level: Level::Warning,
        code: code_of(it.error),
        cause: error_cause_key(it.error),
        message: one_line(&it.error.message()),
        repeats: repeats(&it.repeats, of),
        source: None,
    }));
    issues
}

fn code_of(error: &ExecutionError) -> String {
    error.code().map_or_else(|| NOT_RUN.to_owned(), |it| it.to_string())
}

/// A place in a file, for formats that need a line for each entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The path with `/` between its parts.
    pub(crate) file: String,
    /// The line, from 1.
    pub(crate) line: u32,
    /// The column, from 1.
    pub(crate) column: u32,
}

impl Place {
    fn new(file: &str, line: u32, column: u32) -> Self {
        let file = one_line(file).replace('\\', "/");
        let file = file.strip_prefix("./").map(str::to_owned).unwrap_or(file);
        Self { file, line: line.max(1), column: column.max(1) }
    }

    /// Returns the place relative to the root of the repository.
    ///
    /// `folder` is the path from the root to the working folder. If `folder` is empty, or if the path of the place is
    /// absolute, the place stays the same.
    pub(crate) fn in_repository(mut self, folder: &str) -> Self {
        if folder.is_empty() || self.file.starts_with('/') || self.file.get(1..2) == Some(":") {
            return self;
        }
        let mut parts: Vec<&str> = folder.split('/').collect();
        for part in self.file.split('/') {
            match part {
                "." => {}
                ".." if !parts.is_empty() => {
                    parts.pop();
                }
                part => parts.push(part),
            }
        }
        self.file = parts.join("/");
        self
    }

    fn from_source(source: &SourcePlace) -> Self {
        Self::new(&source.file, source.line, source.column)
    }
}

/// Returns the place of a test or, if it is unknown, the first line of the config file.
///
/// Returns `None` if the path of the config file is unknown too.
pub(crate) fn place_of_case(report: &AnyReport<'_>, case: &CaseResult) -> Option<Place> {
    let config = || report.suite.config_path.as_deref().filter(|it| !it.is_empty());
    let first_line = || config().map(|it| Place::new(it, 1, 1));
    case.source.as_ref().map(Place::from_source).or_else(first_line)
}

/// Returns the place of the check, or else the result of [`place_of_case`], which may be `None`.
pub(crate) fn place_of(
    report: &AnyReport<'_>,
    case: &CaseResult,
    issue: &Issue<'_>,
) -> Option<Place> {
    issue.source.map(Place::from_source).or_else(|| place_of_case(report, case))
}

/// Returns `case · model` as one line.
pub(crate) fn name_of(case: &CaseResult) -> String {
    one_line(&format!("{} · {}", case.case, case.model))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_relative_to_the_repository() {
        for (folder, file, expected) in [
            ("", "kindlm.yaml", "kindlm.yaml"),
            ("agents/shop", "tests/a.yaml", "agents/shop/tests/a.yaml"),
            ("agents/shop", "../shared/./a.yaml", "agents/shared/a.yaml"),
            ("agents", "../../a.yaml", "../a.yaml"),
            ("agents", "/srv/a.yaml", "/srv/a.yaml"),
            ("agents", "C:/srv/a.yaml", "C:/srv/a.yaml"),
        ] {
            assert_eq!(Place::new(file, 1, 1).in_repository(folder).file, expected);
        }
    }
}
