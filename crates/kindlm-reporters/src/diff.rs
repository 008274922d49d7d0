//! Compares an expected and an actual text, for all reports that show the difference.

use kindlm_types::{AssertionResult, ResultEvidence};
use serde_json::Value;
use similar::algorithms::{Capture, Compact, IdentifyDistinct, Replace, myers};
use similar::{ChangeTag, DiffOp, diff_ratio};

/// The maximum number of lines that are compared, in both texts together.
///
/// Equal lines at the start and at the end do not count.
///
/// If there are more lines, all of them count as changed, because the time grows with the square of the difference.
const LINES: usize = 4_000;
/// The maximum number of words of two lines that are compared word by word.
const WORDS: usize = 2_000;
/// The minimum share of equal words. Lines with a smaller share are not compared word by word.
const ALIKE: f32 = 0.3;

/// The maximum number of parts of a line that [`elided`] keeps.
const SEGMENTS: usize = 40;

/// One line of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiffLine {
    /// The side or sides that have the line.
    pub(crate) kind: LineKind,
    /// The parts of the line in order. A part with `true` is emphasised, because the other side has other text.
    pub(crate) segments: Vec<(bool, String)>,
}

/// The side or sides of a difference that have a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// Both texts have the line.
    Same,
    /// Only the actual text has the line.
    Added,
    /// Only the expected text has the line.
    Removed,
}

impl LineKind {
    /// Returns the sign of the line: a space, `+` or `-`.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Same => " ",
            Self::Added => "+",
            Self::Removed => "-",
        }
    }
}

impl DiffLine {
    fn new(kind: LineKind, segments: Vec<(bool, String)>) -> Self {
        Self { kind, segments }
    }

    fn plain(kind: LineKind, line: &str) -> Self {
        Self::new(kind, vec![(false, line.to_owned())])
    }
}

/// Shortens the long parts of a line.
///
/// - A changed part keeps its first `most` characters. So does the only part of a line.
/// - Any other equal part keeps `most / 2` characters next to each change.
///
/// A `…` stands for cut text, and for the parts after the first [`SEGMENTS`].
pub(crate) fn elided(mut line: DiffLine, most: usize) -> DiffLine {
    let last = line.segments.len().saturating_sub(1);
    for (at, (is_changed, text)) in line.segments.iter_mut().enumerate() {
        let (start, end) = match (*is_changed, at == 0, at == last) {
            (true, ..) | (false, true, true) => (most, 0),
            (false, true, false) => (0, most / 2),
            (false, false, true) => (most / 2, 0),
            (false, false, false) => (most / 2, most / 2),
        };
        let length = text.chars().count();
        if length > start + end + 1 {
            let rest: String = text.chars().skip(length - end).collect();
            *text = text.chars().take(start).chain(['…']).collect::<String>() + &rest;
        }
    }
    if last >= SEGMENTS {
        line.segments.truncate(SEGMENTS);
        line.segments.push((false, "…".to_owned()));
    }
    line
}

/// Returns the difference between the expected and the actual side of a piece of evidence; `None` for evidence without
/// two sides.
pub(crate) fn of_evidence(evidence: &ResultEvidence) -> Option<Vec<DiffLine>> {
    match evidence {
        ResultEvidence::Diff { expected, actual, .. } => Some(between(expected, actual)),
        ResultEvidence::Trajectory { expected, actual } => {
            let (expected, actual): (Vec<&str>, Vec<&str>) = (
                expected.iter().map(String::as_str).collect(),
                actual.iter().map(String::as_str).collect(),
            );
            Some(between_lines(&expected, &actual))
        }
        _ => None,
    }
}

/// Returns the difference of the `expected` and `actual` values in the metadata of a result. Returns `None` if a value
/// is missing.
///
/// Scripts and older reports have these values instead of evidence.
pub(crate) fn of_metadata(result: &AssertionResult) -> Option<Vec<DiffLine>> {
    let value = |key: &str| match result.metadata.get(key)? {
        Value::String(text) => Some(text.clone()),
        value => serde_json::to_string_pretty(value).ok(),
    };
    Some(between(&value("expected")?, &value("actual")?))
}

/// Compares two texts by lines, and changed lines by words.
///
/// The result depends only on the texts. The text of a segment has no line break and is not escaped.
pub(crate) fn between(expected: &str, actual: &str) -> Vec<DiffLine> {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (expected.split('\n').collect(), actual.split('\n').collect());
    between_lines(&old, &new)
}

fn between_lines(old: &[&str], new: &[&str]) -> Vec<DiffLine> {
    let same = |(a, b): &(&&str, &&str)| a == b;
    let start = old.iter().zip(new).take_while(same).count();
    let (rest_old, rest_new) = (&old[start..], &new[start..]);
    let end = rest_old.iter().rev().zip(rest_new.iter().rev()).take_while(same).count();
    let (middle_old, middle_new) =
        (&rest_old[..rest_old.len() - end], &rest_new[..rest_new.len() - end]);
    let mut lines = Vec::new();
    lines.extend(old[..start].iter().map(|it| DiffLine::plain(LineKind::Same, it)));
    if middle_old.len() + middle_new.len() > LINES {
        replace(&mut lines, middle_old, middle_new);
    } else {
        for op in operations(middle_old, middle_new) {
            add(&mut lines, op, middle_old, middle_new);
        }
    }
    let last = &rest_old[rest_old.len() - end..];
    lines.extend(last.iter().map(|it| DiffLine::plain(LineKind::Same, it)));
    lines
}

/// Compares two lists. `similar::TextDiff` would compile every algorithm of that crate into the program.
fn operations(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let ids = IdentifyDistinct::<u32>::new(old, 0..old.len(), new, 0..new.len());
    let mut hook = Compact::new(Replace::new(Capture::new()), old, new);
    let (old, new) = (ids.old_lookup(), ids.new_lookup());
    let Ok(()) = myers::diff(&mut hook, old, ids.old_range(), new, ids.new_range());
    hook.into_inner().into_inner().into_ops()
}

fn add(lines: &mut Vec<DiffLine>, op: DiffOp, old: &[&str], new: &[&str]) {
    let (old, new) = (&old[op.old_range()], &new[op.new_range()]);
    if matches!(op, DiffOp::Equal { .. }) {
        lines.extend(old.iter().map(|it| DiffLine::plain(LineKind::Same, it)));
    } else {
        replace(lines, old, new);
    }
}

/// Adds the lines of a changed part: first all expected lines, then all actual lines.
fn replace(lines: &mut Vec<DiffLine>, old: &[&str], new: &[&str]) {
    let mut added = Vec::with_capacity(new.len());
    for at in 0..old.len().max(new.len()) {
        match (old.get(at), new.get(at)) {
            (Some(old), Some(new)) => {
                let (left, right) = compare_words(old, new);
                lines.push(DiffLine::new(LineKind::Removed, left));
                added.push(DiffLine::new(LineKind::Added, right));
            }
            (Some(old), None) => lines.push(DiffLine::plain(LineKind::Removed, old)),
            (None, Some(new)) => added.push(DiffLine::plain(LineKind::Added, new)),
            (None, None) => {}
        }
    }
    lines.append(&mut added);
}

type Segments = Vec<(bool, String)>;

/// Compares two lines by words.
///
/// If the lines have too many words or little in common, everything between the equal start and the equal end is
/// emphasised.
fn compare_words(old: &str, new: &str) -> (Segments, Segments) {
    let (left, right) = (tokens(old), tokens(new));
    if left.len() + right.len() > WORDS {
        return around_change(&left, &right);
    }
    let operations = operations(&left, &right);
    if diff_ratio(&operations, left.len(), right.len()) < ALIKE {
        return around_change(&left, &right);
    }
    let (mut removed, mut added) = (Segments::new(), Segments::new());
    for change in operations.iter().flat_map(|it| it.iter_changes(&left[..], &right[..])) {
        match change.tag() {
            ChangeTag::Equal => {
                push(&mut removed, false, change.value());
                push(&mut added, false, change.value());
            }
            ChangeTag::Delete => push(&mut removed, true, change.value()),
            ChangeTag::Insert => push(&mut added, true, change.value()),
        }
    }
    (removed, added)
}

/// Splits two lines into their equal start, the changed middle, and their equal end. If they have neither start nor
/// end in common, nothing is emphasised.
fn around_change(old: &[&str], new: &[&str]) -> (Segments, Segments) {
    let same = |(a, b): &(&&str, &&str)| a == b;
    let start = old.iter().zip(new).take_while(same).count();
    let (rest_old, rest_new) = (&old[start..], &new[start..]);
    let end = rest_old.iter().rev().zip(rest_new.iter().rev()).take_while(same).count();
    let split = |line: &[&str]| {
        let middle = start..line.len() - end;
        let parts = [
            (false, &line[..start]),
            (start + end > 0, &line[middle.clone()]),
            (false, &line[middle.end..]),
        ];
        let parts = parts.into_iter().filter(|(_, words)| !words.is_empty());
        parts.map(|(is_changed, words)| (is_changed, words.concat())).collect()
    };
    (split(old), split(new))
}

fn push(segments: &mut Segments, emphasised: bool, text: &str) {
    match segments.last_mut() {
        Some((last, before)) if *last == emphasised => before.push_str(text),
        _ => segments.push((emphasised, text.to_owned())),
    }
}

/// Splits a line into words, runs of white space, and other single characters.
fn tokens(line: &str) -> Vec<&str> {
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 0,
        c if c.is_whitespace() => 1,
        _ => 2,
    };
    let mut tokens = Vec::new();
    let (mut start, mut last) = (0, None);
    for (at, c) in line.char_indices() {
        let this = kind(c);
        if last.is_some_and(|it| it != this || this == 2) {
            tokens.push(&line[start..at]);
            start = at;
        }
        last = Some(this);
    }
    if start < line.len() {
        tokens.push(&line[start..]);
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a difference as text. `[…]` marks emphasised parts.
    fn shown(expected: &str, actual: &str) -> String {
        let mut all = String::new();
        for line in between(expected, actual) {
            all.push_str(line.kind.sign());
            for (emphasised, text) in line.segments {
                if emphasised {
                    all.extend(["[", text.as_str(), "]"]);
                } else {
                    all.push_str(&text);
                }
            }
            all.push('\n');
        }
        all
    }

    #[test]
    fn changed_words_are_emphasised() {
        for (expected, actual, diff) in [
            ("a", "a", " a\n"),
            ("", "", " \n"),
            ("a\nb\nc", "a\nc", " a\n-b\n c\n"),
            ("Total 78.90 EUR", "Total 78.80 EUR", "-Total 78.[90] EUR\n+Total 78.[80] EUR\n"),
            ("first\nlast", "first\nlast\n", " first\n last\n+\n"),
            ("alpha beta", "one-two-three", "-alpha beta\n+one-two-three\n"),
            (
                "{\n  \"amount\": 24.9,\n  \"id\": \"7\"\n}",
                "{\n  \"amount\": 249,\n  \"id\": \"7\"\n}",
                " {\n-  \"amount\": [24.9],\n+  \"amount\": [249],\n   \"id\": \"7\"\n }\n",
            ),
        ] {
            assert_eq!(shown(expected, actual), diff);
        }
    }

    #[test]
    fn long_lines_keep_what_changed() {
        let (start, end) = ("a ".repeat(900), " b".repeat(900));
        let lines = between(&format!("{start}1{end}"), &format!("{start}2{end}"));
        let texts = lines
            .into_iter()
            .map(|it| elided(it, 8).segments.into_iter().map(|(_, text)| text).collect::<String>());
        // These lines have too many words for a comparison word by word.
        assert_eq!(texts.collect::<Vec<_>>(), ["…a a 1 b b…", "…a a 2 b b…"]);
        let part = "x ".repeat(90);
        let lines = between(&format!("{part}1 {part}2 {part}"), &format!("{part}3 {part}4 {part}"));
        let texts = lines
            .into_iter()
            .map(|it| elided(it, 8).segments.into_iter().map(|(_, text)| text).collect::<String>());
        let expected = ["…x x 1 x x…x x 2 x x…", "…x x 3 x x…x x 4 x x…"];
        assert_eq!(texts.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn no_text_is_lost() {
        let side = |lines: &[DiffLine], other: LineKind| -> String {
            let kept = lines.iter().filter(|it| it.kind != other);
            let text = kept.map(|it| it.segments.iter().map(|(_, text)| text.as_str()).collect());
            text.collect::<Vec<String>>().join("\n")
        };
        let long = "line\n".repeat(30_000);
        for (expected, actual) in [
            ("a\r\nb\n\n", "\n\na b"),
            ("äß 1,5 €", "äö 2,5 €\t"),
            (long.as_str(), "other\nline"),
            ("x", long.as_str()),
        ] {
            let lines = between(expected, actual);
            assert_eq!(side(&lines, LineKind::Added), expected);
            assert_eq!(side(&lines, LineKind::Removed), actual);
        }
    }

    #[test]
    fn only_some_evidence_has_a_difference() {
        let actions = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let evidence = ResultEvidence::Trajectory {
            expected: actions(&["look", "refund"]),
            actual: actions(&["look"]),
        };
        let kinds = |it: Vec<DiffLine>| it.iter().map(|it| it.kind).collect::<Vec<_>>();
        assert_eq!(
            of_evidence(&evidence).map(kinds),
            Some(vec![LineKind::Same, LineKind::Removed])
        );
        assert_eq!(of_evidence(&ResultEvidence::Schema { errors: Vec::new() }), None);
    }
}
