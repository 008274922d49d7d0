//! Builders of nodes for translated parts. Each node has the source location of the original part.

use std::rc::Rc;

use kindlm_source::{Key, Kind, Node, Span};
use serde_json::Number;

pub(super) fn node(span: Span, kind: Kind) -> Node {
    Node { span, used_at: None, kind }
}

pub(super) fn text(span: Span, value: &str) -> Node {
    node(span, Kind::Text(value.into()))
}

/// Makes a number node. A whole number has no decimal point, and a number that is not finite becomes null.
pub(super) fn number(span: Span, value: f64) -> Node {
    let whole = value.to_string().parse::<i64>().ok().map(Number::from);
    node(span, whole.or_else(|| Number::from_f64(value)).map_or(Kind::Null, Kind::Number))
}

pub(super) fn list(span: Span, items: impl IntoIterator<Item = Node>) -> Node {
    node(span, Kind::List(Rc::new(items.into_iter().collect())))
}

pub(super) fn key(span: Span, name: &str) -> Key {
    Key::new(name, span)
}

pub(super) fn map<'n>(span: Span, items: impl IntoIterator<Item = (&'n str, Node)>) -> Node {
    let entries = items.into_iter().map(|(name, node)| (key(node.span, name), node));
    node(span, Kind::Mapping(Rc::new(entries.collect())))
}

pub(super) fn entries(span: Span, items: impl IntoIterator<Item = (String, Node)>) -> Node {
    let entries = items.into_iter().map(|(name, node)| (key(node.span, &name), node));
    node(span, Kind::Mapping(Rc::new(entries.collect())))
}

/// Returns a mapping with one entry added or replaced. The new entry is at the end.
pub(super) fn with(node: &Node, name: &str, value: Node) -> Node {
    let mut entries: Vec<(Key, Node)> =
        node.entries().iter().filter(|(key, _)| &*key.name != name).cloned().collect();
    entries.push((key(value.span, name), value));
    Node { kind: Kind::Mapping(Rc::new(entries)), ..node.clone() }
}

/// Returns a name that is not taken.
///
/// This is the name itself, or the name with a number, such as `name (2)`.
pub(super) fn unique(name: &str, taken: impl Fn(&str) -> bool) -> String {
    if !taken(name) {
        return name.to_owned();
    }
    (2..=u32::MAX)
        .map(|it| format!("{name} ({it})"))
        .find(|it| !taken(it))
        .unwrap_or_else(|| name.to_owned())
}

/// Returns the texts of a list, or a single text as a list.
///
/// An object in the list is represented by its `id`. Other items are skipped.
pub(super) fn texts(node: &Node) -> Vec<String> {
    match &node.kind {
        Kind::Text(text) => vec![text.to_string()],
        _ => node
            .items()
            .iter()
            .filter_map(|it| it.text().or_else(|| it.get("id").and_then(Node::text)))
            .map(str::to_owned)
            .collect(),
    }
}
