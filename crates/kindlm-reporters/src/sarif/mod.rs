//! The reporter `sarif`: findings in SARIF 2.1.0, for code scanners and editors.

mod log;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use data_encoding::HEXLOWER;
use kindlm_types::{AnyReport, CaseResult, FailureCode, Summary};
use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::amount::plural;
use crate::bytes::Bytes;
use crate::issue::{Issue, Level, Place, issues, name_of, place_of};
use crate::percent::path_in_url;
use crate::plain::{head, one_line};
use crate::{Meta, Registration, RenderError, Style, verdict};
use log::{
    ArtifactLocation, AutomationDetails, CauseCount, Driver, Invocation, Location, Log, Message,
    Notification, PhysicalLocation, Region, Rule, Run, RunProperties, SarifResult, Tool,
};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "sarif",
        summary: "SARIF 2.1.0 for code scanning: each finding at its line in the suite.",
        since: "0.1.0",
        extension: "sarif",
        docs: include_str!("docs.md"),
    },
    render,
};

/// The number of results that GitHub accepts in a run.
const RESULTS: usize = 25_000;
/// The maximum number of bytes of a message.
const MESSAGE: usize = 4_000;

fn render(
    report: &AnyReport<'_>,
    style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    let mut bytes = Bytes::new(out);
    let results = Results { report, folder: &style.folder, left_out: Cell::new(0) };
    let log = Log {
        schema: "https://json.schemastore.org/sarif-2.1.0.json",
        version: "2.1.0",
        runs: [run(report, &results)],
    };
    serde_json::to_writer_pretty(&mut bytes, &log).map_err(|err| {
        if err.is_io() {
            RenderError::Write(fmt::Error)
        } else {
            RenderError::Format { format: "sarif", message: err.to_string() }
        }
    })?;
    bytes.finish().map_err(|_| RenderError::Write(fmt::Error))
}

fn run<'a>(
    report: &'a AnyReport<'a>,
    results: &'a Results<'a>,
) -> Run<&'a Results<'a>, LeftOut<'a>> {
    let summary = report.summary();
    let status = summary.exit_status;
    let exit = format!(
        "{}: {}",
        verdict::word(report, &summary),
        verdict::clauses(report, &summary).join("; ")
    );
    Run {
        results,
        tool: Tool {
            driver: Driver {
                name: "KindLM",
                version: one_line(&report.run.version),
                information_uri: "https://github.com/kindlm/kindlm",
                rules: rules(&summary),
            },
        },
        automation_details: AutomationDetails { id: category(report) },
        column_kind: "unicodeCodePoints",
        invocations: [Invocation {
            exit_code: status.code(),
            execution_successful: status.code() <= 1,
            exit_code_description: exit,
            tool_execution_notifications: LeftOut(&results.left_out),
        }],
        properties: RunProperties {
            held: summary.totals.held().to_string(),
            causes: summary
                .causes
                .iter()
                .map(|it| CauseCount { key: one_line(&it.key), cases: it.cases })
                .collect(),
        },
    }
}

/// Returns the rules: all failure codes of the run, in order of their names.
fn rules(summary: &Summary) -> Vec<Rule> {
    let of_causes = summary.causes.iter().filter_map(|it| it.code.as_ref());
    let codes: BTreeSet<&str> =
        summary.failure_codes.iter().chain(of_causes).map(FailureCode::as_str).collect();
    let rule = |code: &str| Rule {
        id: code.to_owned(),
        short_description: Message { text: describe_code(code) },
        help: Message { text: format!("`kindlm explain {code}` describes this code.") },
    };
    codes.into_iter().map(rule).collect()
}

/// Returns a failure code as words, such as `Tool call missing`.
fn describe_code(code: &str) -> String {
    let mut words = code.replace('_', " ").to_lowercase();
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words
}

/// Returns the category of the results. GitHub keeps the results of different categories apart.
fn category(report: &AnyReport<'_>) -> String {
    let names = [report.suite.project.as_str(), report.suite.name.as_str()];
    let names = names.into_iter().filter(|it| !it.is_empty());
    let names: Vec<String> = names.map(|it| one_line(it).replace('/', "-")).collect();
    format!("kindlm/{}/", names.join("/"))
}

/// The results of a run. Each case is read when its results are serialized.
struct Results<'a> {
    report: &'a AnyReport<'a>,
    /// The working folder relative to the root of the repository; see [`Style::folder`].
    folder: &'a str,
    /// The number of results above the limit. It is known after the results are serialized.
    left_out: Cell<u64>,
}

impl Serialize for Results<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let mut room = RESULTS;
        for case in self.report.each() {
            let case = case.map_err(S::Error::custom)?;
            for issue in issues(&case) {
                if room == 0 {
                    self.left_out.set(self.left_out.get() + 1);
                    continue;
                }
                room -= 1;
                list.serialize_element(&result(self.report, self.folder, &case, issue))?;
            }
        }
        list.end()
    }
}

/// The note about results above the limit; serialized after the results.
struct LeftOut<'a>(&'a Cell<u64>);

impl Serialize for LeftOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut notes = Vec::new();
        if self.0.get() > 0 {
            let text = format!(
                "{} left out, because GitHub accepts at most 25,000",
                plural(self.0.get(), "more result")
            );
            notes.push(Notification { level: "warning", message: Message { text } });
        }
        notes.serialize(serializer)
    }
}

fn result(
    report: &AnyReport<'_>,
    folder: &str,
    case: &CaseResult,
    issue: Issue<'_>,
) -> SarifResult {
    let name = name_of(case);
    let place = place_of(report, case, &issue).map(|it| it.in_repository(folder));
    let repeats =
        if issue.repeats.is_empty() { String::new() } else { format!(" ({})", issue.repeats) };
    let text = format!("{name}: {}{repeats}", head(&issue.message, MESSAGE));
    SarifResult {
        rule_id: issue.code,
        level: if issue.level == Level::Error { "error" } else { "warning" },
        message: Message { text },
        locations: place.iter().map(location).collect(),
        partial_fingerprints: BTreeMap::from([
            ("kindlmResult/v1", identity([&case.case, &case.model, &issue.cause])),
            ("kindlmCause/v1", one_line(&issue.cause)),
        ]),
    }
}

fn location(place: &Place) -> Location {
    Location {
        physical_location: PhysicalLocation {
            artifact_location: ArtifactLocation { uri: uri(&place.file) },
            region: Region { start_line: place.line, start_column: place.column },
        },
    }
}

/// Returns the fingerprint of a result. The same result has the same fingerprint in later runs.
fn identity(names: [&str; 3]) -> String {
    let mut hash = Sha256::new();
    for name in names {
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
    }
    HEXLOWER.encode(&hash.finalize())
}

/// Returns a path as a relative URI, or as a `file` URI if the path begins with `/` or with a drive such as `C:`.
fn uri(path: &str) -> String {
    match path.split_once(":/") {
        Some((drive, rest)) if matches!(drive.as_bytes(), [it] if it.is_ascii_alphabetic()) => {
            format!("file:///{drive}:/{}", path_in_url(rest))
        }
        _ if path.starts_with('/') => format!("file://{}", path_in_url(path)),
        _ => path_in_url(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_uris() {
        for (path, expected) in [
            ("agents/kindlm.yaml", "agents/kindlm.yaml"),
            ("a b/ü:1.yaml", "a%20b/%C3%BC%3A1.yaml"),
            ("/srv/kindlm.yaml", "file:///srv/kindlm.yaml"),
            ("../x.yaml", "../x.yaml"),
            ("C:/a b/kindlm.yaml", "file:///C:/a%20b/kindlm.yaml"),
            ("ab:/x.yaml", "ab%3A/x.yaml"),
        ] {
            assert_eq!(uri(path), expected);
        }
    }

    #[test]
    fn codes_become_words() {
        assert_eq!(describe_code("TOOL_CALL_MISSING"), "Tool call missing");
        assert_eq!(describe_code(""), "");
    }
}
