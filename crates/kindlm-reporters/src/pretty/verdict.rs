//! The end of the page: gates, totals, warnings, the verdict and the next steps.

use std::fmt;

use kindlm_types::{
    AnyReport, CaseMark, Class, ExitStatus, FailureCode, GateOutcome, GateResult, Outcome, Summary,
    ecma,
};

use super::{assertions, causes, metrics, models, recap};
use crate::amount::{cost, count, duration, judge_cost, plural, tokens};
use crate::page::{Ink, NO_BREAK, Page, columns};
use crate::plain::one_line;
use crate::rerun::{self, word};
use crate::{RenderError, Verbosity, verdict};

/// The failure code that many checks in `expect.assert` have in common.
const COMMON_CODE: &str = "ASSERTION_FAILED";

pub(super) fn render(
    page: &mut Page<'_>,
    report: &AnyReport<'_>,
    summary: &Summary,
    verbosity: Verbosity,
) -> Result<(), RenderError> {
    assertions::render(page, summary, verbosity)?;
    metrics::render(page, report, summary, verbosity)?;
    causes::render(page, summary)?;
    if verbosity > Verbosity::Quiet {
        models::render(page, report, summary)?;
    }
    if report.shard.is_none() {
        gates(page, report)?;
    }
    totals(page, report, summary, verbosity)?;
    // Quiet reports show warnings too, because a test that checks nothing must not look like a success.
    warnings(page, report)?;
    page.blank()?;
    if verbosity > Verbosity::Quiet {
        recap::render(page, report, summary)?;
    }
    sentence(page, report, summary)?;
    if verbosity > Verbosity::Quiet {
        next(page, report, summary, verbosity)?;
    }
    Ok(())
}

fn gates(page: &mut Page<'_>, report: &AnyReport<'_>) -> fmt::Result {
    if report.gates.is_empty() {
        return Ok(());
    }
    page.text(0, Ink::Strong, "Gates")?;
    let widest = report.gates.iter().map(|it| one_line(&it.gate).chars().count()).max();
    let widest = widest.unwrap_or(0).min(24);
    for gate in &report.gates {
        let (ink, sign) = sign(gate);
        let name = format!("{:widest$}  ", one_line(&gate.gate));
        let message = with_whole_asides(&one_line(&gate.message), page.width() - widest - 6);
        let strong = if gate.passed() { Ink::Plain } else { ink };
        page.spans(2, widest + 4, &[(ink, sign), (Ink::Plain, &name), (strong, &message)])?;
    }
    page.blank()
}

/// Replaces the spaces in parentheses, such as `(min: 90.0%)`, by no-break spaces if the parentheses fit in a line of
/// `room` columns.
fn with_whole_asides(text: &str, room: usize) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('(') {
        let Some((aside, end)) = after.split_once(')') else { break };
        whole.extend([before, "("]);
        if columns(aside) + 2 > room {
            whole.push_str(aside);
        } else {
            whole.push_str(&aside.replace(' ', NO_BREAK));
        }
        whole.push(')');
        rest = end;
    }
    whole + rest
}

fn sign(gate: &GateResult) -> (Ink, &'static str) {
    match gate.outcome {
        GateOutcome::Held => (Ink::Good, "✓ "),
        GateOutcome::Violated => (Ink::Bad, "✗ "),
        GateOutcome::NothingToMeasure => (Ink::Faint, "– "),
    }
}

fn totals(
    page: &mut Page<'_>,
    report: &AnyReport<'_>,
    summary: &Summary,
    verbosity: Verbosity,
) -> fmt::Result {
    let totals = summary.totals;
    line(page, "Cases", &verdict::cases(&totals))?;
    if verbosity == Verbosity::Quiet {
        return Ok(());
    }
    let mut checks = Vec::new();
    for (class, name) in [(Class::Deterministic, "by rules"), (Class::Probabilistic, "by a model")]
    {
        let rate = summary.checks(class);
        if rate.total > 0 {
            checks.push(format!("{name} {rate}"));
        }
    }
    if !checks.is_empty() {
        line(page, "Checks", &checks.join(", "))?;
    }
    if let Some(score) = totals.average_score.filter(|_| !summary.assertions.is_empty()) {
        line(page, "Score", &format!("{} on average", ecma::to_fixed(score, 2)))?;
    }
    let mut spent = cost(totals.cost);
    if totals.cost.unknown > 0 {
        let unknown = u64::from(totals.cost.unknown);
        let uncounted = summary.uncounted_executions.min(unknown);
        let why = [(unknown - uncounted, "no price for"), (uncounted, "usage incomplete for")];
        let why = why.into_iter().filter(|(count, _)| *count > 0);
        let why = why.map(|(count, what)| format!("{what} {}", plural(count, "execution")));
        spent = format!("{spent} ({})", why.collect::<Vec<_>>().join(", "));
    }
    if let Some(judges) = judge_cost(&totals) {
        spent = format!("{spent}; judges {judges}");
    }
    line(page, "Cost", &spent)?;
    line(page, "Tokens", &tokens(&totals))?;
    let cached = summary.cached_executions;
    let mut time = format!(
        "{} for {}",
        duration(report.run.duration_ms),
        plural(totals.executions, "execution")
    );
    if totals.saved_repeats > 0 {
        let planned = totals.executions + totals.saved_repeats;
        let saved = format!("{} of {}", count(totals.saved_repeats), plural(planned, "repeat"));
        time = format!("{time}; {saved} not needed for the decision");
    }
    if cached > 0 {
        time = format!("{time}, {} of them from the response store", count(cached));
    }
    line(page, "Time", &time)
}

fn line(page: &mut Page<'_>, name: &str, text: &str) -> fmt::Result {
    let name = format!("{name:8}");
    page.spans(0, 8, &[(Ink::Faint, &name), (Ink::Plain, text)])
}

fn warnings(page: &mut Page<'_>, report: &AnyReport<'_>) -> fmt::Result {
    if !report.warnings.is_empty() {
        page.blank()?;
    }
    for warning in &report.warnings {
        let text = one_line(warning);
        page.spans(0, 8, &[(Ink::Warning, "warning "), (Ink::Plain, &text)])?;
    }
    Ok(())
}

/// Writes the verdict and its reasons as one sentence.
fn sentence(page: &mut Page<'_>, report: &AnyReport<'_>, summary: &Summary) -> fmt::Result {
    let ink = match summary.exit_status {
        ExitStatus::Success if report.shard.is_some() => Ink::Strong,
        ExitStatus::Success => Ink::Good,
        ExitStatus::GatesFailed => Ink::Bad,
        ExitStatus::Interrupted => Ink::Warning,
        ExitStatus::ProviderError | ExitStatus::Internal | ExitStatus::InvalidInput => Ink::Trouble,
    };
    let text = format!("  {}", verdict::clauses(report, summary).join("; "));
    page.spans(0, 8, &[(ink, verdict::word(report, summary)), (Ink::Plain, &text)])
}

/// Returns the command that shows the report again. It sends no requests.
fn report_again(report: &AnyReport<'_>) -> String {
    let mut command = "kindlm report".to_owned();
    if !report.run.id.is_empty() {
        command = format!("{command} {}", word(&report.run.id));
    }
    // Runs are stored next to the suite, so the command must name the config file.
    command + &rerun::config(report) + " -v"
}

/// Returns the assertion id of the finding with [`COMMON_CODE`] in the first failed case; `None` for any other code.
///
/// The help page of this code is a long list, so the help page of the assertion explains more.
fn check_of_common_code(
    report: &AnyReport<'_>,
    code: &FailureCode,
) -> Result<Option<String>, RenderError> {
    if code.as_str() != COMMON_CODE {
        return Ok(None);
    }
    let is_failed = |it: CaseMark<'_>| matches!(it.outcome, Outcome::Failed | Outcome::Errored);
    let Some(case) = report.each_where(is_failed).next() else { return Ok(None) };
    let case = case?;
    let findings = case.findings();
    let found = findings.iter().find(|it| it.result.verdict.code() == Some(code));
    Ok(found.map(|it| it.result.assertion.clone()))
}

/// Writes commands for the next steps, if there are any.
fn next(
    page: &mut Page<'_>,
    report: &AnyReport<'_>,
    summary: &Summary,
    verbosity: Verbosity,
) -> Result<(), RenderError> {
    let totals = summary.totals;
    let mut tips = Vec::new();
    if let Some(code) = &summary.first_code {
        let tip = match check_of_common_code(report, code)? {
            Some(check) => (format!("kindlm explain {}", word(&check)), "what the check means"),
            None => (format!("kindlm explain {}", one_line(code.as_str())), "what the code means"),
        };
        tips.push(tip);
    }
    if totals.failed + totals.errored > 0 && report.shard.is_none() && !report.run.id.is_empty() {
        tips.push((rerun::of_failed(report), "only the failed tests"));
    }
    if verbosity < Verbosity::Verbose && totals.failed + totals.errored + totals.scored > 0 {
        tips.push((report_again(report), "every check and output"));
    }
    let widest = tips.iter().map(|(command, _)| command.len()).max().unwrap_or(0).min(44);
    let longest = tips.iter().map(|(_, what)| what.len()).max().unwrap_or(0);
    for (i, (command, what)) in tips.iter().enumerate() {
        let lead = if i == 0 { "next    " } else { "        " };
        if 8 + widest + 2 + longest > page.width() {
            page.spans(0, 8, &[(Ink::Faint, lead), (Ink::Strong, command)])?;
            page.text(10, Ink::Faint, what)?;
            continue;
        }
        let command = format!("{command:widest$}  ");
        page.spans(0, 8, &[(Ink::Faint, lead), (Ink::Strong, &command), (Ink::Faint, what)])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parentheses_that_fit_a_line_are_not_broken() {
        for (text, room, expected) in [
            ("Rate: 50% (1 of 2) (min: 90%)", 20, "Rate: 50% (1_of_2) (min:_90%)"),
            ("Rate (a very long aside) (min: 1)", 12, "Rate (a very long aside) (min:_1)"),
            ("open (min: 1", 20, "open (min: 1"),
            ("none", 20, "none"),
        ] {
            assert_eq!(with_whole_asides(text, room).replace(NO_BREAK, "_"), expected);
        }
    }
}
