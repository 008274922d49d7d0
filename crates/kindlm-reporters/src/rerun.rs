//! Commands that a reader can copy from a report, for a POSIX shell.

use kindlm_types::{AnyReport, CaseResult};

use crate::plain::one_line;

/// The config file that commands use by default.
const DEFAULT_CONFIG: &str = "kindlm.yaml";

/// The model ids of results without a model. Such tests run a command or read a transcript.
pub(crate) const RUNNERS: [&str; 2] = ["command", "transcript"];

/// Returns the command that runs one test on one model again.
///
/// A name with line breaks or control characters cannot be typed. The command then runs all failed tests.
pub(crate) fn of_case(report: &AnyReport<'_>, case: &CaseResult) -> String {
    let is_typable = |text: &str| !text.is_empty() && one_line(text) == text;
    if !is_typable(&case.case) || !is_typable(&case.model) {
        return of_failed(report);
    }
    let mut command = format!("kindlm test{}", option("--test", &pattern(&case.case)));
    if !RUNNERS.contains(&case.model.as_str()) {
        command += &option("--models", &case.model);
    }
    command + &config(report)
}

/// Returns the command that runs the failed tests of the last run again.
pub(crate) fn of_failed(report: &AnyReport<'_>) -> String {
    format!("kindlm test --failed{}", config(report))
}

/// Returns the option for the config file; empty for the default file, and if the file is not known.
pub(crate) fn config(report: &AnyReport<'_>) -> String {
    match report.suite.config_path.as_deref() {
        None | Some("" | DEFAULT_CONFIG) => String::new(),
        Some(path) => format!(" -c {}", word(path)),
    }
}

fn option(name: &str, value: &str) -> String {
    // After a space, a value with a leading `-` would be taken for an option.
    let separator = if value.starts_with('-') { '=' } else { ' ' };
    format!(" {name}{separator}{}", word(value))
}

/// Returns a pattern for `--test` that matches only this name.
///
/// A pattern that equals a name selects only the test with this name. A name with a leading `/` could be taken for a
/// regular expression, so the pattern is an escaped regular expression.
fn pattern(name: &str) -> String {
    if !name.starts_with('/') {
        return name.to_owned();
    }
    let mut regex = String::from("/^");
    for c in name.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            regex.push('\\');
        }
        regex.push(c);
    }
    regex + "$/"
}

/// Quotes a word for a shell if it has special characters.
pub(crate) fn word(text: &str) -> String {
    let text = one_line(text);
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:,@".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use kindlm_testing::green_report;

    use super::*;

    #[test]
    fn the_command_selects_the_case() {
        for (name, model, path, expected) in [
            ("refund", "gpt-4o", None, "kindlm test --test refund --models gpt-4o"),
            ("refund", "command", Some("kindlm.yaml"), "kindlm test --test refund"),
            (
                "it's late",
                "a/b",
                Some("my suite/x.yaml"),
                r"kindlm test --test 'it'\''s late' --models a/b -c 'my suite/x.yaml'",
            ),
            ("-x", "m", None, "kindlm test --test=-x --models m"),
            ("[eu] a > b?", "m", None, r"kindlm test --test '[eu] a > b?' --models m"),
            ("/etc/(<x>", "m", None, r"kindlm test --test '/^/etc/\(<x>$/' --models m"),
            ("two\nlines", "m", Some("x.yaml"), "kindlm test --failed -c x.yaml"),
            ("$(rm) `x`", "m", None, "kindlm test --test '$(rm) `x`' --models m"),
            ("bell\u{7}", "m", None, "kindlm test --failed"),
        ] {
            let mut report = green_report();
            report.suite.config_path = path.map(str::to_owned);
            (report.cases[0].case, report.cases[0].model) = (name.to_owned(), model.to_owned());
            assert_eq!(of_case(&report, &report.cases[0]), expected);
        }
    }
}
