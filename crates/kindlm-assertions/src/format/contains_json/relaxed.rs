//! A parser of relaxed JSON, as people and models write it.
//!
//! The parser also accepts:
//!
//! - keys and texts without quotes, or in single quotes;
//! - comments and trailing commas;
//! - keys without values.
//!
//! promptfoo accepts such texts with a YAML parser.

use serde_json::{Map, Value};

/// The characters that end a text without quotes.
const ENDS: &[char] = &[',', '{', '}', '[', ']'];

/// Parses a text that is a single object; returns `None` for any other text.
///
/// The function recurses for each level, so the caller must limit the nesting.
pub(super) fn object(text: &str) -> Option<Value> {
    let mut reader = Reader { rest: text };
    let object = reader.object()?;
    reader.rest.trim().is_empty().then_some(object)
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    /// Skips white space and comments.
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with("//") && !self.rest.starts_with('#') {
                return;
            }
            self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
        }
    }

    /// Skips white space and comments, and consumes this character if it follows.
    ///
    /// Returns true if the character followed.
    fn take(&mut self, wanted: char) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn object(&mut self) -> Option<Value> {
        let mut map = Map::new();
        if !self.take('{') {
            return None;
        }
        while !self.take('}') {
            let key = self.quoted().or_else(|| self.plain(true))?;
            let value = if self.take(':') { self.value()? } else { Value::Null };
            map.insert(key, value);
            if !self.take(',') {
                return self.take('}').then_some(Value::Object(map));
            }
        }
        Some(Value::Object(map))
    }

    fn list(&mut self) -> Option<Value> {
        let mut items = Vec::new();
        if !self.take('[') {
            return None;
        }
        while !self.take(']') {
            items.push(self.value()?);
            if !self.take(',') {
                return self.take(']').then_some(Value::Array(items));
            }
        }
        Some(Value::Array(items))
    }

    fn value(&mut self) -> Option<Value> {
        self.skip();
        match self.rest.chars().next()? {
            '{' => self.object(),
            '[' => self.list(),
            '"' | '\'' => self.quoted().map(Value::String),
            ',' | '}' | ']' => Some(Value::Null),
            _ => {
                let text = self.plain(false)?;
                Some(serde_json::from_str(&text).unwrap_or(Value::String(text)))
            }
        }
    }

    /// Reads a text in double or single quotes; `None` without an opening or a closing quote.
    fn quoted(&mut self) -> Option<String> {
        let quote = self.rest.chars().next().filter(|it| matches!(it, '"' | '\''))?;
        let mut escaped = false;
        let (end, _) = self.rest.char_indices().skip(1).find(|&(_, c)| {
            let ends = c == quote && !escaped;
            escaped = c == '\\' && !escaped && quote == '"';
            ends
        })?;
        let (whole, rest) = self.rest.split_at(end + 1);
        self.rest = rest;
        Some(serde_json::from_str(whole).unwrap_or_else(|_| whole[1..end].to_owned()))
    }

    /// Reads a text without quotes; `None` if the text is empty.
    ///
    /// A key ends at a colon. A value ends at a colon only if white space follows.
    fn plain(&mut self, key: bool) -> Option<String> {
        let mut before = ' ';
        let mut end = self.rest.len();
        for (at, c) in self.rest.char_indices() {
            let after = &self.rest[at + c.len_utf8()..];
            let colon =
                c == ':' && (key || after.is_empty() || after.starts_with(char::is_whitespace));
            let slashes = c == '/' && after.starts_with('/');
            let comment = before.is_whitespace() && (c == '#' || slashes);
            if colon || comment || ENDS.contains(&c) {
                end = at;
                break;
            }
            before = c;
        }
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_relaxed_json() {
        for (text, expected) in [
            ("{}", json!({})),
            ("{not: json}", json!({"not": "json"})),
            (
                "{a: 1, b: [true, x y, {c: null}, ], }",
                json!({"a": 1, "b": [true, "x y", {"c": null}]}),
            ),
            ("{'it': \"q\\n\", b}", json!({"it": "q\n", "b": null})),
            ("{ return 1; }", json!({"return 1;": null})),
            ("{u: http://x/y, # one\n v: 2 // two\n}", json!({"u": "http://x/y", "v": 2})),
        ] {
            assert_eq!(object(text), Some(expected), "{text}");
        }
        for text in
            ["", "a", "{", "{{a}}", "{a: b: c}", "{a: 1 b: 2}", "{[1]: 2}", "{a: 'x}", "{a} b"]
        {
            assert_eq!(object(text), None, "{text}");
        }
    }
}
