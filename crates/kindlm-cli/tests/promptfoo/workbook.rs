//! Tests in an Excel file.

use crate::ran::{CONFIG, folder, rows};

#[test]
fn each_sheet_of_an_excel_file_has_tests() {
    let workbook =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/promptfoo/differential/workbook.xlsx");
    for (tests, expected) in [
        ("file://workbook.xlsx", Ok(&["2: pear", "0.5: plum"][..])),
        ("file://workbook.xlsx#Second", Ok(&["true: fig", ": a, b"])),
        ("file://*.xlsx#2", Ok(&["true: fig", ": a, b"])),
        ("file://workbook.xlsx#Third", Err("it has no sheet `Third`; its sheets are `First`")),
        ("file://gone.xlsx", Err("`gone.xlsx` does not exist")),
    ] {
        let config =
            format!("prompts: ['{{{{ n }}}}: {{{{ q }}}}']\nproviders: [echo]\ntests: '{tests}'\n");
        let folder = folder(&[(CONFIG, &config)]);
        std::fs::copy(workbook, folder.path().join("workbook.xlsx")).unwrap();
        let (ran, rows) = rows(folder.path(), CONFIG, &[]);
        match expected {
            Ok(outputs) => {
                let read: Vec<&str> =
                    rows.iter().map(|it| it["output"].as_str().unwrap()).collect();
                assert_eq!(read, outputs, "{tests}: {ran:?}");
            }
            Err(message) => {
                assert_eq!(ran.code, 2, "{tests}: {ran:?}");
                assert!(ran.stderr.contains(message), "{tests}: {}", ran.stderr);
            }
        }
    }
}
