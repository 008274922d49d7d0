//! Duplicate keys in JSON. Parsers keep the last value, but the user may have meant the first.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::pointer;

/// Returns the first duplicate key in an object at any depth of a JSON text.
///
/// Returns `None` if no object has a duplicate key. The search ends at the first syntax error, and at a value that is
/// nested more than 127 levels deep.
///
/// ```
/// use kindlm_types::duplicate_key;
///
/// assert_eq!(duplicate_key(r#"{"a": {"b": 1, "b": 2}}"#).as_deref(), Some("b"));
/// assert_eq!(duplicate_key(r#"[{"a": 1}, {"a": 2}]"#), None);
/// ```
pub fn duplicate_key(json: &str) -> Option<String> {
    Some(find(json, &|_| true)?.key)
}

/// Returns the first duplicate key for which `is_meant` is true.
///
/// Returns `None` if no object has such a key. The search ends at the first syntax error, and at a value that is nested
/// more than 127 levels deep.
///
/// ```
/// use kindlm_types::duplicate_key_among;
///
/// let json = r#"{"id": 1, "id": 2, "a": {"text": 1, "text": 2}}"#;
/// assert_eq!(duplicate_key_among(json, |key| key == "text").as_deref(), Some("text"));
/// ```
pub fn duplicate_key_among(json: &str, is_meant: impl Fn(&str) -> bool) -> Option<String> {
    Some(find(json, &is_meant)?.key)
}

/// Returns the JSON pointer to the key that [`duplicate_key`] finds.
///
/// Returns `None` without a duplicate key.
///
/// ```
/// use kindlm_types::duplicate_key_pointer;
///
/// assert_eq!(duplicate_key_pointer(r#"[1, {"a": {"b": 1, "b": 2}}]"#).as_deref(), Some("/1/a/b"));
/// ```
pub fn duplicate_key_pointer(json: &str) -> Option<String> {
    let DuplicateKey { key, mut above } = find(json, &|_| true)?;
    above.insert(0, key);
    let parts: Vec<String> = above.iter().rev().map(|it| pointer::segment(it)).collect();
    Some(format!("/{}", parts.join("/")))
}

/// A duplicate key, with the path to its object.
///
/// `above` has the keys and indices of the enclosing values, innermost first.
struct DuplicateKey {
    key: String,
    above: Vec<String>,
}

fn find(json: &str, is_meant: &dyn Fn(&str) -> bool) -> Option<DuplicateKey> {
    let mut found = None;
    // Syntax errors are ignored, because this module does not report them.
    let once = Once { found: &mut found, is_meant };
    let _ = once.deserialize(&mut serde_json::Deserializer::from_str(json));
    found
}

/// Visitor of any JSON value, which fails at the first duplicate key for which `is_meant` is true.
///
/// The visitor stores this key and its location in `found`.
struct Once<'f> {
    found: &'f mut Option<DuplicateKey>,
    is_meant: &'f dyn Fn(&str) -> bool,
}

/// A key that is copied only if it contains escape sequences.
#[derive(Deserialize, PartialEq, Eq, Hash)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> DeserializeSeed<'de> for Once<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Once<'_> {
    /// Borrows this search for a nested value.
    fn inner(&mut self) -> Once<'_> {
        Once { found: self.found, is_meant: self.is_meant }
    }

    /// If a nested value contains the duplicate key, adds the key or index of this value to the path of the duplicate
    /// key.
    fn within<E>(&mut self, result: Result<(), E>, at: impl FnOnce() -> String) -> Result<(), E> {
        if let (Err(_), Some(found)) = (&result, self.found.as_mut()) {
            found.above.push(at());
        }
        result
    }
}

impl<'de> Visitor<'de> for Once<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = map.next_key::<Key<'de>>()? {
            let read = map.next_value_seed(self.inner());
            self.within(read, || key.0.clone().into_owned())?;
            if let Some(Key(key)) = keys.replace(key).filter(|it| (self.is_meant)(&it.0)) {
                *self.found = Some(DuplicateKey { key: key.into_owned(), above: Vec::new() });
                return Err(A::Error::custom("twice"));
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        for index in 0_usize.. {
            let read = items.next_element_seed(self.inner());
            let is_end = matches!(read, Ok(None));
            self.within(read.map(|_| ()), || index.to_string())?;
            if is_end {
                break;
            }
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{duplicate_key, duplicate_key_pointer};

    #[test]
    fn a_key_is_duplicate_only_within_one_object() {
        for (json, expected, place) in [
            (r#"{"a": 1, "b": {"a": [null, true, -1, 0.5, "x"]}}"#, None, None),
            (r#"[{"a": 1}, {"a": 2}]"#, None, None),
            (r#"{"pass": false, "\u0070ass": true}"#, Some("pass"), Some("/pass")),
            (
                r#"{"x": 1, "a": [[], {"at line ": 1, "at line ": 1}]}"#,
                Some("at line "),
                Some("/a/1/at line "),
            ),
            (r#"{"a/b": {"c~": 1, "c~": 2}}"#, Some("c~"), Some("/a~1b/c~0")),
            (r#"{"a": 1, "a""#, None, None),
            (r#"{"a": 1, "a": 2, }"#, Some("a"), Some("/a")),
        ] {
            assert_eq!(duplicate_key(json).as_deref(), expected, "{json}");
            assert_eq!(duplicate_key_pointer(json).as_deref(), place, "{json}");
        }
    }
}
