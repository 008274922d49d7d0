//! Recorded data that KindLM does not support.

use std::fmt;

use serde_json::{Map, Value};

/// The parts of recorded evidence that have the same unsupported type.
///
/// In JSON, these parts are in the `metadata` of an execution: see [`METADATA_KEY`](Self::METADATA_KEY).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnsupportedPart {
    /// The name of the type in the source.
    pub kind: String,
    /// The places of the first such parts; empty for output lines of an agent, which are only counted.
    ///
    /// A place is a pointer into a transcript, or a span of a trace.
    pub places: Vec<String>,
}

impl UnsupportedPart {
    /// The metadata key for transcripts and traces. The value is an object from unsupported type to places.
    pub const METADATA_KEY: &'static str = "partsNotUnderstood";

    /// The key in the metadata of an agent. The value is an object from unsupported type to number of output lines.
    pub const LINES_KEY: &'static str = "unknownLines";

    /// Creates the value for the parts of one type, with their places.
    pub fn new(kind: impl Into<String>, places: Vec<String>) -> Self {
        Self { kind: kind.into(), places }
    }

    /// Adds parts to the metadata of an execution, which scripts and reports read.
    pub fn add_to_metadata(parts: &[Self], metadata: &mut Map<String, Value>) {
        if parts.is_empty() {
            return;
        }
        let places = parts.iter().map(|it| (it.kind.clone(), Value::from(it.places.clone())));
        metadata.insert(Self::METADATA_KEY.to_owned(), Value::Object(places.collect()));
    }
}

/// Shows the type, and the first place if it is known.
impl fmt::Display for UnsupportedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.kind)?;
        if let Some(place) = self.places.first() {
            write!(f, " at {place}")?;
        }
        f.write_str(" has an unsupported type")
    }
}
