//! The pages of registry entries for reading: without the parts that only tests use.

/// The words of code fences that only tests read: recorded answers, expected results, cases of gates.
const FIXTURES: [&str; 11] = [
    "results",
    "execution",
    "answer",
    "no-answer",
    "cases",
    "prompt",
    "request",
    "response",
    "reply",
    "error",
    "questions",
];

/// Returns a page without the parts that only tests need, and without the headings that lose all their text.
///
/// Only tests need these parts:
///
/// - fixtures;
/// - the section "Examples" of a gate;
/// - the code blocks in the section "Failure codes";
/// - code blocks whose result is a configuration error.
pub(super) fn without_fixtures(page: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut section = "";
    let mut rest = page;
    while let Some((line, after)) = next_line(rest) {
        rest = after;
        if line.starts_with("## ") {
            section = line;
        }
        let info = line.trim_start_matches('`');
        let fence = &line[..line.len() - info.len()];
        if fence.len() < 3 {
            if section != "## Examples" {
                kept.push(line);
            }
            continue;
        }
        let mut block = vec![line];
        while let Some((line, after)) = next_line(rest) {
            rest = after;
            block.push(line);
            if line == fence {
                break;
            }
        }
        let is_invalid = rest.trim_start().starts_with("```results");
        let is_fixture = info.split_whitespace().any(|it| FIXTURES.contains(&it));
        let is_of_code = ["## Examples", "## Failure codes"].contains(&section);
        if !is_fixture && !is_invalid && !is_of_code {
            kept.extend(block);
        }
    }
    tidied(&kept)
}

fn next_line(text: &str) -> Option<(&str, &str)> {
    (!text.is_empty()).then(|| text.split_once('\n').unwrap_or((text, "")))
}

/// Joins lines. Leaves out headings without text, repeated empty lines, and introductions of the cases of a gate. If
/// the block after a colon was removed, the colon becomes a full stop.
fn tidied(lines: &[&str]) -> String {
    let mut text = String::new();
    let mut is_code = false;
    for (at, line) in lines.iter().enumerate() {
        is_code ^= line.starts_with("```");
        let next = lines.iter().skip(at + 1).find(|it| !it.is_empty());
        let ends = next.is_none_or(|it| it.starts_with("## "));
        if !is_code && line.starts_with("## ") && ends || line.is_empty() && text.ends_with("\n\n")
        {
            continue;
        }
        let is_of_cases = next.is_some_and(|it| *it == "```yaml gate");
        if line.ends_with(':') && is_of_cases {
            continue;
        }
        let introduces = next.is_some_and(|it| it.starts_with(['`', '|', '-', '1']));
        match line.strip_suffix(':') {
            Some(sentence) if !is_code && !introduces => text.extend([sentence, "."]),
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixtures_and_empty_sections_are_left_out() {
        let page = "# contains\n\nSearches.\n\n```yaml expect\nassert: []\n```\n\n```yaml execution\noutput: a\n```\n\
                    ```results\npass\n```\n\n## Request\n\n```json request\n{}\n```\n\n## Details\n\nAn error:\n\n```yaml expect\na: 1\n```\n```results\ninvalid\n```\n\nOne case:\n\n\
                    ```text no-answer\nx\n```\n\n## Failure codes\n\n`A`: it is absent:\n\n```yaml expect\na: 1\n```\n\n\
                    ## Examples\n\nOne fails:\n\n```yaml gate\na: 1\n```\n";
        let expected = "# contains\n\nSearches.\n\n```yaml expect\nassert: []\n```\n\n## Details\n\nAn error.\n\nOne case.\n\n\
                        ## Failure codes\n\n`A`: it is absent.\n";
        assert_eq!(without_fixtures(page), expected);
    }

    #[test]
    fn no_page_shows_a_fixture() {
        for page in super::super::pages() {
            let text = without_fixtures(page.text);
            for line in text.lines().filter_map(|it| it.strip_prefix("```")) {
                assert!(
                    !line.split_whitespace().any(|it| FIXTURES.contains(&it)),
                    "{}: {line}",
                    page.id
                );
            }
            assert!(text.lines().count() > 2, "{} has text", page.id);
        }
    }
}
