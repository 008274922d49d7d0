//! Writes reports into files.

use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

use kindlm_reporters::{Registration, RenderError, Style};
use kindlm_store::{Draft, StoreError};
use kindlm_types::AnyReport;

use crate::Failure;

/// A reporter and where its report goes.
#[derive(Clone, Debug)]
pub struct ReporterSpec {
    /// Who writes it.
    pub reporter: &'static Registration,
    /// The file, relative to the working directory; stdout if absent.
    pub path: Option<PathBuf>,
}

/// The reporter with this id, such as `junit`.
///
/// # Errors
///
/// If there is none.
pub fn reporter(id: &str) -> Result<&'static Registration, Failure> {
    kindlm_reporters::find(id).ok_or_else(|| {
        let known = kindlm_reporters::REGISTRY.iter().map(|it| it.meta.id);
        Failure::input(format!("there is no reporter `{id}`")).with_help(kindlm_types::suggest(
            id,
            "reporters",
            known,
        ))
    })
}

/// Writes one report into a file. The file is replaced when the report is complete.
pub fn write_file(
    path: &Path,
    reporter: &'static Registration,
    report: &AnyReport<'_>,
    style: &Style,
) -> Result<(), Failure> {
    let failed = |err: &StoreError| Failure::internal(err.to_string());
    let mut draft = Draft::begin(path).map_err(|err| failed(&err))?;
    render(reporter, report, style, &mut draft).map_err(|err| match err {
        NotRendered::Written(err) => failed(&draft.failed(&err)),
        NotRendered::Report(err) => Failure::internal(err.to_string()),
    })?;
    draft.finish().map_err(|err| failed(&err))
}

/// Why a report is not there, or not whole.
pub enum NotRendered {
    /// It could not be written.
    Written(io::Error),
    /// There is no such report.
    Report(RenderError),
}

/// Writes the report in the reporter's format, piece by piece.
pub fn render(
    reporter: &'static Registration,
    report: &AnyReport<'_>,
    style: &Style,
    out: &mut dyn io::Write,
) -> Result<(), NotRendered> {
    let mut text = Text { out, failure: None };
    let rendered = (reporter.render)(report, style, &mut text);
    match (rendered, text.failure) {
        (_, Some(err)) => Err(NotRendered::Written(err)),
        (Err(err), None) => Err(NotRendered::Report(err)),
        (Ok(()), None) => Ok(()),
    }
}

/// Text on its way to where bytes are written; remembers why it did not arrive.
struct Text<'a> {
    out: &'a mut dyn io::Write,
    failure: Option<io::Error>,
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_all(text.as_bytes()).map_err(|err| {
            self.failure = Some(err);
            fmt::Error
        })
    }
}

/// Refuses what cannot be written, before it is paid for.
pub fn check_target(target: &Path, named: &Path) -> Result<(), Failure> {
    let refuse = |why: &str| {
        Err(Failure::input(format!("cannot write a report to `{}`: {why}", named.display())))
    };
    if target.is_dir() {
        return refuse("it is a folder");
    }
    let blocked = target.ancestors().skip(1).find(|it| it.exists());
    if blocked.is_some_and(|it| !it.is_dir()) {
        return refuse("a file stands where a folder should be");
    }
    kindlm_store::check_writable(target).or_else(|err| match err {
        StoreError::Io { message, .. } => refuse(&message),
        err => refuse(&err.to_string()),
    })
}

/// The same for every way to name a file: what exists without links, the rest without `.` and `..`.
pub fn resolved(target: &Path) -> PathBuf {
    let mut rest = Vec::new();
    for folder in target.ancestors() {
        if let Ok(found) = folder.canonicalize() {
            return rest.iter().rev().fold(found, |path, name| path.join(name));
        }
        match folder.components().next_back() {
            Some(Component::Normal(name)) => rest.push(name.to_owned()),
            Some(Component::ParentDir) => return std::path::absolute(target).unwrap_or_default(),
            _ => {}
        }
    }
    target.to_owned()
}
