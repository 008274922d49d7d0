//! Tests of the table of executions.

use kindlm_reporters::Style;
use kindlm_testing::sample_report;
use kindlm_types::Report;

use crate::{placed_report, render};

/// Returns the rows without the header. Panics if the table is not valid.
pub(crate) fn rows(report: &Report) -> Vec<Vec<String>> {
    let text = render("csv", report, &Style::default());
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "lines end with CR LF");
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    assert_eq!(reader.headers().unwrap().len(), 9);
    let rows = reader.records().map(|it| it.unwrap().iter().map(str::to_owned).collect());
    rows.collect()
}

#[test]
fn shows_the_sample() {
    insta::assert_snapshot!(
        render("csv", &placed_report(), &Style::default()).replace("\r\n", "\n")
    );
}

#[test]
fn each_execution_is_a_row() {
    let report = sample_report();
    let rows = rows(&report);
    let executions = report.cases.iter().flat_map(|case| &case.executions);
    assert_eq!(rows.len(), executions.clone().count());
    for (row, execution) in rows.iter().zip(executions) {
        assert_eq!(row[2], (execution.execution.repeat + 1).to_string());
        assert_eq!(row[3], execution.outcome.to_string());
    }
    assert!(self::rows(&Report::default()).is_empty());
}

#[test]
fn missing_tokens_are_an_empty_cell() {
    let mut report = sample_report();
    let execution = &mut report.cases[0].executions[0].execution;
    execution.usage.total_tokens = 0;
    assert_eq!(rows(&report)[0][7], "");
}
