//! Parses the Test Anything Protocol, including nested tests of version 14 and of Node.js.

use std::collections::HashSet;

use kindlm_types::workspace::{TestRan, TestStatus};

use super::{below, test};

/// A test point: a line `ok …` or `not ok …`, with its nested tests.
struct Point {
    depth: usize,
    /// The number after `ok` or `not ok`; `None` if the line has no number, which TAP allows.
    number: Option<usize>,
    name: String,
    status: TestStatus,
    message: String,
    /// True if the point has the name of a test file. Node.js adds such a point for a file without tests.
    is_file: bool,
    /// The nested tests. A point with nested tests is a group.
    within: Vec<TestRan>,
}

pub(super) fn parse_tests(
    report: &str,
    folder: &str,
    is_file: impl Fn(&str) -> bool,
) -> Result<Vec<TestRan>, String> {
    // The name of a test may look like a file name, so check that the file exists.
    let is_test_file = |name: &str| {
        let path = below(name, folder);
        has_script_ending(path) && (path.starts_with('/') || is_file(path))
    };
    let mut points: Vec<Point> = Vec::new();
    let mut plan = None;
    let mut details: Option<usize> = None;
    // The number of failures in the final summary, if there is one.
    let mut failed = None;
    // The name of the next point, as Node.js announces it.
    let mut subtest = "";
    for line in report.lines() {
        let text = line.trim_start_matches(' ');
        let depth = line.len() - text.len();
        if let Some(indent) = details {
            // The YAML details of a point are between `---` and `...`.
            if depth == indent && text.trim_end() == "..." {
                details = None;
            } else if let Some(point) = points.last_mut() {
                point.message.push_str(line.get(indent.min(depth)..).unwrap_or_default());
                point.message.push('\n');
            }
            continue;
        }
        if text.trim_end() == "---" && points.last().is_some_and(|it| depth > it.depth) {
            details = Some(depth);
        } else if let Some(why) = text.strip_prefix("Bail out!") {
            return Err(format!("the tests were aborted:{why}"));
        } else if let Some(name) = text.strip_prefix("# Subtest: ") {
            subtest = name;
        } else if let Some(mut point) = point(text, depth) {
            point.is_file = depth == 0 && text.ends_with(subtest) && is_test_file(subtest);
            group(&mut points, point)?;
            failed = None;
        } else if let (0, Some(count)) = (depth, failures(text)) {
            failed = Some(count);
        } else if let (0, Some(count)) = (depth, text.strip_prefix("1..")) {
            let count = count.split([' ', '#']).next().unwrap_or_default();
            let count: usize = count.parse().map_err(|_| format!("the plan is `{text}`"))?;
            if plan.replace(count).is_some() {
                return Err("there are two plans".to_owned());
            }
        }
    }
    let plan = plan.ok_or("there is no plan (`1..N`), so tests may be missing")?;
    if points.iter().any(|it| it.depth > 0) {
        return Err("nested tests have no parent test".to_owned());
    }
    if points.len() != plan {
        return Err(format!("the plan is 1..{plan}, but {} tests are listed", points.len()));
    }
    if let Some(number) =
        points.iter().filter_map(|it| it.number).find(|it| !(1..=plan).contains(it))
    {
        return Err(format!("the plan is 1..{plan}, but there is a test {number}"));
    }
    each_once(&points)?;
    let passed = |it: &&Point| it.status == TestStatus::Passed && it.within.is_empty();
    if let Some(file) = points.iter().filter(passed).find(|it| it.is_file) {
        return Err(format!(
            "no test ran in the file `{}`: it has none, or the process ended before them; name only files with tests in `run`",
            file.name
        ));
    }
    let tests: Vec<TestRan> = points.into_iter().flat_map(tests).collect();
    match failed {
        Some(count @ 1..) if tests.iter().all(|it| it.status != TestStatus::Failed) => {
            Err(format!("it ends with `# fail {count}`, but no test failed"))
        }
        _ => Ok(tests),
    }
}

/// Adds a point, and moves the preceding deeper points into it. Fails if two of the moved points have the same number.
fn group(points: &mut Vec<Point>, mut point: Point) -> Result<(), String> {
    let own = points.iter().rposition(|it| it.depth <= point.depth).map_or(0, |it| it + 1);
    let within: Vec<Point> = points.drain(own..).collect();
    each_once(&within)?;
    point.within = within.into_iter().flat_map(tests).collect();
    points.push(point);
    Ok(())
}

/// Fails if two points have the same number.
///
/// The result of another test is missing then.
fn each_once(points: &[Point]) -> Result<(), String> {
    let mut seen = HashSet::new();
    let twice = points.iter().filter_map(|it| it.number).find(|it| !seen.insert(*it));
    twice.map_or(Ok(()), |number| Err(format!("test {number} is a duplicate")))
}

/// Returns the tests of a point: the point itself, or the tests in it.
///
/// A failed group without a failed test counts as a test too.
fn tests(point: Point) -> Vec<TestRan> {
    let Point { name, status, message, within, .. } = point;
    let mut all: Vec<TestRan> = within
        .into_iter()
        .map(|it| TestRan { name: format!("{name} > {}", it.name), ..it })
        .collect();
    let explained = all.iter().any(|it| it.status == TestStatus::Failed);
    if all.is_empty() || (status == TestStatus::Failed && !explained) {
        all.push(test(name, status, Some(message), None));
    }
    all
}

fn point(text: &str, depth: usize) -> Option<Point> {
    let (held, rest) = match text.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, text.strip_prefix("ok")?),
    };
    if !(rest.is_empty() || rest.starts_with(' ')) {
        return None;
    }
    let rest = rest.trim();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = rest.split_at(digits);
    let rest = rest.trim_start().trim_start_matches("- ").trim();
    let (name, directive) = rest
        .rsplit_once(" #")
        .or_else(|| Some(("", rest.strip_prefix('#')?)))
        .unwrap_or((rest, ""));
    let excused = is_excuse(directive);
    let name = if excused { name } else { rest };
    let status = match (excused, held) {
        (true, _) => TestStatus::Skipped,
        (false, true) => TestStatus::Passed,
        (false, false) => TestStatus::Failed,
    };
    let name = match name.trim() {
        "" => format!("test {number}"),
        name => name.replace("\\#", "#"),
    };
    let number = number.parse().ok();
    let (message, within) = (String::new(), Vec::new());
    Some(Point { depth, number, name, status, message, is_file: false, within })
}

/// Returns true if a path has an extension of JavaScript or TypeScript.
fn has_script_ending(path: &str) -> bool {
    const ENDINGS: [&str; 8] = ["js", "cjs", "mjs", "jsx", "ts", "cts", "mts", "tsx"];
    path.rsplit_once('.').is_some_and(|(_, it)| ENDINGS.contains(&it))
}

/// Returns true if a directive excuses a failure.
///
/// Such a directive begins with the word `skip`, `skipped` or `todo`.
fn is_excuse(directive: &str) -> bool {
    let directive = directive.trim_start();
    let end = directive.find(|it: char| !it.is_alphanumeric() && it != '_');
    let word = directive.get(..end.unwrap_or(directive.len())).unwrap_or_default();
    ["skip", "skipped", "todo"].iter().any(|it| it.eq_ignore_ascii_case(word))
}

/// Parses the number of failures in a final comment such as `# fail 1`.
///
/// Returns `None` for any other text.
fn failures(text: &str) -> Option<usize> {
    let mut words = text.strip_prefix('#')?.split_ascii_whitespace();
    let word = words.next()?;
    ["fail", "failed", "failures"].contains(&word).then(|| words.next()?.parse().ok()).flatten()
}
