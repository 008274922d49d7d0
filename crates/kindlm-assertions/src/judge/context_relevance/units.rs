//! The units of a context (its sentences or lines), and the number of units that a judge quotes.

use serde_json::Value;

/// Splits a text of several lines into its lines, and a text of one line into sentences.
pub(super) fn lines(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
    if lines.len() > 1 { lines.into_iter().map(str::to_owned).collect() } else { split(text) }
}

/// Returns the items of a list that are not empty.
pub(super) fn items(items: &[Value]) -> Vec<String> {
    let texts = items.iter().filter_map(Value::as_str).map(str::trim);
    texts.filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

/// Splits a text into sentences, line by line.
pub(super) fn split(text: &str) -> Vec<String> {
    text.lines().flat_map(sentences).map(str::to_owned).collect()
}

/// Splits a line into sentences at `.`, `!` or `?` before white space.
fn sentences(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut letters = line.char_indices().peekable();
    while let Some((_, letter)) = letters.next() {
        let next = letters.peek().copied();
        if let (true, Some((end, next))) = (matches!(letter, '.' | '!' | '?'), next)
            && next.is_whitespace()
        {
            found.push(&line[start..end]);
            start = end;
        }
    }
    found.push(&line[start..]);
    found.into_iter().map(str::trim).filter(|it| !it.is_empty()).collect()
}

/// Returns the number of quoted units. A unit is quoted if one quote contains more than half of the unit.
pub(super) fn quoted(units: &[String], quotes: &[String]) -> usize {
    let quotes: Vec<String> =
        quotes.iter().map(|it| plain(it)).filter(|it| !it.is_empty()).collect();
    let is_quoted = |unit: &&String| {
        let unit = plain(unit);
        // A quote may contain several sentences. A quote of more than half a sentence counts as that sentence.
        quotes
            .iter()
            .any(|it| it.contains(&unit) || (unit.contains(it) && it.len() * 2 > unit.len()))
    };
    units.iter().filter(is_quoted).count()
}

/// Returns the text in lower case, with single spaces.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sentences_end_with_a_mark_and_a_space() {
        for (text, expected) in [
            ("One. Two! Three? Four", vec!["One.", "Two!", "Three?", "Four"]),
            ("It costs 3.50 euros.\n\nNo mark", vec!["It costs 3.50 euros.", "No mark"]),
            ("", vec![]),
        ] {
            assert_eq!(split(text), expected);
        }
    }

    #[test]
    fn several_lines_are_units_of_their_own() {
        for (text, expected) in [
            ("One. Two!\n\nThree? Four", vec!["One. Two!", "Three? Four"]),
            ("One. Two!\n", vec!["One.", "Two!"]),
            ("", vec![]),
        ] {
            assert_eq!(lines(text), expected);
        }
    }

    #[test]
    fn quotes_are_found_in_any_case() {
        let units = split("Paris is the capital. It is large. The Seine crosses it.");
        for (quotes, expected) in [
            (vec!["PARIS is  the capital."], 1),
            (vec!["Paris is the capital. It is large."], 2),
            (vec!["is the capital"], 1),
            (vec!["it"], 0),
            (vec!["Rome"], 0),
            (vec![], 0),
        ] {
            let quotes: Vec<String> = quotes.into_iter().map(str::to_owned).collect();
            assert_eq!(quoted(&units, &quotes), expected, "{quotes:?}");
        }
    }

    proptest! {
        #[test]
        fn all_is_quoted_by_itself(text in "[a-z.?! é\\n]{0,80}") {
            let units = split(&text);
            prop_assert_eq!(quoted(&units, &units), units.len());
        }
    }
}
