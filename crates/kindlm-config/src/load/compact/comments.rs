//! The comments of a promptfoo config, and the parts of the suite to which they belong.

use std::collections::HashMap;

use kindlm_source::{Kind, Node, Span, read_yaml};
use serde_json::Value;

use super::original::Original;

/// The comments of a suite.
#[derive(Debug, Default)]
pub(in crate::load) struct Comments {
    /// The comments at the beginning of the file.
    pub(super) head: Vec<String>,
    /// The comments at the end of the file.
    pub(super) tail: Vec<String>,
    /// The comments before the entries of the document, by their key.
    keys: HashMap<String, Vec<String>>,
    /// The comments before entries of lists and mappings, by the key of the document and the name of the entry.
    entries: HashMap<(String, String), Vec<String>>,
    /// All comments that belong to a part.
    all: Vec<String>,
}

impl Comments {
    /// Collects the comments of a config. A comment belongs to the config's entry below it, and so to the part of the
    /// suite that is made from this entry.
    pub(in crate::load) fn from_original(original: &Original<'_>) -> Self {
        let mut comments = Self::default();
        let text = original.source.text();
        let Some(root) = read_yaml(original.source, 0..text.len()).root else { return comments };
        let mut texts = Vec::new();
        collect_texts(&root, &mut texts);
        texts.sort_by_key(|it| it.start);
        let mut open: Vec<String> = Vec::new();
        let mut end = 0;
        let mut is_first = true;
        for line in text.split_inclusive('\n') {
            let begin = end;
            end += line.len();
            let line = line.trim_end();
            let comment = comment_in(line, begin, &texts);
            // Leave out the comment that names promptfoo's schema, because the schema does not describe the suite.
            let written = comment.and_then(|it| line.get(it..));
            let written = written.filter(|it| !it.contains("$schema="));
            // A setting that was commented out may contain an API key.
            open.extend(written.map(|it| kindlm_redact::mask_keys(it).into_owned()));
            let content = line.get(..comment.unwrap_or(line.len())).unwrap_or_default();
            let Some(at) = content.find(|it: char| !it.is_whitespace() && it != '-') else {
                continue;
            };
            if is_first {
                comments.head.append(&mut open);
            } else if !open.is_empty() {
                comments.add(original, &root, begin + at, std::mem::take(&mut open));
            }
            is_first = false;
        }
        comments.tail = open;
        comments
    }

    /// Adds comments to the part of the suite that is made from the config's entry at this offset.
    fn add(&mut self, original: &Original<'_>, root: &Node, at: usize, lines: Vec<String>) {
        self.all.extend(lines.iter().cloned());
        let begins = |span: Span| span.start as usize <= at;
        let Some((key, value)) = root.entries().iter().rfind(|(key, _)| begins(key.span)) else {
            return self.head.extend(lines);
        };
        let part = suite_key(&key.name);
        let items: Vec<Span> = match &value.kind {
            Kind::List(items) => items.iter().map(|it| it.span).collect(),
            Kind::Mapping(entries) if part == "prompts" => {
                entries.iter().map(|(key, it)| Span { start: key.span.start, ..it.span }).collect()
            }
            _ => Vec::new(),
        };
        let item = items.into_iter().rfind(|it| begins(*it));
        let name = item.and_then(|it| name_of(original, part, it));
        let known = match name {
            Some(name) => self.entries.entry((part.to_owned(), name)).or_default(),
            None => self.keys.entry(part.to_owned()).or_default(),
        };
        known.extend(lines);
    }

    /// Returns the comments before a key of the document.
    pub(super) fn of_key(&self, key: &str) -> Vec<String> {
        self.keys.get(key).cloned().unwrap_or_default()
    }

    /// Returns the comments before an entry with this name.
    ///
    /// A test with several prompts or variants becomes several tests. The first of these tests keeps the comments.
    pub(super) fn of_name(&self, key: &str, name: &str) -> Vec<String> {
        let is_part = |it: &str| match it.strip_prefix(name) {
            Some(rest) => rest.is_empty() || rest.starts_with(" · ") || rest == ", variant 1",
            None => false,
        };
        let of_test = |it: &str| {
            is_part(it) || it.split(", variant 1 · ").next().is_some_and(|it| it == name)
        };
        let found = self.entries.iter().filter(|((part, it), _)| {
            part == key && if key == "tests" { of_test(it) } else { it == name }
        });
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(|((_, it), _)| it.len());
        found.first().map(|(_, lines)| (*lines).clone()).unwrap_or_default()
    }

    /// Returns the comments before an item of a list.
    pub(super) fn of_item(&self, key: &str, item: &Value) -> Vec<String> {
        let names = [item.get("name"), item.get("id"), item.get("model"), Some(item)];
        let name = names.into_iter().flatten().find_map(Value::as_str);
        name.map(|it| self.of_name(key, it)).unwrap_or_default()
    }

    /// Returns the comments that do not occur as a line of `written`.
    pub(super) fn lost_in<'c>(&'c self, written: &'c str) -> impl Iterator<Item = &'c String> {
        let is_lost = |comment: &&String| !written.lines().any(|it| it.trim_start() == **comment);
        self.all.iter().filter(is_lost)
    }
}

/// Returns the suite's key for a key of a promptfoo config.
fn suite_key(key: &str) -> &str {
    match key {
        "description" => "suite",
        "providers" | "targets" => "models",
        "scenarios" => "tests",
        "defaultTest" | "evaluateOptions" | "commandLineOptions" => "defaults",
        "outputPath" => "reports",
        other => other,
    }
}

/// Returns the name of the first entry of `part` that is made from this place of the config; `None` without such an
/// entry.
fn name_of(original: &Original<'_>, part: &str, place: Span) -> Option<String> {
    let is_within =
        |it: &Node| place.start <= it.span.start && it.span.start < place.end.max(place.start + 1);
    let part_node = original.root.get(part)?;
    let text = |it: &Node, key: &str| Some(it.get(key)?.text()?.to_owned());
    match part {
        "prompts" => {
            let found = part_node.entries().iter().find(|(_, it)| is_within(it));
            found.map(|(key, _)| key.name.to_string())
        }
        "tests" => {
            part_node.items().iter().find(|it| is_within(it)).and_then(|it| text(it, "name"))
        }
        "models" => {
            let is_made = |it: &&Node| is_within(it) || it.get("id").is_some_and(is_within);
            part_node.items().iter().find(is_made).and_then(|it| text(it, "id"))
        }
        _ => None,
    }
}

/// Collects the places of all texts, keys included.
fn collect_texts(node: &Node, texts: &mut Vec<Span>) {
    match &node.kind {
        Kind::Text(_) => texts.push(node.span),
        Kind::List(items) => items.iter().for_each(|it| collect_texts(it, texts)),
        Kind::Mapping(entries) => {
            for (key, value) in entries.iter() {
                texts.push(key.span);
                collect_texts(value, texts);
            }
        }
        _ => {}
    }
}

/// Returns the position of the comment in a line; `None` without a comment. `begin` is the offset of the line.
///
/// A `#` in one of the `texts` begins no comment.
fn comment_in(line: &str, begin: usize, texts: &[Span]) -> Option<usize> {
    line.match_indices('#').map(|(at, _)| at).find(|at| {
        let is_apart = line.get(..*at).is_some_and(|it| it.is_empty() || it.ends_with([' ', '\t']));
        let offset = begin + at;
        let next = texts.partition_point(|it| it.start as usize <= offset);
        let before = next.checked_sub(1).and_then(|it| texts.get(it));
        is_apart && before.is_none_or(|it| offset >= it.end as usize)
    })
}
