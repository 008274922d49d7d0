//! YAML as a tree of nodes with places.

mod blame;
mod entries;
mod json;
mod place;
mod read;
mod scalar;
mod syntax;
mod tagged;

use std::rc::Rc;

use serde_json::{Map, Number, Value};

use crate::source::Span;

pub use json::read_json;
pub use place::{LocatedSpan, locate};
pub use read::{Tree, read_yaml};

/// The most levels of nested lists and mappings, including aliases.
pub const MAX_DEPTH: usize = 128;

/// The most nodes (keys and values) of one document.
pub const MAX_NODES: usize = 1_000_000;

/// The maximum number of nodes to which the aliases of a document may expand in total.
///
/// Every 32 bytes of text count as one more node.
pub const MAX_ALIASED: u64 = 1_000_000;

/// A value with its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// The place of the value in the file.
    pub span: Span,
    /// The place of the alias or merge key that refers to the value; `None` if the value is used directly.
    pub used_at: Option<Span>,
    /// The value.
    pub kind: Kind,
}

/// The value of a node. Lists and mappings are shared, so an alias needs no copy.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The null value.
    Null,
    /// A boolean.
    Bool(bool),
    /// A finite number.
    Number(Number),
    /// A string.
    Text(Rc<str>),
    /// A list.
    List(Rc<Vec<Node>>),
    /// A mapping in the order of the file, without duplicate keys.
    Mapping(Rc<Vec<(Key, Node)>>),
}

/// The key of a mapping.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Key {
    /// The text of the key.
    pub name: Rc<str>,
    /// The place of the key in the file.
    pub span: Span,
}

impl Key {
    /// Creates a key from its text and its place.
    pub fn new(name: impl Into<Rc<str>>, span: Span) -> Self {
        Self { name: name.into(), span }
    }
}

impl Node {
    /// Creates a node from JSON. All parts of the node have the given place, such as a row of a table.
    pub fn at(span: Span, value: &Value) -> Self {
        let kind = match value {
            Value::Null => Kind::Null,
            Value::Bool(value) => Kind::Bool(*value),
            Value::Number(value) => Kind::Number(value.clone()),
            Value::String(value) => Kind::Text(value.as_str().into()),
            Value::Array(items) => {
                Kind::List(Rc::new(items.iter().map(|it| Self::at(span, it)).collect()))
            }
            Value::Object(map) => Kind::Mapping(Rc::new(
                map.iter()
                    .map(|(name, value)| {
                        (Key { name: name.as_str().into(), span }, Self::at(span, value))
                    })
                    .collect(),
            )),
        };
        Self { span, used_at: None, kind }
    }

    /// Returns the value of a key.
    ///
    /// Returns `None` if the node is not a mapping with this key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|(it, _)| &*it.name == key).map(|(_, node)| node)
    }

    /// Returns the entries of a mapping. Other values have no entries.
    pub fn entries(&self) -> &[(Key, Node)] {
        if let Kind::Mapping(entries) = &self.kind { entries } else { &[] }
    }

    /// Returns the items of a list. Other values have no items.
    pub fn items(&self) -> &[Node] {
        if let Kind::List(items) = &self.kind { items } else { &[] }
    }

    /// Returns the text of a string, or `None` for other values.
    pub fn text(&self) -> Option<&str> {
        if let Kind::Text(text) = &self.kind { Some(text) } else { None }
    }

    /// Converts the node to JSON, without places.
    pub fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Number(value) => Value::Number(value.clone()),
            Kind::Text(value) => Value::String(value.to_string()),
            Kind::List(items) => items.iter().map(Self::to_json).collect(),
            Kind::Mapping(entries) => {
                let mut map = Map::with_capacity(entries.len());
                map.extend(entries.iter().map(|(key, it)| (key.name.to_string(), it.to_json())));
                Value::Object(map)
            }
        }
    }
}
