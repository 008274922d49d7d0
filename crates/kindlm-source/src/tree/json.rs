//! A fast JSON parser, because most datasets are JSON.
//!
//! JSON is also YAML, and this parser returns the same tree with the same places. It rejects invalid JSON, except for
//! YAML's numbers such as `0x1F`. It also rejects some valid JSON, such as JSON with duplicate keys, with tabs between
//! values or with deep nesting. The YAML parser then reads the text and reports its errors.

use std::ops::Range;
use std::rc::Rc;

use super::entries::Entries;
use super::{Key, Kind, MAX_NODES, Node, scalar};
use crate::source::{Source, Span};

/// The deepest nesting that this parser reads. The YAML parser reads deeper text and reports the limit.
const DEPTH: usize = 64;

/// Parses a part of a source as JSON. Returns `None` for text that the YAML parser must read.
///
/// Places count from the start of the source.
pub fn read_json(source: &Source, range: Range<usize>) -> Option<Node> {
    let text = source.text().get(range.clone())?;
    let mut cursor = Cursor { text, base: range.start, at: 0, nodes: 0 };
    let node = cursor.value(0)?;
    cursor.skip_blanks();
    (cursor.at == text.len()).then_some(node)
}

struct Cursor<'t> {
    text: &'t str,
    /// The offset of the text in the source, in bytes.
    base: usize,
    at: usize,
    nodes: usize,
}

impl<'t> Cursor<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Skips blanks and the given byte. Returns `None` if another byte follows.
    fn expect(&mut self, byte: u8) -> Option<()> {
        self.skip_blanks();
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Skips a comma (returns `true`) or the end of a collection (returns `false`). Returns `None` for another byte.
    fn goes_on(&mut self, end: u8) -> Option<bool> {
        self.skip_blanks();
        let byte = self.peek()?;
        self.at += 1;
        if byte == b',' { Some(true) } else { (byte == end).then_some(false) }
    }

    /// Skips the closing bracket of an empty collection. Returns false if another byte follows.
    fn ends(&mut self, end: u8) -> bool {
        self.skip_blanks();
        let ends = self.peek() == Some(end);
        self.at += usize::from(ends);
        ends
    }

    fn span(&self, start: usize) -> Span {
        Span::new(self.base + start, self.base + self.at)
    }

    fn value(&mut self, depth: usize) -> Option<Node> {
        self.nodes += 1;
        if depth > DEPTH || self.nodes > MAX_NODES {
            return None;
        }
        self.skip_blanks();
        let start = self.at;
        let kind = match self.peek()? {
            b'{' => self.object(depth)?,
            b'[' => self.list(depth)?,
            b'"' => Kind::Text(self.string()?),
            b'-' | b'0'..=b'9' => Kind::Number(scalar::number(self.word()).ok()??),
            _ => match self.word() {
                "true" => Kind::Bool(true),
                "false" => Kind::Bool(false),
                "null" => Kind::Null,
                _ => return None,
            },
        };
        Some(Node { span: self.span(start), used_at: None, kind })
    }

    fn object(&mut self, depth: usize) -> Option<Kind> {
        self.at += 1;
        let mut entries = Entries::default();
        let mut open = !self.ends(b'}');
        while open {
            self.skip_blanks();
            let start = self.at;
            let name = self.string()?;
            // The YAML parser reports duplicate keys and handles the merge key `<<`.
            if &*name == "<<" || entries.find(&name).is_some() {
                return None;
            }
            let key = Key { name, span: self.span(start) };
            self.nodes += 1;
            self.expect(b':')?;
            let value = self.value(depth + 1)?;
            entries.push(key, value);
            open = self.goes_on(b'}')?;
        }
        Some(Kind::Mapping(Rc::new(entries.list)))
    }

    fn list(&mut self, depth: usize) -> Option<Kind> {
        self.at += 1;
        let mut items = Vec::new();
        let mut open = !self.ends(b']');
        while open {
            items.push(self.value(depth + 1)?);
            open = self.goes_on(b']')?;
        }
        Some(Kind::List(Rc::new(items)))
    }

    /// Parses a quoted text. Returns `None` for invalid JSON, and for a text with the character U+007F.
    fn string(&mut self) -> Option<Rc<str>> {
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.at;
        let mut is_escaped = false;
        loop {
            self.at += 1;
            match self.peek()? {
                b'"' => break,
                b'\\' => {
                    is_escaped = true;
                    self.at += 1;
                }
                0..0x20 | 0x7F => return None,
                _ => {}
            }
        }
        self.at += 1;
        let quoted = self.text.get(start..self.at)?;
        if is_escaped {
            serde_json::from_str::<String>(quoted).ok().map(Into::into)
        } else {
            quoted.get(1..quoted.len() - 1).map(Into::into)
        }
    }

    /// Skips and returns a run of letters, digits, `-`, `+` and `.`.
    fn word(&mut self) -> &'t str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let is_part = |it: &u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'+' | b'.');
        let length = rest.bytes().take_while(|it| is_part(it)).count();
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tree::read_yaml;

    /// Parses a text as JSON, and compares the result with the YAML parser's result.
    ///
    /// Both parsers must return the same tree with the same places. Returns the tree as JSON text, or `None` if the
    /// JSON parser rejects the text.
    fn tree(text: &str) -> Option<String> {
        let source = Arc::new(Source::new("a.jsonl", format!("# {text}")));
        let range = 2..source.text().len();
        let ours = read_json(&source, range.clone())?;
        let theirs = read_yaml(&source, range);
        assert!(theirs.diagnostics.is_empty(), "{text}: {:?}", theirs.diagnostics);
        assert_eq!(format!("{ours:?}"), format!("{:?}", theirs.root.unwrap()), "{text}");
        Some(ours.to_json().to_string())
    }

    #[test]
    fn json_gives_the_tree_of_the_yaml_parser() {
        for text in [
            r#"{"a": [1, -2.5, 1e3, true, false, null], "b": {"c": "ü \"\n\u00e9\/", "": []}, "d": {}}"#,
            r#"{ "a" : "x" , "b":[ ] ,"c":{ } }"#,
            "[\n  {\"name\": \"a\"},\n  {\"name\": \"b: c # d\"}\n]",
            r#""{{x}}""#,
            "17",
            "[18446744073709551615, 123456789012345678901, 0.1]",
            r#"{"a1":1,"a2":2,"a3":3,"a4":4,"a5":5,"a6":6,"a7":7,"a8":8,"a9":9,"a10":1,"a11":1,"a12":1,"a13":1}"#,
        ] {
            assert!(tree(text).is_some(), "{text}");
        }
    }

    #[test]
    fn leaves_other_texts_to_the_yaml_parser() {
        for text in [
            "",
            "a: 1",
            r#"{"a": 1, "a": 2}"#,
            r#"{"<<": {}}"#,
            r#"{"a": 1,}"#,
            r#"{"a" 1}"#,
            r#"{"a": 1} x"#,
            r#"{"a": 017}"#,
            r#"{"a": 1e999}"#,
            r#"{"a": "\ud800"}"#,
            r#"{"a": "\x41"}"#,
            "{\"a\": \"x\ty\"}",
            "{\"a\": \"x\ny\"}",
            r#"{"a": yes}"#,
            r#"{"a": &x 1}"#,
            "{a: 1}",
            "{\"a\": 1",
            &"[".repeat(100),
        ] {
            assert_eq!(tree(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_yaml_about_any_value(texts in proptest::collection::vec("[ -~äß🐎\\n\"\\\\]{0,8}", 1..6), number in -1e6..1e6_f64, integer: i64) {
            let items: Vec<serde_json::Value> = texts.iter().map(|it| serde_json::json!({ it: [it, number, integer] })).collect();
            let text = serde_json::Value::from(items).to_string();
            if !text.contains("\"<<\"") {
                proptest::prop_assert!(tree(&text).is_some(), "{}", text);
            }
        }
    }
}
