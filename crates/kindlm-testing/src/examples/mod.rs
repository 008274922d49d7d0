//! Runs the examples in a documentation page, and updates their results on request.
//!
//! An example is a group of fenced code blocks that ends with a `results` block. The caller interprets the other
//! blocks, and produces a text that must equal the `results` block.
//!
//! If the environment variable `KINDLM_BLESS` is set, a `results` block that differs is updated instead.

mod evidence;

use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use kindlm_types::{AssertionResult, Problem, Severity, Verdict};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};
use similar::TextDiff;

pub use evidence::{Other, Recorded, answer, with_marks, yaml};

/// The language word of a block with expected results.
const RESULTS: &str = "results";

/// A fenced code block of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The first word after the fence, such as `yaml` in `yaml expect`.
    pub language: String,
    /// The other words, such as `expect` in `yaml expect`.
    pub info: String,
    /// The text between the fences.
    pub text: String,
    /// The line number of the opening fence, from 1.
    pub line: usize,
    /// The byte range of the text in the page.
    span: Range<usize>,
}

/// The blocks of an example, with the expected results.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Case {
    /// The blocks since the previous `results` block.
    pub inputs: Vec<Example>,
    /// The `results` block.
    pub expected: Example,
}

impl Case {
    /// Returns the text of the first input with this info word, such as `expect`. Returns `None` without such an input.
    pub fn input(&self, info: &str) -> Option<&str> {
        self.inputs.iter().find(|it| it.info == info).map(|it| it.text.as_str())
    }

    /// Returns all inputs with one of these info words, in order.
    pub fn inputs_of<'a>(&'a self, infos: &'a [&str]) -> impl Iterator<Item = &'a Example> {
        self.inputs.iter().filter(move |it| infos.contains(&it.info.as_str()))
    }
}

/// Returns the fenced code blocks of a page, in order.
pub fn parse(docs: &str) -> Vec<Example> {
    let fences = Parser::new(docs).into_offset_iter().filter_map(|(event, range)| match event {
        Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => Some((info, range)),
        _ => None,
    });
    fences.map(|(info, range)| example(docs, &info, range)).collect()
}

fn example(docs: &str, info: &str, range: Range<usize>) -> Example {
    let (language, rest) = info.split_once(' ').unwrap_or((info, ""));
    let block = &docs[range.clone()];
    let start = block.find('\n').map_or(block.len(), |it| it + 1);
    let end = block.trim_end().rfind('\n').map_or(start, |it| (it + 1).max(start));
    let span = range.start + start..range.start + end;
    Example {
        language: language.to_owned(),
        info: rest.trim().to_owned(),
        text: docs[span.clone()].to_owned(),
        line: docs[..range.start].matches('\n').count() + 1,
        span,
    }
}

/// Returns the examples of a page that have a `results` block.
pub fn cases(docs: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut inputs = Vec::new();
    for block in parse(docs) {
        if block.language == RESULTS {
            cases.push(Case { inputs: std::mem::take(&mut inputs), expected: block });
        } else if !block.info.is_empty() {
            inputs.push(block);
        }
    }
    cases
}

/// Runs every example of a page, and returns their number.
///
/// Blocks without an info word are not run. Fails if the results of an example differ from its `results` block, if
/// `run` fails, or if the page cannot be read. With `KINDLM_BLESS` set, writes results that differ to the page instead.
pub fn check(
    page: &Path,
    run: impl FnMut(&Case) -> Result<String, String>,
) -> Result<usize, String> {
    check_or_bless(page, std::env::var_os("KINDLM_BLESS").is_some(), run)
}

fn check_or_bless(
    page: &Path,
    is_blessing: bool,
    mut run: impl FnMut(&Case) -> Result<String, String>,
) -> Result<usize, String> {
    let name = page.display();
    let docs = std::fs::read_to_string(page).map_err(|err| format!("cannot read {name}: {err}"))?;
    let cases = cases(&docs);
    let mut failures = String::new();
    let mut rewritten = docs.clone();
    // Replace from the end of the page, so that the earlier ranges stay valid.
    for case in cases.iter().rev() {
        let line = case.expected.line;
        match run(case) {
            Ok(shown) if shown.trim_end() == case.expected.text.trim_end() => {}
            Ok(shown) => {
                let shown = terminated(&shown);
                if is_blessing {
                    rewritten.replace_range(case.expected.span.clone(), &shown);
                    continue;
                }
                let diff = TextDiff::from_lines(&case.expected.text, &shown);
                failures.insert_str(
                    0,
                    &format!("{name}:{line}: the results differ\n{}\n", diff.unified_diff()),
                );
            }
            Err(message) => failures.insert_str(0, &format!("{name}:{line}: {message}\n")),
        }
    }
    if rewritten != docs {
        std::fs::write(page, &rewritten).map_err(|err| format!("cannot write {name}: {err}"))?;
    }
    if failures.is_empty() {
        Ok(cases.len())
    } else {
        // The first line of a page is its id.
        let id = docs.lines().next().unwrap_or_default().trim_start_matches("# ").trim_matches('`');
        Err(format!("{failures}If the new results are right, run `cargo xtask bless {id}`."))
    }
}

fn terminated(text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() { String::new() } else { format!("{text}\n") }
}

/// Formats results as documentation pages show them, one per line.
///
/// Each line has the status, score, code, label and message.
pub fn show_results(results: &[AssertionResult]) -> String {
    let mut text = String::new();
    for result in results {
        let status = match result.verdict {
            Verdict::Pass => "pass",
            Verdict::Fail { .. } => "fail",
            Verdict::Errored { .. } => "errored",
            Verdict::Skipped { .. } => "skipped",
        };
        let score = result.score.map_or("-".to_owned(), |it| it.to_string());
        let code = result.verdict.code().map(|it| format!("{it}  ")).unwrap_or_default();
        let soft = if result.severity == Severity::Soft { " (soft)" } else { "" };
        let message = result.verdict.message().map(|it| format!(" — {}", it.replace('\n', "\\n")));
        // Writing to a string does not fail, so the result can be ignored.
        let _ = writeln!(
            text,
            "{status}  {score}  {code}{}{soft}{}",
            result.label.replace('\n', "\\n"),
            message.unwrap_or_default()
        );
    }
    text
}

/// Formats config problems as documentation pages show them, one per line.
pub fn show_problems(problems: &[Problem]) -> String {
    let mut text = String::new();
    for problem in problems {
        let pointer = if problem.pointer.is_empty() { "/" } else { &problem.pointer };
        let help = problem.help.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
        let _ = writeln!(text, "invalid  {pointer}  {}{help}", problem.message);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use kindlm_types::FailureCode;

    const PAGE: &str = "# page\n\n```yaml expect\na: 1\n```\n\ntext\n\n```sh\nnot an example\n```\n\n```results\nold\n```\n\n```yaml expect\nb: 2\n```\n```results\n```\n";

    #[test]
    fn finds_the_blocks_and_groups_them() {
        let blocks = parse(PAGE);
        let seen: Vec<_> = blocks
            .iter()
            .map(|it| (it.line, it.language.as_str(), it.info.as_str(), it.text.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                (3, "yaml", "expect", "a: 1\n"),
                (9, "sh", "", "not an example\n"),
                (13, "results", "", "old\n"),
                (17, "yaml", "expect", "b: 2\n"),
                (20, "results", "", ""),
            ]
        );
        let cases = cases(PAGE);
        assert_eq!(cases.len(), 2);
        assert_eq!(cases[0].input("expect"), Some("a: 1\n"));
        assert_eq!(cases[1].input("expect"), Some("b: 2\n"));
    }

    #[test]
    fn differing_results_are_located() {
        let (folder, page) = page_in("differ");
        let run = |case: &Case| {
            Ok(if case.input("expect") == Some("a: 1\n") { "new" } else { "" }.to_owned())
        };
        let message = check_or_bless(&page, false, run).unwrap_err();
        assert!(message.contains("page.md:13: the results differ"), "{message}");
        assert!(message.contains("-old\n+new"), "{message}");
        assert!(message.contains("cargo xtask bless page`"), "{message}");
        assert_eq!(check(&page, |case| Ok(case.expected.text.clone())), Ok(2));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_error_stays_when_results_are_blessed() {
        let (folder, page) = page_in("bless");
        let run = |case: &Case| {
            let is_first = case.input("expect") == Some("a: 1\n");
            if is_first { Ok("new".to_owned()) } else { Err("no such check".to_owned()) }
        };
        let message = check_or_bless(&page, true, run).unwrap_err();
        assert!(message.contains("page.md:20: no such check"), "{message}");
        assert!(!message.contains("the results differ"), "{message}");
        assert_eq!(std::fs::read_to_string(&page).unwrap(), PAGE.replace("old\n", "new\n"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// Writes the page to a new folder, and returns the paths of the folder and the page.
    fn page_in(name: &str) -> (PathBuf, PathBuf) {
        let name = format!("kindlm-examples-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let page = folder.join("page.md");
        std::fs::write(&page, PAGE).unwrap();
        (folder, page)
    }

    #[test]
    fn shows_results_on_lines() {
        let results = [
            AssertionResult::pass("a", "one"),
            AssertionResult::fail("a", "two", FailureCode::new("LOW"), "first\nsecond")
                .with_severity(Severity::Soft),
            AssertionResult::skipped("a", "three", "no baseline"),
        ];
        assert_eq!(
            show_results(&results),
            "pass  1  one\nfail  0  LOW  two (soft) — first\\nsecond\nskipped  -  three — no baseline\n"
        );
    }
}
