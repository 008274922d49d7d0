//! Writes a suite as YAML, with the comments of the original. Short parts take one line. Repeated parts are written
//! once.

use std::collections::HashMap;

use kindlm_source::Source;
use serde_json::{Map, Value};

use super::comments::Comments;

/// The minimum length of a value's JSON, in bytes, for a repeated value to become an alias.
const LONG: usize = 48;

/// The minimum length of a prompt's name for an anchor, in bytes. Only a name that is also the prompt's text gets an
/// anchor.
const SHORTEST_NAME: usize = 16;

/// The maximum length of a list or mapping in one line, in characters, including the text before it.
const WIDTH: usize = 120;

/// The minimum length of a key that is written after `?`, in bytes. YAML requires the mark above 1,024 characters.
const LONGEST_KEY: usize = 1_000;

/// The parts of a suite whose entries stand in lines of their own.
const BLOCKS: [&str; 3] = ["models", "prompts", "tests"];

/// Writes a document as YAML. A long value that occurs several times gets an anchor, and then aliases.
///
/// Returns `None` if the YAML would be read back as another value.
pub(in crate::load) fn to_yaml(root: &Value, comments: &Comments) -> Option<String> {
    let mut aliases = Aliases::default();
    aliases.count_root(root);
    let document = aliases.document(root, comments);
    let mut out: String = comments.head.iter().flat_map(|it| [it.as_str(), "\n"]).collect();
    block(&document, 0, &mut out);
    let ending: String =
        comments.lost_in(&out).chain(&comments.tail).flat_map(|it| [it.as_str(), "\n"]).collect();
    out.push_str(&ending);
    let source = std::sync::Arc::new(Source::new("kindlm.yaml", out.as_str()));
    let read = kindlm_source::read_yaml(&source, 0..out.len());
    let is_same =
        read.diagnostics.is_empty() && read.root.is_some_and(|it| equal(&it.to_json(), root));
    is_same.then_some(out)
}

/// True if two values are equal. Numbers are compared by value: `1` equals `1.0`.
pub(in crate::load) fn equal(first: &Value, second: &Value) -> bool {
    match (first, second) {
        (Value::Number(_), Value::Number(_)) => first.as_f64() == second.as_f64(),
        (Value::Array(first), Value::Array(second)) => {
            first.len() == second.len() && first.iter().zip(second).all(|(a, b)| equal(a, b))
        }
        (Value::Object(first), Value::Object(second)) => {
            let same = |((a, one), (b, other)): ((&String, &Value), (&String, &Value))| {
                a == b && equal(one, other)
            };
            first.len() == second.len() && first.iter().zip(second).all(same)
        }
        _ => first == second,
    }
}

/// A value with its anchor and its comments.
#[derive(Debug)]
struct Part {
    comments: Vec<String>,
    anchor: Option<usize>,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Alias(usize),
    Text(String),
    /// Null, a number or a truth value.
    Plain(String),
    List(Vec<Part>),
    Mapping(Vec<(Label, Part)>),
}

/// A key with its anchor.
#[derive(Debug)]
struct Label {
    anchor: Option<usize>,
    text: String,
}

#[derive(Default)]
struct Aliases {
    /// The number of occurrences of each long value, by its JSON.
    counts: HashMap<String, usize>,
    /// The numbers of the values with an anchor, by their JSON.
    anchors: HashMap<String, usize>,
}

impl Aliases {
    fn count_root(&mut self, root: &Value) {
        for (key, value) in root.as_object().into_iter().flatten() {
            let prompts = value.as_object().filter(|_| key == "prompts");
            for (name, prompt) in prompts.into_iter().flatten() {
                if is_its_text(name, prompt) {
                    *self.counts.entry(json_of(name)).or_default() += 1;
                }
            }
            self.count(value);
        }
    }

    fn count(&mut self, value: &Value) {
        let known = match value {
            // The name of a prompt is counted even if it is short.
            Value::String(text) => Some(json_of(text)).filter(|it| self.counts.contains_key(it)),
            _ => None,
        };
        if let Some(json) = known.or_else(|| long(value)) {
            let count = self.counts.entry(json).or_default();
            *count += 1;
            // The parts of a repeated value were counted with its first copy.
            if *count > 1 {
                return;
            }
        }
        match value {
            Value::Array(items) => items.iter().for_each(|it| self.count(it)),
            Value::Object(entries) => entries.values().for_each(|it| self.count(it)),
            _ => {}
        }
    }

    /// Returns the number of the anchor of a value: `Ok` if the anchor exists already, and `Err` for a new anchor.
    ///
    /// Returns `None` for a value that occurs only once, or that was not counted.
    fn anchor(&mut self, json: String) -> Option<Result<usize, usize>> {
        if self.counts.get(&json).is_none_or(|it| *it < 2) {
            return None;
        }
        let next = self.anchors.len() + 1;
        if let Some(known) = self.anchors.get(&json) {
            return Some(Ok(*known));
        }
        self.anchors.insert(json, next);
        Some(Err(next))
    }

    fn document(&mut self, root: &Value, comments: &Comments) -> Part {
        let Value::Object(entries) = root else { return self.part(root) };
        let entries = entries.iter().map(|(key, value)| {
            let mut part = match (key.as_str(), value) {
                ("prompts", Value::Object(prompts)) => self.prompts(prompts, comments),
                (_, Value::Array(items)) => {
                    let items = items.iter().map(|it| {
                        let own = comments.of_item(key, it);
                        Part { comments: own, ..self.part(it) }
                    });
                    Part { comments: Vec::new(), anchor: None, form: Form::List(items.collect()) }
                }
                _ => self.part(value),
            };
            part.comments = comments.of_key(key);
            (Label { anchor: None, text: key.clone() }, part)
        });
        let form = Form::Mapping(entries.collect());
        Part { comments: Vec::new(), anchor: None, form }
    }

    fn prompts(&mut self, prompts: &Map<String, Value>, comments: &Comments) -> Part {
        let entries = prompts.iter().map(|(name, prompt)| {
            let json = Some(json_of(name)).filter(|_| is_its_text(name, prompt));
            let anchor = json.and_then(|it| self.anchor(it)).and_then(Result::err);
            let comments = comments.of_name("prompts", name);
            (Label { anchor, text: name.clone() }, Part { comments, ..self.part(prompt) })
        });
        let form = Form::Mapping(entries.collect());
        Part { comments: Vec::new(), anchor: None, form }
    }

    fn part(&mut self, value: &Value) -> Part {
        let json = match value {
            Value::String(text) => Some(json_of(text)),
            _ => long(value),
        };
        let anchor = match json.and_then(|it| self.anchor(it)) {
            Some(Ok(known)) => {
                return Part { comments: Vec::new(), anchor: None, form: Form::Alias(known) };
            }
            Some(Err(new)) => Some(new),
            None => None,
        };
        let form = match value {
            Value::String(text) => Form::Text(text.clone()),
            Value::Array(items) => Form::List(items.iter().map(|it| self.part(it)).collect()),
            Value::Object(entries) => {
                let label = |key: &String| Label { anchor: None, text: key.clone() };
                Form::Mapping(entries.iter().map(|(key, it)| (label(key), self.part(it))).collect())
            }
            other => Form::Plain(other.to_string()),
        };
        Part { comments: Vec::new(), anchor, form }
    }
}

/// True if the text of a prompt is also its name, and the name is long enough for an anchor.
fn is_its_text(name: &str, prompt: &Value) -> bool {
    name.len() >= SHORTEST_NAME && (prompt == name || prompt["user"] == name)
}

fn json_of(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns the JSON of a text, list or object of at least [`LONG`] bytes; `None` for other values.
fn long(value: &Value) -> Option<String> {
    let json = match value {
        Value::String(text) if text.len() < LONG => return None,
        Value::String(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
        _ => return None,
    };
    (json.len() >= LONG).then_some(json)
}

/// Writes a list or mapping over several lines. Writes nothing for other values.
fn block(part: &Part, indent: usize, out: &mut String) {
    let space = " ".repeat(indent);
    match &part.form {
        Form::Mapping(entries) => {
            for (label, value) in entries {
                comments(value, indent, !out.ends_with("- "), out);
                // The first key of a mapping in a list stands behind the dash.
                if !out.is_empty() && !out.ends_with("- ") {
                    out.push_str(&space);
                }
                let key = key(label);
                if key.len() < LONGEST_KEY {
                    out.extend([key.as_str(), ":"]);
                } else {
                    out.extend(["? ", key.as_str(), "\n", space.as_str(), ":"]);
                }
                let is_open = indent == 0 && BLOCKS.contains(&label.text.as_str());
                entry(value, indent, is_open, out);
            }
        }
        Form::List(items) => {
            for item in items {
                comments(item, indent, true, out);
                out.push_str(&space);
                out.push('-');
                match (&item.form, flow_in(item, indent + 2)) {
                    (_, Some(line)) => out.extend([" ", line.as_str(), "\n"]),
                    (Form::Mapping(_), None) if item.anchor.is_none() => {
                        out.push(' ');
                        block(item, indent + 2, out);
                    }
                    // A list below a key stands at the indent of the key, but a list in a list is deeper.
                    (Form::List(_), None) => {
                        let anchor = item.anchor.map(|it| format!(" &part{it}"));
                        out.extend([anchor.unwrap_or_default().as_str(), "\n"]);
                        block(item, indent + 2, out);
                    }
                    _ => entry(item, indent, false, out),
                }
            }
        }
        Form::Alias(_) | Form::Text(_) | Form::Plain(_) => {}
    }
}

/// Writes the value of a key or of an item, and the end of its line. With `is_open`, a value with parts takes several
/// lines.
fn entry(value: &Part, indent: usize, is_open: bool, out: &mut String) {
    let begin = out.lines().last().map_or(0, |it| it.chars().count() + 1);
    let has_parts =
        |parts: &[Part]| parts.iter().any(|it| matches!(it.form, Form::Mapping(_) | Form::List(_)));
    let stays_open = is_open
        && match &value.form {
            Form::List(items) => has_parts(items),
            Form::Mapping(entries) => !entries.is_empty(),
            _ => false,
        };
    if let Some(line) = flow_in(value, begin).filter(|_| !stays_open) {
        out.extend([" ", line.as_str(), "\n"]);
        return;
    }
    let anchor = value.anchor.map(|it| format!(" &part{it}")).unwrap_or_default();
    match &value.form {
        Form::Text(text) => {
            out.extend([anchor.as_str(), " ", long_text(text, indent + 2).as_str(), "\n"]);
        }
        form => {
            out.extend([anchor.as_str(), "\n"]);
            let deeper = if matches!(form, Form::List(_)) { indent } else { indent + 2 };
            block(value, deeper, out);
        }
    }
}

/// Writes the comments of a value. `is_possible` is false directly behind the dash of an item, where no comment can
/// stand.
fn comments(value: &Part, indent: usize, is_possible: bool, out: &mut String) {
    if is_possible {
        for line in &value.comments {
            out.extend([" ".repeat(indent).as_str(), line.as_str(), "\n"]);
        }
    }
}

/// Returns a value in one line, or `None` if the line would be too long. `begin` is the number of characters before the
/// value.
///
/// Only lists and mappings can be too long. Also returns `None` if `flow` returns `None`.
fn flow_in(part: &Part, begin: usize) -> Option<String> {
    let line = flow(part, false)?;
    let is_short = begin + line.chars().count() <= WIDTH;
    (is_short || !matches!(part.form, Form::List(_) | Form::Mapping(_))).then_some(line)
}

/// Returns a value in one line.
///
/// Returns `None` for a text of several lines, comments of parts, and keys that are long or have an anchor.
fn flow(part: &Part, is_inside: bool) -> Option<String> {
    if is_inside && !part.comments.is_empty() {
        return None;
    }
    let anchor = part.anchor.map(|it| format!("&part{it} ")).unwrap_or_default();
    let line = match &part.form {
        Form::Alias(number) => format!("*part{number}"),
        Form::Plain(text) => text.clone(),
        Form::Text(text) if text.contains('\n') => return None,
        Form::Text(text) => scalar(text, is_inside),
        Form::List(items) => {
            let items: Option<Vec<String>> = items.iter().map(|it| flow(it, true)).collect();
            format!("[{}]", items?.join(", "))
        }
        Form::Mapping(entries) if entries.is_empty() => "{}".to_owned(),
        Form::Mapping(entries) => {
            let one = |(label, it): &(Label, Part)| {
                // A long key needs the mark `?`, which `flow` does not write.
                let is_short = label.anchor.is_none() && label.text.len() < WIDTH;
                let key = is_short.then(|| scalar(&label.text, true))?;
                Some(format!("{key}: {}", flow(it, true)?))
            };
            let entries: Option<Vec<String>> = entries.iter().map(one).collect();
            format!("{{ {} }}", entries?.join(", "))
        }
    };
    Some(format!("{anchor}{line}"))
}

/// Returns a key of a mapping over several lines, without the colon.
fn key(label: &Label) -> String {
    let text = scalar(&label.text, false);
    match label.anchor {
        Some(number) => format!("&part{number} {text}"),
        None => text,
    }
}

/// Returns a text of several lines as a block, or in double quotes if a block would change it.
fn long_text(text: &str, indent: usize) -> String {
    let is_plain = |c: char| c == '\n' || c == '\t' || (!c.is_control() && !is_break(c));
    let begins = text.starts_with([' ', '\n', '\t']);
    let body = text.strip_suffix('\n').unwrap_or(text);
    if begins || body.ends_with(['\n', ' ', '\t']) || !text.chars().all(is_plain) {
        return json_of(text);
    }
    let head = if text.ends_with('\n') { "|" } else { "|-" };
    let space = " ".repeat(indent);
    let line = |line: &str| {
        if line.is_empty() { "\n".to_owned() } else { format!("\n{space}{line}") }
    };
    let lines: String = body.split('\n').map(line).collect();
    format!("{head}{lines}")
}

/// True for characters that end a line in some versions of YAML, and for the byte order mark.
fn is_break(c: char) -> bool {
    matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Returns a text in one line, with quotes if it needs them.
fn scalar(text: &str, is_inside: bool) -> String {
    if is_plain(text, is_inside) {
        return text.to_owned();
    }
    let needs_escapes = text.chars().any(|it| it.is_control() || is_break(it));
    if needs_escapes || (text.contains('\'') && !text.contains(['"', '\\'])) {
        return json_of(text);
    }
    format!("'{}'", text.replace('\'', "''"))
}

/// True if a text in one line needs no quotes. `is_inside` is true within braces and brackets.
fn is_plain(text: &str, is_inside: bool) -> bool {
    const WORDS: [&str; 11] =
        ["false", "n", "no", "null", "off", "on", "true", "y", "yes", "<<", "="];
    const FIRST: [char; 20] = [
        '-', '?', ':', ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@',
        '`', '~',
    ];
    let is_number = |it: &str| {
        it.starts_with(|it: char| it.is_ascii_digit() || matches!(it, '.' | '+'))
            && it.chars().all(|it| it.is_ascii_hexdigit() || "xXoO_.:+-TZ ".contains(it))
    };
    !text.is_empty()
        && text.trim() == text
        && !text.starts_with(FIRST)
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with(':')
        && !(is_inside && text.contains([',', '[', ']', '{', '}']))
        && !text.chars().any(|it| it.is_control() || is_break(it))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
        && !matches!(text.to_ascii_lowercase().as_str(), ".inf" | ".nan" | "+.inf")
        && !is_number(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(root: &Value) -> String {
        to_yaml(root, &Comments::default()).unwrap_or_else(|| panic!("{root} is changed"))
    }

    #[test]
    fn repeated_values_become_aliases() {
        let check = json!({"type": "contains", "value": "a text that is long enough for an alias"});
        let root = json!({
            "tests": [
                {"name": "a", "expect": {"assert": [check, {"type": "equals", "value": "x"}]}},
                {"name": "b", "expect": {"assert": [{"type": "equals", "value": "x"}, check]}},
                {"name": "c", "expect": {"assert": [check, {"type": "equals", "value": "x"}]}},
            ],
        });
        let yaml = written(&root);
        assert_eq!(yaml.matches("long enough").count(), 1, "{yaml}");
        assert!(yaml.contains(", *part2]"), "{yaml}");
        assert!(yaml.contains("expect: *part1"), "{yaml}");
    }

    #[test]
    fn a_prompt_named_after_its_text_has_the_text_once() {
        let long = "word ".repeat(300);
        for name in ["{{x}}: say 'yes' & \"no\"\nplease", "Convert this to {{y}}", &long] {
            let prompt = |it: &str| json!({"template": "jinja", "user": it});
            for prompt in [prompt(name), name.into()] {
                let yaml = written(&json!({
                    "prompts": {name: prompt, "b": {"user": "b"}},
                    "defaults": {"test": {"prompts": [name, "b"]}},
                }));
                assert_eq!(yaml.matches("*part1").count(), 2, "{yaml}");
            }
        }
    }

    /// Texts that YAML reads as other values, or that need quotes.
    const TEXTS: &[&str] = &[
        "",
        " ",
        "a",
        "- a",
        "-a",
        "a: b",
        "a:b",
        "a #b",
        "a#b",
        "#a",
        "yes",
        "No",
        "NULL",
        "~",
        "1",
        "1.5",
        "1e3",
        "0x1F",
        "0o7",
        "1_000",
        "+1",
        "-1",
        ".5",
        ".inf",
        "2024-01-01",
        "12:30:00",
        "2024-01-01 10:00:00",
        "{{x}}",
        "a, b",
        "[a]",
        "a]b",
        "'a'",
        "it's",
        "it's \"so\"",
        "say \"a\"",
        "a\\b",
        "it's a\\b",
        "a\nb",
        "a\nb\n",
        "a\n\nb\n\n",
        "\na",
        " a\nb",
        "a\n  b\n",
        "a \nb ",
        "a\tb",
        "\ta\nb",
        "a\r\nb",
        "\u{1}",
        "\u{85}",
        "é✓",
        "a:",
        "a:\nb",
        "? a",
        "!a",
        "%a",
        "@a",
        "`a`",
        "|",
        ">",
        "=",
        "<<",
        "a: ",
        "*a",
        "&a",
        "---",
        "...",
        "...\na",
        "---\na",
        "a\n---\nb",
        "a\n...\nb",
        "\u{feff}a",
        "- a\n- b",
        "key: |\n  text",
        "1 a",
        "0-9",
        "1.2.3",
        "a\n\u{2028}b",
    ];

    #[test]
    fn every_text_keeps_its_value() {
        for text in TEXTS {
            let text = *text;
            let root = json!({
                "tests": [{"a": text, "b": [text, {"c": text}]}, text, [text]],
                text: {text: text, "x": 1},
                "prompts": {text: {"user": text}},
            });
            written(&root);
            written(
                &json!({"a": {"b": text, "c": "x".repeat(200), "d": [text, "x".repeat(300), [text, "x".repeat(200)]]}}),
            );
        }
    }

    #[test]
    fn other_values_keep_their_form() {
        let long = "x".repeat(130);
        for value in [
            json!({}),
            json!([]),
            json!(null),
            json!([[], {}, [[]], [{}], null, true, 1.5, -2, 1e30]),
            json!([[long, [long]], [{"a": {"b": [long, {"c": long}]}}], {"a": [[long], long]}]),
            json!({"a": {"b": {"c": {"d": long}}}, "e": [{"f": [{"g": long, "h": [1, 2]}]}]}),
        ] {
            for root in
                [json!({"a": value}), json!({"tests": [value]}), json!({"prompts": {"p": value}})]
            {
                written(&root);
            }
        }
    }

    #[test]
    fn short_parts_stand_in_one_line() {
        let root = json!({
            "kindlm": 1,
            "suite": {"name": "a"},
            "models": ["a:b", "c:d"],
            "tests": [
                {"name": "t", "vars": {"x": "a, b"}, "expect": {"assert": [{"type": "contains", "value": "{{x}}"}]}},
                {"name": "u", "vars": {"x": "two\nlines"}},
            ],
        });
        insta::assert_snapshot!(written(&root), @r"
        kindlm: 1
        suite: { name: a }
        models: [a:b, c:d]
        tests:
        - { name: t, vars: { x: 'a, b' }, expect: { assert: [{ type: contains, value: '{{x}}' }] } }
        - name: u
          vars:
            x: |-
              two
              lines
        ");
    }
}
