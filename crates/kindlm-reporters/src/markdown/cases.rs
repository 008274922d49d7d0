//! The cases that failed or errored. Each case is folded, and has the facts that explain the failure.

use std::collections::HashSet;

use kindlm_types::{
    AnyReport, AssertionResult, CaseChangeKind, CaseResult, Execution, ExecutionResult, Outcome,
    Role, Severity, Summary, ToolCall, ecma, error_cause_key,
};

use super::escape::{fenced, shown, shown_in_html};
use super::fit::{Block, fit, length};
use super::limits::{MESSAGE, NAME, WORDS};
use crate::amount::{plural, repeats};
use crate::issue::place_of_case;
use crate::plain::head;
use crate::repeated::AlikeCases;
use crate::score::beside_wanted;
use crate::{RenderError, evidence, repeated, rerun};

/// The maximum number of cases that are loaded to sort them.
const SORTED: usize = 2_000;
/// The maximum number of findings of a case.
const FINDINGS: usize = 10;
/// The maximum number of bytes of a request, of the tool calls, of an output and of the evidence.
const REQUEST: usize = 600;
const CALLS: usize = 600;
const OUTPUT: usize = 1_000;
const EVIDENCE: usize = 800;
/// The maximum number of lines of the evidence, and of tool calls.
const LINES: usize = 16;

/// Writes the cases that failed or errored, as many as fit into `room`.
pub(super) fn cases(
    page: &mut String,
    report: &AnyReport<'_>,
    summary: &Summary,
    room: usize,
) -> Result<(), RenderError> {
    let total = summary.totals.failed + summary.totals.errored;
    if total == 0 {
        return Ok(());
    }
    let title = format!("\n### Did not hold: {}\n", plural(total, "case"));
    let room = room.saturating_sub(length(&title));
    page.push_str(&title);
    let mut blocks = Vec::new();
    let mut alike: Vec<AlikeCases> = Vec::new();
    // The room for the lines about cases with the same error.
    let mut reserved = 0;
    let mut left = room;
    for at in worst_first(report)? {
        let case = report.cases.read_case(at)?;
        let key = repeated::only_error(&case).map(error_cause_key);
        if AlikeCases::join(&mut alike, key.as_deref(), &case.case) {
            continue;
        }
        let shown = block(report, &case);
        let group = key.map(|it| AlikeCases::new(it, name_of(&case)));
        let of_group =
            group.as_ref().map(|it| length(&line_of_alike(it, u64::MAX))).unwrap_or_default();
        // If the name does not fit, no further case fits.
        let Some(rest) = left.checked_sub(length(&shown.name) + 1 + of_group) else { break };
        left = rest;
        reserved += of_group;
        blocks.push(shown);
        alike.extend(group);
    }
    let others: u64 = alike.iter().map(|it| it.others).sum();
    let fitting = fit(&blocks, room - reserved);
    for (i, block) in blocks.iter().take(fitting.reasons).enumerate() {
        let exchange = if i < fitting.exchanges { block.exchange.as_str() } else { "" };
        page.extend([&block.reasons, exchange, Block::END]);
    }
    let names = || blocks.iter().take(fitting.names).skip(fitting.reasons);
    if names().next().is_some() {
        page.push('\n');
    }
    for block in names() {
        page.extend([&block.name, "\n"]);
    }
    let lines: Vec<String> =
        alike.iter().filter(|it| it.others > 0).map(|it| line_of_alike(it, it.others)).collect();
    if !lines.is_empty() {
        page.extend(["\n", &lines.concat()]);
    }
    let exchanges = fitting.names.saturating_sub(fitting.exchanges) as u64;
    let reasons = fitting.names.saturating_sub(fitting.reasons) as u64;
    let unnamed = total.saturating_sub(fitting.names as u64 + others);
    let cut = [(exchanges, "output"), (reasons, "reason"), (unnamed, "case")];
    let cut: Vec<String> =
        cut.into_iter().filter(|it| it.0 > 0).map(|(n, word)| plural(n, word)).collect();
    if !cut.is_empty() {
        page.extend([
            "\n*Left out to fit a comment: ",
            &cut.join(", "),
            ". The whole report has them.*\n",
        ]);
    }
    Ok(())
}

/// Returns the positions of the failed and errored cases, the worst first: regressions, then the cases with the lowest
/// share of repeats that held, then errored cases.
///
/// Only the first [`SORTED`] cases are sorted, because sorting loads the whole case. The others follow in the order of
/// the report.
fn worst_first(report: &AnyReport<'_>) -> Result<Vec<usize>, RenderError> {
    let changes = report.comparison.iter().flat_map(|it| &it.cases);
    let regressions: HashSet<(&str, &str)> = changes
        .filter(|it| it.kind == CaseChangeKind::Regression)
        .map(|it| (it.case.as_str(), it.model.as_str()))
        .collect();
    let mut order = Vec::new();
    let mut rest = Vec::new();
    for at in 0..report.cases.len() {
        let outcome = report.cases.mark(at).map(|it| it.outcome);
        if !matches!(outcome, Some(Outcome::Failed | Outcome::Errored)) {
            continue;
        }
        if order.len() == SORTED {
            rest.push(at);
            continue;
        }
        let case = report.cases.read_case(at)?;
        let is_regression = regressions.contains(&(case.case.as_str(), case.model.as_str()));
        let counts = case.repeat_counts();
        let held = f64::from(counts.held()) / f64::from(counts.executed().max(1));
        order.push(((!is_regression, case.outcome == Outcome::Errored), held, at));
    }
    order.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
    Ok(order.into_iter().map(|(_, _, at)| at).chain(rest).collect())
}

fn name_of(case: &CaseResult) -> String {
    format!("{} · {}", shown(&case.case, NAME), shown(&case.model, NAME))
}

/// Returns the line about the cases with the same error as a shown case.
fn line_of_alike(it: &AlikeCases, others: u64) -> String {
    format!("- ⚠️ {} with the same error as {}\n", plural(others, "more case"), it.first)
}

fn block(report: &AnyReport<'_>, case: &CaseResult) -> Block {
    let sign = match case.outcome {
        Outcome::Errored => "⚠️",
        _ if case.is_undecided() => "❔",
        _ => "❌",
    };
    let facts = facts(report, case);
    let name = format!("- {sign} {}{facts}", name_of(case));
    let place = place_of_case(report, case).filter(|_| case.source.is_some());
    let place = place.map(|it| format!(" · {}:{}", shown_in_html(&it.file, NAME), it.line));
    let reasons = format!(
        "\n<details><summary>{sign} {} · {}{facts}{}</summary>\n\n{}",
        shown_in_html(&case.case, NAME),
        shown_in_html(&case.model, NAME),
        place.unwrap_or_default(),
        reasons(case)
    );
    Block { name, reasons, exchange: exchange(report, case) }
}

/// Returns the facts after the name: undecided, repeats that held, required share, and repeats from the response store.
fn facts(report: &AnyReport<'_>, case: &CaseResult) -> String {
    let of = case.executions.len();
    let mut facts = String::new();
    if case.is_undecided() {
        facts.push_str(" · undecided");
    }
    for fact in [repeated::held(case), repeated::needed(report, case)].into_iter().flatten() {
        facts = format!("{facts} · {fact}");
    }
    match case.cached_repeats() as usize {
        0 => {}
        all if all == of => facts.push_str(" · from the response store"),
        some => facts = format!("{facts} · {some}/{of} from the response store"),
    }
    facts
}

/// Returns the findings and errors of a case as a list.
fn reasons(case: &CaseResult) -> String {
    let of = case.executions.len();
    let findings = case.findings();
    let of_checks = findings.iter().map(|it| {
        let result = it.result;
        let mut facts: Vec<String> =
            result.verdict.code().map(ToString::to_string).into_iter().collect();
        facts.extend(result.turn.as_ref().map(|it| format!("turn {it}")));
        facts.push(repeats(&it.repeats, of));
        facts.extend(score_to_watch(result));
        let line = line(&result.label, facts, result.verdict.message().unwrap_or_default());
        line + &reasoning(result)
    });
    let end = repeated::end(case).map(|it| line("Ran", Vec::new(), &it));
    let errors = case.errors();
    let of_errors = errors.iter().map(|it| {
        let code = it.error.code().map_or_else(|| "not run".to_owned(), |it| it.to_string());
        line(&code, vec![repeats(&it.repeats, of)], &it.error.message())
    });
    let lines = usize::from(end.is_some()) + findings.len() + errors.len();
    let mut list: String =
        end.into_iter().chain(of_checks).chain(of_errors).take(FINDINGS).collect();
    let more = lines.saturating_sub(FINDINGS) as u64;
    if more > 0 {
        list.extend(["- ", &plural(more, "more finding"), "\n"]);
    }
    let not_made = case.not_applied().len() as u64;
    if not_made > 0 {
        list.extend(["- ", &plural(not_made, "check"), " not made\n"]);
    }
    list
}

fn line(label: &str, facts: Vec<String>, message: &str) -> String {
    let facts: Vec<String> = facts.into_iter().filter(|it| !it.is_empty()).collect();
    let facts = shown(&facts.join(", "), NAME);
    let facts = if facts.is_empty() { facts } else { format!(" ({facts})") };
    format!("- **{}**{facts}: {}\n", shown(label, NAME), shown(message, MESSAGE))
}

/// Returns the reason of a judge; empty if the message already has the reason.
fn reasoning(result: &AssertionResult) -> String {
    let message = result.verdict.message().unwrap_or_default();
    let reason = result.reasoning.as_deref().map(str::trim);
    match reason.filter(|it| !it.is_empty() && !message.contains(it)) {
        Some(reason) => format!("  - {}\n", shown(reason, MESSAGE)),
        None => String::new(),
    }
}

/// Returns the score of a soft check with its threshold; `None` for other checks.
fn score_to_watch(result: &AssertionResult) -> Option<String> {
    let score = beside_wanted(result).filter(|_| result.severity == Severity::Soft)?;
    Some(format!("score {score}"))
}

/// Returns the evidence, the request, the tool calls, the output, and the command that runs the case again.
fn exchange(report: &AnyReport<'_>, case: &CaseResult) -> String {
    let mut parts = String::new();
    let mut add = |title: &str, language: &str, text: &str, bytes: usize| {
        if !text.trim().is_empty() {
            parts.extend(["\n", title, ":\n\n", &fenced(language, text, bytes)]);
        }
    };
    let explaining = case.explaining_execution().filter(|it| it.error.is_none());
    if let Some(it) = explaining {
        add("Evidence", "diff", &evidence_of(it), EVIDENCE);
        add("Request", "text", &request(it), REQUEST);
        add("Tool calls", "text", &tool_calls(&it.execution.tool_calls), CALLS);
        add("Output", "text", &it.execution.output, OUTPUT);
    }
    let command = rerun::of_case(report, case);
    // A cut command would be wrong.
    if command.len() <= WORDS {
        add("To run it again", "sh", &command, WORDS);
    }
    parts
}

/// Returns the lines of the first evidence of failed checks; empty if no evidence has lines to show.
fn evidence_of(result: &ExecutionResult) -> String {
    let output = evidence::masked(&result.execution.output, &result.results);
    let findings = result.results.iter().flat_map(AssertionResult::findings);
    let mut evidence = findings
        .flat_map(|it| &it.evidence)
        .map(|it| evidence::lines(it, &output))
        .filter(|it| !it.is_empty());
    let mut lines = evidence.next().unwrap_or_default();
    let more = lines.len().saturating_sub(LINES) as u64;
    lines.truncate(LINES);
    lines.extend((more > 0).then(|| format!("  … {}", plural(more, "more line"))));
    lines.join("\n")
}

/// Returns the user messages of all turns. The prompt has the message of the first turn if the turn itself has none.
fn request(result: &ExecutionResult) -> String {
    let Execution { input, turns, .. } = &result.execution;
    let is_in_prompt = turns.first().is_none_or(|it| it.user.is_none());
    let of_prompt = input.iter().filter(|it| is_in_prompt && it.role == Role::User);
    let of_turns = turns.iter().filter_map(|it| it.user.as_deref());
    let texts: Vec<&str> = of_prompt.map(|it| it.content.as_str()).chain(of_turns).collect();
    texts.join("\n")
}

fn tool_calls(calls: &[ToolCall]) -> String {
    let mut lines: Vec<String> = calls
        .iter()
        .take(LINES)
        .map(|it| {
            let arguments = match &it.malformed_arguments {
                Some(text) => text.clone(),
                None => ecma::stringify(&it.arguments),
            };
            format!("{}({})", it.name, head(&arguments, NAME))
        })
        .collect();
    let more = calls.len().saturating_sub(LINES) as u64;
    lines.extend((more > 0).then(|| plural(more, "more call")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use kindlm_types::{CaseResult, EarlyEnd, Execution, ExecutionResult, FailureCode};

    use super::*;

    /// Returns a case whose repeats ended early, with this number of findings.
    fn case(findings: usize) -> CaseResult {
        let fail = |at| {
            let label = format!("check {}", "x".repeat(at + 1));
            AssertionResult::fail("contains", label, FailureCode::new("MISSING"), "missing")
        };
        let results: Vec<AssertionResult> = (0..findings).map(fail).collect();
        let execution = ExecutionResult {
            judge_cost_usd: None,
            ..ExecutionResult::new(Execution::default(), results)
        };
        CaseResult {
            repeats: 1,
            early_end: Some(EarlyEnd { max: 5, test: None, decision: None }),
            executions: vec![execution],
            ..CaseResult::new("c", "m", Outcome::Failed)
        }
    }

    #[test]
    fn a_request_begins_with_the_prompt_of_its_first_turn() {
        let turn = |user: Option<&str>| kindlm_types::Turn {
            user: user.map(str::to_owned),
            ..kindlm_types::Turn::default()
        };
        for (turns, expected) in [
            (vec![turn(None), turn(Some("Thanks!"))], "Refund the mug.\nThanks!"),
            (vec![turn(Some("Hello."))], "Hello."),
            (Vec::new(), "Refund the mug."),
        ] {
            let mut result = case(1).executions.remove(0);
            result.execution.input =
                vec![kindlm_types::Message::new(Role::User, "Refund the mug.")];
            result.execution.turns = turns;
            assert_eq!(request(&result), expected);
        }
    }

    #[test]
    fn each_finding_is_listed_or_counted() {
        for (findings, listed, more) in
            [(9, 9, ""), (10, 9, "1 more finding"), (12, 9, "3 more findings")]
        {
            let list = reasons(&case(findings));
            assert_eq!(list.matches("**check").count(), listed, "{list}");
            assert_eq!(list.matches("**Ran**").count(), 1, "{list}");
            assert_eq!(list.contains("more finding"), !more.is_empty(), "{list}");
            assert!(list.contains(more), "{list}");
        }
    }
}
