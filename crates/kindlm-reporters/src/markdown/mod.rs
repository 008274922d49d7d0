//! The reporter `markdown`: the report as a comment on a pull request.

mod escape;
mod fit;

use std::fmt;

use kindlm_types::{
    AnyReport, AssertionResult, AssertionSummary, CaseMark, CaseResult, ExecutionResult,
    ExitStatus, GateOutcome, Outcome, Severity, Summary, ecma,
};

use crate::amount::{count, duration, plural, repeats, share};
use crate::panel;
use crate::score::beside_wanted;
use crate::{Meta, Registration, RenderError, Style, verdict};
use escape::shown;
use fit::{Block, MOST, first_that_fit, fit, length};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "markdown",
        summary: "For a comment on a pull request: verdict, gates, prompt assertions, failures.",
        since: "0.1.0",
        extension: "md",
        docs: include_str!("docs.md"),
    },
    render,
};

/// The maximum number of characters of each part before the cases.
///
/// The cases get the remaining characters.
const GATES_ROOM: usize = 8_000;
const ASSERTIONS_ROOM: usize = 16_000;
const WARNINGS_ROOM: usize = 3_000;
/// The maximum number of characters for cases with low soft scores.
const SCORED_ROOM: usize = 4_000;
/// The maximum number of characters for passing cases on which judges disagree.
const DOUBTFUL_ROOM: usize = 4_000;
/// The number of characters reserved for the note about dropped parts.
const NOTE_ROOM: usize = 600;
/// The maximum number of bytes that are shown of names and texts.
const NAME: usize = 200;
const WORDS: usize = 300;
const MESSAGE: usize = 600;
const OUTPUT: usize = 800;
/// The maximum number of cases per prompt assertion, and of findings per case.
const NAMED: usize = 3;
const FINDINGS: usize = 10;

fn render(
    report: &AnyReport<'_>,
    _style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    let summary = report.summary();
    let mut page = head(report, &summary);
    gates(&mut page, report);
    assertions(&mut page, &summary);
    warnings(&mut page, report);
    let foot = foot(report);
    let room = MOST.saturating_sub(length(&page) + length(&foot) + NOTE_ROOM);
    // Reserve space for low scores only after the failures, because failures are more important.
    let reserved = SCORED_ROOM.min(room);
    let reserved = if summary.totals.scored > 0 { reserved } else { 0 };
    let doubtful = doubtful(report, DOUBTFUL_ROOM.min(room - reserved))?;
    let room = room - reserved - length(&doubtful);
    cases(&mut page, report, &summary, room)?;
    scored(&mut page, report, &summary, reserved)?;
    page.push_str(&doubtful);
    page.push_str(&foot);
    out.write_str(&page)?;
    Ok(())
}

fn head(report: &AnyReport<'_>, summary: &Summary) -> String {
    let suite = &report.suite;
    let names = [&suite.project, &suite.name];
    let names: Vec<String> =
        names.into_iter().filter(|it| !it.is_empty()).map(|it| shown(it, NAME)).collect();
    let marker = names_in_marker(&[&suite.project, &suite.name]);
    let sign = match summary.exit_status {
        ExitStatus::Success => "✅",
        ExitStatus::GatesFailed => "❌",
        _ => "⚠️",
    };
    let title = if names.is_empty() { "KindLM".to_owned() } else { names.join(" / ") };
    let score = summary.totals.average_score;
    let score = score.map(|it| format!(" · average score {}", ecma::to_fixed(it, 2)));
    let cached = (summary.cached_executions > 0).then(|| {
        let all = count(summary.totals.executions);
        format!(
            " · {} of {all} executions from the response store",
            count(summary.cached_executions)
        )
    });
    format!(
        "<!-- kindlm:report {marker} -->\n## {sign} {title}\n\n**{}**: {}\n\n{}: {}{}{}\n",
        verdict::word(report, summary),
        verdict::clauses(report, summary).join("; "),
        plural(summary.totals.cases, "case"),
        verdict::cases(&summary.totals),
        score.unwrap_or_default(),
        cached.unwrap_or_default(),
    )
}

/// Encodes names for the marker in an HTML comment.
///
/// The encoded names cannot end the comment, and different names stay different, except for very long names.
fn names_in_marker(names: &[&str]) -> String {
    let encoded = names.iter().map(|name| {
        let name = crate::plain::head(name, NAME);
        let byte = |it: u8| match it {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' => char::from(it).to_string(),
            it => format!("%{it:02x}"),
        };
        name.bytes().map(byte).collect::<String>()
    });
    encoded.collect::<Vec<_>>().join("/")
}

fn gates(page: &mut String, report: &AnyReport<'_>) {
    // The gates are not evaluated for a shard.
    if report.gates.is_empty() || report.shard.is_some() {
        return;
    }
    page.push_str("\n### Gates\n\n| | Gate | |\n|---|---|---|\n");
    let line = |it: &kindlm_types::GateResult| {
        let sign = match it.outcome {
            GateOutcome::Held => "✅",
            GateOutcome::Broken => "❌",
            GateOutcome::NothingToMeasure => "–",
        };
        format!("| {sign} | {} | {} |", shown(&it.gate, NAME), shown(&it.message, WORDS))
    };
    // Violated gates come first.
    let (held, broken): (Vec<_>, Vec<_>) = report.gates.iter().partition(|it| it.passed());
    let lines = broken.into_iter().chain(held).map(line);
    rows(page, lines, report.gates.len(), GATES_ROOM, "gate");
}

fn assertions(page: &mut String, summary: &Summary) {
    let all = &summary.assertions;
    if all.is_empty() {
        return;
    }
    page.push_str(
        "\n### Prompt assertions\n\n| | Assertion | Kept | Violated in | For example \
        |\n|---|---|---|---|---|\n",
    );
    let (held, broken): (Vec<_>, Vec<_>) = all.iter().partition(|it| it.held());
    let lines = broken.into_iter().chain(held).map(assertion);
    rows(page, lines, all.len(), ASSERTIONS_ROOM, "prompt assertion");
}

fn assertion(it: &AssertionSummary) -> String {
    let sign = match () {
        () if it.kept.count < it.kept.total => "❌",
        () if it.errored > 0 => "⚠️",
        () if it.kept.total == 0 => "–",
        () => "✅",
    };
    let mut kept = match it.kept.total {
        0 if it.errored == 0 => "did not apply".to_owned(),
        0 => "never judged".to_owned(),
        _ => share(it.kept),
    };
    if it.errored > 0 {
        kept = format!("{kept}; {} errored", count(it.errored));
    }
    let first = it.failing.iter().take(NAMED);
    let mut names: Vec<String> =
        first.map(|it| format!("{} ({})", shown(&it.case, NAME), shown(&it.model, NAME))).collect();
    let more = it.failing_cases.saturating_sub(names.len() as u64);
    if more > 0 {
        names.push(format!("{} more", count(more)));
    }
    let example = it.example.as_deref().map(|it| shown(it, WORDS)).unwrap_or_default();
    let row = [sign, &shown(&it.id, NAME), &kept, &names.join(", "), &example].join(" | ");
    format!("| {row} |")
}

fn warnings(page: &mut String, report: &AnyReport<'_>) {
    if report.warnings.is_empty() {
        return;
    }
    page.push_str("\n### Warnings\n\n");
    let lines = report.warnings.iter().map(|it| format!("- {}", shown(it, WORDS)));
    rows(page, lines, report.warnings.len(), WARNINGS_ROOM, "warning");
}

/// Writes the lines that fit into `room`, and the number of the other lines.
fn rows(
    page: &mut String,
    lines: impl Iterator<Item = String>,
    of: usize,
    room: usize,
    word: &str,
) {
    let kept = first_that_fit(lines, room);
    let more = of.saturating_sub(kept.len()) as u64;
    for line in kept {
        page.push_str(&line);
        page.push('\n');
    }
    if more > 0 {
        page.extend(["\n", &plural(more, word), " more left out to fit a comment.\n"]);
    }
}

/// Writes the cases that failed or errored, as many as fit into `room`.
fn cases(
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
    let wanted = |it: CaseMark<'_>| matches!(it.outcome, Outcome::Failed | Outcome::Errored);
    let mut blocks = Vec::new();
    let mut left = room;
    for case in report.each_where(wanted) {
        let block = block(case?.as_ref());
        // No further case fits, not even its name.
        let Some(rest) = left.checked_sub(length(&block.name) + 1) else { break };
        left = rest;
        blocks.push(block);
    }
    let fitting = fit(&blocks, room);
    for (i, block) in blocks.iter().take(fitting.reasons).enumerate() {
        page.push_str(&block.reasons);
        if i < fitting.outputs {
            page.push_str(&block.output);
        }
    }
    let names = || blocks.iter().take(fitting.names).skip(fitting.reasons);
    if names().next().is_some() {
        page.push('\n');
    }
    for block in names() {
        page.push_str(&block.name);
        page.push('\n');
    }
    let with_output = blocks.iter().take(fitting.names).skip(fitting.outputs);
    let outputs = with_output.filter(|it| !it.output.is_empty()).count() as u64;
    let reasons = fitting.names.saturating_sub(fitting.reasons) as u64;
    let unnamed = total.saturating_sub(fitting.names as u64);
    let cut = [(outputs, "output"), (reasons, "reason"), (unnamed, "case")];
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

fn block(case: &CaseResult) -> Block {
    let (sign, of) = (sign(case.outcome), case.executions.len());
    let name = format!("{} · {}", shown(&case.case, NAME), shown(&case.model, NAME));
    let counts = case.repeat_counts();
    let mut held = if of > 1 && counts.executed() > 0 {
        format!(" · {}/{} repeats held", counts.held(), counts.executed())
    } else {
        String::new()
    };
    match case.cached_repeats() as usize {
        0 => {}
        all if all == of => held.push_str(" · from the response store"),
        some => held = format!("{held} · {some}/{of} from the response store"),
    }
    let mut reasons = format!("\n#### {sign} {name}{held}\n\n");
    let findings = case.findings();
    let lines = findings.iter().map(|it| {
        let mut facts: Vec<String> =
            it.result.verdict.code().map(ToString::to_string).into_iter().collect();
        facts.extend(it.result.turn.as_ref().map(|it| format!("turn {it}")));
        facts.push(repeats(&it.repeats, of));
        facts.extend(score_to_watch(it.result));
        let message = it.result.verdict.message().unwrap_or_default();
        line(&it.result.label, facts, message)
    });
    let not_made = case.not_applied().len() as u64;
    let errors = case.errors();
    let broke_off = errors.iter().map(|it| {
        let code = it.error.code().map_or_else(|| "not run".to_owned(), |it| it.to_string());
        line(&code, vec![repeats(&it.repeats, of)], &it.error.message())
    });
    lines.chain(broke_off).take(FINDINGS).for_each(|it| reasons.push_str(&it));
    let more = (findings.len() + errors.len()).saturating_sub(FINDINGS) as u64;
    if more > 0 {
        reasons.extend(["- ", &plural(more, "more finding"), "\n"]);
    }
    if not_made > 0 {
        reasons.extend(["- ", &plural(not_made, "check"), " not made\n"]);
    }
    Block { name: format!("- {sign} {name}{held}"), reasons, output: output(case) }
}

/// Returns the score of a soft check with its threshold; `None` for other checks.
fn score_to_watch(result: &AssertionResult) -> Option<String> {
    let score = beside_wanted(result).filter(|_| result.severity == Severity::Soft)?;
    Some(format!("score {score}"))
}

/// Writes the cases that pass with a low soft score, one line each.
///
/// Lines that do not fit into `room` are only counted.
fn scored(
    page: &mut String,
    report: &AnyReport<'_>,
    summary: &Summary,
    room: usize,
) -> Result<(), RenderError> {
    let total = summary.totals.scored;
    if total == 0 {
        return Ok(());
    }
    let title = format!("\n### Scores below their thresholds: {}\n\n", plural(total, "case"));
    let mut left = room.saturating_sub(length(&title));
    let mut told = 0;
    page.push_str(&title);
    for case in report.each_where(|it: CaseMark<'_>| it.outcome == Outcome::Scored) {
        let line = scores_of(case?.as_ref());
        let Some(rest) = left.checked_sub(length(&line)) else { break };
        left = rest;
        told += 1;
        page.push_str(&line);
    }
    if total > told {
        page.extend(["\n*", &plural(total - told, "more case"), " left out to fit a comment.*\n"]);
    }
    Ok(())
}

/// Returns a line for a case with its first low scores.
fn scores_of(case: &CaseResult) -> String {
    let of = case.executions.len();
    let findings = case.findings();
    let mut scores: Vec<String> = findings
        .iter()
        .take(NAMED)
        .map(|it| {
            let mut facts = vec![shown(&it.result.label, NAME)];
            facts.extend(it.result.turn.as_ref().map(|turn| format!("turn {}", shown(turn, NAME))));
            facts.extend(beside_wanted(it.result));
            facts.push(repeats(&it.repeats, of));
            facts.retain(|it| !it.is_empty());
            facts.join(", ")
        })
        .collect();
    let more = findings.len().saturating_sub(NAMED) as u64;
    if more > 0 {
        scores.push(plural(more, "more finding"));
    }
    let (name, model) = (shown(&case.case, NAME), shown(&case.model, NAME));
    format!("- {name} · {model}: {}\n", scores.join("; "))
}

/// Returns the passing checks with a tie or with judges that disagree.
///
/// Each case has one line.
///
/// Lines that do not fit into `room` are only counted. The text is empty if there are no such checks.
fn doubtful(report: &AnyReport<'_>, room: usize) -> Result<String, RenderError> {
    let (mut lines, mut total, mut left) = (String::new(), 0_u64, room);
    for case in report.each() {
        let case = case?;
        let doubts = panel::doubts(&case);
        if doubts.is_empty() {
            continue;
        }
        total += 1;
        let mut said: Vec<String> = doubts
            .iter()
            .take(NAMED)
            .map(|(label, why)| format!("{} ({})", shown(label, NAME), shown(why, WORDS)))
            .collect();
        let more = doubts.len().saturating_sub(NAMED) as u64;
        if more > 0 {
            said.push(plural(more, "more check"));
        }
        let (name, model) = (shown(&case.case, NAME), shown(&case.model, NAME));
        let line = format!("- {name} · {model}: {}\n", said.join("; "));
        // After the first line that does not fit, cases are only counted.
        left = left.saturating_sub(length(&line));
        if left > 0 {
            lines.push_str(&line);
        }
    }
    if total == 0 {
        return Ok(lines);
    }
    let told = lines.lines().count() as u64;
    if total > told {
        let more = plural(total - told, "more case");
        lines.extend(["\n*", &more, " left out to fit a comment.*\n"]);
    }
    Ok(format!("\n### Held, but judges differ: {}\n\n{lines}", plural(total, "case")))
}

fn line(label: &str, facts: Vec<String>, message: &str) -> String {
    let facts: Vec<String> = facts.into_iter().filter(|it| !it.is_empty()).collect();
    let facts = shown(&facts.join(", "), NAME);
    let facts = if facts.is_empty() { facts } else { format!(" ({facts})") };
    format!("- **{}**{facts}: {}\n", shown(label, NAME), shown(message, MESSAGE))
}

fn output(case: &CaseResult) -> String {
    let telling = case.explaining_execution().filter(|it| it.error.is_none());
    let said = |it: &ExecutionResult| it.execution.output.trim().to_owned();
    match telling.map(said).filter(|it| !it.is_empty()) {
        Some(text) => format!(
            "\n<details><summary>Output</summary>\n\n> {}\n\n</details>\n",
            shown(&text, OUTPUT)
        ),
        None => String::new(),
    }
}

fn sign(outcome: Outcome) -> &'static str {
    if outcome == Outcome::Errored { "⚠️" } else { "❌" }
}

fn foot(report: &AnyReport<'_>) -> String {
    let run = &report.run;
    let commit = run
        .git_commit
        .as_deref()
        .map(|it| format!("commit {}", shown(it, 10).trim_end_matches('…')));
    let facts = [
        (!run.id.is_empty()).then(|| format!("run {}", shown(&run.id, NAME))),
        commit,
        Some(duration(run.duration_ms)),
        Some(format!("KindLM {}", shown(&run.version, NAME))),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    format!("\n<sub>{}</sub>\n", facts.join(" · ").trim_end())
}
