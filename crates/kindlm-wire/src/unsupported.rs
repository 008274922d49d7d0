//! The unsupported parts of evidence, which JSON formats store in the `metadata` of an execution.

use kindlm_types::UnsupportedPart;
use serde_json::{Map, Value};

/// The key of the metadata that an agent reports about itself.
const AGENT: &str = "agent";

/// Returns the unsupported parts in the metadata of an execution, by type.
pub fn unsupported_parts(metadata: &Map<String, Value>) -> Vec<UnsupportedPart> {
    let parts = metadata.get(UnsupportedPart::METADATA_KEY);
    let lines = metadata.get(AGENT).and_then(|it| it.get(UnsupportedPart::LINES_KEY));
    let found = parts.or(lines).and_then(Value::as_object).into_iter().flatten();
    let text = |it: &Value| it.as_str().map(str::to_owned);
    found
        .map(|(kind, places)| {
            let places = places.as_array().into_iter().flatten();
            UnsupportedPart::new(kind, places.filter_map(text).collect())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unsupported_parts_are_read_back() {
        let part = |kind: &str, places: &[&str]| {
            UnsupportedPart::new(kind, places.iter().map(|it| (*it).to_owned()).collect())
        };
        for (metadata, expected) in [
            (json!({}), vec![]),
            (json!({"partsNotUnderstood": 1, "agent": "a"}), vec![]),
            (
                json!({"partsNotUnderstood": {"mystery": ["/2", "/4"], "other": []}}),
                vec![part("mystery", &["/2", "/4"]), part("other", &[])],
            ),
            (
                json!({"agent": {"unknownLines": {"system/notice": 1}}}),
                vec![part("system/notice", &[])],
            ),
        ] {
            let metadata = metadata.as_object().cloned().unwrap();
            assert_eq!(unsupported_parts(&metadata), expected, "{metadata:?}");
        }
    }

    #[test]
    fn added_parts_are_read_back() {
        let parts = vec![UnsupportedPart::new("mystery", vec!["span `chat`".to_owned()])];
        let mut metadata = Map::new();
        UnsupportedPart::add_to_metadata(&parts, &mut metadata);
        assert_eq!(unsupported_parts(&metadata), parts);
    }
}
