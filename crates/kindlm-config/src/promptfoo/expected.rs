//! The short form of assertions that CSV files use: `contains: text`, `levenshtein(5): text`, `fn: code`.

/// An assertion in short form, taken apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expected<'a> {
    pub(super) kind: &'a str,
    pub(super) value: Option<Value<'a>>,
    pub(super) threshold: Option<f64>,
}

/// What is behind the colon.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Text(&'a str),
    /// Separated by commas.
    List(Vec<String>),
}

/// Reads the short form. What has no prefix that is known must be equal.
pub(super) fn read(text: &str, is_type: impl Fn(&str) -> bool) -> Expected<'_> {
    let script = ["javascript:", "fn:", "eval:"].iter().find_map(|it| text.strip_prefix(it));
    if let Some(code) = script {
        return Expected {
            kind: "javascript",
            value: Some(Value::Text(code.trim())),
            threshold: None,
        };
    }
    for (prefix, kind) in
        [("python:", "python"), ("grade:", "llm-rubric"), ("llm-rubric:", "llm-rubric")]
    {
        if let Some(value) = text.strip_prefix(prefix) {
            return Expected { kind, value: Some(Value::Text(value.trim())), threshold: None };
        }
    }
    if text.starts_with("file://") {
        let kind = if super::files::extension(text) == "py" { "python" } else { "javascript" };
        return Expected { kind, value: Some(Value::Text(text)), threshold: None };
    }
    let (head, value) = match text.split_once(':') {
        Some((head, value)) => (head.trim(), Some(value.trim())),
        None => (text.trim(), None),
    };
    let (kind, threshold) = match head.strip_suffix(')').and_then(|it| it.split_once('(')) {
        Some((kind, number)) => (kind, number.trim().parse().ok()),
        None => (head, None),
    };
    // `trajectory:…` and `similar:…` have colons of their own.
    let (kind, value) = match value.and_then(|it| longer(text, kind, it)) {
        Some((kind, value)) if is_type(kind) => (kind, value),
        _ => (kind, value),
    };
    if !is_type(kind) {
        return Expected { kind: "equals", value: Some(Value::Text(text)), threshold: None };
    }
    let value = value.filter(|it| !it.is_empty());
    let is_list = kind.ends_with("contains-any") || kind.ends_with("contains-all");
    let value = match value {
        Some(value) if is_list => {
            Some(Value::List(value.split(',').map(|it| it.trim().to_owned()).collect()))
        }
        value => value.map(Value::Text),
    };
    Expected { kind, value, threshold }
}

/// The type with what is behind its first colon, up to the next.
fn longer<'a>(text: &'a str, kind: &str, rest: &'a str) -> Option<(&'a str, Option<&'a str>)> {
    let begin = text.get(..kind.len()).filter(|it| *it == kind)?;
    let (word, value) = match rest.split_once(':') {
        Some((word, value)) => (word.trim(), Some(value.trim())),
        None => (rest, None),
    };
    let end = text.find(word)? + word.len();
    (!word.is_empty() && text.get(..end)? == format!("{begin}:{word}"))
        .then(|| text.get(..end).map(|it| (it, value)))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_short_form() {
        let types = [
            "contains",
            "not-contains",
            "contains-any",
            "levenshtein",
            "is-json",
            "latency",
            "similar:dot",
        ];
        let text = |it| Some(Value::Text(it));
        for (written, kind, value, threshold) in [
            ("Hello Bob", "equals", text("Hello Bob"), None),
            ("contains: Bob", "contains", text("Bob"), None),
            ("not-contains:zzz: y", "not-contains", text("zzz: y"), None),
            (
                "contains-any: x, Bob",
                "contains-any",
                Some(Value::List(vec!["x".into(), "Bob".into()])),
                None,
            ),
            ("levenshtein(2): Hello Bo", "levenshtein", text("Hello Bo"), Some(2.0)),
            ("is-json", "is-json", None, None),
            ("latency(5000):", "latency", None, Some(5000.0)),
            ("fn:output.length > 3", "javascript", text("output.length > 3"), None),
            ("eval:1", "javascript", text("1"), None),
            ("grade: be kind", "llm-rubric", text("be kind"), None),
            ("file://a.js", "javascript", text("file://a.js"), None),
            ("similar:dot(0.8): x", "equals", text("similar:dot(0.8): x"), None),
            ("similar:dot: x", "similar:dot", text("x"), None),
            ("unknown: x", "equals", text("unknown: x"), None),
        ] {
            let read = read(written, |it| types.contains(&it));
            assert_eq!(read, Expected { kind, value, threshold }, "{written}");
        }
    }
}
