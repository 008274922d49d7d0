//! The JSON lines of libtest, as `cargo nextest run --message-format libtest-json` writes them.

use std::collections::HashSet;

use kindlm_types::workspace::{TestRan, TestStatus};
use serde::Deserialize;

use super::test;

#[derive(Debug, Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    event: Option<String>,
    name: Option<String>,
    passed: Option<usize>,
    failed: Option<usize>,
    ignored: Option<usize>,
    test_count: Option<usize>,
    filtered_out: Option<usize>,
    exec_time: Option<f64>,
    stdout: Option<String>,
    message: Option<String>,
}

pub(super) fn read(report: &str) -> Result<Vec<TestRan>, String> {
    let mut tests = Vec::new();
    let (mut begun, mut ended, mut counted) = (0, 0, 0);
    let (mut expected, mut left_out) = (0, 0);
    let mut open: HashSet<String> = HashSet::new();
    for (index, line) in report.lines().enumerate() {
        // Other words may come between, from the tests themselves.
        if !line.starts_with('{') {
            continue;
        }
        let line: Line =
            serde_json::from_str(line).map_err(|err| format!("line {}: {err}", index + 1))?;
        match (line.kind.as_str(), line.event.as_deref()) {
            ("suite", Some("started")) => {
                begun += 1;
                expected += line.test_count.unwrap_or_default();
            }
            ("suite", Some("ok" | "failed")) => {
                ended += 1;
                let counts = [line.passed, line.failed, line.ignored];
                counted += counts.into_iter().flatten().sum::<usize>();
                left_out += line.filtered_out.unwrap_or_default();
            }
            ("test", Some(event)) => {
                match (event, &line.name) {
                    ("started", Some(name)) => {
                        open.insert(name.clone());
                    }
                    (_, Some(name)) => {
                        open.remove(name);
                    }
                    _ => {}
                }
                tests.extend(one(&line, event)?);
            }
            _ => {}
        }
    }
    if begun == 0 || begun != ended {
        return Err(format!("{begun} suites were begun, and {ended} came to their end"));
    }
    if counted != tests.len() {
        return Err(format!("the suites count {counted} tests, and {} are told", tests.len()));
    }
    if let Some(name) = open.iter().min() {
        return Err(format!("the test `{name}` was begun and did not end"));
    }
    // Whether those that were left out are in `test_count` differs.
    if counted + left_out < expected {
        return Err(format!("the suites have {expected} tests, and {counted} are told"));
    }
    Ok(tests)
}

fn one(line: &Line, event: &str) -> Result<Option<TestRan>, String> {
    let status = match event {
        "started" => return Ok(None),
        "ok" => TestStatus::Passed,
        "failed" | "timeout" => TestStatus::Failed,
        "ignored" => TestStatus::Skipped,
        other => return Err(format!("a test has the event `{other}`")),
    };
    let name = line.name.clone().ok_or("a test has no name")?;
    // nextest puts the name of the binary before that of the test.
    let name = name.replacen('$', " > ", 1);
    let words = [&line.message, &line.stdout].into_iter().flatten();
    let message = words.map(String::as_str).collect::<Vec<_>>().join("\n");
    Ok(Some(test(name, status, Some(message), line.exec_time.map(|it| it * 1000.0))))
}
