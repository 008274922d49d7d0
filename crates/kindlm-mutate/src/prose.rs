//! Sentences, numbers, dates and names in a text.

use std::ops::Range;
use std::sync::LazyLock;

use kindlm_types::Execution;
use regex::Regex;

use crate::evidence::answer_json;

/// Compiles a pattern of this crate. An invalid pattern matches nothing. The tests compile all patterns.
fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

const MONTHS: &str = "(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)";

static DAYS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(&format!(
        r"\b\d{{4}}-\d{{2}}-(?P<iso>\d{{2}})\b|\b(?P<before>\d{{1,2}})(?:st|nd|rd|th|\.)? {MONTHS}\b|\b{MONTHS} (?P<after>\d{{1,2}})\b"
    ))
});
static NUMBERS: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"\d+(?:[.,]\d+)*"));
static ENDS: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"[.!?][)\x22']*\s+"));
static NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"\b\p{Lu}\p{Ll}+\b"));

/// Returns the output if it is prose: not empty, not JSON, and without a block of code.
pub(crate) fn prose(execution: &Execution) -> Option<&str> {
    let output = execution.output.as_str();
    let is_prose = !output.trim().is_empty() && !output.contains("```");
    (is_prose && answer_json(execution).is_none()).then_some(output)
}

/// Returns the sentences of a text, without the white space between them.
pub(crate) fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let mut start = 0;
    for end in ENDS.iter().flat_map(|it| it.find_iter(text)) {
        all.push(start..end.start() + end.as_str().trim_end().len());
        start = end.end();
    }
    if start < text.trim_end().len() {
        all.push(start..text.trim_end().len());
    }
    all
}

/// Returns the byte ranges of the days in dates, such as `3` in `3 May` and `May 3`, and `03` in `2026-05-03`.
pub(crate) fn days(text: &str) -> Vec<Range<usize>> {
    let found = DAYS.iter().flat_map(|it| it.captures_iter(text));
    found
        .filter_map(|it| ["iso", "before", "after"].into_iter().find_map(|name| it.name(name)))
        .map(|it| it.range())
        .collect()
}

/// Returns the byte ranges of the numbers that are not part of a date.
pub(crate) fn numbers(text: &str) -> Vec<Range<usize>> {
    let dates: Vec<Range<usize>> =
        DAYS.iter().flat_map(|it| it.find_iter(text)).map(|it| it.range()).collect();
    let all = NUMBERS.iter().flat_map(|it| it.find_iter(text)).map(|it| it.range());
    all.filter(|it| !dates.iter().any(|date| date.start < it.end && it.start < date.end)).collect()
}

/// Returns the byte ranges of the capitalized words inside sentences, except months in dates. Such words are mostly
/// names.
pub(crate) fn names(text: &str) -> Vec<Range<usize>> {
    let starts: Vec<usize> = sentences(text).iter().map(|it| it.start).collect();
    let all = NAMES.iter().flat_map(|it| it.find_iter(text)).map(|it| it.range());
    let is_month = |it: &Range<usize>| {
        let dates = DAYS.iter().flat_map(|it| it.find_iter(text));
        dates.into_iter().any(|date| date.start() <= it.start && it.end <= date.end())
    };
    all.filter(|it| !starts.contains(&it.start) && !is_month(it)).collect()
}

/// Returns the text with a part replaced.
pub(crate) fn replaced(text: &str, part: &Range<usize>, new: &str) -> String {
    let mut changed = text.to_owned();
    changed.replace_range(part.clone(), new);
    changed
}

/// Returns a number with another last digit. A text without digits stays unchanged.
pub(crate) fn other_number(number: &str) -> String {
    let mut chars: Vec<char> = number.chars().collect();
    let last = chars.iter_mut().rev().find_map(|it| it.to_digit(10).map(|digit| (it, digit)));
    if let Some((last, digit)) = last {
        *last = char::from_digit((digit + 1) % 10, 10).unwrap_or('0');
    }
    chars.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts<'t>(text: &'t str, ranges: &[Range<usize>]) -> Vec<&'t str> {
        ranges.iter().map(|it| &text[it.clone()]).collect()
    }

    #[test]
    fn all_patterns_compile() {
        for it in [&DAYS, &NUMBERS, &ENDS, &NAMES] {
            assert!(it.is_some());
        }
    }

    #[test]
    fn parts_of_a_text_are_found() {
        let text = "Hello Ada. Order 12345 (1,5 kg) left on 3 May, not on June 4 or 2026-05-07! \
                    Did Bob \"see it?\" Yes";
        assert_eq!(
            parts(text, &sentences(text)),
            [
                "Hello Ada.",
                "Order 12345 (1,5 kg) left on 3 May, not on June 4 or 2026-05-07!",
                "Did Bob \"see it?\"",
                "Yes"
            ]
        );
        assert_eq!(parts(text, &days(text)), ["3", "4", "07"]);
        assert_eq!(parts(text, &numbers(text)), ["12345", "1,5"]);
        assert_eq!(parts(text, &names(text)), ["Ada", "Bob"]);
        assert_eq!(sentences("  ").len(), 0);
    }

    #[test]
    fn the_last_digit_of_a_number_changes() {
        for (number, other) in [("12345", "12346"), ("9", "0"), ("1,5", "1,6"), ("٣", "٣")] {
            assert_eq!(other_number(number), other);
        }
    }
}
