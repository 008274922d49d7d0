//! The JSON lines of `go test -json`.

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

/// A test, or a package as a whole.
struct Seen {
    package: String,
    test: Option<String>,
    status: Option<TestStatus>,
    output: String,
    elapsed: Option<f64>,
}

pub(super) fn read(report: &str) -> Result<Vec<TestRan>, String> {
    let mut all: Vec<Seen> = Vec::new();
    for (index, line) in report.lines().enumerate() {
        if !line.starts_with('{') {
            continue;
        }
        let line: Line =
            serde_json::from_str(line).map_err(|err| format!("line {}: {err}", index + 1))?;
        let known = all.iter().position(|it| it.package == line.package && it.test == line.test);
        let at = known.unwrap_or_else(|| {
            let (package, test) = (line.package.clone(), line.test.clone());
            all.push(Seen { package, test, status: None, output: String::new(), elapsed: None });
            all.len() - 1
        });
        let Some(seen) = all.get_mut(at) else { continue };
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
    Ok(all.iter().filter(|it| stands_alone(it, &all)).map(one).collect())
}

/// Groups and packages count only where nothing in them says why they failed.
fn stands_alone(it: &Seen, all: &[Seen]) -> bool {
    let is_within = |other: &&Seen| match (&it.test, &other.test) {
        (Some(group), Some(test)) => {
            it.package == other.package
                && test.strip_prefix(group.as_str()).is_some_and(|rest| rest.starts_with('/'))
        }
        (None, Some(_)) => it.package == other.package,
        _ => false,
    };
    let within: Vec<&Seen> = all.iter().filter(is_within).collect();
    let explained = within.iter().any(|it| status(it) == TestStatus::Failed);
    let failed = status(it) == TestStatus::Failed;
    match &it.test {
        // A package without tests is `skip`; that is no test.
        None => it.status == Some(TestStatus::Failed) && !explained,
        Some(_) => within.is_empty() || (failed && !explained),
    }
}

/// A test that was begun and did not end has failed.
fn status(it: &Seen) -> TestStatus {
    it.status.unwrap_or(TestStatus::Failed)
}

fn one(it: &Seen) -> TestRan {
    let name = match &it.test {
        Some(test) => format!("{} > {}", it.package, test.replace('/', " > ")),
        None => it.package.clone(),
    };
    let message = match it.status {
        None => format!("it was begun and did not end\n{}", it.output),
        Some(_) => it.output.clone(),
    };
    test(name, status(it), Some(message), it.elapsed.map(|it| it * 1000.0))
}
