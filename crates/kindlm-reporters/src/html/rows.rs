//! The cases that the page shows without its script.

use std::fmt;

use askama::Template;
use kindlm_types::{AnyReport, CaseResult, Outcome};

use super::case::{Case, spent};
use super::{Look, failed};
use crate::RenderError;
use crate::amount::{count, plural};
use crate::plain::one_line;

/// The maximum number of cases with all details.
const DETAILED: usize = 20;
/// The maximum number of cases, including the cases with all details.
const LISTED: usize = 200;

/// The cases that are listed without details, after the detailed cases.
#[derive(Template)]
#[template(path = "html/rows.html")]
struct Rows {
    rows: Vec<Row>,
    more: String,
}

struct Row {
    look: Look,
    name: String,
    model: String,
    repeats: String,
    spent: String,
}

/// Writes at most [`LISTED`] cases, failing cases first, for browsers without script.
pub(super) fn write(report: &AnyReport<'_>, out: &mut dyn fmt::Write) -> Result<(), RenderError> {
    let positions = first(report);
    let (detailed, listed) = positions.split_at(positions.len().min(DETAILED));
    out.write_str("<noscript>\n<section aria-labelledby=\"first-cases\">\n")?;
    out.write_str("<h2 id=\"first-cases\">First cases</h2>\n")?;
    if positions.is_empty() {
        out.write_str("<p class=\"empty\">No test case was run.</p>\n")?;
    }
    for position in detailed {
        let case = report.cases.read_case(*position)?;
        let fails = matches!(case.outcome, Outcome::Failed | Outcome::Errored);
        Case::new(report, &case, fails).render_into(out).map_err(|err| failed(&err))?;
    }
    let rows: Result<Vec<Row>, RenderError> =
        listed.iter().map(|at| Ok(row(&*report.cases.read_case(*at)?))).collect();
    let rest = report.cases.len() - positions.len();
    let more = if rest > 0 {
        format!(
            "… and {} more are shown only with script; the json report has them too.",
            plural(rest as u64, "case")
        )
    } else {
        String::new()
    };
    Rows { rows: rows?, more }.render_into(out).map_err(|err| failed(&err))?;
    Ok(out.write_str("</section>\n</noscript>\n")?)
}

/// Returns the positions of the first cases: those that failed or errored, then the others.
fn first(report: &AnyReport<'_>) -> Vec<usize> {
    let outcome = |at: &usize| report.cases.mark(*at).map(|it| it.outcome);
    let fails = |at: &usize| matches!(outcome(at), Some(Outcome::Failed | Outcome::Errored));
    let mut found: Vec<usize> = (0..report.cases.len()).filter(fails).take(LISTED).collect();
    let others = (0..report.cases.len()).filter(|at| !fails(at));
    found.extend(others.take(LISTED - found.len()));
    found
}

fn row(case: &CaseResult) -> Row {
    let counts = case.repeat_counts();
    let repeats = if case.executions.len() > 1 {
        format!("{} of {}", count(counts.held().into()), plural(counts.executed().into(), "repeat"))
    } else {
        String::new()
    };
    Row {
        look: Look::from_outcome(case.outcome),
        name: one_line(&case.case),
        model: one_line(&case.model),
        repeats,
        spent: spent(case),
    }
}
