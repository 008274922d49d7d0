//! Reads reports of any size, one case at a time.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, BufReader, Read};
use std::ops::Range;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

use super::{WireError, v1};
use kindlm_types::{CaseResult, Report};

/// The callback for each case of a report. Its arguments are the case and the byte range of the case in the JSON.
pub type OnCase<'a> = dyn FnMut(CaseResult, Range<u64>) + 'a;

/// Reads a report of any supported version, one case at a time.
///
/// Each case is passed to `on_case`, and the returned report has no cases. Use [`parse_case`] for the JSON in the byte
/// range of a case.
///
/// Fails if the data is not a valid report. The cases before the invalid part have then already been passed to
/// `on_case`.
pub fn read_report(mut reader: impl Read, on_case: &mut OnCase<'_>) -> Result<Report, WireError> {
    read(&mut reader, on_case)
}

/// Reads a report. A generic reader would compile the parser of all fields again in each crate that reads reports.
fn read(reader: &mut dyn Read, on_case: &mut OnCase<'_>) -> Result<Report, WireError> {
    // The parser reads single bytes.
    let reader = BufReader::with_capacity(1 << 16, reader);
    let at = Cell::new(0);
    let context = Context { at: &at, on_case: RefCell::new(on_case), refused: RefCell::new(None) };
    let mut json = serde_json::Deserializer::from_reader(Counted { reader, at: &at });
    let head = Head(&context).deserialize(&mut json).and_then(|it| json.end().map(|()| it));
    let head = head.map_err(|err| match context.refused.take() {
        Some(refused) => refused,
        None => err.into(),
    })?;
    if !head.contains_key(VERSION) {
        return Err(WireError::NoVersion);
    }
    serde_json::from_value::<v1::Report<IgnoredAny>>(head.into())?.into_report(|_| Ok(Vec::new()))
}

/// Parses the JSON of one case of a report. Fails if the JSON is not a valid case.
pub fn parse_case(json: &[u8]) -> Result<CaseResult, WireError> {
    serde_json::from_slice::<v1::Case>(json)?.try_into()
}

const VERSION: &str = "schemaVersion";
const CASES: &str = "cases";

struct Context<'a, 'c> {
    /// The number of bytes that the parser has consumed.
    at: &'a Cell<u64>,
    on_case: RefCell<&'a mut OnCase<'c>>,
    /// The error to report instead of the parser's own error.
    refused: RefCell<Option<WireError>>,
}

impl Context<'_, '_> {
    fn refuse<E: serde::de::Error>(&self, why: WireError) -> E {
        let err = E::custom(&why);
        self.refused.replace(Some(why));
        err
    }
}

/// A reader that counts the bytes read. The parser reads single bytes, at most one byte ahead.
struct Counted<'a, R> {
    reader: R,
    at: &'a Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.at.set(self.at.get() + read as u64);
        Ok(read)
    }
}

/// A deserializer of a report's fields. It passes the cases to the callback. The resulting map has no cases.
struct Head<'a, 'b, 'c>(&'a Context<'b, 'c>);

impl<'de> DeserializeSeed<'de> for Head<'_, '_, '_> {
    type Value = Map<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Head<'_, '_, '_> {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a report")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut head = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if head.contains_key(&key) {
                return Err(A::Error::custom(format!("duplicate key `{key}`")));
            }
            if key == CASES {
                map.next_value_seed(Cases(self.0))?;
                head.insert(key, Value::Array(Vec::new()));
                continue;
            }
            let value = map.next_value::<Value>()?;
            // A later version may have another format, and the error must name the version.
            if key == VERSION && value != v1::VERSION {
                return Err(self.0.refuse(WireError::Version { found: value.to_string() }));
            }
            head.insert(key, value);
        }
        Ok(head)
    }
}

struct Cases<'a, 'b, 'c>(&'a Context<'b, 'c>);

impl<'de> DeserializeSeed<'de> for Cases<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Cases<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of cases")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut cases: A) -> Result<(), A::Error> {
        while cases.next_element_seed(OneCase(self.0))?.is_some() {}
        Ok(())
    }
}

struct OneCase<'a, 'b, 'c>(&'a Context<'b, 'c>);

impl<'de> DeserializeSeed<'de> for OneCase<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self(context) = self;
        // The parser has read the opening brace of the case, and will read exactly up to its closing brace.
        let start = context.at.get().saturating_sub(1);
        let case = v1::Case::deserialize(deserializer)?;
        let range = start..context.at.get();
        let case = CaseResult::try_from(case).map_err(|why| context.refuse::<D::Error>(why))?;
        let mut on_case = context
            .on_case
            .try_borrow_mut()
            .map_err(|_| D::Error::custom("a case was read inside of a case"))?;
        on_case(case, range);
        Ok(())
    }
}
