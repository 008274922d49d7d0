//! The short form of assertions in CSV files. Examples: `contains: text`, `levenshtein(5): text`, `fn: code`.

/// The parts of an assertion in short form.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expected<'a> {
    pub(super) kind: &'a str,
    pub(super) value: Option<Value<'a>>,
    pub(super) threshold: Option<f64>,
}

/// The value behind the colon.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Text(&'a str),
    /// A comma-separated list.
    List(Vec<String>),
}

/// promptfoo's usual default threshold in the short form.
const USUAL: f64 = 0.75;

/// The assertion types with the default threshold `USUAL`.
const MEASURED: [&str; 11] = [
    "answer-relevance",
    "classifier",
    "context-faithfulness",
    "context-recall",
    "context-relevance",
    "cost",
    "latency",
    "levenshtein",
    "perplexity",
    "perplexity-score",
    "rouge-n",
];

/// promptfoo's default threshold of `similar` in the short form.
const SIMILAR: f64 = 0.8;

/// Returns the default threshold of a type in the short form; `None` if the type has no default.
fn usual(kind: &str) -> Option<f64> {
    let plain = kind.strip_prefix("not-").unwrap_or(kind);
    match plain {
        "similar" | "similar:cosine" | "similar:dot" => Some(SIMILAR),
        _ => MEASURED.contains(&plain).then_some(USUAL),
    }
}

/// True if promptfoo uses the threshold in brackets for a type.
fn takes_threshold(kind: &str) -> bool {
    let plain = kind.strip_prefix("not-").unwrap_or(kind);
    usual(kind).is_some() || plain == "starts-with"
}

/// True if a text in short form has a threshold that promptfoo ignores. `kind` is the assertion type of the text.
pub(super) fn ignores_threshold(text: &str, kind: Option<&str>) -> bool {
    let Some(kind) = kind.filter(|it| !takes_threshold(it)) else { return false };
    let rest = text.strip_prefix(kind).and_then(|it| it.strip_prefix('('));
    rest.is_some_and(|it| it.contains(')'))
}

/// Parses a threshold in brackets. Returns an error for text other than a number without sign or exponent.
fn bracketed(kind: &str, text: &str) -> Result<f64, String> {
    let plain = text.trim();
    let is_plain = plain.bytes().all(|it| it.is_ascii_digit() || it == b'.');
    let number = plain.parse().ok().filter(|it: &f64| is_plain && it.is_finite());
    number.ok_or_else(|| format!("the threshold of `{kind}({text})` is not a plain number"))
}

/// Parses the short form, or returns an error message. A text without a known type becomes `equals`.
pub(super) fn parse_expected(
    text: &str,
    is_type: impl Fn(&str) -> bool,
) -> Result<Expected<'_>, String> {
    let script = ["javascript:", "fn:", "eval:"].iter().find_map(|it| text.strip_prefix(it));
    if let Some(code) = script {
        let value = Some(Value::Text(code.trim()));
        return Ok(Expected { kind: "javascript", value, threshold: None });
    }
    for (prefix, kind) in
        [("python:", "python"), ("grade:", "llm-rubric"), ("llm-rubric:", "llm-rubric")]
    {
        if let Some(value) = text.strip_prefix(prefix) {
            return Ok(Expected { kind, value: Some(Value::Text(value.trim())), threshold: None });
        }
    }
    if text.starts_with("file://") {
        let kind = if super::files::extension(text) == "py" { "python" } else { "javascript" };
        return Ok(Expected { kind, value: Some(Value::Text(text)), threshold: None });
    }
    let (head, value) = match text.split_once(':') {
        Some((head, value)) => (head.trim(), Some(value.trim())),
        None => (text.trim(), None),
    };
    let (kind, threshold) = match head.strip_suffix(')').and_then(|it| it.split_once('(')) {
        Some((kind, number)) => (kind, Some(number)),
        None => (head, None),
    };
    // Types such as `trajectory:…` and `similar:…` contain a colon.
    let (kind, value) = match value.and_then(|it| longer(text, kind, it)) {
        Some((kind, value)) if is_type(kind) => (kind, value),
        _ => (kind, value),
    };
    if !is_type(kind) {
        return Ok(Expected { kind: "equals", value: Some(Value::Text(text)), threshold: None });
    }
    let threshold = match threshold {
        // promptfoo accepts a threshold for every type, and ignores it for types that do not use one.
        Some(number) => Some(bracketed(kind, number)?).filter(|_| takes_threshold(kind)),
        None => usual(kind),
    };
    let value = value.filter(|it| !it.is_empty());
    let is_list = kind.ends_with("contains-any") || kind.ends_with("contains-all");
    let value = match value {
        Some(value) if is_list => {
            Some(Value::List(value.split(',').map(|it| it.trim().to_owned()).collect()))
        }
        value => value.map(Value::Text),
    };
    Ok(Expected { kind, value, threshold })
}

/// Returns the type with the word behind its first colon, such as `trajectory:tool-used`, and the value behind the
/// type.
///
/// Returns `None` if the text does not have this form.
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
            "javascript",
            "latency",
            "not-levenshtein",
            "similar",
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
            ("levenshtein: Hello Bo", "levenshtein", text("Hello Bo"), Some(0.75)),
            ("not-levenshtein: Hello Bo", "not-levenshtein", text("Hello Bo"), Some(0.75)),
            ("similar: x", "similar", text("x"), Some(0.8)),
            ("javascript(.5): 1", "javascript", text("1"), None),
            ("bogus(abc): x", "equals", text("bogus(abc): x"), None),
            ("similar:dot: x", "similar:dot", text("x"), Some(0.8)),
            ("unknown: x", "equals", text("unknown: x"), None),
        ] {
            let read = parse_expected(written, |it| types.contains(&it));
            assert_eq!(read, Ok(Expected { kind, value, threshold }), "{written}");
        }
    }

    #[test]
    fn a_threshold_in_brackets_is_a_number() {
        for number in ["0,9", "abc", "-1", "", "nan", "inf", "1e9", "90%"] {
            let written = format!("javascript({number}): true");
            let problem = parse_expected(&written, |it| it == "javascript").unwrap_err();
            assert!(problem.contains(&format!("`javascript({number})`")), "{problem}");
        }
    }
}
