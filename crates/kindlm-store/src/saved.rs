//! The cases of a stored report, read from the file on demand.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use kindlm_types::{CaseError, CaseMark, CaseResult, CaseSource, Outcome, Report, Tally};
use kindlm_wire::{WireError, parse_case, read_report};

use crate::StoreError;

/// The cases of a stored report. Each case uses only a few dozen bytes of memory.
#[derive(Debug)]
pub struct SavedCases {
    path: PathBuf,
    file: Mutex<File>,
    cases: Vec<Saved>,
    /// The ids of the models, without duplicates.
    models: Vec<String>,
    tally: Tally,
}

#[derive(Debug)]
struct Saved {
    at: Range<u64>,
    /// The index of the model in `models`.
    model: usize,
    outcome: Outcome,
    plan_index: Option<u64>,
}

/// The error of an unusable report file.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file is not a report, or has an unsupported version.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Opens a report file. The file must not change, because its cases are read on demand.
///
/// Fails if the file cannot be read, is not a report, or has an unsupported version.
pub fn open_report(path: &Path) -> Result<Report<SavedCases>, ReportError> {
    let mut cases = Vec::new();
    let (mut models, mut tally) = (Vec::new(), Tally::default());
    let (file, report) = scan(path, &mut |case, at| {
        tally.observe(cases.len(), &case);
        let model = models.iter().position(|it| *it == case.model).unwrap_or_else(|| {
            models.push(case.model);
            models.len() - 1
        });
        cases.push(Saved { at, model, outcome: case.outcome, plan_index: case.plan_index });
    })?;
    let (path, file) = (path.to_owned(), Mutex::new(file));
    Ok(report.with_cases(SavedCases { path, file, cases, models, tally }).0)
}

/// Reads a report file, and passes each case to `on_case`.
///
/// The returned report has no cases. Fails if the file cannot be read, is not a report, or has an unsupported version.
pub fn each_saved_case(
    path: &Path,
    on_case: &mut dyn FnMut(CaseResult),
) -> Result<Report, ReportError> {
    scan(path, &mut |case, _| on_case(case)).map(|(_, report)| report)
}

fn scan(
    path: &Path,
    on_case: &mut dyn FnMut(CaseResult, Range<u64>),
) -> Result<(File, Report), ReportError> {
    let file = seekable(path).map_err(|err| StoreError::io("read", path, &err))?;
    let report = read_report(&file, on_case)?;
    Ok((file, report))
}

/// Opens a file that can be read several times.
///
/// The content of a pipe or a device is copied to a temporary file.
fn seekable(path: &Path) -> io::Result<File> {
    let mut file = File::open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_dir() {
        return Ok(file);
    }
    let mut held = tempfile::tempfile()?;
    io::copy(&mut file, &mut held)?;
    held.rewind()?;
    Ok(held)
}

impl SavedCases {
    fn bytes(&self, at: &Range<u64>) -> io::Result<Vec<u8>> {
        let length = at.end.saturating_sub(at.start);
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(at.start))?;
        (&mut *file).take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl CaseSource for SavedCases {
    fn len(&self) -> usize {
        self.cases.len()
    }

    fn mark(&self, position: usize) -> Option<CaseMark<'_>> {
        let case = self.cases.get(position)?;
        let model = self.models.get(case.model)?;
        Some(CaseMark::new(model, case.outcome, case.plan_index))
    }

    fn read_case(&self, position: usize) -> Result<Cow<'_, CaseResult>, CaseError> {
        let failed = |why: String| {
            let path = self.path.display();
            CaseError::new(format!(
                "cannot read result {position} of the report `{path}`: {why}; it must not change while it is used"
            ))
        };
        let Some(case) = self.cases.get(position) else {
            return Err(failed("there is no such result".to_owned()));
        };
        let bytes = self.bytes(&case.at).map_err(|err| failed(crate::describe_io_error(&err)))?;
        parse_case(&bytes).map(Cow::Owned).map_err(|err| failed(err.to_string()))
    }

    fn tally(&self) -> Cow<'_, Tally> {
        Cow::Borrowed(&self.tally)
    }
}
