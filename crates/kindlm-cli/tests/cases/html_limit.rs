//! The size of the HTML report.

use std::fs;
use std::process::Command;

use kindlm_testing::green_report;
use kindlm_wire::v1;

use crate::binary;

#[test]
fn html_limit_cuts_texts_of_a_large_page() {
    let mut report = green_report();
    // Pseudo-random digits, because they compress badly.
    let mut state = 1_u64;
    report.cases[0].executions[0].execution.output = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{:08x}", state >> 32)
    })
    .take(500_000)
    .collect();
    let folder = tempfile::tempdir().unwrap();
    let json = serde_json::to_vec(&v1::Report::borrowing(&report)).unwrap();
    fs::write(folder.path().join("report.json"), json).unwrap();
    let page = |limit: &[&str]| {
        let output = Command::new(binary())
            .args(["report", "report.json", "--reporter", "html=page.html"])
            .args(limit)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read_to_string(folder.path().join("page.html")).unwrap()
    };
    let (whole, limited) = (page(&[]), page(&["--html-limit", "1"]));
    assert!(whole.len() > 2_000_000 && !whole.contains("--html-limit"), "{}", whole.len());
    assert!(limited.len() <= 1_000_000, "{}", limited.len());
    assert!(limited.contains("Texts of passed cases are cut to 2,000 characters."));
}
