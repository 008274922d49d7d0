//! The results of checks, as rows of nested lists.

use kindlm_types::{
    AssertionResult, JudgeVote, Outcome, Severity, SourcePlace, Verdict, VoteStatus, ecma,
};
use serde_json::Value;

use super::Look;
use crate::amount::repeats;
use crate::diff::{self, DiffLine, LineKind};
use crate::message;
use crate::panel;
use crate::plain::{head, one_line, visible};
use crate::score::{THRESHOLDS, two};

/// The maximum number of bytes that are shown of a message or a reason.
const MESSAGE_BYTES: usize = 4_000;
/// The maximum number of lines that are shown of a message.
const MESSAGE_LINES: usize = 40;
/// The maximum number of bytes that are shown of a metadata value.
const VALUE_BYTES: usize = 1_000;
/// The maximum depth of nested lists. Browsers fail at some hundred levels.
const DEEPEST: usize = 8;
/// The number of equal lines that are shown beside a changed line.
const CONTEXT: usize = 3;
/// The maximum number of lines of a difference.
const DIFF_LINES: usize = 100;
/// The maximum number of characters of a part of a line in a difference.
pub(super) const LINE: usize = 600;
/// The maximum number of parts that are shown of a check.
const MOST: usize = 500;

/// A check, or a part of a check.
pub(super) struct Row {
    pub(super) tone: &'static str,
    pub(super) mark: &'static str,
    pub(super) word: &'static str,
    /// The result word that is shown; empty for a plain pass or failure.
    pub(super) word_shown: &'static str,
    pub(super) score: String,
    pub(super) label: String,
    pub(super) code: String,
    pub(super) facts: String,
    pub(super) message: String,
    pub(super) reasoning: String,
    /// The votes of the judges, if the check did not hold.
    pub(super) votes: Vec<Vote>,
    /// The names and values of the metadata that explains a failure.
    pub(super) tells: Vec<(String, String)>,
    /// The names and values of all other metadata.
    pub(super) more: Vec<(String, String)>,
    /// The differences that explain a failure.
    pub(super) diffs: Vec<Vec<DiffLine>>,
    /// True if the next row is a part of this check.
    pub(super) opens: bool,
    /// The number of lists that end after this row.
    pub(super) closes: usize,
}

/// The vote of a judge.
pub(super) struct Vote {
    pub(super) look: Look,
    pub(super) score: String,
    pub(super) judge: String,
    pub(super) reasoning: String,
}

impl Vote {
    fn from_vote(vote: &JudgeVote) -> Self {
        let sample = vote.sample.map(|it| format!(", answer {}", u64::from(it) + 1));
        let judge = vote.judge.as_deref().unwrap_or("judge");
        Self {
            look: Look::from_outcome(match vote.status {
                VoteStatus::Passed => Outcome::Passed,
                VoteStatus::Failed => Outcome::Failed,
                VoteStatus::Errored => Outcome::Errored,
                VoteStatus::Skipped => Outcome::Skipped,
            }),
            score: vote.score.map(two).unwrap_or_default(),
            judge: one_line(judge) + &sample.unwrap_or_default(),
            reasoning: vote.reasoning.as_deref().map(shown).unwrap_or_default(),
        }
    }
}

/// Returns the place in the suite, such as `kindlm.yaml:41`.
pub(super) fn place_of(source: &SourcePlace) -> String {
    one_line(&source.to_string())
}

/// Returns the checks and their nested parts as rows.
pub(super) fn rows<'a>(results: impl Iterator<Item = &'a AssertionResult>) -> Vec<Row> {
    let mut rows: Vec<(usize, Row)> = Vec::new();
    for result in results {
        let before = rows.len();
        // Use a stack instead of recursion, because a script may nest parts arbitrarily deep.
        let mut open = vec![(0, result)];
        while let Some((depth, result)) = open.pop() {
            if rows.len() - before > MOST {
                let more = open.len() + 1;
                if let Some((_, last)) = rows.last_mut() {
                    last.message = format!("… and {more} more parts, which the json report has");
                }
                break;
            }
            rows.push((depth.min(DEEPEST), row(result, depth, "")));
            open.extend(result.components.iter().rev().map(|part| (depth + 1, part)));
        }
    }
    nest(rows)
}

/// Returns the findings over all repeats of a case, without their parts.
pub(super) fn findings(case: &kindlm_types::CaseResult) -> Vec<Row> {
    let of = case.executions.len();
    let found = case.findings();
    let rows = found.iter().map(|it| {
        let mut place = repeats(&it.repeats, of);
        if let Some(mean) = crate::score::mean_of(case, it.result) {
            place = format!("{place}, {mean} on average");
        }
        (0, row(it.result, 0, &place))
    });
    nest(rows.collect())
}

/// Sets `opens` and `closes` of each row, which begin and end the nested lists.
fn nest(rows: Vec<(usize, Row)>) -> Vec<Row> {
    let depths: Vec<usize> = rows.iter().map(|(depth, _)| *depth).collect();
    let rows = rows.into_iter().enumerate().map(|(at, (depth, mut row))| {
        let next = depths.get(at + 1).copied().unwrap_or(0);
        row.opens = next > depth;
        row.closes = depth.saturating_sub(next);
        row
    });
    rows.collect()
}

fn row(result: &AssertionResult, depth: usize, place: &str) -> Row {
    let held = result.verdict.held();
    let look = look(result);
    let reasoning = result.reasoning.as_deref().unwrap_or_default();
    let (mut tells, mut more) = (Vec::new(), Vec::new());
    let evidence = result.evidence.iter().filter(|_| !held);
    let mut diffs: Vec<_> = evidence.filter_map(diff::of_evidence).map(shortened).collect();
    let by_metadata = diff::of_metadata(result).filter(|_| !held && diffs.is_empty());
    let is_diff = by_metadata.is_some();
    diffs.extend(by_metadata.map(shortened));
    for (key, value) in &result.metadata {
        let is_shown = THRESHOLDS.contains(&key.as_str())
            || key == panel::CHOICES
            || value.as_str().is_some_and(|it| it == reasoning);
        if is_shown {
            continue;
        }
        let explains = matches!(key.as_str(), "expected" | "actual") && !held;
        if explains && is_diff {
            continue;
        }
        let list = if explains { &mut tells } else { &mut more };
        list.push((one_line(key), value_of(value)));
    }
    let lines = panel::lines(result).into_iter().filter(|(key, _)| held || *key != "vote");
    more.extend(lines.map(|(key, line)| (key.to_owned(), shown(&line))));
    let panel = result.judging.as_ref().and_then(|it| it.panel.as_ref()).filter(|_| !held);
    let source = result.source.as_ref().map(place_of);
    let facts = [facts(result, depth, place), source.unwrap_or_default()];
    for it in &result.named_scores {
        more.push((format!("scores {}", one_line(&it.name)), two(it.score.get())));
    }
    Row {
        tone: look.tone,
        mark: look.mark,
        word: look.word,
        word_shown: if matches!(look.word, "passed" | "failed") { "" } else { look.word },
        score: score(result),
        label: one_line(&result.label),
        code: result.verdict.code().map(|it| one_line(it.as_str())).unwrap_or_default(),
        facts: facts.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(", "),
        message: describe_result(result),
        reasoning: reason(result),
        votes: panel.into_iter().flat_map(|it| &it.votes).map(Vote::from_vote).collect(),
        tells,
        more,
        diffs,
        opens: false,
        closes: 0,
    }
}

/// Returns the message of a result. The reason of a juror is removed, because the list of votes shows it.
pub(super) fn describe_result(result: &AssertionResult) -> String {
    let text = message::shown(result, MESSAGE_LINES, MESSAGE_BYTES);
    let reasoning = result.reasoning.as_deref().unwrap_or_default().trim();
    if !message::is_of_juror(result) || !text.contains(reasoning) {
        return shown(&text);
    }
    let rest = text.replacen(reasoning, "", 1);
    shown(rest.trim().trim_start_matches('(').trim_end_matches(')'))
}

/// Returns the reason of a result; empty if the message or a vote has it.
pub(super) fn reason(result: &AssertionResult) -> String {
    let reason = message::reason(result).filter(|_| !message::is_of_juror(result));
    reason.map(shown).unwrap_or_default()
}

/// Returns the changed lines of a difference, with [`CONTEXT`] equal lines around them; at most [`DIFF_LINES`] lines.
///
/// Long segments are cut, and control characters are escaped.
pub(crate) fn shortened(lines: Vec<DiffLine>) -> Vec<DiffLine> {
    let changed: Vec<usize> =
        (0..lines.len()).filter(|at| lines[*at].kind != LineKind::Same).collect();
    let is_near = |at: usize| {
        let next = changed.partition_point(|it| *it < at);
        let near = |it: Option<&usize>| it.is_some_and(|it| it.abs_diff(at) <= CONTEXT);
        near(changed.get(next)) || near(next.checked_sub(1).and_then(|it| changed.get(it)))
    };
    let shown = lines.into_iter().enumerate().filter(|(at, _)| is_near(*at)).take(DIFF_LINES);
    let escaped = shown.map(|(_, mut line)| {
        line = diff::elided(line, LINE);
        line.segments.iter_mut().for_each(|(_, text)| *text = one_line(text));
        line
    });
    escaped.collect()
}

/// Returns the look of a check's result.
///
/// A soft check has a score mark instead of a check mark.
fn look(result: &AssertionResult) -> Look {
    match (&result.verdict, result.severity) {
        (Verdict::Pass, Severity::Gate) => Look::new("good", "✓", "passed"),
        (Verdict::Pass, Severity::Soft) => Look::new("good", "·", "score"),
        (Verdict::Fail { .. }, Severity::Gate) => Look::new("bad", "✗", "failed"),
        (Verdict::Fail { .. }, Severity::Soft) => Look::new("warn", "~", "low score"),
        (Verdict::Errored { .. }, _) => Look::new("trouble", "!", "could not be judged"),
        (Verdict::Skipped { .. }, _) => Look::new("none", "–", "not checked"),
    }
}

/// Returns the score and its threshold.
///
/// Returns an empty text if the score has no more information than the verdict.
pub(super) fn score(result: &AssertionResult) -> String {
    if !crate::score::has_details(result) {
        return String::new();
    }
    crate::score::beside_wanted(result).unwrap_or_default()
}

pub(super) fn facts(result: &AssertionResult, depth: usize, place: &str) -> String {
    let mut facts = Vec::new();
    if let Some(turn) = &result.turn {
        facts.push(format!("turn {}", one_line(turn)));
    }
    if !place.is_empty() {
        facts.push(place.to_owned());
    }
    if depth > DEEPEST {
        facts.push(format!("level {depth}"));
    }
    if result.weight.to_bits() != 1.0_f64.to_bits() {
        facts.push(format!("weight {}", ecma::number(result.weight)));
    }
    if let Some(metric) = &result.metric {
        facts.push(format!("counts for {}", one_line(metric)));
    }
    facts.join(", ")
}

pub(super) fn shown(text: &str) -> String {
    let beginning = head(text, MESSAGE_BYTES);
    let cut = if beginning.len() < text.len() { "…" } else { "" };
    visible(&beginning.replace("\r\n", "\n")).trim_end().to_owned() + cut
}

pub(super) fn value_of(value: &Value) -> String {
    let text = ecma::text(value);
    let beginning = head(&text, VALUE_BYTES);
    one_line(beginning) + if beginning.len() < text.len() { "…" } else { "" }
}
