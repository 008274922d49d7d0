//! The HTML of one case: a summary line with foldable details.

use std::ops::Range;

use askama::Template;
use kindlm_types::{
    AnyReport, CaseResult, Execution, ExecutionError, ExecutionResult, FinishReason, Role,
    ToolCall, ecma,
};

use super::Look;
use super::check::{Row, findings, place_of, rows, shown, value_of};
use crate::amount::{count, duration, plural, time_spent, usd};
use crate::changes;
use crate::plain::{head, one_line, visible};
use crate::repeated;
use crate::rerun;
use crate::score::two;

/// The maximum number of bytes that are shown of an output or an input.
const OUTPUT_BYTES: usize = 20_000;
/// The maximum number of bytes that are shown of a tool call's arguments.
const ARGUMENT_BYTES: usize = 1_000;
/// The maximum number of tool calls that are shown per execution.
const CALLS: usize = 100;

/// A case and its repeats.
#[derive(Template)]
#[template(path = "html/case.html")]
pub(super) struct Case {
    outcome: &'static str,
    look: Look,
    is_open: bool,
    name: String,
    model: String,
    /// The place of the test in the suite; empty if it is not known.
    source: String,
    /// The command that runs the case again; empty for a case that held.
    command: String,
    tags: Vec<String>,
    repeats: String,
    spent: String,
    skipped: Option<String>,
    findings: Vec<Row>,
    executions: Vec<Repeat>,
}

struct Repeat {
    /// The title; `None` if the case has only one repeat.
    title: Option<String>,
    look: Look,
    is_open: bool,
    spent: String,
    error: Option<Failed>,
    checks: Vec<Row>,
    named: Vec<(String, String)>,
    said: Vec<SpokenText>,
    more_calls: String,
    notes: String,
}

/// The error of an execution.
struct Failed {
    title: &'static str,
    tone: &'static str,
    code: String,
    facts: String,
    message: String,
}

/// A text of the user or the agent, with its title.
struct SpokenText {
    title: String,
    text: String,
    /// A note about the part that is not shown; empty if the whole text is shown.
    cut: String,
    /// The tool calls that follow this text.
    calls: Vec<Call>,
}

struct Call {
    name: String,
    arguments: String,
    answer: String,
}

impl Case {
    pub(super) fn new(report: &AnyReport<'_>, case: &CaseResult, is_open: bool) -> Self {
        let look = Look::from_outcome(case.outcome);
        let counts = case.repeat_counts();
        let of = case.executions.len();
        let was_run =
            counts.executed() > 0 || case.executions.iter().any(ExecutionResult::is_unchecked);
        let explaining = case.explaining_execution().map(|it| it.execution.repeat);
        let executions = case.executions.iter().filter(|_| was_run).map(|it| {
            let repeat = it.execution.repeat;
            let title = (of > 1).then(|| format!("Repeat {} of {of}", u64::from(repeat) + 1));
            let is_explaining = is_open && explaining == Some(repeat);
            Repeat::new(it, title, is_explaining)
        });
        let skipped = (counts.executed() == 0).then(|| {
            let mut why = shown(&case.why_skipped());
            if let Some(first) = why.get_mut(..1) {
                first.make_ascii_uppercase();
            }
            why
        });
        Self {
            outcome: look.word,
            look,
            is_open,
            name: one_line(&case.case),
            model: one_line(&case.model),
            source: case.source.as_ref().map(place_of).unwrap_or_default(),
            command: if is_open { rerun::of_case(report, case) } else { String::new() },
            tags: case.tags.iter().map(|it| one_line(it)).collect(),
            repeats: if of > 1 && was_run {
                let held = plural(counts.executed().into(), "repeat");
                let held = format!("{} of {held} held", counts.held());
                let interval = repeated::interval(case).map(|it| format!(" ({it})"));
                let end = repeated::end(case).map(|it| format!("; {it}"));
                [Some(held), interval, end].into_iter().flatten().collect()
            } else {
                String::new()
            },
            spent: spent(case),
            skipped,
            findings: if of > 1 { findings(case) } else { Vec::new() },
            executions: executions.collect(),
        }
    }
}

/// Formats the time and the cost of a case; empty if no time is known.
///
/// For several repeats, the time is the average and the cost is the sum.
pub(super) fn spent(case: &CaseResult) -> String {
    let time = match case.latency_avg_ms {
        Some(average) if case.executions.len() > 1 => format!("avg {}", duration(average)),
        Some(average) => duration(average),
        None if case.cached_repeats() > 0 => "cached".to_owned(),
        None => return String::new(),
    };
    let cost = case.cost.usd().map_or_else(|| "cost unknown".to_owned(), usd);
    format!("{time} · {cost}")
}

impl Repeat {
    fn new(it: &ExecutionResult, title: Option<String>, is_open: bool) -> Self {
        let tool_calls = &it.execution.tool_calls;
        let named = it.named_scores();
        let answered = it.error.is_none();
        let said = if answered { spoken_texts(&it.execution) } else { Vec::new() };
        Self {
            look: Look::from_outcome(it.outcome),
            title,
            is_open,
            spent: time_spent(&it.execution),
            error: it.error.as_ref().map(Failed::from_error),
            checks: rows(it.results.iter()),
            named: named.iter().map(|it| (one_line(&it.name), two(it.score.get()))).collect(),
            said,
            more_calls: match tool_calls.len().saturating_sub(CALLS) {
                0 => String::new(),
                more => {
                    format!("… and {}, which the json report has", plural(more as u64, "more call"))
                }
            },
            notes: if answered { notes(&it.execution) } else { String::new() },
        }
    }
}

/// Returns the title of an error.
pub(super) fn title_of(error: &ExecutionError) -> &'static str {
    match error {
        ExecutionError::NotRun { .. } => "Not run",
        ExecutionError::Provider(_) => "The provider failed",
        ExecutionError::Internal { .. } => "KindLM failed",
    }
}

impl Failed {
    fn from_error(error: &ExecutionError) -> Self {
        let tone = if matches!(error, ExecutionError::NotRun { .. }) { "none" } else { "trouble" };
        let attempts = match error {
            ExecutionError::Provider(err) if err.attempts > 1 => {
                format!("after {} attempts", err.attempts)
            }
            _ => String::new(),
        };
        let code = error.code().map_or_else(|| "not run".to_owned(), |it| one_line(it.as_str()));
        Self {
            title: title_of(error),
            tone,
            code,
            facts: attempts,
            message: shown(&error.message()),
        }
    }
}

impl Call {
    fn from_tool_call(call: &ToolCall) -> Self {
        let arguments = match &call.malformed_arguments {
            Some(text) => format!("malformed arguments: {text}"),
            None if call.arguments.is_null() => String::new(),
            None => ecma::stringify(&call.arguments),
        };
        let beginning = head(&arguments, ARGUMENT_BYTES);
        let cut = if beginning.len() < arguments.len() { "…" } else { "" };
        Self {
            name: one_line(&call.name),
            arguments: one_line(beginning) + cut,
            answer: call.response.as_ref().map(value_of).unwrap_or_default(),
        }
    }
}

/// Returns the system prompt, the input, the turns, the output, stderr and the changes in the workspace, in this order.
///
/// The tool calls of a turn follow the text before the turn's answer. Without turns, all tool calls follow the input.
fn spoken_texts(execution: &Execution) -> Vec<SpokenText> {
    let asked = execution.input.iter().rev().find(|it| it.role == Role::User);
    let system = execution.input.iter().filter(|it| it.role == Role::System);
    let mut all: Vec<SpokenText> = system.map(|it| text("System prompt", &it.content)).collect();
    all.push(text("Input", asked.map_or("", |it| &it.content)));
    if execution.turns.is_empty() {
        add_calls(&mut all, execution, 0..execution.tool_calls.len());
    }
    let last = execution.output_json.as_ref();
    let asked = asked.map(|it| &it.content);
    for (at, turn) in execution.turns.iter().enumerate() {
        // Skip a first message that repeats the input above, and a last answer that repeats the output below.
        if let Some(user) = turn.user.as_ref().filter(|it| at > 0 || Some(*it) != asked) {
            all.push(text(&format!("Turn {}: user", turn.label), user));
        }
        add_calls(&mut all, execution, turn.tool_calls.clone());
        if at + 1 < execution.turns.len() || turn.text != execution.output {
            all.push(text(&format!("Turn {}: answer", turn.label), &turn.text));
        }
        // The JSON of the last turn is the JSON of the output below, so skip it here.
        if let Some(value) = turn.output_json.as_ref().filter(|it| Some(*it) != last) {
            all.push(json(&format!("Turn {}: answer as JSON", turn.label), value));
        }
    }
    all.push(text("Output", &execution.output));
    if let Some(value) = last {
        all.push(json("Output as JSON", value));
    }
    if !execution.stderr().trim().is_empty() {
        all.push(text("stderr", execution.stderr()));
    }
    let diff = execution.workspace.as_deref().map(changes::diff).unwrap_or_default();
    if !diff.is_empty() {
        all.push(text("Changes in the workspace", &diff));
    }
    all
}

/// Adds a range of the tool calls to the last text. Calls after the first [`CALLS`] are left out.
fn add_calls(texts: &mut [SpokenText], execution: &Execution, range: Range<usize>) {
    let shown = range.start..range.end.min(CALLS);
    let calls = execution.tool_calls.get(shown).unwrap_or_default();
    if let Some(text) = texts.last_mut() {
        text.calls.extend(calls.iter().map(Call::from_tool_call));
    }
}

fn json(title: &str, value: &serde_json::Value) -> SpokenText {
    text(title, &serde_json::to_string_pretty(value).unwrap_or_default())
}

fn text(title: &str, whole: &str) -> SpokenText {
    let beginning = head(whole, OUTPUT_BYTES);
    let cut = if beginning.len() < whole.len() {
        let all = count(whole.chars().count() as u64);
        let shown = count(beginning.chars().count() as u64);
        format!("The first {shown} of {all} characters; the json report has all of them.")
    } else {
        String::new()
    };
    let text = visible(&beginning.replace("\r\n", "\n"));
    SpokenText { title: one_line(title), text: text.trim_end().to_owned(), cut, calls: Vec::new() }
}

pub(super) fn notes(execution: &Execution) -> String {
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
    if let Some(code) = execution.exit_code() {
        notes.push(format!("exit code {code}"));
    }
    if execution.spend.cached {
        notes.push("answered from the response store".to_owned());
    }
    if let Some(note) = execution.declared_note() {
        notes.push(note);
    }
    if execution.usage.total_tokens > 0 {
        let (input, output) = (execution.usage.input_tokens, execution.usage.output_tokens);
        notes.push(format!("{} input and {} output tokens", count(input), count(output)));
    }
    if let Some(cost) = execution.spend.cost_usd {
        notes.push(usd(cost));
    }
    let text = notes.join("; ");
    let mut chars = text.chars();
    chars.next().map(char::to_uppercase).into_iter().flatten().chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use kindlm_types::Outcome;

    use super::*;

    #[test]
    fn long_texts_are_cut_with_a_note() {
        let shown = text("Output", &"é".repeat(500_000));
        assert_eq!(shown.text.chars().count(), 10_000);
        assert_eq!(
            shown.cut,
            "The first 10,000 of 500,000 characters; the json report has all of them."
        );
        assert_eq!(text("Output", "short\n").cut, "");
    }

    #[test]
    fn tool_calls_follow_the_text_of_their_turn() {
        let call = |id: &str| ToolCall {
            id: id.to_owned(),
            name: id.to_owned(),
            arguments: serde_json::Value::Null,
            malformed_arguments: None,
            response: None,
        };
        let turn = |label: &str, calls: Range<usize>| kindlm_types::Turn {
            label: label.to_owned(),
            user: Some(label.to_owned()),
            text: "answer".to_owned(),
            tool_calls: calls,
            ..kindlm_types::Turn::default()
        };
        let mut execution = Execution {
            tool_calls: ["a", "b", "c"].map(call).to_vec(),
            turns: vec![turn("one", 0..1), turn("two", 1..3)],
            ..Execution::default()
        };
        let found = |execution: &Execution| {
            let texts = spoken_texts(execution).into_iter().filter(|it| !it.calls.is_empty());
            let names = texts.map(|it| {
                let calls: Vec<String> = it.calls.into_iter().map(|it| it.name).collect();
                (it.title, calls.join(" "))
            });
            names.collect::<Vec<_>>()
        };
        let expected = [("Turn one: user", "a"), ("Turn two: user", "b c")];
        let owned = |all: &[(&str, &str)]| {
            all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(found(&execution), owned(&expected));
        execution.turns.clear();
        assert_eq!(found(&execution), owned(&[("Input", "a b c")]));
    }

    #[test]
    fn every_outcome_has_its_own_look() {
        let all =
            [Outcome::Passed, Outcome::Scored, Outcome::Failed, Outcome::Errored, Outcome::Skipped];
        let marks: std::collections::BTreeSet<_> = all
            .iter()
            .map(|it| Look::from_outcome(*it))
            .map(|look| (look.mark, look.word, look.tone))
            .collect();
        assert_eq!(marks.len(), all.len());
    }
}
