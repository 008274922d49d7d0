//! The result of `kindlm mutate` for people at a terminal.

use std::fmt;

use kindlm_wire::mutation::{Family, MutantDiff, MutationReport, OperatorScore};

use super::{by_assertion, gate, idle, score, undecided_lines};
use crate::amount::plural;
use crate::diff;
use crate::page::{Ink, Page};
use crate::plain::one_line;
use crate::pretty::difference::difference;
use crate::{Style, Verbosity};

/// The maximum number of entries of each list, unless the style is verbose.
const LISTED: usize = 10;

/// Writes the result as text.
///
/// By default, one difference is shown for each mutation operator; a verbose style shows all.
///
/// # Errors
///
/// Fails if the writer fails.
pub fn text(report: &MutationReport, style: &Style, out: &mut dyn fmt::Write) -> fmt::Result {
    let mut page = Page::new(out, style);
    head(&mut page, report)?;
    cases(&mut page, report, style)?;
    checks(&mut page, report, style)?;
    mutants(&mut page, report, style, Family::Harmful)?;
    mutants(&mut page, report, style, Family::Harmless)?;
    left_out(&mut page, report, style)?;
    if let Some((held, sentence)) = gate(report) {
        page.blank()?;
        let (ink, word) = if held { (Ink::Good, "PASSED") } else { (Ink::Bad, "FAILED") };
        page.spans(0, 2, &[(ink, word), (Ink::Plain, ": "), (Ink::Plain, &sentence)])?;
    }
    Ok(())
}

fn head(page: &mut Page<'_>, report: &MutationReport) -> fmt::Result {
    let (suite, run) = (one_line(&report.suite), one_line(&report.run));
    page.between(0, 2, &[(Ink::Strong, &suite)], &run)?;
    let share = score(&report.harmful);
    page.spans(0, 2, &[(Ink::Plain, "mutation score "), (Ink::Strong, &share)])?;
    let (brittle, harmless) =
        (report.harmless.killed, report.harmless.killed + report.harmless.survived);
    let ink = if brittle > 0 { Ink::Warning } else { Ink::Plain };
    page.text(0, ink, &format!("brittle {brittle} of {harmless}"))?;
    for line in undecided_lines(report) {
        page.text(0, Ink::Trouble, &line)?;
    }
    Ok(())
}

/// Writes the weak cases, and counts the other cases.
///
/// In a weak case, a harmful mutant was not killed, or a check is brittle.
fn cases(page: &mut Page<'_>, report: &MutationReport, style: &Style) -> fmt::Result {
    let cases = report.cases.iter();
    let weak: Vec<_> =
        cases.filter(|it| it.harmful.killed < it.harmful.all() || it.harmless.killed > 0).collect();
    let empty = report.cases.iter().filter(|it| it.harmful.all() + it.harmless.killed == 0).count();
    title(page, "Cases")?;
    for it in weak.iter().take(limit(style)) {
        let mut right = score(&it.harmful);
        if it.harmless.killed > 0 {
            right = format!("{right}, brittle {}", it.harmless.killed);
        }
        page.between(2, 2, &[(Ink::Plain, &name(&it.case, &it.model))], &right)?;
    }
    more(page, weak.len(), style, "more case")?;
    let whole = report.cases.len() - weak.len() - empty;
    if whole > 0 {
        page.text(
            2,
            Ink::Good,
            &format!("{} with 100% and nothing brittle", plural(whole as u64, "case")),
        )?;
    }
    if empty > 0 {
        let cases = plural(empty as u64, "case");
        page.text(2, Ink::Faint, &format!("{cases} without harmful mutants"))?;
    }
    Ok(())
}

fn checks(page: &mut Page<'_>, report: &MutationReport, style: &Style) -> fmt::Result {
    title(page, "Checks")?;
    for it in by_assertion(&report.checks) {
        let left = format!("{} ({})", one_line(it.id), plural(it.checks, "check"));
        let right = format!("{}, {} of them alone", plural(it.kills, "kill"), it.alone);
        page.between(2, 2, &[(Ink::Plain, &left)], &right)?;
    }
    let idle = idle(&report.checks);
    if !idle.is_empty() {
        page.text(2, Ink::Faint, "checks that kill no mutant alone:")?;
    }
    for it in idle.iter().take(limit(style)) {
        let left = format!("{} ({})", one_line(it.label), plural(it.checks, "check"));
        page.between(4, 2, &[(Ink::Faint, &left)], &plural(it.kills, "kill"))?;
    }
    more(page, idle.len(), style, "more label")
}

/// Writes the surviving harmful mutants of each mutation operator, or the harmless mutants that failed a check.
fn mutants(
    page: &mut Page<'_>,
    report: &MutationReport,
    style: &Style,
    family: Family,
) -> fmt::Result {
    let (word, all) = match family {
        Family::Harmful => ("Survivors", &report.survivors),
        Family::Harmless => ("Brittle", &report.brittle),
    };
    if all.is_empty() {
        return Ok(());
    }
    title(page, word)?;
    for operator in report.operators.iter().filter(|it| it.family == family) {
        let of: Vec<&MutantDiff> =
            all.iter().filter(|it| it.operator == operator.operator).collect();
        if !of.is_empty() {
            operator_mutants(page, operator, &of, style)?;
        }
    }
    Ok(())
}

fn operator_mutants(
    page: &mut Page<'_>,
    operator: &OperatorScore,
    mutants: &[&MutantDiff],
    style: &Style,
) -> fmt::Result {
    let id = format!("{} ×{}", one_line(&operator.operator), mutants.len());
    let summary = format!(" {}", one_line(&operator.summary));
    page.spans(2, 2, &[(Ink::Strong, &id), (Ink::Plain, &summary)])?;
    page.text(4, Ink::Warning, &format!("→ {}", one_line(&operator.advice)))?;
    let shown = if style.verbosity == Verbosity::Verbose { mutants.len() } else { 1 };
    for it in mutants.iter().take(shown) {
        let failed: Vec<String> = it.failed.iter().map(|it| one_line(it)).collect();
        let failed = if failed.is_empty() {
            String::new()
        } else {
            format!(" · fails {}", failed.join(", "))
        };
        page.text(4, Ink::Faint, &format!("{}{failed}", name(&it.case, &it.model)))?;
        difference(page, 4, &diff::between(&it.before, &it.after))?;
    }
    Ok(())
}

fn left_out(page: &mut Page<'_>, report: &MutationReport, style: &Style) -> fmt::Result {
    if report.left_out.is_empty() {
        return Ok(());
    }
    title(page, "Left out")?;
    for it in report.left_out.iter().take(limit(style)) {
        let name = match &it.model {
            Some(model) => name(&it.case, model),
            None => one_line(&it.case),
        };
        page.text(2, Ink::Plain, &format!("{name}: {}", one_line(&it.reason)))?;
    }
    more(page, report.left_out.len(), style, "more part")
}

fn title(page: &mut Page<'_>, title: &str) -> fmt::Result {
    page.blank()?;
    page.text(0, Ink::Strong, title)
}

fn name(case: &str, model: &str) -> String {
    format!("{} · {}", one_line(case), one_line(model))
}

fn limit(style: &Style) -> usize {
    if style.verbosity == Verbosity::Verbose { usize::MAX } else { LISTED }
}

/// Writes the number of items that were not listed.
fn more(page: &mut Page<'_>, all: usize, style: &Style, word: &str) -> fmt::Result {
    let rest = all.saturating_sub(limit(style));
    if rest == 0 {
        return Ok(());
    }
    let words = plural(rest as u64, word);
    page.text(2, Ink::Faint, &format!("… {words}; `-v` shows all"))
}
