//! The order of a document, for problems that were found in another.

use serde_json::Value;

use crate::walk::unescape;

/// Sorts JSON pointers as their targets follow one another in `value`; a parent comes before its children.
///
/// A key that is not there sorts behind those that are.
pub(crate) fn key(value: &Value, pointer: &str) -> Vec<usize> {
    let mut here = Some(value);
    let mut key = Vec::new();
    for part in pointer.split('/').skip(1) {
        let part = unescape(part);
        let (position, next) = match here {
            Some(Value::Object(map)) => (map.keys().position(|it| *it == part), map.get(&part)),
            Some(Value::Array(items)) => {
                let index = part.parse().ok();
                (index, index.and_then(|it: usize| items.get(it)))
            }
            _ => (None, None),
        };
        key.push(position.unwrap_or(usize::MAX));
        here = next;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn follows_the_document() {
        let value = json!({"z": [1, {"b/c": 2}], "a": 3});
        let mut pointers = ["/missing", "/a", "/z/1/b~1c", "/z/1", "/z/0", "", "/z"];
        pointers.sort_by_key(|it| key(&value, it));
        assert_eq!(pointers, ["", "/z", "/z/0", "/z/1", "/z/1/b~1c", "/a", "/missing"]);
    }
}
