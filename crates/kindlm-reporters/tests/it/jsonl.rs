//! Tests of the reporter `jsonl`, which writes one line per case.

use kindlm_reporters::Style;
use kindlm_testing::sample_report;
use kindlm_types::Report;
use kindlm_wire::v1;
use serde_json::Value;

use crate::{placed_report, render};

#[test]
fn each_line_is_a_case_of_the_json_report() {
    for report in [sample_report(), placed_report()] {
        let lines = render("jsonl", &report, &Style::default());
        let json: Value =
            serde_json::from_str(&render("json", &report, &Style::default())).unwrap();
        let cases: Vec<Value> = lines.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        assert_eq!(Value::from(cases), json["cases"]);
        for line in lines.lines() {
            serde_json::from_str::<v1::Case>(line).unwrap();
        }
    }
    assert_eq!(render("jsonl", &Report::default(), &Style::default()), "");
}
