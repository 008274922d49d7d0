//! The models of a run beside each other: totals, and a table of tests and models if it fits.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kindlm_types::{AnyReport, ModelTotals, Summary};

use super::case::mark;
use crate::RenderError;
use crate::amount::{count, duration, usd};
use crate::page::{Ink, Page, Span, columns};
use crate::plain::one_line;

/// The maximum number of tests in the table.
const ROWS: usize = 30;

/// The widest name of a test in the table, in columns.
const NAME: usize = 40;

/// Writes the totals of each model, if there are several.
pub(super) fn render(
    page: &mut Page<'_>,
    report: &AnyReport<'_>,
    summary: &Summary,
) -> Result<(), RenderError> {
    if summary.models.len() < 2 {
        return Ok(());
    }
    page.between(0, 0, &[(Ink::Strong, "Models")], &format!("{:>9}  {:>9}", "p50", "cost"))?;
    let widest = summary.models.iter().map(|it| columns(&one_line(&it.model))).max().unwrap_or(0);
    for model in &summary.models {
        let name = one_line(&model.model);
        let name = format!("{name}{:1$}", "", widest.saturating_sub(columns(&name)) + 2);
        let left = [(Ink::Plain, name.as_str()), (Ink::Faint, &rates(model))];
        page.between(2, widest + 2, &left, &amounts(model))?;
    }
    page.blank()?;
    table(page, report, summary)
}

/// Returns the pass rate of a model with its interval, and its flaky cases.
fn rates(model: &ModelTotals) -> String {
    let rate = model.totals.held().to_string();
    match model.flaky.count {
        0 => rate,
        flaky => format!("{rate} · {} of {} flaky", count(flaky), count(model.flaky.total)),
    }
}

/// Returns the median latency and the cost in two columns.
fn amounts(model: &ModelTotals) -> String {
    let time = model.latency_ms.map_or_else(|| "–".to_owned(), |it| duration(it.p50));
    let cost = model.totals.cost.usd().map_or_else(|| "cost unknown".to_owned(), usd);
    format!("{time:>9}  {cost:>9}")
}

/// Writes a table with a row for each test and a column for each model.
///
/// Writes nothing if the table does not fit on the page, or if no test was run on several models.
fn table(
    page: &mut Page<'_>,
    report: &AnyReport<'_>,
    summary: &Summary,
) -> Result<(), RenderError> {
    let models: Vec<&str> = summary.models.iter().map(|it| it.model.as_str()).collect();
    if report.cases.len() > ROWS * models.len() {
        return Ok(());
    }
    let mut order: Vec<String> = Vec::new();
    let mut cells: BTreeMap<(String, usize), (Ink, String)> = BTreeMap::new();
    for case in report.each() {
        let case = case?;
        let Some(column) = models.iter().position(|it| *it == case.model) else { continue };
        if !order.contains(&case.case) {
            order.push(case.case.clone());
        }
        let (ink, sign) = mark(case.outcome);
        let counts = case.repeat_counts();
        let mut cell = sign.trim_end().to_owned();
        if counts.executed() > 1 {
            // Writing into a String cannot fail.
            let _ = write!(cell, " {}/{}", counts.held(), counts.executed());
        }
        cells.insert((case.case.clone(), column), (ink, cell));
    }
    let names: Vec<String> = order.iter().map(|it| shortened(&one_line(it))).collect();
    let first = names.iter().map(|it| columns(it)).max().unwrap_or(0);
    let heads: Vec<String> = models.iter().map(|it| one_line(it)).collect();
    let mut widths: Vec<usize> = heads.iter().map(|it| columns(it).max(5)).collect();
    for ((_, column), (_, cell)) in &cells {
        if let Some(width) = widths.get_mut(*column) {
            *width = columns(cell).max(*width);
        }
    }
    let is_shared = order.len() < report.cases.len();
    if !is_shared
        || order.len() > ROWS
        || first + widths.iter().map(|it| it + 2).sum::<usize>() + 2 > page.width()
    {
        return Ok(());
    }
    let mut head = " ".repeat(first);
    for (name, width) in heads.iter().zip(&widths) {
        let _ = write!(head, "  {name}{:1$}", "", width - columns(name));
    }
    page.text(2, Ink::Faint, head.trim_end())?;
    for (test, name) in order.iter().zip(&names) {
        let mut parts: Vec<(Ink, String)> =
            vec![(Ink::Plain, format!("{name}{:1$}", "", first - columns(name)))];
        for (column, width) in widths.iter().enumerate() {
            let none = (Ink::Faint, "·".to_owned());
            let (ink, cell) = cells.get(&(test.clone(), column)).unwrap_or(&none);
            parts.push((*ink, format!("  {cell}{:1$}", "", width.saturating_sub(columns(cell)))));
        }
        let spans: Vec<Span<'_>> = parts.iter().map(|(ink, text)| (*ink, text.as_str())).collect();
        page.spans(2, 2, &spans)?;
    }
    page.blank()?;
    Ok(())
}

/// Cuts a name at the width of its column.
fn shortened(name: &str) -> String {
    if columns(name) <= NAME {
        return name.to_owned();
    }
    let mut short = String::new();
    for c in name.chars() {
        if columns(&short) + 2 > NAME {
            break;
        }
        short.push(c);
    }
    short + "…"
}
