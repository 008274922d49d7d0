//! The report as one JSON text. The reporter `json` writes this text, and compliance documents state its digest.

use std::fmt;

use kindlm_types::AnyReport;
use kindlm_wire::v1;

use crate::RenderError;
use crate::bytes::Bytes;

/// Writes the report as indented JSON text with a final line break.
pub(crate) fn write_json(
    report: &AnyReport<'_>,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    let mut bytes = Bytes::new(out);
    serde_json::to_writer_pretty(&mut bytes, &v1::Report::borrowing(report)).map_err(|err| {
        if err.is_io() {
            RenderError::Write(fmt::Error)
        } else {
            RenderError::Format { format: "json", message: err.to_string() }
        }
    })?;
    bytes.finish().map_err(|_| RenderError::Write(fmt::Error))?;
    Ok(())
}
