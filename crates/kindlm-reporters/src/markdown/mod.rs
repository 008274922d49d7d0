//! The reporter `markdown`: the report as a comment on a pull request.

mod cases;
mod escape;
mod fit;
mod held;
mod limits;
mod tables;

use std::fmt;

use kindlm_types::{AnyReport, ExitStatus, Summary, ecma};

use crate::amount::{cost, count, duration, judge_cost};
use crate::comparison::change;
use crate::interval::held as held_of;
use crate::{Meta, Registration, RenderError, Style, rerun, verdict};
use escape::shown;
use fit::{MOST, length};
use limits::{NAME, WORDS};
use tables::{assertions, causes, gates, models, warnings};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "markdown",
        summary: "For a comment on a pull request: verdict, gates, models, causes, failures.",
        since: "0.1.0",
        extension: "md",
        docs: include_str!("docs.md"),
    },
    render,
};

/// The maximum number of characters for cases with low soft scores.
const SCORED_ROOM: usize = 4_000;
/// The maximum number of characters for cases with doubtful checks.
const DOUBTFUL_ROOM: usize = 4_000;
/// The number of characters reserved for the note about dropped parts.
const NOTE_ROOM: usize = 600;
/// The maximum number of lines of the comment of a passing run.
const PASSING_LINES: usize = 15;

fn render(
    report: &AnyReport<'_>,
    style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    let summary = report.summary();
    let link = style.report_url.as_deref().and_then(link);
    // The gates of a shard are not decided yet, so its failures are shown.
    let is_passing = summary.exit_status == ExitStatus::Success
        && (summary.totals.failed + summary.totals.errored == 0 || report.shard.is_none());
    let page = if is_passing {
        passing(report, &summary, link)?
    } else {
        failing(report, &summary, link)?
    };
    out.write_str(&page)?;
    Ok(())
}

/// Returns the comment of a successful run: at most [`PASSING_LINES`] lines.
///
/// If cases failed within the limits of the gates, two of the lines sum up these failures.
fn passing(
    report: &AnyReport<'_>,
    summary: &Summary,
    link: Option<String>,
) -> Result<String, RenderError> {
    let mut page = heading(report, summary);
    let mut facts = vec![verdict::clauses(report, summary).join("; ")];
    facts.extend(outcomes(summary));
    facts.extend(tables::kept(summary));
    page.extend([facts.join(" · "), "\n".to_owned()]);
    let mut notes: Vec<String> = Vec::new();
    notes.extend(tables::compared(report));
    if summary.totals.failed + summary.totals.errored > 0 {
        notes.extend(tables::top_causes(summary));
        notes
            .push(format!("To run these cases again: {}", shown(&rerun::of_failed(report), WORDS)));
    }
    notes.extend(tables::first_warning(report));
    notes.extend(held::low_scores(report, summary)?);
    notes.extend(held::doubts(report)?);
    let foot = foot(report, false, link);
    // The list of notes and the table each have an empty line before them.
    let taken = page.lines().count() + foot.lines().count();
    let of_notes = if notes.is_empty() { 0 } else { notes.len() + 1 };
    let room = PASSING_LINES.saturating_sub(taken + of_notes + 1);
    page.push_str(&models(report, summary, room));
    if !notes.is_empty() {
        page.push('\n');
        page.extend(notes.iter().map(|it| format!("- {it}\n")));
    }
    Ok(page + &foot)
}

/// Returns the comment of a run with failures, errors or violated gates.
fn failing(
    report: &AnyReport<'_>,
    summary: &Summary,
    link: Option<String>,
) -> Result<String, RenderError> {
    let mut page = heading(report, summary);
    let clauses = verdict::clauses(report, summary).join("; ");
    let mut facts = vec![format!("**{}**: {clauses}", verdict::word(report, summary))];
    facts.extend(outcomes(summary));
    page.extend([facts.join(" · "), "\n".to_owned()]);
    page.push_str(&tables::comparison(report));
    page.push_str(&gates(report));
    page.push_str(&causes(summary));
    page.push_str(&models(report, summary, usize::MAX));
    page.push_str(&assertions(summary));
    page.push_str(&warnings(report));
    let foot = foot(report, summary.totals.failed + summary.totals.errored > 0, link);
    let room = MOST.saturating_sub(length(&page) + length(&foot) + NOTE_ROOM);
    // The low scores follow the failures, so reserve their space before the failures are written.
    let reserved = if summary.totals.scored > 0 { SCORED_ROOM.min(room) } else { 0 };
    let doubtful = held::doubtful(report, DOUBTFUL_ROOM.min(room - reserved))?;
    let room = room - reserved - length(&doubtful);
    cases::cases(&mut page, report, summary, room)?;
    held::scored(&mut page, report, summary, reserved)?;
    page.push_str(&doubtful);
    page.push_str(&foot);
    Ok(page)
}

/// Returns the marker, the title, and the line with the share of cases that held, the cost and the duration.
fn heading(report: &AnyReport<'_>, summary: &Summary) -> String {
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
    let mut spent = match cost(summary.totals.cost) {
        it if it == "unknown" => "cost unknown".to_owned(),
        it => it,
    };
    if let Some(judges) = judge_cost(&summary.totals) {
        spent = format!("{spent}, judges {judges}");
    }
    let cost = shown(&spent, NAME);
    let change = report
        .comparison
        .as_ref()
        .and_then(|it| Some(format!(", {} against {}", change(it)?, shown(&it.before.name, NAME))));
    // In some places, such as job summaries, a single line break does not end a line. So add a backslash.
    format!(
        "<!-- kindlm:report {marker} -->\n## {sign} {title}\n**{}**{} · {cost} · {}\\\n",
        held_of(summary.totals.held()),
        change.unwrap_or_default(),
        duration(report.run.duration_ms)
    )
}

/// Returns the numbers of cases by outcome, the average score, and the number of stored replies.
fn outcomes(summary: &Summary) -> Vec<String> {
    let totals = &summary.totals;
    let mut facts = vec![verdict::cases(totals)];
    let score = totals.average_score;
    facts.extend(score.map(|it| format!("average score {}", ecma::to_fixed(it, 2))));
    if summary.cached_executions > 0 {
        let (cached, all) = (count(summary.cached_executions), count(totals.executions));
        facts.push(format!("{cached} of {all} executions from the response store"));
    }
    facts
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

/// Returns the link to the full report; `None` if the URL is no web address or has characters that Markdown could
/// misread.
fn link(url: &str) -> Option<String> {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-._~:/?#&=%+@,;".contains(it);
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    (is_web && url.chars().all(is_plain)).then(|| format!("[full report]({url})"))
}

/// Returns the link to the full report, the data of the run, and the command that runs failed cases again.
fn foot(report: &AnyReport<'_>, has_failures: bool, link: Option<String>) -> String {
    let run = &report.run;
    let commit = run
        .git_commit
        .as_deref()
        .map(|it| format!("commit {}", shown(it, 10).trim_end_matches('…')));
    let facts = [
        link,
        (!run.id.is_empty()).then(|| format!("run {}", shown(&run.id, NAME))),
        commit,
        Some(format!("KindLM {}", shown(&run.version, NAME))),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let mut foot = String::new();
    if has_failures {
        let command = rerun::of_failed(report);
        foot = format!("\nTo run these cases again:\n\n{}", escape::fenced("sh", &command, WORDS));
    }
    foot.extend(["\n<sub>", facts.join(" · ").trim_end(), "</sub>\n"]);
    foot
}
