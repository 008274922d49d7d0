//! Commands that a reader can copy from the report.

use kindlm_types::{AnyReport, CaseResult};

use crate::plain::one_line;

/// The config file that commands use by default.
pub(super) const DEFAULT_CONFIG: &str = "kindlm.yaml";

/// The names of runners in the place of a model.
const RUNNERS: [&str; 2] = ["command", "transcript"];

/// Returns the command that runs one test on one model again.
pub(super) fn of_case(report: &AnyReport<'_>, case: &CaseResult) -> String {
    let mut command = format!("kindlm test --test {}", word(&case.case));
    if !RUNNERS.contains(&case.model.as_str()) {
        command = format!("{command} --models {}", word(&case.model));
    }
    command + &config(report)
}

/// Returns the command that runs the failed tests of the last run again.
pub(super) fn of_failed(report: &AnyReport<'_>) -> String {
    format!("kindlm test --failed{}", config(report))
}

/// Returns the option for the config file; empty for the default file.
fn config(report: &AnyReport<'_>) -> String {
    match report.suite.config_path.as_deref() {
        None | Some("" | DEFAULT_CONFIG) => String::new(),
        Some(path) => format!(" -c {}", word(path)),
    }
}

/// Quotes a word for a shell if it has special characters.
pub(super) fn word(text: &str) -> String {
    let text = one_line(text);
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:,@\\".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
