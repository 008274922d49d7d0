//! The sections with the results: totals, gates, cases, findings, tags.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use kindlm_types::{
    AnyReport, AssertionSummary, CaseError, CaseResult, Class, GateOutcome, GateResult, Outcome,
    RepeatCounts, Severity, SkippedCase, SuiteTotals, Summary,
};

use super::blocks::{Block, Cell as Text, Document};
use super::{Law, number, verdict};
use crate::RenderError;
use crate::amount::{count, plural, repeats};
use crate::plain::head;

/// The maximum number of bytes that are shown of an output or of a message.
const OUTPUT_BYTES: usize = 600;
const MESSAGE_BYTES: usize = 1_200;

/// Writes the totals, the totals by model, and the gates.
pub(super) fn summary(
    doc: &mut Document<'_>,
    report: &AnyReport<'_>,
    summary: &Summary,
    law: Law,
) -> Result<(), RenderError> {
    let note = "Annex IV, point 2 (g): metrics; point 3: performance. Article 15: accuracy and robustness.";
    doc.section("Results", law.only(note))?;
    let totals = &summary.totals;
    let rows = [
        ("Result", verdict(report, summary)),
        ("Cases run", count(totals.cases)),
        ("Passed", count(totals.passed)),
        ("Scored: a soft check below its threshold", count(totals.scored)),
        ("Failed", count(totals.failed)),
        ("Errored: could not be executed or judged", count(totals.errored)),
        ("Skipped: not run", count(totals.skipped)),
        ("Held, of the cases run", totals.held().to_string()),
        ("Executions, repeats included", count(totals.executions)),
        ("Checks by rules that held", summary.checks(Class::Deterministic).to_string()),
        ("Checks by a model that held", summary.checks(Class::Probabilistic).to_string()),
    ];
    doc.fields(rows.map(|(name, value)| (name, value.into())))?;
    doc.put(Block::Paragraph(
        "CI is Wilson's 95 % confidence interval. It takes the cases as a random sample of independent cases of the \
         system's use.",
    ))?;
    gates(doc, report, law)?;
    assertions(doc, &summary.assertions)?;
    by_model(doc, report, summary)
}

fn gates(doc: &mut Document<'_>, report: &AnyReport<'_>, law: Law) -> Result<(), RenderError> {
    doc.put(Block::Heading(3, "Quality gates"))?;
    let note = "Article 9(8): prior defined metrics and probabilistic thresholds.";
    if let Some(note) = law.only(note) {
        doc.put(Block::Law(note))?;
    }
    if report.shard.is_some() {
        return doc
            .put(Block::Paragraph("The gates apply to the whole run. This is a shard of it."));
    }
    if report.gates.is_empty() {
        return doc.put(Block::Paragraph("The suite has no gates."));
    }
    doc.put(Block::Paragraph(
        "The suite or the command of the run sets the thresholds. The commit shows when those of the suite were set, \
         unless the working tree had uncommitted changes.",
    ))?;
    let rows = report.gates.iter().map(|it| Ok(gate_row(it)));
    doc.table(&["Gate", "Status", "Measured", "Threshold", "In words"], rows)
}

fn gate_row(gate: &GateResult) -> [Text<'_>; 5] {
    let status = match gate.outcome {
        GateOutcome::Held => "held",
        GateOutcome::Violated => "VIOLATED",
        GateOutcome::NothingToMeasure => "nothing to measure",
    };
    [
        gate.gate.as_str().into(),
        status.into(),
        gate.actual.map_or_else(|| "–".to_owned(), number).into(),
        number(gate.threshold).into(),
        gate.message.as_str().into(),
    ]
}

fn assertions(doc: &mut Document<'_>, all: &[AssertionSummary]) -> Result<(), RenderError> {
    if all.is_empty() {
        return Ok(());
    }
    doc.put(Block::Heading(3, "Prompt assertions"))?;
    let rows = all.iter().map(|it| {
        let named = it.failing.iter().map(|it| format!("{} ({})", it.case, it.model));
        let more = (it.unnamed() > 0).then(|| format!("{} more", count(it.unnamed())));
        let failing: Vec<String> = named.chain(more).collect();
        Ok([
            Text::from(it.id.as_str()),
            it.kept.to_string().into(),
            count(it.errored).into(),
            count(it.skipped).into(),
            if failing.is_empty() { "none".into() } else { failing.join(", ").into() },
            it.example.as_deref().unwrap_or_default().into(),
        ])
    });
    let columns = ["Assertion", "Kept", "Errored", "Did not apply", "Violated in", "For example"];
    doc.table(&columns, rows)
}

/// Writes the totals of each model, and the outcomes by test case and model if there are several models.
fn by_model(
    doc: &mut Document<'_>,
    report: &AnyReport<'_>,
    summary: &Summary,
) -> Result<(), RenderError> {
    doc.put(Block::Heading(3, "Results by model"))?;
    let rows = summary.models.iter().map(|it| Ok(totals_row(&it.model, &it.totals)));
    doc.table(&columns("Model"), rows)?;
    let models: Vec<&str> = summary.models.iter().map(|it| it.model.as_str()).collect();
    if models.len() < 2 {
        return Ok(());
    }
    let comparison = Comparison::from_report(report, &models)?;
    let columns: Vec<&str> = std::iter::once("Test case").chain(models).collect();
    let rows = comparison.rows.iter().map(|(name, cells)| {
        let cells = cells.iter().map(|it| Text::from(cell(it.as_ref())));
        Ok(std::iter::once(Text::from(&**name)).chain(cells).collect::<Vec<_>>())
    });
    doc.table(&columns, rows)
}

const fn columns(first: &str) -> [&str; 8] {
    [first, "Cases", "Passed", "Scored", "Failed", "Errored", "Skipped", "Held"]
}

fn totals_row<'r>(name: &'r str, totals: &SuiteTotals) -> [Text<'r>; 8] {
    [
        name.into(),
        count(totals.listed()).into(),
        count(totals.passed).into(),
        count(totals.scored).into(),
        count(totals.failed).into(),
        count(totals.errored).into(),
        count(totals.skipped).into(),
        totals.held().to_string().into(),
    ]
}

/// Writes the totals of each tag.
pub(super) fn tags(doc: &mut Document<'_>, summary: &Summary) -> Result<(), RenderError> {
    doc.section("Results by tag", None)?;
    let rows = summary.tags.iter().map(|it| Ok(totals_row(&it.tag, &it.totals)));
    let untagged = summary.untagged.iter().map(|it| Ok(totals_row("(without tag)", it)));
    doc.table(&columns("Tag"), rows.chain(untagged))
}

/// Writes the outcome of every case, and the findings of each case that did not pass.
pub(super) fn cases(
    doc: &mut Document<'_>,
    report: &AnyReport<'_>,
    summary: &Summary,
    law: Law,
) -> Result<(), RenderError> {
    doc.section("Cases and findings", law.only("Annex IV, point 2 (g): test logs."))?;
    // A format with a limit leaves out the last rows, so write the passed cases last.
    let max_findings = doc.format().max_findings();
    let is_sorted = max_findings.is_some();
    let first = report.each_where(move |it| !is_sorted || it.outcome != Outcome::Passed);
    let last = report.each_where(move |it| is_sorted && it.outcome == Outcome::Passed);
    let [first, last] =
        [Box::new(first) as Box<dyn Iterator<Item = _>>, Box::new(last)].map(|cases| {
            cases.map(|it: Result<Cow<'_, CaseResult>, CaseError>| Ok(case_row(it?.as_ref())))
        });
    let skipped = report.skipped.iter().map(|it| Ok(skipped_row(it)));
    let columns = [
        "Test case",
        "Model",
        "Result",
        "Repeats held",
        "Checks by rules",
        "Checks by a model",
        "Tags",
    ];
    doc.table(&columns, first.chain(skipped).chain(last))?;
    if max_findings.is_some() && !summary.causes.is_empty() {
        causes(doc, summary)?;
    }
    doc.put(Block::Heading(3, "Findings"))?;
    if summary.totals.passed == summary.totals.listed() {
        doc.put(Block::Paragraph("Nothing failed, nothing was left out."))?;
    }
    let mut left = max_findings.unwrap_or(usize::MAX);
    for case in report.each_where(|it| it.outcome != Outcome::Passed).take(left) {
        findings(doc, case?.as_ref())?;
        left -= 1;
    }
    for it in report.skipped.iter().take(left) {
        let word = result_word(Outcome::Skipped);
        doc.put(Block::Heading(4, &format!("{} (all models): {word}", it.case)))?;
        doc.put(Block::ListBegin)?;
        doc.put(Block::Item("not run:", &it.reason))?;
        doc.put(Block::ListEnd)?;
    }
    let all = summary.totals.listed() - summary.totals.passed;
    let more = all.saturating_sub(max_findings.map_or(u64::MAX, |it| it as u64));
    if more == 0 {
        return Ok(());
    }
    doc.put(Block::Strong(&format!(
        "The findings of {} more cases are left out here. The Markdown document, the HTML page and the JSON report of \
         the run have them.",
        count(more)
    )))
}

/// Writes the causes of the findings, the most frequent first.
fn causes(doc: &mut Document<'_>, summary: &Summary) -> Result<(), RenderError> {
    doc.put(Block::Heading(3, "Causes of the findings"))?;
    let rows = summary.causes.iter().map(|it| {
        let code = it.code.as_ref().map_or_else(|| "not run".to_owned(), ToString::to_string);
        let example = it.examples.first().map(|it| format!("{} ({})", it.case, it.model));
        Ok([
            Text::from(code),
            it.title.as_str().into(),
            count(it.cases).into(),
            example.unwrap_or_default().into(),
        ])
    });
    doc.table(&["Code", "Cause", "Cases", "For example"], rows)?;
    if summary.failures_left_out > 0 {
        doc.put(Block::Strong(&format!(
            "Not listed: {} of further causes.",
            plural(summary.failures_left_out, "failure")
        )))?;
    }
    Ok(())
}

fn case_row(case: &CaseResult) -> [Text<'static>; 7] {
    let counts = case.repeat_counts();
    let checks = case.checks;
    let held = match counts.executed() {
        0 => "–".to_owned(),
        executed => format!("{} of {executed}", counts.held()),
    };
    [
        case.case.clone().into(),
        case.model.clone().into(),
        result_word(case.outcome).into(),
        held.into(),
        describe_passed(checks.deterministic_passed, checks.deterministic_total).into(),
        describe_passed(checks.probabilistic_passed, checks.probabilistic_total).into(),
        case.tags.join(", ").into(),
    ]
}

fn skipped_row(case: &SkippedCase) -> [Text<'static>; 7] {
    let none = || Text::from("–");
    let word = result_word(Outcome::Skipped);
    let tags = case.tags.join(", ");
    [case.case.clone().into(), none(), word.into(), none(), none(), none(), tags.into()]
}

fn describe_passed(passed: u64, total: u64) -> String {
    if total == 0 { "–".to_owned() } else { format!("{passed} of {total}") }
}

fn findings(doc: &mut Document<'_>, case: &CaseResult) -> Result<(), RenderError> {
    let title = format!("{} ({}): {}", case.case, case.model, result_word(case.outcome));
    doc.put(Block::Heading(4, &title))?;
    let of = case.executions.len();
    doc.put(Block::ListBegin)?;
    for finding in case.findings() {
        let result = finding.result;
        let soft = (result.severity == Severity::Soft).then(|| "soft".to_owned());
        let turn = result.turn.as_ref().map(|it| format!("turn \"{it}\""));
        let repeats = Some(repeats(&finding.repeats, of)).filter(|it| !it.is_empty());
        let facts: Vec<String> = [soft, turn, repeats].into_iter().flatten().collect();
        let facts =
            if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        let code = result.verdict.code().map(ToString::to_string).unwrap_or_default();
        let message = cut(result.verdict.message().unwrap_or_default(), MESSAGE_BYTES);
        doc.put(Block::Item(&code, &format!("{}{facts}: {message}", result.label)))?;
    }
    for finding in case.errors() {
        let code = finding.error.code().map_or_else(|| "not run".to_owned(), |it| it.to_string());
        let repeats = Some(repeats(&finding.repeats, of)).filter(|it| !it.is_empty());
        let repeats = repeats.map(|it| format!(" ({it})")).unwrap_or_default();
        let message = cut(&finding.error.message(), MESSAGE_BYTES);
        doc.put(Block::Item(&format!("{code}{repeats}:"), &message))?;
    }
    doc.put(Block::ListEnd)?;
    let explaining = case.explaining_execution().filter(|it| it.error.is_none());
    let output = explaining.map_or("", |it| it.execution.output.as_str());
    if output.is_empty() {
        return Ok(());
    }
    let is_cut = output.len() > OUTPUT_BYTES;
    doc.put(Block::Paragraph(if is_cut { "Beginning of the output:" } else { "Output:" }))?;
    doc.put(Block::Quote(&cut(output, OUTPUT_BYTES)))
}

fn cut(text: &str, bytes: usize) -> String {
    let beginning = head(text, bytes);
    if beginning.len() < text.len() { format!("{beginning}…") } else { text.to_owned() }
}

fn result_word(outcome: Outcome) -> String {
    match outcome {
        Outcome::Failed => "FAILED".to_owned(),
        Outcome::Errored => "ERRORED".to_owned(),
        other => other.to_string(),
    }
}

/// The table of outcomes by test case and model.
#[derive(Default)]
struct Comparison {
    rows: Vec<ComparisonRow>,
}

/// A row of the table: the name of a test case, and one cell per model.
type ComparisonRow = (Rc<str>, Box<[Option<Cell>]>);

/// The outcome of one test case on one model.
#[derive(Clone, Copy)]
struct Cell {
    outcome: Outcome,
    /// The counts of the repeats; `None` if there are fewer than two.
    repeats: Option<RepeatCounts>,
}

impl Comparison {
    /// Builds the table. Only names, outcomes and counts are held in memory.
    fn from_report(report: &AnyReport<'_>, models: &[&str]) -> Result<Self, CaseError> {
        let mut rows: Vec<ComparisonRow> = Vec::new();
        let mut row_of: HashMap<Rc<str>, usize> = HashMap::new();
        for case in report.each() {
            let case = case?;
            let at = row_of.get(case.case.as_str()).copied().unwrap_or_else(|| {
                let name: Rc<str> = case.case.as_str().into();
                row_of.insert(Rc::clone(&name), rows.len());
                rows.push((name, vec![None; models.len()].into()));
                rows.len() - 1
            });
            let column = models.iter().position(|it| *it == case.model);
            let cell = rows.get_mut(at).zip(column).and_then(|((_, row), at)| row.get_mut(at));
            if let Some(cell) = cell {
                let repeats = (case.executions.len() > 1).then(|| case.repeat_counts());
                cell.get_or_insert(Cell { outcome: case.outcome, repeats });
            }
        }
        Ok(Self { rows })
    }
}

fn cell(cell: Option<&Cell>) -> String {
    let Some(Cell { outcome, repeats }) = cell else { return "–".to_owned() };
    match repeats {
        None => result_word(*outcome),
        Some(it) => format!("{} ({} of {})", result_word(*outcome), it.held(), it.executed()),
    }
}
