//! Writes reports to stdout and to files.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use kindlm_reporters::{Registration, Style, Verbosity, one_line};
use kindlm_types::AnyReport;

use crate::args::HtmlArgs;
use crate::{Failure, Io};
use kindlm_run::reports::{
    NotRendered, ReporterSpec, check_targets, ci_style, render, resolved, write_file_with,
};
use kindlm_run::suite_files::SuiteFiles;
use kindlm_wire::mutation::MutationReport;

/// The default reporter.
const DEFAULT: &str = "pretty";

/// The reporter of annotations, which GitHub reads from the log. On stdout, it can be combined with the default report;
/// no other two reports can share stdout.
const ANNOTATIONS: &str = "github";

/// The variable with the path of GitHub's job summary, to which KindLM appends.
const JOB_SUMMARY_FILE: &str = "GITHUB_STEP_SUMMARY";

/// The reports to write, and their targets.
pub(crate) struct Output {
    specs: Vec<ReporterSpec>,
    verbosity: Verbosity,
    /// The maximum size of an HTML page in bytes.
    html_limit: usize,
    /// The style with the report URL and the folder from the CI system; see [`ci_style`].
    style: Style,
    /// The mutation result of the run, for the reporter `html`; `None` if there is no result.
    mutation: Option<MutationReport>,
}

/// Returns the verbosity from the flags `-q` and `-v`.
pub(crate) fn verbosity(quiet: bool, verbose: bool) -> Verbosity {
    match (quiet, verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    }
}

impl Output {
    /// Checks that the reports can be written, before any request is sent.
    ///
    /// `specs` are the requested reports; if empty, the default report. `more` are additional reports.
    pub(crate) fn new(
        io: &Io,
        mut specs: Vec<ReporterSpec>,
        more: Vec<ReporterSpec>,
        verbosity: Verbosity,
        html: HtmlArgs,
    ) -> Result<Self, Failure> {
        if specs.is_empty()
            && let Some(reporter) = kindlm_reporters::find(DEFAULT)
        {
            specs.push(ReporterSpec::new(reporter, None));
        }
        specs.extend(more);
        check_stdout(&specs)?;
        check_targets(io, &specs)?;
        let html_limit = html.megabytes as usize * 1_000_000;
        Ok(Self { specs, verbosity, html_limit, style: ci_style(io), mutation: None })
    }

    /// Adds the mutation result of the run, if there is one.
    pub(crate) fn with_mutation(self, mutation: Option<MutationReport>) -> Self {
        Self { mutation, ..self }
    }

    /// Returns true if a report is written to a file.
    pub(crate) fn writes_files(&self) -> bool {
        self.specs.iter().any(|it| it.path.is_some())
    }

    /// Fails if a report would overwrite a file of the suite.
    pub(crate) fn spare(&self, io: &Io, files: &SuiteFiles) -> Result<(), Failure> {
        for spec in &self.specs {
            if let Some(path) = &spec.path {
                let target = resolved(&io.working_dir.join(path));
                files.check(spec.reporter.meta.id, &target, path)?;
            }
        }
        Ok(())
    }

    /// Writes all reports.
    ///
    /// Prints the names of the written files, unless `quiet`. If no report goes to stdout, also prints the failures.
    /// With the reporter `github`, also appends the job summary. If a report cannot be written, the other reports are
    /// still written.
    pub(crate) fn write(&self, io: &mut Io, report: &AnyReport<'_>) -> Result<(), Failure> {
        let mut result = Ok(());
        for spec in &self.specs {
            let written = match &spec.path {
                None => self.to_stdout(io, spec.reporter, report),
                Some(path) => self.to_file(io, spec.reporter, path, report),
            };
            result = Failure::both(result, written);
        }
        if self.specs.iter().all(|it| it.path.is_some()) {
            print_verdict(io, report);
        }
        if self.specs.iter().any(|it| it.reporter.meta.id == ANNOTATIONS) {
            append_job_summary(io, report);
        }
        result
    }

    fn style(&self, color: bool, width: usize) -> Style {
        let (verbosity, html_limit) = (self.verbosity, self.html_limit);
        Style { color, width, verbosity, html_limit, ..self.style.clone() }
    }

    fn to_stdout(
        &self,
        io: &mut Io,
        reporter: &'static Registration,
        report: &AnyReport<'_>,
    ) -> Result<(), Failure> {
        let style = self.style(io.color_stdout(), io.width());
        let mut out = BufWriter::with_capacity(1 << 16, &mut io.stdout);
        match render(reporter, (report, self.mutation.as_ref()), &style, &mut out) {
            Ok(()) => Failure::of_stdout(out.flush()),
            Err(NotRendered::Written(err)) => Failure::of_stdout(Err(err)),
            Err(NotRendered::Report(err)) => Err(Failure::internal(err.to_string())),
            // `Output::new` rejects a PDF on stdout.
            Err(NotRendered::Pdf(err)) => Err(Failure::internal(err.to_string())),
        }
    }

    fn to_file(
        &self,
        io: &mut Io,
        reporter: &'static Registration,
        path: &Path,
        report: &AnyReport<'_>,
    ) -> Result<(), Failure> {
        // A file may be read on another screen, so its layout does not depend on this terminal.
        let style = self.style(false, 100);
        let report = (report, self.mutation.as_ref());
        write_file_with(&io.working_dir.join(path), reporter, report, &style)?;
        if self.verbosity != Verbosity::Quiet {
            io.notify(&format!("report `{}` written to {}", reporter.meta.id, path.display()));
        }
        Ok(())
    }
}

/// Fails if several reports go to stdout. Only the default report and the annotations may share stdout.
fn check_stdout(specs: &[ReporterSpec]) -> Result<(), Failure> {
    let on_stdout = specs.iter().filter(|it| it.path.is_none()).map(|it| it.reporter.meta.id);
    let on_stdout: Vec<&str> = on_stdout.collect();
    let [first, second, rest @ ..] = on_stdout.as_slice() else { return Ok(()) };
    let is_log = |id: &str| id == DEFAULT || id == ANNOTATIONS;
    if rest.is_empty() && first != second && is_log(first) && is_log(second) {
        return Ok(());
    }
    Err(Failure::input(format!("`{first}` and `{second}` cannot both be written to stdout"))
        .with_help(format!("write one of them to a file: `--reporter {second}=<path>`")))
}

/// Appends the Markdown report to the job summary of GitHub, if there is one.
///
/// A failure is only a notice, because the report itself is complete.
fn append_job_summary(io: &Io, report: &AnyReport<'_>) {
    let Some(path) = io.var(JOB_SUMMARY_FILE) else { return };
    if let Err(why) = kindlm_run::reports::append_summary(&io.working_dir.join(&path), report) {
        io.notify(&one_line(&format!("cannot write the job summary to `{path}`: {why}")));
    }
}

/// Prints the first failed cases with their places, and the verdict with the failed gates. Prints nothing if the run
/// succeeded.
fn print_verdict(io: &mut Io, report: &AnyReport<'_>) {
    for line in kindlm_run::reports::failed_lines(report) {
        io.notify(&line);
    }
}
