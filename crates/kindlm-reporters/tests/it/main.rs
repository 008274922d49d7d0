//! Tests of all reporters.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

mod agreement;
mod bisect;
mod compliance;
mod csv;
mod github;
mod gitlab;
mod history;
mod hostile;
mod html;
mod json;
mod jsonl;
mod junit;
mod manual;
mod markdown;
mod mutation;
mod pages;
mod pretty;
mod registry;
mod rich;
mod sarif;
mod streaming;
mod tap;

use kindlm_reporters::{Style, Verbosity, find};
use kindlm_types::{
    CheckedText, DiffFormat, Mismatch, Report, ResultEvidence, SourcePlace, TextSpan,
};

/// Renders a report with the reporter with this id.
fn render(id: &str, report: &Report, style: &Style) -> String {
    let mut out = String::new();
    (find(id).expect(id).render)(report, style, &mut out).unwrap();
    out
}

fn style(verbosity: Verbosity, color: bool, width: usize) -> Style {
    Style { color, width, verbosity, ..Style::default() }
}

/// Returns styles with all combinations of options.
fn styles() -> Vec<Style> {
    let mut styles = Vec::new();
    for verbosity in [Verbosity::Quiet, Verbosity::Normal, Verbosity::Verbose] {
        for color in [false, true] {
            for width in [0, 40, 60, 80, 120, 1_000] {
                styles.push(style(verbosity, color, width));
            }
        }
    }
    styles
}

/// Returns the sample report with a place for each case and each failed check, and with evidence.
fn placed_report() -> Report {
    let mut report = kindlm_testing::sample_report();
    for (line, case) in (12..).step_by(9).zip(&mut report.cases) {
        case.source = Some(SourcePlace::new("agents/support/kindlm.yaml", line, 5));
        let results = case.executions.iter_mut().flat_map(|it| &mut it.results);
        for (at, result) in (1..).zip(results.filter(|it| !it.verdict.held())) {
            result.source = Some(SourcePlace::new("agents/support/kindlm.yaml", line + at, 9));
            result.evidence.extend(evidence(result.verdict.code().unwrap().as_str()));
        }
    }
    report
}

/// Returns the evidence that belongs to a failure code.
fn evidence(code: &str) -> Option<ResultEvidence> {
    let text = str::to_owned;
    Some(match code {
        "TOOL_CALL_ARGS_MISMATCH" => ResultEvidence::ToolCall {
            tool: text("lookup_order"),
            call_id: None,
            mismatches: vec![Mismatch::new("/order_id", "\"12345\"", Some(text("\"54321\"")))],
        },
        "PII_DETECTED" => ResultEvidence::Matches {
            of: CheckedText::Output,
            spans: vec![TextSpan { start: 13, end: 32, what: text("card number") }],
        },
        "KEYWORD_MISSING" => ResultEvidence::Absent {
            of: CheckedText::Output,
            expected: vec![text("thank you"), text("thanks")],
        },
        "TOOL_CALL_MISSING" => ResultEvidence::Trajectory {
            expected: vec![text("lookup_order")],
            actual: vec![text("search_faq"), text("track_parcel")],
        },
        "SCHEMA_PARSE_ERROR" => ResultEvidence::Diff {
            format: DiffFormat::Json,
            expected: text("{\n  \"id\": 1\n}"),
            actual: text("{\n  \"id\": 2\n}"),
        },
        _ => return None,
    })
}
