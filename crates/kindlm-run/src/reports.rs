//! Writes reports to files and to other outputs.

use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

use kindlm_pdf::PdfError;
use kindlm_reporters::{Registration, RenderError, Style, one_line};
use kindlm_store::{Draft, StoreError};
use kindlm_types::{AnyReport, ExitStatus, Outcome};
use kindlm_wire::mutation::MutationReport;
use serde::Serialize;

use crate::{Failure, World};

/// The id of the reporter for job summaries in CI.
const JOB_SUMMARY: &str = "markdown";

/// The maximum number of failed cases that [`failed_lines`] names. Further cases are only counted.
const NAMED: usize = 10;

/// A reporter and the file of its report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReporterSpec {
    /// The registry entry of the reporter.
    pub reporter: &'static Registration,
    /// The file, relative to the working folder; `None` is stdout.
    pub path: Option<PathBuf>,
}

impl ReporterSpec {
    /// Creates a reporter with the file of its report; `None` is stdout.
    pub fn new(reporter: &'static Registration, path: Option<PathBuf>) -> Self {
        Self { reporter, path }
    }
}

/// Returns a style with data from the CI system: the URL of the full report, and the working folder below the root of
/// the repository.
pub fn ci_style(world: &World) -> Style {
    Style {
        report_url: report_url(world),
        folder: folder(world).unwrap_or_default(),
        ..Style::default()
    }
}

/// Returns the path of the working folder below the root of the repository that GitHub or GitLab checked out. Returns
/// `None` outside of such a repository.
fn folder(world: &World) -> Option<String> {
    let root = world.var("GITHUB_WORKSPACE").or_else(|| world.var("CI_PROJECT_DIR"))?;
    let (root, here) = (Path::new(&root).canonicalize(), world.working_dir.canonicalize());
    let (root, here) = (root.ok()?, here.ok()?);
    let below = here.strip_prefix(&root).ok()?;
    let parts = below.components().map(|it| it.as_os_str().to_string_lossy().into_owned());
    Some(parts.collect::<Vec<_>>().join("/"))
}

/// Returns the URL of the full report: the value of `KINDLM_REPORT_URL`, or else the page with the artifacts of this
/// run.
///
/// Returns `None` if the variable is not set, and the run is not on GitHub or GitLab.
fn report_url(world: &World) -> Option<String> {
    let var = |name: &str| world.var(name);
    let is_set = |name: &str| var(name).as_deref() == Some("true");
    if let Some(url) = var("KINDLM_REPORT_URL") {
        return Some(url);
    }
    if is_set("GITHUB_ACTIONS") {
        let (server, repository) = (var("GITHUB_SERVER_URL")?, var("GITHUB_REPOSITORY")?);
        return Some(format!(
            "{server}/{repository}/actions/runs/{}#artifacts",
            var("GITHUB_RUN_ID")?
        ));
    }
    let job = var("CI_JOB_URL").filter(|_| is_set("GITLAB_CI"))?;
    Some(format!("{job}/artifacts/browse"))
}

/// Returns the built-in reporter with this id, such as `junit`.
///
/// # Errors
///
/// Fails if no reporter has this id.
pub fn reporter(id: &str) -> Result<&'static Registration, Failure> {
    kindlm_reporters::find(id).ok_or_else(|| {
        let known = kindlm_reporters::REGISTRY.iter().map(|it| it.meta.id);
        Failure::input(format!("there is no reporter `{id}`")).with_help(kindlm_types::suggest(
            id,
            "reporters",
            known,
        ))
    })
}

/// Returns a result as indented JSON with a line break at the end.
pub(crate) fn json_text(result: &impl Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string_pretty(result);
    Ok(json.map_err(|err| Failure::internal(err.to_string()))? + "\n")
}

/// Checks, before the first request, that the reports can be written.
///
/// # Errors
///
/// Fails if two reports have the same file, or if a file cannot be created. Also fails for a PDF that would be written
/// to stdout, or that this build cannot typeset.
pub fn check_targets(world: &World, specs: &[ReporterSpec]) -> Result<(), Failure> {
    let mut taken: Vec<(PathBuf, &str)> = Vec::new();
    for spec in specs {
        check_format(spec)?;
        let Some(path) = &spec.path else { continue };
        let target = world.working_dir.join(path);
        check_target(&target, path)?;
        if let Some(folder) = target.parent() {
            kindlm_store::remove_abandoned(folder);
        }
        let (target, id) = (resolved(&target), spec.reporter.meta.id);
        if let Some((_, other)) = taken.iter().find(|(it, _)| *it == target) {
            return Err(Failure::input(format!(
                "`{other}` and `{id}` cannot both be written to `{}`",
                path.display()
            ))
            .with_help("write each of them to its own file"));
        }
        // Devices and pipes may receive several reports.
        if target.is_file() || !target.exists() {
            taken.push((target, id));
        }
    }
    Ok(())
}

/// Checks that this build can write the format of a report to its target.
fn check_format(spec: &ReporterSpec) -> Result<(), Failure> {
    if !spec.reporter.is_pdf_source() {
        return Ok(());
    }
    let id = spec.reporter.meta.id;
    if spec.path.is_none() {
        return Err(Failure::input(format!("`{id}` cannot be written to stdout"))
            .with_help(format!("write it to a file: `--reporter {id}=<path>`")));
    }
    if kindlm_pdf::IS_BUILT { Ok(()) } else { Err(not_built(id)) }
}

fn not_built(id: &str) -> Failure {
    Failure::input(format!("this build of KindLM cannot write PDF files, so it has no reporter `{id}`"))
        .with_help(
            "`cargo install --path crates/kindlm-cli --features full,pdf` builds one that can; `compliance-html` writes \
             a page that a browser prints as PDF",
        )
}

/// Writes one report to a file. The old file is replaced only after the report is complete.
///
/// # Errors
///
/// Fails if the file cannot be written, if the reporter cannot render the report, or if a PDF cannot be typeset.
pub fn write_file(
    path: &Path,
    reporter: &'static Registration,
    report: &AnyReport<'_>,
    style: &Style,
) -> Result<(), Failure> {
    write_file_with(path, reporter, (report, None), style)
}

/// Writes one report to a file like [`write_file`]. The page of `html` also shows the mutation result of the run.
///
/// # Errors
///
/// Fails like [`write_file`].
pub fn write_file_with(
    path: &Path,
    reporter: &'static Registration,
    (report, mutation): (&AnyReport<'_>, Option<&MutationReport>),
    style: &Style,
) -> Result<(), Failure> {
    let failed = |err: &StoreError| Failure::internal(err.to_string());
    let mut draft = Draft::begin(path).map_err(|err| failed(&err))?;
    let file = path.file_name().map(|it| it.to_string_lossy().into_owned());
    let style = &Style { file, ..style.clone() };
    render(reporter, (report, mutation), style, &mut draft).map_err(|err| match err {
        NotRendered::Written(err) => failed(&draft.failed(&err)),
        NotRendered::Report(err) => Failure::internal(err.to_string()),
        NotRendered::Pdf(PdfError::NotBuilt) => not_built(reporter.meta.id),
        NotRendered::Pdf(err) => Failure::internal(err.to_string()),
    })?;
    draft.finish().map_err(|err| failed(&err))
}

/// The reason for a missing or incomplete report.
pub enum NotRendered {
    /// The output could not be written.
    Written(io::Error),
    /// The reporter returned an error.
    Report(RenderError),
    /// The report could not be typeset as a PDF.
    Pdf(PdfError),
}

/// Writes the report to `out` in the reporter's format, in small pieces. A PDF is written in one piece.
///
/// The page of `html` also shows the mutation result of the run.
///
/// # Errors
///
/// Fails if the output or the reporter fails, or if a PDF cannot be typeset. A part of the report may have been
/// written.
pub fn render(
    reporter: &'static Registration,
    (report, mutation): (&AnyReport<'_>, Option<&MutationReport>),
    style: &Style,
    out: &mut dyn io::Write,
) -> Result<(), NotRendered> {
    if reporter.is_pdf_source() {
        let mut source = String::new();
        (reporter.render)(report, style, &mut source).map_err(NotRendered::Report)?;
        let pdf = kindlm_pdf::pdf(&source).map_err(NotRendered::Pdf)?;
        return out.write_all(&pdf.bytes).map_err(NotRendered::Written);
    }
    let mut text = Text { out, failure: None };
    let rendered = if reporter.is_html() {
        kindlm_reporters::write_html(report, mutation, style, &mut text)
    } else {
        (reporter.render)(report, style, &mut text)
    };
    match (rendered, text.failure) {
        (_, Some(err)) => Err(NotRendered::Written(err)),
        (Err(err), None) => Err(NotRendered::Report(err)),
        (Ok(()), None) => Ok(()),
    }
}

/// A text writer over a byte writer; stores the first error.
struct Text<'a> {
    out: &'a mut dyn io::Write,
    failure: Option<io::Error>,
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_all(text.as_bytes()).map_err(|err| {
            self.failure = Some(err);
            fmt::Error
        })
    }
}

/// Appends the Markdown report to a file, such as the job summary of GitHub.
///
/// # Errors
///
/// Fails if the report cannot be rendered or the file cannot be written. The text is the reason.
pub fn append_summary(path: &Path, report: &AnyReport<'_>) -> Result<(), String> {
    let reporter = reporter(JOB_SUMMARY).map_err(|it| it.message.unwrap_or_default())?;
    let mut text = String::new();
    (reporter.render)(report, &Style::default(), &mut text).map_err(|err| err.to_string())?;
    let append = || {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
        io::Write::write_all(&mut file, text.as_bytes())
    };
    append().map_err(|err| err.to_string())
}

/// Names the failed cases with their source locations, and the failed gates. Returns no line if the run succeeded.
pub fn failed_lines(report: &AnyReport<'_>) -> Vec<String> {
    let summary = report.summary();
    let word = match summary.exit_status {
        ExitStatus::Success => return Vec::new(),
        ExitStatus::GatesFailed => "FAILED",
        ExitStatus::Interrupted => "INTERRUPTED",
        ExitStatus::ProviderError | ExitStatus::Internal | ExitStatus::InvalidInput => "ERROR",
    };
    let (mut lines, mut clauses) = (Vec::new(), Vec::new());
    let totals = summary.totals;
    let count = totals.failed + totals.errored;
    if count > 0 {
        let failed =
            report.each_where(|it| matches!(it.outcome, Outcome::Failed | Outcome::Errored));
        for case in failed.take(NAMED).flatten() {
            let mark = if case.outcome == Outcome::Failed { '✗' } else { '!' };
            let place = case.source.as_ref().map(|it| format!("  {it}")).unwrap_or_default();
            lines.push(one_line(&format!("  {mark} {} · {}{place}", case.case, case.model)));
        }
        let more = count.saturating_sub(NAMED as u64);
        if more > 0 {
            lines.push(format!("  … {more} more"));
        }
        clauses.push(format!("{count} of {} results did not pass", totals.cases));
    }
    let gates = report.violated_gates().map(|it| format!("`{}`", it.gate)).collect::<Vec<_>>();
    // The gates of a shard have no effect.
    if !gates.is_empty() && report.shard.is_none() {
        clauses.push(format!("failed gates: {}", gates.join(", ")));
    }
    if clauses.is_empty() {
        clauses.push("see the report".to_owned());
    }
    lines.push(one_line(&format!("{word}: {}", clauses.join("; "))));
    lines
}

/// Checks, before the first request, that a report can be written to a file.
///
/// # Errors
///
/// Fails if the target is a folder, is below a file, or is not writable.
pub fn check_target(target: &Path, named: &Path) -> Result<(), Failure> {
    let refuse = |why: &str| {
        Err(Failure::input(format!("cannot write a report to `{}`: {why}", named.display())))
    };
    if target.is_dir() {
        return refuse("it is a folder");
    }
    let blocked = target.ancestors().skip(1).find(|it| it.exists());
    if blocked.is_some_and(|it| !it.is_dir()) {
        return refuse("a file stands where a folder should be");
    }
    kindlm_store::check_writable(target).or_else(|err| match err {
        StoreError::Io { message, .. } => refuse(&message),
        err => refuse(&err.to_string()),
    })
}

/// Returns the same path for all names of a file, as far as possible.
///
/// Links, `.` and `..` in the existing part are resolved.
pub fn resolved(target: &Path) -> PathBuf {
    let mut rest = Vec::new();
    for folder in target.ancestors() {
        if let Ok(found) = folder.canonicalize() {
            return rest.iter().rev().fold(found, |path, name| path.join(name));
        }
        match folder.components().next_back() {
            Some(Component::Normal(name)) => rest.push(name.to_owned()),
            Some(Component::ParentDir) => return std::path::absolute(target).unwrap_or_default(),
            _ => {}
        }
    }
    target.to_owned()
}
