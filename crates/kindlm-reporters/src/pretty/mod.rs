//! The reporter `pretty`: the report for people at a terminal.

mod assertions;
mod case;
mod causes;
pub(crate) mod difference;
mod metrics;
mod models;
mod paths;
mod recap;
mod result;
mod text;
mod verdict;

use std::fmt;

use kindlm_types::{AnyReport, CanaryWatch, CaseMark, ModelTotals, Outcome, ecma, error_cause_key};

use crate::comparison::{headline, line_text, lines};
use crate::page::{Ink, Page};
use crate::plain::one_line;
use crate::repeated::{AlikeCases, only_error};
use crate::{Meta, Registration, RenderError, Style, Verbosity};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "pretty",
        summary: "For people at a terminal: the failures, their reasons and their outputs.",
        since: "0.1.0",
        extension: "txt",
        docs: include_str!("docs.md"),
    },
    render,
};

fn render(
    report: &AnyReport<'_>,
    style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    let summary = report.summary();
    let mut page = Page::new(out, style);
    let layout = Layout::new(report, style);
    let mut detailed = 0;
    if style.verbosity > Verbosity::Quiet {
        header(&mut page, report, style)?;
    }
    for ModelTotals { model, totals, flaky, .. } in &summary.models {
        let shown = |it: CaseMark<'_>| it.model == model && layout.shows(it.outcome);
        let mut cases = report.each_where(shown).peekable();
        let has_flaky = layout.counts_passed && flaky.count > 0;
        if cases.peek().is_none() && !has_flaky {
            continue;
        }
        page.text(0, Ink::Strong, &one_line(model))?;
        let mut alike: Vec<AlikeCases> = Vec::new();
        for it in cases {
            let case = it?;
            let error = only_error(&case).filter(|_| style.verbosity < Verbosity::Verbose);
            if let Some(cause) = error.map(error_cause_key) {
                if AlikeCases::join(&mut alike, Some(&cause), &case.case) {
                    continue;
                }
                alike.push(AlikeCases::new(cause, one_line(&case.case)));
            }
            let is_detailed = case.outcome.held() || detailed < layout.detailed;
            detailed += usize::from(!case.outcome.held());
            let amount = if is_detailed { style.verbosity } else { Verbosity::Quiet };
            case::render(&mut page, report, &case, (amount, is_detailed))?;
        }
        for group in alike.iter().filter(|it| it.others > 0) {
            same_error(&mut page, group)?;
        }
        if layout.counts_passed && totals.passed > 0 {
            let text = format!("{} passed", crate::amount::count(totals.passed));
            page.spans(2, 2, &[(Ink::Good, "✓ "), (Ink::Faint, &text)])?;
            if flaky.count > 0 {
                flaky_passed(&mut page, report, model)?;
            }
        }
        page.blank()?;
    }
    if style.verbosity > Verbosity::Quiet {
        skipped(&mut page, report)?;
    }
    compared(&mut page, report, style.verbosity)?;
    watched(&mut page, report)?;
    verdict::render(&mut page, report, &summary, style.verbosity)?;
    Ok(())
}

/// The maximum number of flaky passed cases that are named for each model.
///
/// The flaky cases are named only if the report counts the passed cases instead of listing them.
const FLAKY: usize = 5;

/// Writes the flaky cases of a model that passed.
fn flaky_passed(
    page: &mut Page<'_>,
    report: &AnyReport<'_>,
    model: &str,
) -> Result<(), RenderError> {
    let mut named = 0;
    for it in report.each_where(|it| it.model == model && it.outcome == Outcome::Passed) {
        let case = it?;
        if !case.is_flaky() {
            continue;
        }
        if named == FLAKY {
            page.text(4, Ink::Faint, "… more flaky cases; -v names all")?;
            break;
        }
        named += 1;
        let counts = case.repeat_counts();
        let held = format!("flaky {}/{}", counts.held(), counts.executed());
        page.between(4, 2, &[(Ink::Faint, "~ "), (Ink::Plain, &one_line(&case.case))], &held)?;
    }
    Ok(())
}

/// Writes the number of the cases with the same error as a shown case, and the names of the first few.
fn same_error(page: &mut Page<'_>, group: &AlikeCases) -> fmt::Result {
    let mut names = group.names.join(", ");
    let more = group.others.saturating_sub(group.names.len() as u64);
    if more > 0 {
        names = format!("{names} and {more} more");
    }
    let (mark, strong) = (case::mark(Outcome::Errored), Ink::Strong);
    let head = format!("{} more with the error of `{}`", group.others, group.first);
    page.spans(2, 2, &[mark, (strong, &head), (Ink::Faint, &format!("  {names}"))])
}

/// The maximum number of cases in a report that lists its passed cases. A verbose report always lists them.
const LISTED: usize = 30;

/// The maximum number of failures that a report shows with their checks and outputs, unless it is verbose.
const DETAILED: usize = 10;

/// The parts of a report that are shown.
struct Layout {
    verbosity: Verbosity,
    /// True if passed cases are counted, not listed.
    counts_passed: bool,
    /// The number of failures that are shown with their checks and outputs. The others are only named.
    detailed: usize,
}

impl Layout {
    fn new(report: &AnyReport<'_>, style: &Style) -> Self {
        let is_verbose = style.verbosity == Verbosity::Verbose;
        Self {
            verbosity: style.verbosity,
            counts_passed: style.verbosity == Verbosity::Normal && report.cases.len() > LISTED,
            detailed: if is_verbose { usize::MAX } else { DETAILED },
        }
    }

    /// Returns true if the report lists cases with this outcome.
    ///
    /// Quiet reports list only failed and errored cases.
    fn shows(&self, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Failed | Outcome::Errored => true,
            Outcome::Passed => self.verbosity > Verbosity::Quiet && !self.counts_passed,
            Outcome::Scored | Outcome::Skipped => self.verbosity > Verbosity::Quiet,
        }
    }
}

fn header(page: &mut Page<'_>, report: &AnyReport<'_>, style: &Style) -> fmt::Result {
    let names = [&report.suite.project, &report.suite.name].map(|it| one_line(it));
    let title: Vec<&str> = names.iter().map(String::as_str).filter(|it| !it.is_empty()).collect();
    let version = format!("KindLM {}", one_line(&report.run.version));
    page.spans(
        0,
        2,
        &[(Ink::Strong, version.trim_end()), (Ink::Plain, "  "), (Ink::Strong, &title.join(" / "))],
    )?;
    if let Some(description) = &report.suite.description {
        page.text(0, Ink::Plain, &one_line(description))?;
    }
    let commit = report.run.git_commit.as_deref().map(|it| crate::plain::head(it, 10));
    let facts = [
        (!report.run.id.is_empty()).then(|| format!("run {}", report.run.id)),
        report.suite.config_path.clone(),
        report.shard.as_ref().map(|it| format!("shard {} of {}", it.index, it.count)),
        commit.map(|it| format!("commit {it}")),
        (style.verbosity == Verbosity::Verbose).then(|| report.run.started_at.clone()),
        (style.verbosity == Verbosity::Verbose).then(|| report.run.platform.clone()),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().map(|it| one_line(&it)).collect();
    if !facts.is_empty() {
        page.text(0, Ink::Faint, &facts.join(" · "))?;
    }
    page.blank()
}

/// The maximum number of lines of each kind of change.
const CHANGES: usize = 3;

/// Writes the result of the comparison with the baseline and, except in a quiet report, the changes.
fn compared(page: &mut Page<'_>, report: &AnyReport<'_>, verbosity: Verbosity) -> fmt::Result {
    let Some(it) = &report.comparison else { return Ok(()) };
    let title = format!("against {}  ", one_line(&it.before.name));
    let result = one_line(&headline(it));
    page.spans(0, 2, &[(Ink::Strong, &title), (Ink::Plain, &result)])?;
    if verbosity > Verbosity::Quiet {
        for line in lines(it, CHANGES) {
            let (word, text) = (format!("{}  ", line.word), one_line(&line_text(&line)));
            page.spans(2, 2, &[(Ink::Faint, &word), (Ink::Plain, &text)])?;
        }
    }
    page.blank()
}

/// Writes the results of the canaries: the number of changed verdicts of each judge, and the evidence of a change.
fn watched(page: &mut Page<'_>, report: &AnyReport<'_>) -> fmt::Result {
    if report.canaries.is_empty() {
        return Ok(());
    }
    page.text(0, Ink::Strong, "Canaries")?;
    for it in &report.canaries {
        let (mark, ink) = if it.alarm.is_some() {
            ("✗ ", Ink::Bad)
        } else if it.not_asked.is_some() || it.caveat.is_some() || it.asked == 0 {
            ("– ", Ink::Faint)
        } else {
            ("✓ ", Ink::Good)
        };
        let name = format!("{} for `{}`  ", one_line(&it.judge), one_line(&it.check));
        page.spans(2, 2, &[(ink, mark), (Ink::Plain, &name), (Ink::Faint, &canaries(it))])?;
    }
    page.blank()
}

/// Returns the result of a judge's canaries in words.
fn canaries(it: &CanaryWatch) -> String {
    let Some(evidence) = it.evidence else { return "not asked".to_owned() };
    let mut text = match it.asked {
        0 if it.errored == 0 => "not asked".to_owned(),
        asked => format!("{} of {asked} differ from the calibration", it.different),
    };
    if it.errored > 0 {
        text = format!("{text}; {} could not be judged", it.errored);
    }
    let shown =
        if evidence < 1e6 { ecma::to_fixed(evidence, 2) } else { "over 1000000".to_owned() };
    let watches = match it.watches {
        1 => "1 watch".to_owned(),
        all => format!("{} watches", crate::amount::count(all)),
    };
    text = format!("{text}; evidence {shown} after {watches}, an alarm from 20");
    match &it.caveat {
        Some(caveat) => format!("{text}; {}", one_line(caveat)),
        None => text,
    }
}

fn skipped(page: &mut Page<'_>, report: &AnyReport<'_>) -> fmt::Result {
    if report.skipped.is_empty() {
        return Ok(());
    }
    page.text(0, Ink::Strong, "skipped")?;
    for it in &report.skipped {
        let (name, reason) = (one_line(&it.case), one_line(&it.reason));
        page.spans(
            2,
            2,
            &[(Ink::Faint, "– "), (Ink::Plain, &name), (Ink::Faint, "  "), (Ink::Faint, &reason)],
        )?;
    }
    page.blank()
}
