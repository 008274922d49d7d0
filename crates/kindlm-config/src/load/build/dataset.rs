//! Tests from other files.
//!
//! A text such as `file://cases.jsonl` names a dataset, or a glob of datasets.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use kindlm_source::{
    Code, Diagnostic, Key, Kind, Level, Node, Piece, Source, Span, read_json, read_yaml,
};
use kindlm_types::{MemberPart, suggest};
use serde::de::IgnoredAny;

use super::Builder;
use crate::load::default_test::merged;
use crate::load::resolve::Prompts;
use crate::load::{FILE, no_scripts};

/// The keys for the subject of a test.
const SUBJECTS: &[&str] = &["prompt", "command", "agent", "transcript"];

/// The supported formats, for error messages.
const FORMATS: &str = "datasets are `.jsonl`, `.json`, `.yaml` or `.csv` files";

impl Builder<'_> {
    /// Reads the tests of the files that a `file://` text names.
    pub(super) fn dataset(&mut self, piece: Piece<'_>, at: &str, text: &str, prompts: &Prompts) {
        let Some(path) = text.strip_prefix(FILE).filter(|it| !it.is_empty()) else {
            let diagnostic = piece
                .error(
                    Code::INVALID_VALUE,
                    at,
                    MemberPart::Value,
                    "expected a test, or `file://` and the path of a dataset",
                )
                .with_help(format!("{FORMATS}: `file://cases.jsonl`, `file://cases/*.yaml`"));
            self.base.sink.push(diagnostic);
            return;
        };
        let paths = if path.contains(['*', '?', '[', '{']) {
            match self.base.around.files.glob(path) {
                Ok(paths) if paths.is_empty() => {
                    let diagnostic = piece
                        .error(
                            Code::FILE,
                            at,
                            MemberPart::Value,
                            format!("`{path}` matches no file"),
                        )
                        .with_help("the pattern is relative to the folder of the config file");
                    self.base.sink.push(diagnostic);
                    return;
                }
                Ok(paths) => paths,
                Err(err) => return self.base.sink.report_file(piece, at, &err),
            }
        } else {
            vec![path.to_owned()]
        };
        for path in paths {
            if self.base.sink.is_full {
                return;
            }
            match self.base.around.files.read_file(&path) {
                Ok(text) => self.dataset_file(piece, at, &path, text, prompts),
                Err(err) => self.base.sink.report_file(piece, at, &err),
            }
        }
    }

    /// Reads the tests of an item with the key `dataset`. The item's key `format` names the format of the file.
    pub(super) fn described_dataset(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        item: &Node,
        file: &Node,
        prompts: &Prompts,
    ) {
        let mut is_faulty = false;
        for (key, value) in item.entries() {
            let (message, help) = match (&*key.name, value.text()) {
                ("dataset", Some(text)) if text.len() > FILE.len() && text.starts_with(FILE) => {
                    continue;
                }
                ("format", Some("kindlm" | "promptfoo")) => continue,
                ("dataset", _) => {
                    ("expected `file://` and the path of a dataset".to_owned(), FORMATS)
                }
                ("format", _) => {
                    ("unknown format".to_owned(), "write `promptfoo`, or leave `format` out")
                }
                (name, _) => (
                    format!("unknown key `{name}` of a dataset"),
                    "a dataset has the keys `dataset` and `format`; entries of all tests are in `defaults.test`",
                ),
            };
            let at = format!("{at}/{}", kindlm_types::pointer::segment(&key.name));
            let diagnostic = piece.error(Code::INVALID_VALUE, &at, MemberPart::Value, message);
            self.base.sink.push(diagnostic.with_help(help));
            is_faulty = true;
        }
        let text = file.text().unwrap_or_default().to_owned();
        if is_faulty {
            return;
        }
        if item.get("format").and_then(Node::text) == Some("promptfoo") {
            self.promptfoo_dataset(piece, at, file, &text, prompts);
        } else {
            self.dataset(piece, &format!("{at}/dataset"), &text, prompts);
        }
    }

    /// Reads the tests of a file in promptfoo's format.
    fn promptfoo_dataset(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        file: &Node,
        name: &str,
        prompts: &Prompts,
    ) {
        let around = self.base.around;
        // A dataset cannot run programs or use the network.
        let inputs = kindlm_promptfoo::Inputs::new(
            around.files,
            around.env,
            Arc::new(|_| Err(no_scripts())),
        );
        let span = file.used_at.unwrap_or(file.span);
        let read = kindlm_promptfoo::translate_tests(piece.source, span, name, &inputs);
        let is_broken = read.diagnostics.iter().any(|it| it.level == Level::Error);
        read.diagnostics.into_iter().for_each(|it| self.base.sink.push(it));
        if is_broken {
            return;
        }
        let before = self.cases.len();
        for test in read.root.items() {
            if self.base.sink.is_full {
                return;
            }
            let whole;
            let test = match around.default_test {
                Some(default) => {
                    whole = merged(test, &Node::at(span, default));
                    &whole
                }
                None => test,
            };
            let before = self.base.sink.counts();
            self.test(piece, at, test, prompts);
            let row = test.get("name").and_then(Node::text).unwrap_or_default();
            let path = name.strip_prefix(FILE).unwrap_or(name);
            self.base.sink.label_from(before, &format!("in the test `{row}` of `{path}`"));
        }
        if self.cases.len() == before && self.base.sink.errors.is_empty() {
            let message = format!("`{name}` has no tests in it");
            let diagnostic = piece.error(Code::FILE, at, MemberPart::Value, message);
            let help = "an empty dataset would pass without checking anything";
            self.base.sink.push(diagnostic.with_help(help));
        }
    }

    fn dataset_file(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        path: &str,
        text: Arc<str>,
        prompts: &Prompts,
    ) {
        let text = match text.strip_prefix('\u{feff}') {
            Some(text) => text.into(),
            None => text,
        };
        let source = Arc::new(self.base.around.source.beside(path, text));
        let before = self.cases.len();
        let errors = self.base.sink.errors.len();
        let file = path.rsplit('/').next().unwrap_or(path);
        let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
        match extension.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" => self.lines(&source, prompts),
            "json" | "yaml" | "yml" => self.list(&source, prompts),
            "csv" => self.table(&source, prompts),
            other => {
                let known = ["jsonl", "json", "yaml", "csv"];
                let help = match kindlm_types::nearest(other, known) {
                    Some(_) => suggest(other, "formats", known),
                    None => FORMATS.to_owned(),
                };
                let message = format!("`{path}` is not a dataset: unsupported file extension");
                let diagnostic =
                    piece.error(Code::FILE, at, MemberPart::Value, message).with_help(help);
                self.base.sink.push(diagnostic);
                return;
            }
        }
        if self.cases.len() == before && self.base.sink.errors.len() == errors {
            let diagnostic = piece
                .error(Code::FILE, at, MemberPart::Value, format!("`{path}` has no tests in it"))
                .with_help("an empty dataset would pass without checking anything");
            self.base.sink.push(diagnostic);
        }
    }

    /// Reads a file with one test per line.
    fn lines(&mut self, source: &Arc<Source>, prompts: &Prompts) {
        let mut start = 0;
        for line in source.text().split_inclusive('\n') {
            let range = start..start + line.trim_end().len();
            start += line.len();
            if line.trim().is_empty() {
                continue;
            }
            if self.base.sink.is_full {
                return;
            }
            let Some(root) = self.read_json_or_yaml(source, range.clone()) else { continue };
            // YAML accepts nearly any text. Report the JSON syntax error instead of missing keys.
            let is_test = ["name", "vars", "expect"].iter().chain(SUBJECTS);
            match serde_json::from_str::<IgnoredAny>(line.trim_end()) {
                Err(err) if !is_test.into_iter().any(|it| root.get(it).is_some()) => {
                    let span = Span::new(range.start, range.end);
                    let reason = err.to_string();
                    let reason = reason.split(" at line").next().unwrap_or_default();
                    let message = format!("this line is not JSON: {reason}");
                    let diagnostic = Diagnostic::error(Code::SYNTAX, message, source, span);
                    self.base.sink.push(diagnostic.with_help(
                        "write one test in each line: `{\"name\": \"…\", \"vars\": {…}, \"expect\": {…}}`",
                    ));
                }
                _ => self.row(source, "", &root, prompts),
            }
        }
    }

    fn read_json_or_yaml(&mut self, source: &Arc<Source>, range: Range<usize>) -> Option<Node> {
        if let Some(root) = read_json(source, range.clone()) {
            return Some(root);
        }
        let tree = read_yaml(source, range);
        tree.diagnostics.into_iter().for_each(|it| self.base.sink.push(it));
        tree.root
    }

    /// Reads a file with a list of tests.
    fn list(&mut self, source: &Arc<Source>, prompts: &Prompts) {
        let root = self.read_json_or_yaml(source, 0..source.text().len());
        let Some(root) = root else { return };
        if !matches!(root.kind, Kind::List(_) | Kind::Null) {
            let diagnostic = Diagnostic::error(
                Code::INVALID_VALUE,
                "expected a list of tests",
                source,
                root.span,
            )
            .with_help("begin each test with `- `");
            self.base.sink.push(diagnostic);
            return;
        }
        for (index, item) in root.items().iter().enumerate() {
            if self.base.sink.is_full {
                return;
            }
            self.row(source, &format!("/{index}"), item, prompts);
        }
    }

    /// Reads one test of a dataset. Without a name, the test is named after its file and line.
    pub(super) fn row(
        &mut self,
        source: &Arc<Source>,
        prefix: &str,
        node: &Node,
        prompts: &Prompts,
    ) {
        let (named, whole);
        let node = match self.base.around.default_test {
            Some(default) => {
                // The default test's spans point into the config file, so give its entries the place of the row.
                let span = source.first_line(node.span);
                whole = merged(node, &Node::at(span, default));
                &whole
            }
            None => node,
        };
        let node = match &node.kind {
            Kind::Mapping(entries) if node.get("name").is_none() => {
                let span = source.first_line(node.span);
                let file = source.name().rsplit('/').next().unwrap_or_default();
                let name = format!("{file}:{}", source.position(span.start).line);
                let mut entries = entries.to_vec();
                entries.push(entry("name", span, Kind::Text(name.into())));
                named = Node { kind: Kind::Mapping(Rc::new(entries)), ..node.clone() };
                &named
            }
            _ => node,
        };
        self.test(Piece::new(source, node, prefix), "", node, prompts);
    }
}

/// Makes an entry that is not in the file. `span` is its place for error messages.
pub(super) fn entry(key: &str, span: Span, kind: Kind) -> (Key, Node) {
    (Key::new(key, span), Node { span, used_at: None, kind })
}
