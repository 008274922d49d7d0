//! Loads suites, and shows their problems.

use kindlm_config::{Diagnostic, Loaded};
use kindlm_run::project::load;
use kindlm_run::secrets::Secrets;
use kindlm_run::{OpenOptions, Project, Purpose, SuiteFolder};
use kindlm_store::Folder;
use kindlm_types::ExitStatus;
use serde_json::Map;

use crate::{Failure, Io};

/// Loads a suite for use. If the suite has errors, prints them to stderr and fails.
pub(crate) fn open(
    io: &mut Io,
    options: &OpenOptions,
    purpose: Purpose,
) -> Result<Project, Failure> {
    let read = load(io, options, purpose)?;
    usable(io, read, options.allow_outside)
}

/// Converts a loaded suite into a project. If the suite has errors, prints them to stderr and fails.
pub(crate) fn usable(
    io: &mut Io,
    (place, files, loaded): (SuiteFolder, Folder, Loaded),
    allow_outside: bool,
) -> Result<Project, Failure> {
    if let Some(suite) = loaded.suite {
        // Do not print the warnings, because the suite passes them to the report.
        return Ok(Project { place, suite, files, allow_outside, is_inline: false });
    }
    show(io, &loaded);
    io.notify("nothing was sent");
    Err(Failure::already_shown(ExitStatus::InvalidInput))
}

/// Prints the errors and warnings of a loaded suite to stderr; see [`show_all`].
pub(crate) fn show(io: &mut Io, loaded: &Loaded) {
    show_all(io, &loaded.diagnostics, &loaded.warnings);
}

/// Prints errors and warnings with their locations to stderr.
///
/// Also prints the number of errors in each file.
pub(crate) fn show_all(io: &mut Io, errors: &[Diagnostic], warnings: &[Diagnostic]) {
    let color = io.color_stderr();
    let secrets = Secrets::new(io, &Map::new());
    for diagnostic in errors.iter().chain(warnings) {
        let mut text = kindlm_config::render(diagnostic, color);
        secrets.redact_text(&mut text);
        io.show(text.trim_end());
        io.notify("");
    }
    // Keep the order of the problems: the problems of the config file come first.
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for diagnostic in errors {
        let file = diagnostic.file();
        match counts.iter_mut().find(|(name, _)| *name == file) {
            Some((_, count)) => *count += 1,
            None => counts.push((file, 1)),
        }
    }
    let counts = counts.into_iter().enumerate().map(|(index, (file, count))| {
        let problems = match (index, count) {
            (0, 1) => " problem",
            (0, _) => " problems",
            _ => "",
        };
        format!("{count}{problems} in `{file}`")
    });
    let counts: Vec<String> = counts.collect();
    if !counts.is_empty() {
        io.notify(&counts.join(", "));
    }
}
