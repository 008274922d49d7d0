//! YAML as a tree in which every node knows its place.

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
pub use place::{Found, locate};
pub use read::{Tree, read};

/// Most levels of lists and mappings inside of each other, aliases included.
pub const MAX_DEPTH: usize = 128;

/// Most nodes (keys and values) of one document.
pub const MAX_NODES: usize = 1_000_000;

/// Most nodes that all aliases of a document may stand for; 32 bytes of text count as one more.
pub const MAX_ALIASED: u64 = 1_000_000;

/// A value with its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it is written.
    pub span: Span,
    /// Where an alias or a merge key brought it in, if it is written elsewhere.
    pub used_at: Option<Span>,
    /// What it is.
    pub kind: Kind,
}

/// What a node is. Lists and mappings are shared, so an alias costs nothing.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A finite number.
    Number(Number),
    /// A text.
    Text(Rc<str>),
    /// A list.
    List(Rc<Vec<Node>>),
    /// A mapping, in the order of the file. No key is there twice.
    Mapping(Rc<Vec<(Key, Node)>>),
}

/// The key of a mapping.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its text.
    pub name: Rc<str>,
    /// Where it is written.
    pub span: Span,
}

impl Node {
    /// A node all of whose parts are at the same place: for rows of tables.
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

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|(it, _)| &*it.name == key).map(|(_, node)| node)
    }

    /// The keys and values of a mapping; none for anything else.
    pub fn entries(&self) -> &[(Key, Node)] {
        if let Kind::Mapping(entries) = &self.kind { entries } else { &[] }
    }

    /// The items of a list; none for anything else.
    pub fn items(&self) -> &[Node] {
        if let Kind::List(items) = &self.kind { items } else { &[] }
    }

    /// The text of a string.
    pub fn text(&self) -> Option<&str> {
        if let Kind::Text(text) = &self.kind { Some(text) } else { None }
    }

    /// The value without its places.
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
