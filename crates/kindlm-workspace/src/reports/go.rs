//! Parses the JSON lines of `go test -json`.

use std::collections::{HashMap, HashSet};

use kindlm_types::workspace::{TestRan, TestStatus};
use serde::Deserialize;

use super::test;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    action: String,
    #[serde(default, alias = "ImportPath")]
    package: String,
    test: Option<String>,
    elapsed: Option<f64>,
    output: Option<String>,
}

/// A test or a whole package in the report.
struct GoTest {
    package: String,
    test: Option<String>,
    status: Option<TestStatus>,
    output: String,
    elapsed: Option<f64>,
    /// True if the report has an event for the entry, or for a test in the entry. Build events do not count.
    ran: bool,
}

pub(super) fn parse_tests(report: &str) -> Result<Vec<TestRan>, String> {
    let mut all: Vec<GoTest> = Vec::new();
    let mut places: HashMap<(String, Option<String>), usize> = HashMap::new();
    for (index, line) in report.lines().enumerate() {
        if let Some(package) = failed_without_json(line) {
            let at = place(&mut all, &mut places, package.to_owned(), None);
            if let Some(seen) = all.get_mut(at) {
                seen.status = Some(TestStatus::Failed);
                seen.output.push_str(line);
            }
            continue;
        }
        if !line.starts_with('{') {
            continue;
        }
        let line: Line =
            serde_json::from_str(line).map_err(|err| format!("line {}: {err}", index + 1))?;
        if line.test.is_some() {
            // A package with tests must have an end event too, so add an entry for the package.
            let at = place(&mut all, &mut places, line.package.clone(), None);
            if let Some(package) = all.get_mut(at) {
                package.ran = true;
            }
        }
        let at = place(&mut all, &mut places, line.package, line.test);
        let Some(seen) = all.get_mut(at) else { continue };
        seen.ran |= !line.action.starts_with("build-");
        seen.elapsed = line.elapsed.or(seen.elapsed);
        seen.status = match line.action.as_str() {
            "pass" => Some(TestStatus::Passed),
            "fail" | "build-fail" => Some(TestStatus::Failed),
            "skip" => Some(TestStatus::Skipped),
            _ => seen.status,
        };
        seen.output.push_str(line.output.as_deref().unwrap_or_default());
    }
    if all.is_empty() {
        return Err("no line of it is JSON".to_owned());
    }
    let has_no_end = |it: &&GoTest| it.test.is_none() && it.ran && it.status.is_none();
    if let Some(open) = all.iter().find(has_no_end) {
        return Err(format!("the package `{}` was started, but did not end", open.package));
    }
    let groups = Groups::from_tests(&all);
    Ok(all.iter().filter(|it| groups.leave(it)).map(one).collect())
}

/// Returns the index of a test or a package, and adds a missing entry.
///
/// Without a test name, the entry is a package.
fn place(
    all: &mut Vec<GoTest>,
    places: &mut HashMap<(String, Option<String>), usize>,
    package: String,
    test: Option<String>,
) -> usize {
    *places.entry((package, test)).or_insert_with_key(|(package, test)| {
        let (package, test) = (package.clone(), test.clone());
        let output = String::new();
        all.push(GoTest { package, test, status: None, output, elapsed: None, ran: false });
        all.len() - 1
    })
}

/// Parses the package in a line such as `FAIL shop [build failed]`. Returns `None` for any other line.
///
/// Before Go 1.24, a failed build was not reported as JSON.
fn failed_without_json(line: &str) -> Option<&str> {
    line.strip_prefix("FAIL\t")?.split_whitespace().next()
}

/// The groups: packages, and tests with subtests. A group without a test name is a package.
#[derive(Default)]
struct Groups<'a> {
    all: HashSet<(&'a str, Option<&'a str>)>,
    /// The groups that contain a failed test.
    failed: HashSet<(&'a str, Option<&'a str>)>,
}

impl<'a> Groups<'a> {
    fn from_tests(all: &'a [GoTest]) -> Self {
        let mut groups = Self::default();
        for it in all {
            let Some(test) = it.test.as_deref() else { continue };
            let within = test.match_indices('/').map(|(at, _)| Some(&test[..at]));
            for group in within.chain([None]).map(|group| (it.package.as_str(), group)) {
                groups.all.insert(group);
                if status(it) == TestStatus::Failed {
                    groups.failed.insert(group);
                }
            }
        }
        groups
    }

    /// Returns true if the entry counts as a test.
    ///
    /// A group counts only if it failed although no test in it failed.
    fn leave(&self, it: &GoTest) -> bool {
        let key = (it.package.as_str(), it.test.as_deref());
        let has_failed_alone = status(it) == TestStatus::Failed && !self.failed.contains(&key);
        match &it.test {
            // A package without tests is reported with the status `skip`, but it is not a test.
            None => it.status.is_some() && has_failed_alone,
            Some(_) => !self.all.contains(&key) || has_failed_alone,
        }
    }
}

/// Returns the status of an entry. A test without an end event has failed.
fn status(it: &GoTest) -> TestStatus {
    it.status.unwrap_or(TestStatus::Failed)
}

fn one(it: &GoTest) -> TestRan {
    let name = match &it.test {
        Some(test) => format!("{} > {}", it.package, test.replace('/', " > ")),
        None => it.package.clone(),
    };
    let message = match it.status {
        None => format!("it was started, but did not end\n{}", it.output),
        Some(_) => it.output.clone(),
    };
    test(name, status(it), Some(message), it.elapsed.map(|it| it * 1000.0))
}
