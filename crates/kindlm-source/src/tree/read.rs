//! Parses YAML text into a tree, in bounded time and memory.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, StrInput};

use super::entries::Entries;
use super::{Key, Kind, MAX_ALIASED, MAX_DEPTH, MAX_NODES, Node, blame, syntax};
use crate::diagnostic::{Code, Diagnostic, MAX_DIAGNOSTICS};
use crate::source::{Source, Span};

/// A parsed document and its problems.
#[derive(Debug)]
#[non_exhaustive]
pub struct Tree {
    /// The value. `None` if the syntax is invalid or a limit is exceeded; null if the document is empty.
    pub root: Option<Node>,
    /// The problems of the document, at most [`MAX_DIAGNOSTICS`] and a final error.
    pub diagnostics: Vec<Diagnostic>,
}

type Stop = Box<Diagnostic>;

/// Parses one document in a part of a source. All spans are offsets in the whole source, not in `range`.
pub fn read_yaml(source: &Arc<Source>, range: Range<usize>) -> Tree {
    let text = source.text().get(range.clone()).unwrap_or_default();
    let mut options = granit_parser::options! {
        // The limit of the parser is higher than `MAX_DEPTH`, so that this module reports the error, at a better place.
        flow_nesting_limit: MAX_DEPTH + 2,
        block_nesting_limit: MAX_DEPTH + 2,
    };
    options.set_emit_comments(false);
    let mut reader = Reader {
        source,
        text,
        base: range.start,
        parser: Parser::new_from_str_with_options(text, options),
        anchors: HashMap::new(),
        open: Vec::new(),
        nodes: 0,
        aliased: 0,
        diagnostics: Vec::new(),
    };
    let root = match reader.document() {
        Ok(node) => Some(node),
        Err(stop) => {
            reader.diagnostics.push(*stop);
            None
        }
    };
    Tree { root, diagnostics: reader.diagnostics }
}

/// The size of a node with its aliases expanded.
///
/// `weight` counts nodes by the rules of [`MAX_ALIASED`], and `height` is the number of nested levels.
#[derive(Clone, Copy)]
struct Size {
    weight: u64,
    height: usize,
}

impl Size {
    fn add(&mut self, child: Size) {
        self.weight = self.weight.saturating_add(child.weight);
        self.height = self.height.max(child.height + 1);
    }
}

/// The result of reading a key.
enum ReadKey {
    Named(Key),
    /// The inner braces of a `{{…}}` without quotes.
    Placeholder,
    Broken,
}

pub(super) struct Reader<'s> {
    pub(super) source: &'s Arc<Source>,
    /// The part of the source that is read.
    text: &'s str,
    /// The offset of the part in the source, in bytes.
    base: usize,
    parser: Parser<'s, StrInput<'s>>,
    anchors: HashMap<usize, (Node, Size)>,
    /// The anchor of each list or mapping whose end was not read yet; 0 without an anchor. An alias of such an anchor
    /// is an error, because the value would contain itself.
    open: Vec<usize>,
    nodes: usize,
    aliased: u64,
    diagnostics: Vec<Diagnostic>,
}

impl<'s> Reader<'s> {
    fn document(&mut self) -> Result<Node, Stop> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(..) => {}
                Event::StreamEnd => {
                    let span = Span::new(self.base, self.base);
                    return Ok(Node { span, used_at: None, kind: Kind::Null });
                }
                event => {
                    let (node, _) = self.node(event, span, 0)?;
                    self.end()?;
                    return Ok(node);
                }
            }
        }
    }

    /// Fails if the text has a second document.
    fn end(&mut self) -> Result<(), Stop> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::DocumentEnd => {}
                Event::StreamEnd => return Ok(()),
                _ => {
                    return Err(self
                        .stop("a second document starts here", span)
                        .with_help("one file holds one document: remove the `---`")
                        .into());
                }
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'s>, Span), Stop> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                let range = span.byte_range().unwrap_or(0..0);
                Ok((event, Span::new(self.base + range.start, self.base + range.end)))
            }
            Some(Err(err)) => {
                let offset = err.marker().byte_offset().unwrap_or_default();
                if let Some(blame) = blame::find(self.text, offset, err.kind()) {
                    let span =
                        Span::new(self.base + blame.range.start, self.base + blame.range.end);
                    return Err(self.stop(blame.message, span).with_help(blame.help).into());
                }
                let at = self.base + offset;
                let rest = self.source.text().get(at..).unwrap_or_default();
                let width = rest.chars().next().filter(|it| *it != '\n').map_or(0, char::len_utf8);
                let (message, help) = syntax::describe(&err);
                let mut stop = self.stop(message, Span::new(at, at + width));
                stop.help = help.map(str::to_owned);
                Err(stop.into())
            }
            None => Err(self.stop("the document ends too early", Span::default()).into()),
        }
    }

    fn node(&mut self, event: Event<'s>, span: Span, depth: usize) -> Result<(Node, Size), Stop> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(self
                .stop(format!("the document has more than {MAX_NODES} keys and values"), span)
                .with_help("keep the tests in datasets: `tests: file://cases-*.jsonl`")
                .into());
        }
        if depth > MAX_DEPTH {
            return Err(self.too_deep(span));
        }
        match event {
            Event::Alias(id) => self.alias(id, span, depth),
            Event::Scalar(text, style, anchor, tag) => {
                let node = self.scalar(&text, style, tag.as_deref(), span);
                let size = Size { weight: 1 + text.len() as u64 / 32, height: 0 };
                Ok(self.anchored(anchor, node, size))
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.expect_tag(tag.as_deref(), "seq", span);
                self.list(anchor, span, depth)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.expect_tag(tag.as_deref(), "map", span);
                self.mapping(anchor, span, depth)
            }
            _ => Err(self.stop("expected a value here", span).into()),
        }
    }

    fn too_deep(&self, span: Span) -> Stop {
        self.stop(format!("nested deeper than {MAX_DEPTH} levels"), span)
            .with_help("no configuration needs that: is a bracket not closed?")
            .into()
    }

    fn alias(&mut self, id: usize, span: Span, depth: usize) -> Result<(Node, Size), Stop> {
        if self.open.contains(&id) {
            return Err(self
                .stop("the alias refers to a value that contains it", span)
                .with_label("this would never end")
                .into());
        }
        let Some((node, size)) = self.anchors.get(&id).cloned() else {
            return Err(self.stop("the alias has no anchor", span).into());
        };
        if depth + size.height > MAX_DEPTH {
            return Err(self.too_deep(span));
        }
        self.aliased = self.aliased.saturating_add(size.weight);
        if self.aliased > MAX_ALIASED {
            return Err(self
                .stop("the aliases of this document expand to too many values", span)
                .with_label("one alias too many")
                .with_related(self.source, node.span, "the value of the alias")
                .with_help(format!("together they may expand to {MAX_ALIASED} values"))
                .into());
        }
        Ok((Node { used_at: Some(span), ..node }, size))
    }

    fn anchored(&mut self, anchor: usize, node: Node, size: Size) -> (Node, Size) {
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
        (node, size)
    }

    fn list(&mut self, anchor: usize, start: Span, depth: usize) -> Result<(Node, Size), Stop> {
        self.open.push(anchor);
        let mut size = Size { weight: 1, height: 0 };
        let mut items: Vec<Node> = Vec::new();
        let end = loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                break span;
            }
            let (item, child) = self.node(event, span, depth + 1)?;
            size.add(child);
            items.push(item);
        };
        self.open.pop();
        let last = items.last().map(|it| it.used_at.unwrap_or(it.span));
        let node = Node {
            span: enclose(start, last, end),
            used_at: None,
            kind: Kind::List(Rc::new(items)),
        };
        Ok(self.anchored(anchor, node, size))
    }

    fn mapping(&mut self, anchor: usize, start: Span, depth: usize) -> Result<(Node, Size), Stop> {
        self.open.push(anchor);
        let mut size = Size { weight: 1, height: 0 };
        let mut entries = Entries::default();
        let mut merges: Vec<Node> = Vec::new();
        let mut last = None;
        let mut is_placeholder = false;
        let end = loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                break span;
            }
            let is_merge =
                matches!(&event, Event::Scalar(text, ScalarStyle::Plain, ..) if text == "<<");
            let key = self.key(event, span, depth)?;
            let (event, span) = self.next()?;
            let (value, child) = self.node(event, span, depth + 1)?;
            size.add(child);
            size.weight = size.weight.saturating_add(1);
            last = Some(value.used_at.unwrap_or(value.span).max(span));
            match key {
                ReadKey::Named(_) if is_merge => merges.push(value),
                ReadKey::Named(key) => self.insert(&mut entries, key, value),
                ReadKey::Placeholder => is_placeholder = true,
                ReadKey::Broken => {}
            }
        };
        self.open.pop();
        for merge in merges {
            self.merge(&merge, merge.used_at, &mut entries);
        }
        let span = enclose(start, last, end);
        let kind = if is_placeholder {
            // Use the text that the user meant, so that no other check reports a wrong type.
            Kind::Text(self.source.slice(span).into())
        } else {
            Kind::Mapping(Rc::new(entries.list))
        };
        let node = Node { span, used_at: None, kind };
        Ok(self.anchored(anchor, node, size))
    }

    /// Reads a key. Reports a key that is not a scalar, such as a list or mapping.
    ///
    /// Fails for a syntax error, and if a limit is exceeded.
    fn key(&mut self, event: Event<'s>, span: Span, depth: usize) -> Result<ReadKey, Stop> {
        if let Event::Scalar(text, _, 0, None) = &event {
            self.nodes += 1;
            return Ok(ReadKey::Named(Key { name: text.as_ref().into(), span }));
        }
        let raw = match &event {
            Event::Scalar(text, ..) => Some(Rc::from(text.as_ref())),
            _ => None,
        };
        let (node, _) = self.node(event, span, depth + 1)?;
        let name = match (raw, &node.kind) {
            (Some(raw), _) => raw,
            (None, Kind::Text(text)) => text.clone(),
            (None, Kind::Number(number)) => number.to_string().into(),
            (None, Kind::Mapping(_)) if self.is_placeholder(node.span) => {
                let diagnostic = self
                    .stop("`{{…}}` at the start of a value must be in quotes", span)
                    .with_label("YAML reads this as a mapping")
                    .with_help("write \"{{name}}\"");
                self.report(diagnostic);
                return Ok(ReadKey::Placeholder);
            }
            _ => {
                let diagnostic = self
                    .stop("a key must be a text", span)
                    .with_label("a list or a mapping cannot be a key");
                self.report(diagnostic);
                return Ok(ReadKey::Broken);
            }
        };
        Ok(ReadKey::Named(Key { name, span }))
    }

    /// Returns true if a flow mapping is directly inside of other braces, as in `{{…}}`.
    fn is_placeholder(&self, span: Span) -> bool {
        let text = self.source.text();
        text.get(..span.start as usize).is_some_and(|it| it.ends_with('{'))
            && text.get(span.end as usize..).is_some_and(|it| it.starts_with('}'))
    }

    fn insert(&mut self, entries: &mut Entries, key: Key, value: Node) {
        if let Some(first) = entries.find(&key.name) {
            let diagnostic = Diagnostic::error(
                Code::DUPLICATE,
                format!("duplicate key `{}`", key.name),
                self.source,
                key.span,
            )
            .with_label("given again")
            .with_related(self.source, first, "given first")
            .with_help("remove one of the two");
            self.report(diagnostic);
        } else {
            entries.push(key, value);
        }
    }

    fn merge(&mut self, from: &Node, used_at: Option<Span>, entries: &mut Entries) {
        match &from.kind {
            Kind::Mapping(found) => {
                for (key, value) in found.iter() {
                    if entries.find(&key.name).is_none() {
                        let used_at = value.used_at.or(used_at);
                        entries.push(key.clone(), Node { used_at, ..value.clone() });
                    }
                }
            }
            Kind::List(items) => {
                for item in items.iter() {
                    self.merge(item, item.used_at.or(used_at), entries);
                }
            }
            _ => {
                let diagnostic = self
                    .stop("`<<` merges mappings only", used_at.unwrap_or(from.span))
                    .with_help("give it a mapping, an alias of one, or a list of those");
                self.report(diagnostic);
            }
        }
    }

    pub(super) fn stop(&self, message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic::error(Code::SYNTAX, message, self.source, span)
    }

    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < MAX_DIAGNOSTICS {
            self.diagnostics.push(diagnostic);
        }
    }
}

/// Returns the span of a collection. In block style, the end event may lie in the white space after the collection.
fn enclose(start: Span, last: Option<Span>, end: Span) -> Span {
    let is_flow = end.end > end.start;
    let end = match (is_flow, last) {
        (true, _) => end.end,
        (false, Some(last)) => last.end,
        (false, None) => start.end,
    };
    Span { start: start.start, end: end.max(start.end) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_an_error_is_in_the_part_that_is_read() {
        let first = r#"{"a": "b" "c"}"#;
        let source = Arc::new(Source::new("a.jsonl", format!("{first}\n\t{{}}\n")));
        let tree = read_yaml(&source, 0..first.len());
        let [error] = tree.diagnostics.as_slice() else { panic!("{:?}", tree.diagnostics) };
        assert_eq!(error.position().line, 1, "{}", error.message);
    }
}
