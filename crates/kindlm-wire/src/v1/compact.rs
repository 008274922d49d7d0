//! Writes reports as compact JSON from cases that are already serialized.

use std::cell::{Cell, RefCell};
use std::io;

use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Serialize, Serializer};

use super::{Case, Report};
use kindlm_types::CaseSource;

/// Writes a report as compact JSON.
///
/// A case that is already [written](CaseSource::written) is copied into the report without a check. The source must
/// ensure that its text is valid JSON.
///
/// Fails if a case cannot be loaded, or if the output cannot be written.
// perf: process, included in the gain of `kindlm_store::journal::CaseSummaries`
pub fn write_compact<Source: CaseSource + ?Sized>(
    report: &kindlm_types::Report<Source>,
    out: impl io::Write,
) -> io::Result<()> {
    let past = Past { out: RefCell::new(out), failure: Cell::new(None) };
    let report = Report::with_cases(report, Spliced { source: &report.cases, past: &past });
    let written = serde_json::to_writer(&past, &report);
    // Report a failure of the output as such, not as a serialization error.
    written.map_err(|err| past.failure.take().unwrap_or_else(|| err.into()))
}

/// The output of the report. The serializer writes to the output, and [`Spliced`] writes the JSON of cases directly.
struct Past<W> {
    out: RefCell<W>,
    failure: Cell<Option<io::Error>>,
}

impl<W: io::Write> io::Write for &Past<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.try_borrow_mut().map_err(io::Error::other)?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.try_borrow_mut().map_err(io::Error::other)?.flush()
    }
}

impl<W: io::Write> Past<W> {
    fn case(&self, position: usize, source: &(impl CaseSource + ?Sized)) -> Result<(), Error> {
        let mut out = self.out.try_borrow_mut().map_err(io::Error::other)?;
        if position > 0 {
            out.write_all(b",")?;
        }
        if let Some(json) = source.written(position)? {
            out.write_all(json.as_bytes())?;
        } else {
            let case = Case::from(source.read_case(position)?.into_owned());
            serde_json::to_writer(&mut *out, &case).map_err(io::Error::from)?;
        }
        Ok(())
    }
}

/// The cases of a report. The serializer writes only the brackets; the cases go directly to the output.
struct Spliced<'a, Source: ?Sized, W> {
    source: &'a Source,
    past: &'a Past<W>,
}

impl<Source: CaseSource + ?Sized, W: io::Write> Serialize for Spliced<'_, Source, W> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cases = serializer.serialize_seq(Some(self.source.len()))?;
        for position in 0..self.source.len() {
            self.past.case(position, self.source).map_err(|err| match err {
                Error::Case(err) => S::Error::custom(err),
                Error::Io(err) => {
                    let said = S::Error::custom(&err);
                    self.past.failure.set(Some(err));
                    said
                }
            })?;
        }
        cases.end()
    }
}

enum Error {
    Case(kindlm_types::CaseError),
    Io(io::Error),
}

impl From<kindlm_types::CaseError> for Error {
    fn from(err: kindlm_types::CaseError) -> Self {
        Self::Case(err)
    }
}

impl From<io::Error> for Error {
    fn from(err: io::Error) -> Self {
        Self::Io(err)
    }
}
