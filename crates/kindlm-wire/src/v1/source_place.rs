//! Places in the files of a suite, in version 1 of the JSON report.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The place of a test or a check in a file of the suite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SourcePlace {
    /// The path of the file. It is relative to the working folder if the path of the config file is relative.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in Unicode scalar values, from 1.
    pub column: u32,
}

impl From<&kindlm_types::SourcePlace> for SourcePlace {
    fn from(place: &kindlm_types::SourcePlace) -> Self {
        Self { file: place.file.to_string(), line: place.line, column: place.column }
    }
}

impl From<SourcePlace> for kindlm_types::SourcePlace {
    fn from(wire: SourcePlace) -> Self {
        Self::new(wire.file, wire.line, wire.column)
    }
}
