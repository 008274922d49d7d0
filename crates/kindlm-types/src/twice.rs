//! Keys that an object gives twice: a parser takes the last, and nobody knows which of the two was meant.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The first key that a JSON text gives twice in one object, however deep, if there is one.
///
/// ```
/// use kindlm_types::twice;
///
/// assert_eq!(twice(r#"{"a": {"b": 1, "b": 2}}"#).as_deref(), Some("b"));
/// assert_eq!(twice(r#"[{"a": 1}, {"a": 2}]"#), None);
/// ```
pub fn twice(json: &str) -> Option<String> {
    let err = serde_json::from_str::<Once>(json).err()?;
    // What is no JSON at all is not this module's to say.
    let said = err.to_string();
    let rest = said.strip_prefix(TWICE)?;
    rest.rsplit_once(" at line ").map(|(key, _)| key.to_owned())
}

/// Begins the error that names the key.
const TWICE: &str = "twice: ";

/// Anything in which no object gives a key twice.
struct Once;

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Once {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value::<Self>()?;
            if let Some(key) = keys.replace(key) {
                return Err(A::Error::custom(format!("{TWICE}{key}")));
            }
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::twice;

    #[test]
    fn a_key_is_twice_only_within_one_object() {
        for (json, expected) in [
            (r#"{"a": 1, "b": {"a": [null, true, -1, 0.5, "x"]}}"#, None),
            (r#"[{"a": 1}, {"a": 2}]"#, None),
            (r#"{"pass": false, "\u0070ass": true}"#, Some("pass")),
            (r#"{"a": [{"at line ": 1, "at line ": 1}]}"#, Some("at line ")),
            (r#"{"a": 1, "a""#, None),
        ] {
            assert_eq!(twice(json).as_deref(), expected, "{json}");
        }
    }
}
