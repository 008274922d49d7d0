//! Describes the results of a case over its repeats as text.

use std::fmt::Write as _;

use kindlm_types::{CaseResult, ExecutionError, FailureCode, Outcome, Severity, Verdict, ecma};

use crate::amount::{plural, repeats};
use crate::plain::head;
use crate::score::{beside_wanted, watched};
use crate::{evidence, message, repeated};

/// The maximum number of bytes of a message or an output in a test case.
const MOST_BYTES: usize = 4000;

/// Returns the failure code of a case, which CI systems use to group tests.
///
/// Returns `None` if no finding and no error has a code.
pub(super) fn code(case: &CaseResult) -> Option<String> {
    if case.is_undecided() {
        return Some(FailureCode::UNDECIDED.to_string());
    }
    let errored = case.outcome == Outcome::Errored;
    let error = || case.errors().iter().find_map(|it| it.error.code());
    let findings = case.findings();
    // An errored case has the code of its error, not the code of a failed check.
    let found = findings
        .iter()
        .find(|it| errored == matches!(it.result.verdict, Verdict::Errored { .. }))
        .or(findings.first())
        .and_then(|it| it.result.verdict.code().cloned());
    let code = if errored { error().or(found) } else { found.or_else(error) };
    code.map(|it| it.to_string())
}

/// Returns one line with the first failure and the number of other failures.
pub(super) fn headline(case: &CaseResult) -> String {
    let mut reasons: Vec<String> = Vec::new();
    reasons.extend(repeated::end(case).filter(|_| case.is_undecided()));
    if case.outcome == Outcome::Errored {
        reasons.extend(case.errors().iter().map(|it| it.error.message()));
    }
    let mut findings = case.findings();
    findings.sort_by_key(|it| match (&it.result.verdict, it.result.severity) {
        (Verdict::Errored { .. }, _) => 0,
        (_, Severity::Gate) => 1,
        (_, Severity::Soft) => 2,
    });
    reasons.extend(findings.iter().map(|it| {
        format!("{}: {}", it.result.label, it.result.verdict.message().unwrap_or_default())
    }));
    let Some(first) = reasons.first() else { return case.outcome.to_string() };
    let more = match reasons.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    format!("{}{more}", cut(first))
}

/// Returns the full description: the results of the repeats, and the repeat that explains the outcome.
pub(super) fn whole(case: &CaseResult) -> String {
    let mut text = String::new();
    if let Some(line) = repeats_line(case) {
        let _ = writeln!(text, "{line}\n");
    }
    findings(&mut text, case);
    errors(&mut text, case);
    not_applied(&mut text, case);
    cached(&mut text, case);
    if let Some(explaining) = case.explaining_execution().filter(|it| it.error.is_none()) {
        let execution = &explaining.execution;
        if case.executions.len() > 1 {
            let _ = writeln!(text, "Repeat {}:", execution.repeat + 1);
        }
        for call in &execution.tool_calls {
            let arguments = call
                .malformed_arguments
                .clone()
                .unwrap_or_else(|| ecma::stringify(&call.arguments));
            let _ = writeln!(text, "Tool call: {}({})", call.name, cut(&arguments));
        }
        if let Some(code) = execution.exit_code() {
            let _ = writeln!(text, "Exit code: {code}");
        }
        let _ = writeln!(text, "Output:\n{}", cut(&execution.output));
        if !execution.stderr().is_empty() {
            let _ = writeln!(text, "Standard error:\n{}", cut(execution.stderr()));
        }
    }
    text.trim_end().to_owned()
}

/// Returns notes about a passing case; `None` if there are none.
///
/// The notes are about soft scores, failed repeats, skipped checks and stored replies.
pub(super) fn note(case: &CaseResult) -> Option<String> {
    let mut text = String::new();
    if case.outcome == Outcome::Scored {
        let _ = writeln!(text, "scored: a soft check is below its threshold\n");
    }
    if let Some(line) = repeats_line(case).filter(|_| case.is_flaky()) {
        let _ = writeln!(text, "flaky: {line}\n");
    }
    findings(&mut text, case);
    for (label, score) in watched(case) {
        let _ = writeln!(text, "score to watch: {label}: {score}");
    }
    not_applied(&mut text, case);
    cached(&mut text, case);
    let text = text.trim_end();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Adds a note about repeats that were answered from the response store.
fn cached(text: &mut String, case: &CaseResult) {
    if case.cached_repeats() > 0 {
        let cached = plural(u64::from(case.cached_repeats()), "repeat");
        let _ = writeln!(text, "{cached} answered from the response store");
    }
}

fn repeats_line(case: &CaseResult) -> Option<String> {
    let counts = case.repeat_counts();
    (case.executions.len() > 1).then(|| {
        let parts = [
            (counts.passed, "passed"),
            (counts.scored, "scored"),
            (counts.failed, "failed"),
            (counts.errored, "errored"),
            (counts.skipped, "not run"),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, word)| format!("{number} {word}"))
            .collect();
        let mut line = format!("{} repeats: {}", case.executions.len(), parts.join(", "));
        if let Some(interval) = repeated::interval(case) {
            let _ = write!(line, " ({interval})");
        }
        if let Some(end) = repeated::end(case) {
            let _ = write!(line, "\n{end}");
        }
        line
    })
}

fn findings(text: &mut String, case: &CaseResult) {
    for finding in case.findings() {
        let result = finding.result;
        let code = result.verdict.code().map(ToString::to_string).unwrap_or_default();
        let mut facts = Vec::new();
        let is_soft = result.severity == Severity::Soft;
        if is_soft {
            facts.push("soft".to_owned());
        }
        // A failed gate check with score 0 is clear without its score.
        let is_score_shown = is_soft || result.score.is_some_and(|it| it.get() > 0.0);
        facts.extend(
            beside_wanted(result).filter(|_| is_score_shown).map(|it| format!("score {it}")),
        );
        if let Some(turn) = &result.turn {
            facts.push(format!("turn `{turn}`"));
        }
        let place = repeats(&finding.repeats, case.executions.len());
        if !place.is_empty() {
            facts.push(place);
        }
        let facts =
            if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        let _ = writeln!(text, "{code}: {}{facts}", result.label);
        let _ = writeln!(text, "{}", cut(result.verdict.message().unwrap_or_default()));
        for error in evidence::unnamed_errors(result) {
            let _ = writeln!(text, "{}", cut(&error));
        }
        if let Some(reasoning) = message::reason(result) {
            let _ = writeln!(text, "{}", cut(reasoning));
        }
        text.push('\n');
    }
}

/// Adds the skipped checks with their reasons. Without this, they would look like passed checks.
fn not_applied(text: &mut String, case: &CaseResult) {
    for result in case.not_applied() {
        let reason = result.verdict.message().unwrap_or_default();
        let _ = writeln!(text, "skipped: {}: {}", result.label, cut(reason));
    }
}

fn errors(text: &mut String, case: &CaseResult) {
    for finding in case.errors() {
        let code = finding.error.code().map_or_else(|| "not run".to_owned(), |it| it.to_string());
        let mut facts = Vec::new();
        if let ExecutionError::Provider(err) = finding.error
            && err.attempts > 1
        {
            facts.push(format!("{} attempts", err.attempts));
        }
        let place = repeats(&finding.repeats, case.executions.len());
        if !place.is_empty() {
            facts.insert(0, place);
        }
        let facts =
            if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        let _ = writeln!(text, "{code}{facts}: {}\n", cut(&finding.error.message()));
    }
}

fn cut(text: &str) -> String {
    let beginning = head(text, MOST_BYTES);
    if beginning.len() < text.len() {
        format!("{beginning}… ({} bytes in all)", text.len())
    } else {
        text.to_owned()
    }
}
