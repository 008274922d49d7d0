//! Typesets the document: checks its texts, lays out the pages, writes the PDF/A.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use typst::comemo;
use typst::diag::SourceDiagnostic;
use typst::foundations::{Datetime, Smart};
use typst_layout::PagedDocument;
use typst_pdf::{PdfOptions, PdfStandard, PdfStandards};

use crate::glyphs::Glyphs;
use crate::world::{Sealed, fonts};
use crate::{Pdf, PdfError};

/// Typesets the JSON document as a PDF. Fails for the same reasons as [`pdf`](crate::pdf).
pub(crate) fn pdf(source: &str) -> Result<Pdf, PdfError> {
    let mut document: Value =
        serde_json::from_str(source).map_err(|err| PdfError::Source(err.to_string()))?;
    if document["is_complete"] != json!(true) {
        return Err(PdfError::Source("its end is missing".to_owned()));
    }
    let options = options(&document)?;
    let fonts = fonts()?;
    let mut glyphs = Glyphs::new(&fonts[..2]);
    glyphs.check(&mut document);
    let replaced = glyphs.replaced;
    document["replaced"] = json!(replaced);
    let world = Sealed::new(fonts.to_vec(), document.to_string())?;
    drop(document);
    let result = written(&world, &options);
    // The typesetter caches its results for further documents. Free the cache, because no document follows.
    comemo::evict(0);
    let (bytes, pages) = result.map_err(|all| PdfError::Set(in_words(&all)))?;
    Ok(Pdf { bytes, pages, replaced })
}

/// Returns the bytes of the PDF and the number of its pages.
fn written(
    world: &Sealed,
    options: &PdfOptions,
) -> Result<(Vec<u8>, usize), Vec<SourceDiagnostic>> {
    let pages = typst::compile::<PagedDocument>(world);
    let pages = pages.output.map_err(Vec::from_iter)?;
    let bytes = typst_pdf::pdf(&pages, options).map_err(Vec::from_iter)?;
    Ok((bytes, pages.pages().len()))
}

/// Returns the PDF standard, the identifier and the date of the document.
fn options(document: &Value) -> Result<PdfOptions, PdfError> {
    let text = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
    let started = text("started");
    let date = date(&started).ok_or(PdfError::Date(started))?;
    let standards = PdfStandards::new(&[PdfStandard::A_2a])
        .map_err(|err| PdfError::Set(err.message().to_string()))?;
    Ok(PdfOptions {
        ident: Smart::Custom(text("run")),
        creator: Smart::Custom(Some(text("creator"))),
        timestamp: Some(typst_pdf::Timestamp::new_utc(date)),
        standards,
        ..PdfOptions::default()
    })
}

/// Parses a time in RFC 3339. Returns `None` if the text is not a time.
fn date(text: &str) -> Option<Datetime> {
    let time = text.parse::<Timestamp>().ok()?.to_zoned(TimeZone::UTC).datetime();
    let part = |it: i8| u8::try_from(it).ok();
    Datetime::from_ymd_hms(
        time.year().into(),
        part(time.month())?,
        part(time.day())?,
        part(time.hour())?,
        part(time.minute())?,
        part(time.second())?,
    )
}

/// Returns the messages of the typesetter in one line.
fn in_words(all: &[SourceDiagnostic]) -> String {
    let messages: Vec<&str> = all.iter().map(|it| it.message.as_str()).collect();
    messages.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_of_the_fonts_can_be_written() {
        let fonts = fonts().unwrap();
        let is_shown = |c: &char| {
            let mut value = json!(c.to_string());
            let mut glyphs = Glyphs::new(&fonts[..2]);
            glyphs.check(&mut value);
            glyphs.replaced == 0
        };
        let all: Vec<char> = (' '..=char::MAX).filter(is_shown).collect();
        assert!(all.len() > 5_000, "{}", all.len());
        let texts = all.chunks(50).map(|it| it.iter().map(|c| format!("{c} ")).collect::<String>());
        let blocks: Vec<Value> = texts
            .flat_map(|text| {
                [json!({"is": "strong", "text": text}), json!({"is": "code", "lines": [text]})]
            })
            .collect();
        let source = json!({"title": "t", "run": "r", "started": "2026-11-25T10:00:00Z", "creator": "c",
            "blocks": blocks, "is_complete": true});
        assert_eq!(pdf(&source.to_string()).unwrap().replaced, 0);
    }
}
