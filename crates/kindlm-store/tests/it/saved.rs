//! A report file gives the same cases, whether they are read one by one or all at once.

use std::io::Write as _;

use kindlm_store::{ReportError, Runs, StoreError, each_saved_case, open_report};
use kindlm_testing::sample_report;
use kindlm_types::{CaseSource as _, Report};
use kindlm_wire::{WireError, parse_report, v1};
use serde_json::Value;

fn in_memory(report: &Report<kindlm_store::SavedCases>) -> Vec<kindlm_types::CaseResult> {
    report.each().map(|it| it.unwrap().into_owned()).collect()
}

#[test]
fn a_report_read_case_by_case_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let wire = v1::Report::from(&sample_report());
    let compact = serde_json::to_string(&wire).unwrap();
    let pretty = serde_json::to_string_pretty(&wire).unwrap() + "\n";
    let spaced = pretty.replace(",\n", "\r\n \t,\n\n").replace("[\n", "[ \n\n");
    // The key `cases` may be at any position.
    let Value::Object(mut map) = serde_json::to_value(&wire).unwrap() else { unreachable!() };
    let cases = map.shift_remove("cases").unwrap();
    map.insert("cases".to_owned(), cases);
    for json in [compact, pretty, spaced, Value::Object(map).to_string()] {
        std::fs::write(&path, &json).unwrap();
        let whole = parse_report(json.as_bytes()).unwrap();
        let report = open_report(&path).unwrap();
        assert_eq!(in_memory(&report), whole.cases);
        for (position, case) in whole.cases.iter().enumerate() {
            let mark = report.cases.mark(position).unwrap();
            assert_eq!((mark.model, mark.outcome), (case.model.as_str(), case.outcome));
        }
        assert_eq!(report.summary(), whole.summary());
        let mut cases = Vec::new();
        let head = each_saved_case(&path, &mut |case| cases.push(case)).unwrap();
        assert_eq!(Report { cases, ..head }, whole);
    }
}

#[test]
fn other_files_are_refused_as_reports() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    for (json, expected) in [
        ("", "not a KindLM report: EOF while parsing a value at line 1 column 0"),
        ("{}", "the report has no `schemaVersion`"),
        (r#"{"schemaVersion": 2, "cases": "other"}"#, "the report has `schemaVersion` 2, and this"),
        (r#"{"schemaVersion": 1}"#, "not a KindLM report: missing field `run`"),
        (r#"{"schemaVersion": 1, "cases": [7]}"#, "not a KindLM report: invalid type: integer `7`"),
        ("[]", "not a KindLM report: invalid type: sequence, expected a report"),
    ] {
        std::fs::write(&path, json).unwrap();
        let err = open_report(&path).unwrap_err();
        assert!(
            matches!(err, ReportError::Wire(_)) && err.to_string().starts_with(expected),
            "{err}"
        );
    }
    let torn = serde_json::to_string(&v1::Report::from(&sample_report())).unwrap();
    std::fs::write(&path, &torn[..torn.len() - 40]).unwrap();
    assert!(matches!(open_report(&path), Err(ReportError::Wire(WireError::Json(_)))));
    let absent = folder.path().join("absent.json");
    assert!(matches!(open_report(&absent), Err(ReportError::Store(StoreError::Io { .. }))));
    let runs = Runs::new(folder.path());
    let missing = runs.open("r");
    assert!(matches!(missing, Err(ReportError::Store(StoreError::NoSuchRun { .. }))));
}

#[test]
fn a_report_that_changes_while_it_is_used_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let json = serde_json::to_string(&v1::Report::from(&sample_report())).unwrap();
    std::fs::write(&path, &json).unwrap();
    let report = open_report(&path).unwrap();
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all(&vec![b'x'; json.len()]).unwrap();
    let err = report.cases.read_case(0).unwrap_err().to_string();
    assert!(err.starts_with("cannot read result 0 of the report `"), "{err}");
    assert!(err.ends_with("it must not change while it is used"), "{err}");
}
