//! The verdict and its reasons, in the same words for all reports that people read.

use kindlm_types::{AnyReport, ExitStatus, GateOutcome, ProviderErrorKind, SuiteTotals, Summary};

use crate::amount::{count, plural};

/// Returns the verdict in one word.
pub(crate) fn word(report: &AnyReport<'_>, summary: &Summary) -> &'static str {
    match summary.exit_status {
        ExitStatus::Success if report.shard.is_some() => "DONE",
        ExitStatus::Success => "PASSED",
        ExitStatus::GatesFailed => "FAILED",
        ExitStatus::Interrupted => "INTERRUPTED",
        ExitStatus::ProviderError | ExitStatus::Internal | ExitStatus::InvalidInput => "ERROR",
    }
}

/// Returns the reasons for the verdict, as parts of a sentence.
pub(crate) fn clauses(report: &AnyReport<'_>, summary: &Summary) -> Vec<String> {
    let status = summary.exit_status;
    let mut clauses = Vec::new();
    if summary.totals.unchecked() {
        clauses.push("nothing was checked".to_owned());
    } else if summary.totals.cases == 0 {
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
            "shard {} of {}; `kindlm merge` decides the gates over all shards",
            it.index, it.count
        ),
        None => gates_clause(report, &summary.totals),
    });
    if status != ExitStatus::Success {
        clauses.push(format!("exit code {}", status.code()));
    }
    clauses
}

/// Returns the number of cases for each outcome, as text.
pub(crate) fn cases(totals: &SuiteTotals) -> String {
    let parts = [
        (totals.passed, "passed"),
        (totals.scored, "scored"),
        (totals.failed - totals.undecided, "failed"),
        (totals.undecided, "undecided"),
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

fn gates_clause(report: &AnyReport<'_>, totals: &SuiteTotals) -> String {
    let violated = report.violated_gates().count() as u64;
    let all = report.gates.len() as u64;
    let trouble = totals.failed + totals.errored;
    match (violated, all) {
        (0, 0) => "there are no gates".to_owned(),
        (0, _) if trouble == 0 => held(report),
        (0, _) if idle(report) > 0 => {
            format!("{}; {} did not hold", held(report), plural(trouble, "case"))
        }
        (0, _) => format!("every gate held, although {} did not", plural(trouble, "case")),
        (1, 1) => "the gate is violated".to_owned(),
        _ => format!("{} of {} violated", count(violated), plural(all, "gate")),
    }
}

/// Returns the number of gates that had nothing to measure.
///
/// These gates do not count as held.
pub(crate) fn idle(report: &AnyReport<'_>) -> u64 {
    let idle = report.gates.iter().filter(|it| it.outcome == GateOutcome::NothingToMeasure);
    idle.count() as u64
}

/// Describes the gates that held, and those that had nothing to measure.
///
/// Call this only if no gate was violated.
pub(crate) fn held(report: &AnyReport<'_>) -> String {
    let (idle, all) = (idle(report), report.gates.len() as u64);
    match (all - idle, idle) {
        (0, 1) => "the gate had nothing to measure".to_owned(),
        (0, idle) => format!("none of {} gates had anything to measure", count(idle)),
        (1, 0) => "the gate held".to_owned(),
        (held, 0) => format!("all {} gates held", count(held)),
        (held, idle) => {
            format!("{} held, {} had nothing to measure", plural(held, "gate"), count(idle))
        }
    }
}

fn provider_trouble(summary: &Summary) -> String {
    let kinds: Vec<&str> = summary.provider_error_kinds.iter().map(|it| trouble_of(*it)).collect();
    if kinds.is_empty() {
        // Every execution has an answer, so the missing answer is the answer of a judge.
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
