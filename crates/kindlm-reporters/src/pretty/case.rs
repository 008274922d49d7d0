//! The text of one case: a headline, then the failures with the output.

use std::fmt;

use kindlm_types::{
    AnyReport, CaseResult, Execution, ExecutionError, ExecutionResult, Finding, Outcome, Role,
    Severity, ToolCall, ecma,
};

use super::result::{result_lines, result_tree};
use super::text::{VALUE_BYTES, compact, field, head_of, paragraphs};
use crate::Verbosity;
use crate::amount::{count, duration, repeats, time_spent, usd};
use crate::changes;
use crate::page::{Ink, Page};
use crate::panel;
use crate::plain::{head, lines, one_line};
use crate::repeated;
use crate::rerun;
use crate::score::mean_of;

/// The maximum number of lines and of bytes of an output in a normal report.
const EXCERPT_LINES: usize = 4;
const EXCERPT_BYTES: usize = 320;
/// The maximum number of bytes of the reason, for a case that is shown in one line.
const REASON_BYTES: usize = 80;
/// The maximum number of lines and of bytes of an output in a verbose report.
///
/// The JSON report has the whole output.
const WHOLE_LINES: usize = 200;
const WHOLE_BYTES: usize = 20_000;

/// Writes a case. `is_detailed` is false for a failure that is shown in one line.
pub(super) fn render(
    page: &mut Page<'_>,
    report: &AnyReport<'_>,
    case: &CaseResult,
    (verbosity, is_detailed): (Verbosity, bool),
) -> fmt::Result {
    if !is_detailed {
        return named(page, case);
    }
    headline(page, report, case, verbosity)?;
    match verbosity {
        Verbosity::Quiet => {
            findings(page, case)?;
            errors(page, case)
        }
        Verbosity::Normal => {
            findings(page, case)?;
            errors(page, case)?;
            not_applied(page, case)?;
            doubtful(page, case)?;
            failed_command(page, case)?;
            declared(page, case)?;
            if matches!(case.outcome, Outcome::Failed | Outcome::Errored)
                && let Some(explaining) = case.explaining_execution()
                && explaining.error.is_none()
            {
                let of = case.executions.len();
                if of > 1 {
                    let number = format!("{} of {of}", explaining.execution.repeat + 1);
                    field(page, 4, "repeat ", &number)?;
                }
                failing_turn(page, explaining)?;
                evidence(page, 4, &explaining.execution, Excerpt::Beginning)?;
                field(page, 4, "again  ", &rerun::of_case(report, case))?;
            } else if let Some(curtailed) = case.curtailed() {
                notes(page, 4, &curtailed.execution, false)?;
            }
            Ok(())
        }
        Verbosity::Verbose => {
            for it in &case.executions {
                execution(page, case, it)?;
            }
            Ok(())
        }
    }
}

pub(super) fn mark(outcome: Outcome) -> (Ink, &'static str) {
    match outcome {
        Outcome::Passed => (Ink::Good, "✓ "),
        Outcome::Scored => (Ink::Warning, "~ "),
        Outcome::Failed => (Ink::Bad, "✗ "),
        Outcome::Errored => (Ink::Trouble, "! "),
        Outcome::Skipped => (Ink::Faint, "– "),
    }
}

/// Returns the mark of a case. An undecided case has its own mark.
pub(super) fn mark_of(case: &CaseResult) -> (Ink, &'static str) {
    if case.is_undecided() { (Ink::Bad, "? ") } else { mark(case.outcome) }
}

fn headline(
    page: &mut Page<'_>,
    report: &AnyReport<'_>,
    case: &CaseResult,
    verbosity: Verbosity,
) -> fmt::Result {
    let name = one_line(&case.case);
    let counts = case.repeat_counts();
    if counts.executed() == 0 {
        let reason = one_line(&case.why_skipped());
        return page.spans(
            2,
            2,
            &[mark(case.outcome), (Ink::Plain, &name), (Ink::Faint, "  "), (Ink::Faint, &reason)],
        );
    }
    let mut facts = Vec::new();
    if let Some(place) = case.source.as_ref().filter(|_| !case.outcome.held()) {
        facts.push(one_line(&place.to_string()));
    }
    if case.executions.len() > 1 {
        facts.push(format!("{}/{} repeats held", counts.held(), counts.executed()));
        facts.extend(repeated::needed(report, case));
    }
    let spent = if verbosity == Verbosity::Quiet { String::new() } else { spent(case) };
    if !spent.is_empty() {
        facts.push(spent);
    }
    let strong = if case.outcome.held() { Ink::Plain } else { Ink::Strong };
    page.between(2, 2, &[mark_of(case), (strong, &name)], &facts.join("  "))?;
    let is_clear = !case.is_flaky() && case.early_end.is_none() && case.outcome.held();
    let rate = repeated::rate(case).filter(|_| !is_clear || verbosity == Verbosity::Verbose);
    for (name, text) in [("ran     ", repeated::end(case)), ("rate    ", rate)] {
        if let Some(text) = text {
            field(page, 4, name, &text)?;
        }
    }
    Ok(())
}

/// Writes a failed case in one line: its name, its first failed check or error, and its place.
fn named(page: &mut Page<'_>, case: &CaseResult) -> fmt::Result {
    let findings = case.findings();
    let is_gate = |it: &&Finding<'_>| it.result.severity == Severity::Gate;
    let reason = match findings.iter().find(is_gate).or(findings.first()) {
        Some(it) => it.result.label.clone(),
        None => case.errors().first().map(|it| it.error.message()).unwrap_or_default(),
    };
    let (name, reason) = (one_line(&case.case), one_line(&head_of(&reason, REASON_BYTES)));
    let place = case.source.as_ref().map(|it| one_line(&it.to_string())).unwrap_or_default();
    let left = [mark_of(case), (Ink::Strong, &*name), (Ink::Faint, "  "), (Ink::Faint, &*reason)];
    page.between(2, 2, &left, &place)
}

/// Formats the time and the cost in two columns; empty if no time is known.
///
/// For several repeats, the time is the average and the cost is the sum.
fn spent(case: &CaseResult) -> String {
    let time = match case.latency_avg_ms {
        Some(average) if case.executions.len() > 1 => {
            format!("{:>11}", format!("avg {}", duration(average)))
        }
        Some(average) => duration(average),
        None if case.cached_repeats() > 0 => "cached".to_owned(),
        None => return String::new(),
    };
    let cost = match case.cost.usd() {
        Some(amount) => usd(amount),
        None => "cost unknown".to_owned(),
    };
    format!("{time:>7}  {cost:>9}")
}

fn findings(page: &mut Page<'_>, case: &CaseResult) -> fmt::Result {
    for finding in case.findings() {
        let Finding { result, repeats: indices, .. } = &finding;
        let mut place = repeats(indices, case.executions.len());
        if let Some(mean) = mean_of(case, result) {
            place = format!("{place}, {mean} on average");
        }
        result_lines(page, 4, result, &place, false)?;
    }
    Ok(())
}

/// Writes the skipped checks with their reasons. They must not look like passed checks.
fn not_applied(page: &mut Page<'_>, case: &CaseResult) -> fmt::Result {
    for result in case.not_applied() {
        let reason = result.verdict.message().unwrap_or_default();
        let reason = format!("  not checked: {}", one_line(reason));
        let label = one_line(&result.label);
        let spans = [(Ink::Faint, "– "), (Ink::Plain, &*label), (Ink::Faint, &reason)];
        page.spans(4, 2, &spans)?;
    }
    Ok(())
}

/// Writes the user's message of the turn with the first failed check.
fn failing_turn(page: &mut Page<'_>, it: &ExecutionResult) -> fmt::Result {
    let mut failed = it.results.iter().filter(|it| !it.verdict.held());
    let label = failed.find_map(|it| it.turn.as_deref());
    let mut turns = it.execution.turns.iter();
    match turns.find(|turn| Some(turn.label.as_str()) == label) {
        Some(turn) => {
            let message = turn.user.as_deref().unwrap_or("(continues the turn before)");
            field(page, 4, "turn   ", &format!("{}: {message}", turn.label))
        }
        None => Ok(()),
    }
}

/// Writes the exit code of a failed command, if the case held.
fn failed_command(page: &mut Page<'_>, case: &CaseResult) -> fmt::Result {
    let mut codes = case.executions.iter().filter_map(|it| it.execution.exit_code());
    match codes.find(|it| *it != 0 && case.outcome.held()) {
        Some(code) => field(page, 4, "exit   ", &code.to_string()),
        None => Ok(()),
    }
}

/// Writes the passing checks whose results are doubtful, such as ties.
fn doubtful(page: &mut Page<'_>, case: &CaseResult) -> fmt::Result {
    for (label, doubt) in panel::doubts(case) {
        let (label, reason) = (one_line(label), format!("  {doubt}"));
        page.spans(4, 2, &[(Ink::Warning, "✓ "), (Ink::Plain, &*label), (Ink::Faint, &reason)])?;
    }
    Ok(())
}

fn errors(page: &mut Page<'_>, case: &CaseResult) -> fmt::Result {
    for finding in case.errors() {
        // The results of an execution that was not run already show the reason.
        let is_shown = matches!(finding.error, ExecutionError::NotRun { .. })
            && case.executions.iter().all(|it| it.error.is_none() || !it.results.is_empty());
        if case.repeat_counts().executed() > 0 && !is_shown {
            error(page, 4, finding.error, &repeats(&finding.repeats, case.executions.len()))?;
        }
    }
    Ok(())
}

fn error(page: &mut Page<'_>, indent: usize, error: &ExecutionError, place: &str) -> fmt::Result {
    let (mark, name) = match error.code() {
        Some(code) => ((Ink::Trouble, "! "), code.to_string()),
        None => ((Ink::Faint, "– "), "not run".to_owned()),
    };
    let mut facts = Vec::new();
    if !place.is_empty() {
        facts.push(place.to_owned());
    }
    if let ExecutionError::Provider(err) = error
        && err.attempts > 1
    {
        facts.push(format!("{} attempts", err.attempts));
    }
    let facts = if facts.is_empty() { String::new() } else { format!("  {}", facts.join(", ")) };
    page.spans(indent, 2, &[mark, (mark.0, &one_line(&name)), (Ink::Faint, &facts)])?;
    paragraphs(page, indent + 2, Ink::Plain, &error.message())
}

fn execution(page: &mut Page<'_>, case: &CaseResult, it: &ExecutionResult) -> fmt::Result {
    let several = case.executions.len() > 1;
    if several {
        let name = format!("repeat {} of {}", it.execution.repeat + 1, case.executions.len());
        let time = time_spent(&it.execution);
        let (ink, sign) = mark(it.outcome);
        page.between(4, 2, &[(ink, sign), (Ink::Plain, &name)], &time)?;
    }
    let indent = if several { 6 } else { 4 };
    for result in &it.results {
        result_tree(page, indent, result)?;
    }
    let named = it.named_scores();
    if !named.is_empty() {
        let named =
            named.iter().map(|it| format!("{} {}", it.name, ecma::to_fixed(it.score.get(), 2)));
        field(page, indent, "scores ", &named.collect::<Vec<_>>().join(", "))?;
    }
    if let Some(err) = &it.error {
        if it.outcome != Outcome::Skipped || several {
            error(page, indent, err, "")?;
        }
        return Ok(());
    }
    evidence(page, indent, &it.execution, Excerpt::Whole)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excerpt {
    Beginning,
    Whole,
}

/// Writes the input, the turns, the actions and the output of the agent.
///
/// The input and the turns are only written in a verbose report.
fn evidence(
    page: &mut Page<'_>,
    indent: usize,
    execution: &Execution,
    excerpt: Excerpt,
) -> fmt::Result {
    let whole = excerpt == Excerpt::Whole;
    if whole && let Some(asked) = execution.input.iter().rev().find(|it| it.role == Role::User) {
        field(page, indent, "input  ", &asked.content)?;
    }
    for turn in execution.turns.iter().filter(|_| whole) {
        let answer = format!("{}: {}", turn.label, turn.text);
        field(page, indent, "turn   ", &answer)?;
        // The JSON of the last turn is the JSON of the output below, so skip it here.
        if let Some(json) =
            turn.output_json.as_ref().filter(|_| turn.output_json != execution.output_json)
        {
            field(page, indent, "json   ", &compact(json))?;
        }
    }
    tools(page, indent, &execution.tool_calls, whole)?;
    if let Some(code) = execution.exit_code() {
        field(page, indent, "exit   ", &code.to_string())?;
    }
    output(page, indent, "output ", &execution.output, excerpt)?;
    if let Some(json) = execution.output_json.as_ref().filter(|_| whole) {
        field(page, indent, "json   ", &compact(json))?;
    }
    if !execution.stderr().trim().is_empty() {
        output(page, indent, "stderr ", execution.stderr(), excerpt)?;
    }
    if let Some(workspace) = execution.workspace.as_deref()
        && let Some(changed) = changes::listed(workspace)
    {
        if whole {
            output(page, indent, "diff   ", &changes::diff(workspace), excerpt)?;
        } else {
            field(page, indent, "changed ", &changed)?;
        }
    }
    notes(page, indent, execution, whole)
}

/// Writes the note about evidence that the suite declared, unless the case failed or is errored.
///
/// A failed or errored case shows the note with its execution.
fn declared(page: &mut Page<'_>, case: &CaseResult) -> fmt::Result {
    if matches!(case.outcome, Outcome::Failed | Outcome::Errored) {
        return Ok(());
    }
    match case.executions.iter().find_map(|it| it.execution.declared_note()) {
        Some(note) => field(page, 4, "note   ", &note),
        None => Ok(()),
    }
}

fn notes(page: &mut Page<'_>, indent: usize, execution: &Execution, whole: bool) -> fmt::Result {
    use kindlm_types::FinishReason;
    let mut notes = Vec::new();
    if execution.completeness.truncated {
        notes.push("the conversation was ended by `maxTurns`".to_owned());
    }
    match &execution.finish_reason {
        Some(FinishReason::Length) => {
            notes.push("the answer was cut at the token limit".to_owned());
        }
        Some(FinishReason::ContentFilter) => {
            notes.push("the answer was cut by the provider's filter".to_owned());
        }
        Some(FinishReason::Refusal) => notes.push("the model refused".to_owned()),
        _ => {}
    }
    if execution.spend.cached {
        notes.push("answered from the response store".to_owned());
    }
    if let Some(note) = execution.declared_note() {
        notes.push(note);
    }
    if whole && execution.usage.total_tokens > 0 {
        notes.push(format!(
            "{} input and {} output tokens",
            count(execution.usage.input_tokens),
            count(execution.usage.output_tokens)
        ));
    }
    if notes.is_empty() { Ok(()) } else { field(page, indent, "note   ", &notes.join("; ")) }
}

fn tools(page: &mut Page<'_>, indent: usize, calls: &[ToolCall], whole: bool) -> fmt::Result {
    let shown = if whole { calls.len() } else { calls.len().min(6) };
    for (i, call) in calls.iter().take(shown).enumerate() {
        let arguments = match &call.malformed_arguments {
            Some(text) => format!("malformed arguments: {text}"),
            None if call.arguments.is_null() => String::new(),
            None => ecma::stringify(&call.arguments),
        };
        let text = format!("{}({})", call.name, head_of(&arguments, VALUE_BYTES));
        field(page, indent, if i == 0 { "tools  " } else { "       " }, &text)?;
    }
    if calls.len() > shown {
        let more = format!("… {} more", calls.len() - shown);
        field(page, indent, "       ", &more)?;
    }
    Ok(())
}

/// Writes an output behind a bar.
///
/// Without the bar, people and CI could confuse the output with the report.
fn output(
    page: &mut Page<'_>,
    indent: usize,
    name: &str,
    text: &str,
    excerpt: Excerpt,
) -> fmt::Result {
    if text.is_empty() {
        return page.spans(indent, 0, &[(Ink::Faint, name), (Ink::Faint, "(empty)")]);
    }
    let (most_lines, most_bytes) = match excerpt {
        Excerpt::Beginning => (EXCERPT_LINES, EXCERPT_BYTES),
        Excerpt::Whole => (WHOLE_LINES, WHOLE_BYTES),
    };
    let beginning = head(text, most_bytes);
    let all = lines(beginning);
    let shown = &all[..all.len().min(most_lines)];
    for (i, line) in shown.iter().enumerate() {
        let name = if i == 0 { name.to_owned() } else { " ".repeat(name.len()) };
        page.barred(indent, &name, line)?;
    }
    if beginning.len() < text.len() || shown.len() < all.len() {
        let hint = match excerpt {
            Excerpt::Beginning => "-v shows more",
            Excerpt::Whole => "the json report has all of it",
        };
        let total = count(text.chars().count() as u64);
        let note = format!("… {total} characters in all; {hint}");
        page.spans(indent + name.len(), 0, &[(Ink::Faint, &note)])?;
    }
    Ok(())
}
