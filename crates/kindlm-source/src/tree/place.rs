//! Conversion of JSON pointers into places of a file.

use std::borrow::Cow;
use std::rc::Rc;

use kindlm_types::{MemberPart, pointer};

use super::{Kind, Node};
use crate::source::{Source, Span};

/// The place of a value or key.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LocatedSpan {
    /// The place to underline.
    pub span: Span,
    /// The place of the alias or merge key through which the value is used; `None` if the value is used directly.
    pub used_at: Option<Span>,
}

/// Finds the place of a key or value, or of the nearest parent that exists.
///
/// `MemberPart::Key` gives the key. `MemberPart::Value` gives the first line of the value, or the key if the value is:
///
/// - empty,
/// - a list or mapping in block style,
/// - a list or mapping that spans several lines.
///
/// An item of a list has no key, so its first line is returned.
pub fn locate(source: &Source, root: &Node, pointer: &str, place: MemberPart) -> LocatedSpan {
    let mut node = root;
    let mut key: Option<Span> = None;
    let mut used_at = root.used_at;
    for segment in pointer.split('/').skip(1) {
        let segment = unescape(segment);
        let next = match &node.kind {
            Kind::Mapping(entries) => entries.iter().find(|(it, _)| *it.name == *segment),
            _ => None,
        };
        if let Some((found, value)) = next {
            key = Some(found.span);
            node = value;
        } else if let Some(item) = segment.parse().ok().and_then(|it: usize| node.items().get(it)) {
            key = None;
            node = item;
        } else {
            break;
        }
        used_at = node.used_at.or(used_at);
    }
    let span = match (key, place) {
        (Some(key), MemberPart::Key) => key,
        (Some(key), MemberPart::Value) if !is_on_one_line(source, node) => key,
        _ => source.first_line(node.span),
    };
    LocatedSpan { span, used_at }
}

impl Node {
    /// Returns the value at a JSON pointer, for changing it. Returns `None` if the value does not exist.
    pub fn at_mut(&mut self, pointer: &str) -> Option<&mut Node> {
        pointer.split('/').skip(1).try_fold(self, |node, segment| {
            let segment = unescape(segment);
            match &mut node.kind {
                Kind::Mapping(entries) => {
                    let mut entries = Rc::make_mut(entries).iter_mut();
                    entries.find(|(it, _)| *it.name == *segment).map(|(_, value)| value)
                }
                Kind::List(items) => Rc::make_mut(items).get_mut(segment.parse::<usize>().ok()?),
                _ => None,
            }
        })
    }
}

/// Decodes a segment of a JSON pointer.
fn unescape(segment: &str) -> Cow<'_, str> {
    if segment.contains('~') { pointer::key(segment).into() } else { segment.into() }
}

fn is_on_one_line(source: &Source, node: &Node) -> bool {
    let text = source.slice(node.span);
    match node.kind {
        Kind::List(_) | Kind::Mapping(_) => text.starts_with(['[', '{']) && !text.contains('\n'),
        _ => !text.is_empty(),
    }
}
