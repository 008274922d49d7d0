//! Typesets the compliance document of a run as a PDF: PDF/A-2a, tagged, with embedded fonts.
//!
//! The input is the output of the reporter `compliance-pdf`: one JSON document. The template gets the strings of this
//! document as data, so no string can act as markup. The fonts are part of this crate, and nothing is read from the
//! disk or the network.
//!
//! The typesetter typst is behind the feature `typst`, because it takes minutes to compile. Without the feature,
//! [`pdf`] returns [`PdfError::NotBuilt`].
#![deny(clippy::disallowed_methods)]

#[cfg(feature = "typst")]
mod glyphs;
#[cfg(feature = "typst")]
mod set;
#[cfg(feature = "typst")]
mod world;

/// True if this build can typeset a PDF.
pub const IS_BUILT: bool = cfg!(feature = "typst");

/// A typeset PDF with its counts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pdf {
    /// The bytes of the file. The same source gives the same bytes.
    pub bytes: Vec<u8>,
    /// The number of pages.
    pub pages: usize,
    /// The number of characters that PDF/A or the fonts cannot show. The document shows the code of each such
    /// character, and states this number.
    pub replaced: usize,
}

/// The reason why there is no PDF.
#[derive(Debug, thiserror::Error)]
pub enum PdfError {
    /// This build has no typesetter.
    #[error("this build of KindLM cannot write a PDF")]
    NotBuilt,
    /// The source is not the complete output of the reporter `compliance-pdf`.
    #[error("the source of the PDF is not a complete document: {0}")]
    Source(String),
    /// The start time of the run is invalid. PDF/A requires it as the date of the document.
    #[error("the run started at `{0}`, which is not a time; a PDF/A needs a date")]
    Date(String),
    /// The typesetter rejected the document, or the result would not be a valid PDF/A.
    #[error("cannot set the PDF: {0}")]
    Set(String),
}

/// Typesets the output of the reporter `compliance-pdf` as a PDF.
///
/// # Errors
///
/// Fails if:
///
/// - this build has no typesetter
/// - the source is incomplete, or has an invalid start time
/// - the typesetter rejects the document, or the result would not be a valid PDF/A
pub fn pdf(source: &str) -> Result<Pdf, PdfError> {
    #[cfg(feature = "typst")]
    return set::pdf(source);
    #[cfg(not(feature = "typst"))]
    {
        let _ = source;
        Err(PdfError::NotBuilt)
    }
}

#[cfg(all(test, not(feature = "typst")))]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_the_typesetter_has_no_pdf() {
        assert!(matches!(pdf("{}"), Err(PdfError::NotBuilt)));
    }
}
