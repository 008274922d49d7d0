//! The files and fonts that the typesetter can see: the template, the document and three fonts.

use typst::diag::{FileError, FileResult};
use typst::foundations::{Bytes, Datetime, Duration};
use typst::syntax::{FileId, RootedPath, Source, VirtualPath, VirtualRoot};
use typst::text::{Font, FontBook};
use typst::utils::LazyHash;
use typst::{Library, LibraryExt as _, World};

use crate::PdfError;

const TEMPLATE: &str = include_str!("template.typ");

/// The inputs of the typesetter, all in memory. They give no access to the disk, the network or the clock.
pub(crate) struct Sealed {
    library: LazyHash<Library>,
    book: LazyHash<FontBook>,
    fonts: Vec<Font>,
    template: Source,
    document: FileId,
    data: Bytes,
}

impl Sealed {
    /// Creates the inputs from the fonts, and from the data of the document as JSON.
    pub(crate) fn new(fonts: Vec<Font>, data: String) -> Result<Self, PdfError> {
        Ok(Self {
            library: LazyHash::new(Library::default()),
            book: LazyHash::new(FontBook::from_fonts(&fonts)),
            fonts,
            template: Source::new(file("template.typ")?, TEMPLATE.to_owned()),
            document: file("document.json")?,
            data: Bytes::from_string(data),
        })
    }
}

fn file(name: &str) -> Result<FileId, PdfError> {
    let path = VirtualPath::new(name).map_err(|err| PdfError::Set(err.to_string()))?;
    Ok(RootedPath::new(VirtualRoot::Project, path).intern())
}

/// Returns the fonts: running text, bold text, code.
pub(crate) fn fonts() -> Result<[Font; 3], PdfError> {
    let font = |bytes: &'static [u8]| {
        Font::new(Bytes::new(bytes), 0)
            .ok_or_else(|| PdfError::Set("an embedded font cannot be read".to_owned()))
    };
    Ok([
        font(dejavu::sans::regular())?,
        font(dejavu::sans::bold())?,
        font(dejavu::sans_mono::regular())?,
    ])
}

impl World for Sealed {
    fn library(&self) -> &LazyHash<Library> {
        &self.library
    }

    fn book(&self) -> &LazyHash<FontBook> {
        &self.book
    }

    fn main(&self) -> FileId {
        self.template.id()
    }

    fn source(&self, id: FileId) -> FileResult<Source> {
        if id == self.template.id() { Ok(self.template.clone()) } else { Err(missing()) }
    }

    fn file(&self, id: FileId) -> FileResult<Bytes> {
        if id == self.document { Ok(self.data.clone()) } else { Err(missing()) }
    }

    fn font(&self, index: usize) -> Option<Font> {
        self.fonts.get(index).cloned()
    }

    fn today(&self, _offset: Option<Duration>) -> Option<Datetime> {
        None
    }
}

fn missing() -> FileError {
    FileError::Other(Some("a document has no other files".into()))
}
