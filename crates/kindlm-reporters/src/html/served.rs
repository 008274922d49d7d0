//! The parts of the page that a server sends one by one, instead of one file.

use std::fmt::Write as _;

use askama::Template as _;
use kindlm_types::{AnyReport, CaseResult, ExecutionResult};
use kindlm_wire::mutation::MutationReport;
use serde_json::{Value, json};

use super::data::{Blocks, Data};
use super::fit::Cut;
use super::options::ServeOptions;
use super::{STYLE, data, end, failed, overview, policy, prompts, source_hash, view};
use crate::{RenderError, diff};

/// The maximum number of failure reasons that are shown for a case in one run.
const REASONS: usize = 5;

/// The page that a server sends first. It has the scripts and the style sheet, and no data of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HtmlShell {
    /// The HTML text.
    pub html: String,
    /// The value of the header `Content-Security-Policy`.
    pub policy: String,
}

/// Returns the page that loads a run from its own server.
///
/// The script takes the token from the fragment of the URL, and sends it in the header `x-kindlm-token`. The requests:
///
/// | path | response |
/// |---|---|
/// | `/wire/page` | [`ServedRun::page`] |
/// | `/wire/index` | the index of the cases |
/// | `/wire/chunk/N` | [`ServedRun::chunks`] |
/// | `/wire/heads` | a JSON array with the totals of each past run, oldest first |
/// | `/wire/compare?base=RUN` | a JSON object with `comparison` |
/// | `/wire/difference?base=RUN&case=NAME&model=ID` | [`case_difference`] |
/// | `/wire/history?case=NAME&model=ID` | a JSON array with `run` and the pass rate of a case |
///
/// Each path may have the parameter `run`, the id of the run that the page shows.
pub fn html_shell() -> HtmlShell {
    let mut html = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>KindLM</title>\n",
    );
    html.push_str("<style>");
    html.push_str(STYLE);
    html.push_str(
        "</style>\n</head>\n<body>\n<main class=\"wrap\"><h1 id=\"loading\">Loading the run …</h1>\n\
         <noscript><p>This page needs JavaScript.</p></noscript></main>\n",
    );
    html.push_str(&end(true));
    let policy = policy(true) + "; connect-src 'self'; frame-ancestors 'none'";
    HtmlShell { html, policy }
}

/// Returns the page of a server that has no run to show yet. It has no data and no script.
pub fn html_without_runs() -> HtmlShell {
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>No run yet</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main class=\"wrap\">\n\
         <h1>There is no finished run yet</h1>\n<p>Run <code>kindlm test</code> in the folder of the suite, and load \
         this page again.</p>\n<p class=\"soft\">Runs are stored in <code>.kindlm/runs</code> beside the suite. For \
         the runs of another folder, start <code>kindlm view FOLDER</code>.</p>\n</main>\n</body>\n</html>\n"
    );
    let policy = format!(
        "default-src 'none'; style-src '{}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        source_hash(STYLE)
    );
    HtmlShell { html, policy }
}

/// Returns the style sheet of the report, for other pages with the same look.
pub fn html_style() -> &'static str {
    STYLE
}

/// The data of a run for the page.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServedRun {
    /// The page without its cases, as HTML.
    pub page: String,
    /// The index of the cases: JSON, compressed with gzip.
    pub index: Vec<u8>,
    /// The cases in chunks: JSON, compressed with gzip.
    pub chunks: Vec<Vec<u8>>,
}

impl Blocks for ServedRun {
    fn chunk(&mut self, _number: usize, gzip: Vec<u8>) -> Result<(), RenderError> {
        self.chunks.push(gzip);
        Ok(())
    }

    fn index(&mut self, gzip: Vec<u8>) -> Result<(), RenderError> {
        self.index = gzip;
        Ok(())
    }
}

/// Renders the data of a run for the page, with the mutation result of the run if there is one.
///
/// # Errors
///
/// Fails if a case cannot be read, or if the page cannot be rendered.
pub fn serve_run(
    report: &AnyReport<'_>,
    mutation: Option<&MutationReport>,
) -> Result<ServedRun, RenderError> {
    serve_run_with(report, mutation, &ServeOptions::default())
}

/// Renders the data of a run like [`serve_run`], with the options of the server.
///
/// # Errors
///
/// Fails if a case cannot be read, or if the page cannot be rendered.
pub fn serve_run_with(
    report: &AnyReport<'_>,
    mutation: Option<&MutationReport>,
    options: &ServeOptions,
) -> Result<ServedRun, RenderError> {
    let summary = report.summary();
    let mut served = ServedRun::default();
    let page = &mut served.page;
    let mut overview = overview::Page::new(report, &summary, true)?;
    overview.measure(mutation)?;
    overview.add_past(report, &summary, &options.past);
    overview.render_into(page).map_err(|err| failed(&err))?;
    let compared = data::comparison(report, false)?;
    let end = end::End::new(report, &summary, &compared);
    end.render_into(page).map_err(|err| failed(&err))?;
    write!(page, "</body>\n</html>\n")?;
    let mut data = Data::new(&summary, Cut::default()).served_with(options);
    for position in 0..report.cases.len() {
        data.add(report, position, &mut served)?;
    }
    data.finish(&mut served)?;
    Ok(served)
}

/// Returns both sides of a case, and the differences of their prompts and outputs.
///
/// A side is the execution that explains the outcome of the case in one run. `None` stands for a run without the case.
///
/// Returns a JSON object with `before`, `after`, `prompt` and `output`. `prompt` and `output` have the lines of the
/// difference; `null` if the texts are equal or a side is missing.
pub fn case_difference(before: Option<&CaseResult>, after: Option<&CaseResult>) -> Value {
    let lines = |text: fn(&ExecutionResult) -> String| {
        let (before, after) = (text(shown(before?)?), text(shown(after?)?));
        (before != after).then(|| view::compact(diff::between(&before, &after)))
    };
    json!({
        "before": before.map(side),
        "after": after.map(side),
        "prompt": lines(|it| prompts::text(&it.execution)),
        "output": lines(|it| it.execution.output.clone()),
    })
}

/// Returns the execution that explains the outcome of a case. If no execution explains the outcome, returns the first
/// execution; `None` if the case has no executions.
fn shown(case: &CaseResult) -> Option<&ExecutionResult> {
    case.explaining_execution().or(case.executions.first())
}

/// Returns a case in one run as JSON: the outcome, the reasons of failures, and the shown repeat with its output.
///
/// `repeat` is counted from 1. `repeats` is the number of repeats.
fn side(case: &CaseResult) -> Value {
    let findings = case.findings();
    let of_checks = findings.iter().filter_map(|it| {
        let why = it.result.verdict.message()?;
        Some(format!("{}: {why}", it.result.label))
    });
    let errors = case.errors();
    let of_errors = errors.iter().map(|it| it.error.message());
    let reasons: Vec<String> = of_errors.chain(of_checks).take(REASONS).collect();
    let shown = shown(case).map(|it| &it.execution);
    json!({
        "outcome": case.outcome,
        "reasons": reasons,
        "output": shown.map(|it| it.output.as_str()),
        "repeat": shown.map(|it| u64::from(it.repeat) + 1),
        "repeats": case.executions.len(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn served_cases_link_to_the_editor() {
        let mut report = kindlm_testing::sample_report();
        report.cases[0].source = Some(kindlm_types::SourcePlace::new("kindlm.yaml", 7, 3));
        let chunk = |options: &ServeOptions| {
            let served = serve_run_with(&report, None, options).unwrap();
            let mut text = String::new();
            flate2::read::GzDecoder::new(&*served.chunks[0]).read_to_string(&mut text).unwrap();
            text
        };
        let options = ServeOptions {
            editor: Some("vscode://file{file}:{line}".to_owned()),
            folder: "/suite".to_owned(),
            ..ServeOptions::default()
        };
        let text = chunk(&options);
        assert!(text.contains("\"editor\":\"vscode://file/suite/kindlm.yaml:7\""), "{text}");
        assert!(!chunk(&ServeOptions::default()).contains("\"editor\""));
    }
}
