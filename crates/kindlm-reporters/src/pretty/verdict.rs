//! The end of the page: gates, totals, warnings, the verdict, and what to do next.

use std::fmt;

use kindlm_types::{
    AnyReport, Class, ExitStatus, GateOutcome, GateResult, ProviderErrorKind, SuiteTotals, Summary,
};

use super::assertions;
use super::page::{Ink, Page};
use crate::Verbosity;
use crate::amount::{cost, count, duration, plural, share};
use crate::plain::one_line;

/// The suite that is meant where none is named.
const DEFAULT_CONFIG: &str = "kindlm.yaml";

pub(super) fn render(
    page: &mut Page<'_>,
    report: &AnyReport<'_>,
    summary: &Summary,
    verbosity: Verbosity,
) -> fmt::Result {
    assertions::render(page, summary, verbosity)?;
    if report.shard.is_none() {
        gates(page, report)?;
    }
    totals(page, report, summary, verbosity)?;
    if verbosity > Verbosity::Quiet {
        warnings(page, report)?;
    }
    page.blank()?;
    sentence(page, report, summary)?;
    if verbosity > Verbosity::Quiet { next(page, report, summary, verbosity) } else { Ok(()) }
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
        let message = one_line(&gate.message);
        let strong = if gate.passed() { Ink::Plain } else { ink };
        page.spans(2, widest + 4, &[(ink, sign), (Ink::Plain, &name), (strong, &message)])?;
    }
    page.blank()
}

fn sign(gate: &GateResult) -> (Ink, &'static str) {
    match gate.outcome {
        GateOutcome::Held => (Ink::Good, "✓ "),
        GateOutcome::Broken => (Ink::Bad, "✗ "),
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
    line(page, "Cases", &cases(&totals))?;
    if verbosity == Verbosity::Quiet {
        return Ok(());
    }
    let mut checks = Vec::new();
    for (class, name) in [(Class::Deterministic, "by rules"), (Class::Probabilistic, "by a model")]
    {
        let count = summary.checks(class);
        if count.total > 0 {
            checks.push(format!("{name} {}", share(count)));
        }
    }
    if !checks.is_empty() {
        line(page, "Checks", &checks.join(", "))?;
    }
    let mut spent = cost(totals.cost);
    if totals.cost.unknown > 0 {
        spent = format!(
            "{spent} (no price for {})",
            plural(u64::from(totals.cost.unknown), "execution")
        );
    }
    if totals.judge_cost.known_usd > 0.0 || totals.judge_cost.unknown > 0 {
        spent = format!("{spent}; judges {}", cost(totals.judge_cost));
    }
    line(page, "Cost", &spent)?;
    line(page, "Tokens", &count(totals.tokens))?;
    let cached = summary.cached_executions;
    let mut time = format!(
        "{} for {}",
        duration(report.run.duration_ms),
        plural(totals.executions, "execution")
    );
    if cached > 0 {
        time = format!("{time}, {} of them from the response store", count(cached));
    }
    line(page, "Time", &time)
}

fn cases(totals: &SuiteTotals) -> String {
    let parts = [
        (totals.passed, "passed"),
        (totals.scored, "scored"),
        (totals.failed, "failed"),
        (totals.errored, "errored"),
        (totals.skipped, "skipped"),
    ];
    let shown: Vec<String> = parts
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, word)| format!("{} {word}", count(number)))
        .collect();
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
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

/// One sentence: did it pass, and if not, why not.
fn sentence(page: &mut Page<'_>, report: &AnyReport<'_>, summary: &Summary) -> fmt::Result {
    let status = summary.exit_status;
    let (ink, word) = match status {
        ExitStatus::Success if report.shard.is_some() => (Ink::Strong, "DONE"),
        ExitStatus::Success => (Ink::Good, "PASSED"),
        ExitStatus::GatesFailed => (Ink::Bad, "FAILED"),
        ExitStatus::Interrupted => (Ink::Warning, "INTERRUPTED"),
        ExitStatus::ProviderError | ExitStatus::Internal | ExitStatus::InvalidInput => {
            (Ink::Trouble, "ERROR")
        }
    };
    let mut clauses = Vec::new();
    if summary.totals.cases == 0 {
        clauses.push("nothing was run".to_owned());
    }
    match status {
        ExitStatus::ProviderError => clauses.push(provider_trouble(summary)),
        ExitStatus::Internal => clauses.push("KindLM itself failed".to_owned()),
        ExitStatus::Interrupted => clauses.push("the run was stopped by a signal".to_owned()),
        ExitStatus::Success | ExitStatus::GatesFailed | ExitStatus::InvalidInput => {}
    }
    clauses.push(match &report.shard {
        Some(it) => format!(
            "shard {} of {}; the gates are decided over all of them by `kindlm merge`",
            it.index, it.count
        ),
        None => gates_clause(report, &summary.totals),
    });
    if status != ExitStatus::Success {
        clauses.push(format!("exit code {}", status.code()));
    }
    let text = format!("  {}", clauses.join("; "));
    page.spans(0, 8, &[(ink, word), (Ink::Plain, &text)])
}

fn gates_clause(report: &AnyReport<'_>, totals: &SuiteTotals) -> String {
    let broken = report.broken_gates().count() as u64;
    let all = report.gates.len() as u64;
    let trouble = totals.failed + totals.errored;
    match (broken, all) {
        (0, 0) => "there are no gates".to_owned(),
        (0, _) if trouble > 0 => {
            format!("every gate held, although {} did not", plural(trouble, "case"))
        }
        (0, 1) => "the gate held".to_owned(),
        (1, 1) => "the gate is broken".to_owned(),
        (0, _) => format!("all {} gates held", count(all)),
        _ => format!("{} of {} broken", count(broken), plural(all, "gate")),
    }
}

fn provider_trouble(summary: &Summary) -> String {
    let kinds: Vec<&str> = summary.provider_error_kinds.iter().map(|it| trouble_of(*it)).collect();
    if kinds.is_empty() {
        // Every execution was answered; what is missing is an answer to a check's question.
        return "no answer from a provider that should judge".to_owned();
    }
    format!("no answer from a provider ({})", kinds.join(", "))
}

fn trouble_of(kind: ProviderErrorKind) -> &'static str {
    match kind {
        ProviderErrorKind::Auth => "credentials",
        ProviderErrorKind::RateLimited => "rate limit",
        ProviderErrorKind::QuotaExhausted => "quota",
        ProviderErrorKind::Timeout => "timeout",
        ProviderErrorKind::ModelNotFound => "unknown model",
        ProviderErrorKind::ContextLength => "prompt too long",
        ProviderErrorKind::ContentFilter => "content filter",
        ProviderErrorKind::InvalidRequest => "invalid request",
        ProviderErrorKind::Overloaded => "overloaded",
        ProviderErrorKind::Server => "server error",
        ProviderErrorKind::Connection => "connection",
        ProviderErrorKind::MalformedResponse => "unreadable answer",
        ProviderErrorKind::Command => "command",
        ProviderErrorKind::Unsupported => "unsupported",
        ProviderErrorKind::NotRecorded => "not recorded",
    }
}

/// The command that shows the run again, without sending anything.
fn report_again(report: &AnyReport<'_>) -> String {
    let mut command = "kindlm report".to_owned();
    if !report.run.id.is_empty() {
        command = format!("{command} {}", word(&report.run.id));
    }
    // Runs are kept beside the suite.
    match report.suite.config_path.as_deref() {
        None | Some("" | DEFAULT_CONFIG) => {}
        Some(path) => command = format!("{command} -c {}", word(path)),
    }
    command + " -v"
}

/// A word for a shell, in quotes where it needs them.
fn word(text: &str) -> String {
    let text = one_line(text);
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:,@\\".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// What to do next; only what exists.
fn next(
    page: &mut Page<'_>,
    report: &AnyReport<'_>,
    summary: &Summary,
    verbosity: Verbosity,
) -> fmt::Result {
    let totals = summary.totals;
    let mut tips = Vec::new();
    // Provider errors say themselves what to do.
    if let Some(code) = &summary.first_code {
        tips.push((format!("kindlm explain {}", one_line(code.as_str())), "what the code means"));
    }
    if verbosity < Verbosity::Verbose && totals.failed + totals.errored + totals.scored > 0 {
        tips.push((report_again(report), "every check and output"));
    }
    let widest = tips.iter().map(|(command, _)| command.len()).max().unwrap_or(0).min(44);
    for (i, (command, what)) in tips.iter().enumerate() {
        let lead = if i == 0 { "next    " } else { "        " };
        let command = format!("{command:widest$}  ");
        page.spans(0, 8, &[(Ink::Faint, lead), (Ink::Strong, &command), (Ink::Faint, what)])?;
    }
    Ok(())
}
