//! Sorts problems by their order in the document.

use std::collections::HashMap;

use kindlm_types::pointer;
use serde_json::{Map, Value};

/// The maximum number of keys in an object for a linear search. Larger objects get an index of their keys.
const FEW: usize = 16;

/// Sorts items by the order of their JSON pointers in a document.
///
/// A parent comes before its children. A missing key sorts after the existing keys. Items with the same pointer keep
/// their order.
pub(crate) fn sort<T>(value: &Value, items: &mut [T], pointer: impl Fn(&T) -> &str) {
    if items.len() > 1 {
        let mut order = Order::default();
        items.sort_by_cached_key(|it| order.key(value, pointer(it)));
    }
}

/// The positions of the keys in large objects of a document.
#[derive(Default)]
struct Order<'a> {
    positions: HashMap<*const Map<String, Value>, HashMap<&'a str, usize>>,
}

impl<'a> Order<'a> {
    fn key(&mut self, value: &'a Value, pointer: &str) -> Vec<usize> {
        let mut here = Some(value);
        let mut key = Vec::new();
        for part in pointer.split('/').skip(1) {
            let part = pointer::key(part);
            let (position, next) = match here {
                Some(Value::Object(map)) => (self.position(map, &part), map.get(&part)),
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

    fn position(&mut self, map: &'a Map<String, Value>, key: &str) -> Option<usize> {
        if map.len() <= FEW {
            return map.keys().position(|it| it == key);
        }
        let index = self.positions.entry(std::ptr::from_ref(map)).or_insert_with(|| {
            map.keys().enumerate().map(|(position, key)| (key.as_str(), position)).collect()
        });
        index.get(key).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pointers_are_sorted_in_document_order() {
        let value = json!({"z": [1, {"b/c": 2}], "a": 3});
        let mut pointers = ["/missing", "/a", "/z/1/b~1c", "/z/1", "/z/0", "", "/z"];
        sort(&value, &mut pointers, |it| it);
        assert_eq!(pointers, ["", "/z", "/z/0", "/z/1", "/z/1/b~1c", "/a", "/missing"]);
    }

    #[test]
    fn large_objects_are_ordered_as_small_ones() {
        let keys: Vec<String> = (0..1000).rev().map(|it| format!("k{it}")).collect();
        let value: Value = keys.iter().map(|key| (key.clone(), json!(1))).collect();
        let expected: Vec<String> = keys.iter().map(|key| format!("/{key}")).collect();
        let mut pointers = expected.clone();
        pointers.sort();
        sort(&value, &mut pointers, |it| it);
        assert_eq!(pointers, expected);
    }
}
