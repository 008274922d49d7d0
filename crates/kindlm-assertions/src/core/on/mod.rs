//! `on`: selects a value of the execution that a check judges instead of the output.

mod path;

use std::borrow::Cow;
use std::fmt;

use kindlm_types::workspace::{Gather, RecordedFile};
use kindlm_types::{
    ActionState, AssertionResult, Channel, Completeness, Coverage, Event, Execution, Facts,
    Problem, ecma,
};
use serde_json::{Map, Value, json};

use crate::core::grade::parsed;
use crate::core::missing_evidence::{is_input_missing, is_output_missing, no_output};
use crate::core::output::{output_value, prompt};
use crate::core::recorded::{missing, missing_evidence_advice};
use crate::core::workspace::stays_inside;
use path::{Step, follow, parse_path, place, unknown};

/// The first words of paths.
const ROOTS: [&str; 18] = [
    "output",
    "json",
    "input",
    "messages",
    "toolCalls",
    "events",
    "usage",
    "latencyMs",
    "costUsd",
    "finishReason",
    "exitCode",
    "stdout",
    "stderr",
    "vars",
    "metadata",
    "trace",
    "diff",
    "files",
];

/// The keys of `usage`.
const USAGE: [&str; 4] = ["inputTokens", "outputTokens", "totalTokens", "cachedInputTokens"];
/// The keys of a tool call.
const CALL: [&str; 5] = ["id", "name", "input", "output", "status"];
/// The keys of a message.
const MESSAGE: [&str; 2] = ["role", "text"];

/// A path that selects a value of an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    root: &'static str,
    steps: Vec<Step>,
}

/// The value of an execution at a path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Selected {
    /// The selected value.
    Value(Value),
    /// The value certainly does not exist, for this reason. The check fails.
    Absent(String),
    /// The value is not known. The text has the reason and the advice.
    Unknown(String),
}

use Selected::{Absent, Unknown};

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.root)?;
        self.steps.iter().try_for_each(|it| write!(f, "{it}"))
    }
}

impl Selector {
    /// Parses a path such as `json.order.id`. Pointers of problems start at the text of the path.
    pub fn new(written: &str) -> Result<Self, Problem> {
        let (word, steps) = parse_path(written)?;
        let Some(root) = ROOTS.into_iter().find(|it| *it == word) else {
            return Err(unknown(written, word, &ROOTS));
        };
        match (root, steps.as_slice()) {
            ("files", [Step::Key(path)]) => {
                if let Err(problems) = stays_inside(path, "") {
                    return Err(problems.into_iter().next().unwrap_or_else(|| {
                        Problem::new("", format!("`{path}` is not a file path"))
                    }));
                }
            }
            ("files", _) => {
                let message = format!("`{written}` names no file of the workspace");
                return Err(Problem::new("", message)
                    .with_help("write the path as a text in brackets: `files[\"src/cart.ts\"]`"));
            }
            ("diff", [_, ..]) => {
                let message = format!("`{written}` names no value: the diff is one text");
                return Err(Problem::new("", message)
                    .with_help("write `diff`, or `files[\"…\"]` for one file"));
            }
            _ => {}
        }
        let keys: (usize, &[&str]) = match root {
            "usage" => (0, &USAGE),
            "toolCalls" => (1, &CALL),
            "messages" => (1, &MESSAGE),
            _ => (0, &[]),
        };
        if let (at, known @ [_, ..]) = keys
            && let Some(Step::Key(key)) = steps.get(at)
            && !known.contains(&key.as_str())
        {
            return Err(unknown(written, key, known));
        }
        Ok(Self { root, steps })
    }

    /// Returns true if the path names the output or a part of it; `stdout` is the output of a program.
    pub(crate) fn is_of_output(&self) -> bool {
        matches!(self.root, "output" | "json" | "stdout")
    }

    /// Returns the workspace file that the path names; `None` for any other path.
    fn file(&self) -> Option<&str> {
        match (self.root, self.steps.as_slice()) {
            ("files", [Step::Key(path)]) => Some(path),
            _ => None,
        }
    }

    /// Returns the file to read when the agent has finished; `None` if the path names no file.
    pub(crate) fn gathers(&self) -> Option<Gather> {
        // `Selector::new` has validated the path, so no error is dropped here.
        let path = stays_inside(self.file()?, "").ok()?;
        Some(Gather::File { path })
    }

    /// Returns true if the path names a part of the agent's workspace.
    pub(crate) fn needs_workspace(&self) -> bool {
        matches!(self.root, "diff" | "files")
    }

    /// Returns the value of an execution at the path.
    pub(crate) fn find(&self, execution: &Execution) -> Selected {
        if self.needs_workspace() {
            return self.in_workspace(execution);
        }
        let from = match self.root(execution) {
            Ok(value) => value,
            Err(none) => return none,
        };
        if let Some(why) = self.missing_facts(execution) {
            return Unknown(why);
        }
        match follow(&from, self.root, &self.steps) {
            Ok(value) => Selected::Value(value.clone()),
            Err(why) if self.is_from_agent() && !self.is_pending(&from) => Absent(why),
            Err(why) => Unknown(why),
        }
    }

    /// Returns true if the path names the agent's answer or a part of it.
    pub(crate) fn is_of_answer(&self) -> bool {
        matches!(self.root, "output" | "json")
    }

    /// Returns the diff, or the text of a file as the agent left it.
    fn in_workspace(&self, execution: &Execution) -> Selected {
        let Some(workspace) = &execution.workspace else {
            return Unknown("the agent had no workspace: give the test a `workspace`".to_owned());
        };
        let Some(Gather::File { path }) = self.gathers() else {
            return workspace.diff().map_or_else(Unknown, |diff| Selected::Value(diff.into()));
        };
        match workspace.files.iter().find(|it| it.path == path) {
            Some(RecordedFile { problem: Some(problem), .. }) => Unknown(problem.clone()),
            Some(RecordedFile { text: Some(text), .. }) => Selected::Value(text.as_str().into()),
            Some(_) => Absent(format!("there is no `{path}`")),
            None => Unknown(format!("`{path}` was not read after the agent finished")),
        }
    }

    /// Returns true if the value comes from the agent itself: its output, messages, calls or events.
    ///
    /// A missing part of such a value does not exist. A missing part of any other value may exist without a record.
    fn is_from_agent(&self) -> bool {
        matches!(self.root, "output" | "json" | "messages" | "toolCalls" | "events")
    }

    /// Returns the reason why facts of a selected call are unknown; `None` if all facts are known.
    ///
    /// The tool is unknown if only the result was recorded. The arguments are unknown if spans do not show them.
    fn missing_facts(&self, execution: &Execution) -> Option<String> {
        let events = execution.events();
        let of_calls = match self.root {
            "toolCalls" => gaps_in_calls(execution, &events),
            "events" => gaps_in_events(execution, &events),
            _ => return None,
        };
        let key = self.steps.get(1);
        let is_meant = |it: &(usize, MissingFacts)| {
            let here = match self.steps.first() {
                Some(Step::Item(index)) => place(*index, of_calls.len) == Some(it.0),
                _ => true,
            };
            here && it.1.is_at(key)
        };
        let (_, missing) = of_calls.missing.iter().find(|it| is_meant(it))?;
        Some(missing.why().to_owned())
    }

    /// Returns true if the path leads to a call's output that was not recorded.
    fn is_pending(&self, calls: &Value) -> bool {
        let (Some(call), Some(Step::Key(key))) = (self.steps.first(), self.steps.get(1)) else {
            return false;
        };
        let call = follow(calls, self.root, std::slice::from_ref(call)).ok();
        self.root == "toolCalls"
            && key == "output"
            && call.is_some_and(|it| it.get("output").is_none())
    }

    /// Returns the value that the first word of the path names.
    ///
    /// The error is [`Absent`] or [`Unknown`], with the reason.
    fn root<'e>(&self, execution: &'e Execution) -> Result<Cow<'e, Value>, Selected> {
        let needs = |channel: Channel| {
            if execution.is_complete_for(channel) {
                return Ok(());
            }
            let why = missing_evidence_advice(execution, channel);
            Err(Unknown(format!("the source may not have recorded all of it{why}")))
        };
        let told = |value: Option<Value>, why: &str| {
            value.map(Cow::Owned).ok_or_else(|| Unknown(why.to_owned()))
        };
        match self.root {
            "output" if self.steps.is_empty() => {
                check_output(execution)?;
                Ok(Cow::Owned(of_output(execution)))
            }
            "output" | "json" => {
                check_output(execution)?;
                parsed(execution).ok_or_else(|| Absent("the output is not JSON".to_owned()))
            }
            "input" => told(prompt(&execution.input), "the source did not record the input"),
            "messages" => {
                needs(Channel::Messages)?;
                Ok(Cow::Owned(messages(&execution.events())))
            }
            "toolCalls" => {
                needs(Channel::Actions)?;
                Ok(Cow::Owned(calls(&execution.events())))
            }
            "events" => {
                Channel::ALL.into_iter().try_for_each(needs)?;
                told(
                    serde_json::to_value(execution.events()).ok(),
                    "the events cannot be converted to JSON",
                )
            }
            "usage" => {
                let reported_usage = reported_usage(execution).filter(|it| {
                    // The whole `usage` is unknown if its counts of input and output tokens are missing. The count of
                    // cached tokens may be missing, because many sources do not report it.
                    !self.steps.is_empty() || it.contains_key(USAGE[0])
                });
                told(
                    reported_usage.map(Value::Object),
                    "the source recorded no token counts, or not all",
                )
            }
            "latencyMs" => {
                told(execution.latency_ms.and_then(number), "the source did not record the latency")
            }
            "costUsd" => told(
                execution.spend.cost_usd.and_then(number),
                "the cost is unknown; set the model's price with `models[].price`",
            ),
            "finishReason" => told(
                execution.finish_reason.as_ref().map(|it| json!(it.as_str())),
                "the source did not record the finish reason",
            ),
            "exitCode" => told(
                execution.exit_code().map(Value::from),
                "only tests with a `command` have an exit code",
            ),
            "stdout" | "stderr" => {
                let ran = execution.exit_code().is_some();
                let text = if self.root == "stdout" {
                    execution.output.as_str()
                } else {
                    execution.stderr()
                };
                told(ran.then(|| json!(text)), "only tests with a `command` have it")
            }
            "vars" => Ok(Cow::Owned(Value::Object(execution.vars.clone()))),
            "metadata" => Ok(Cow::Owned(Value::Object(execution.metadata.clone()))),
            // All other words of [`ROOTS`] are handled above, so this is `trace`.
            _ => match (&execution.trace, execution.completeness.gaps.first()) {
                (Some(_), Some(gap)) => Err(Unknown(format!("the trace is incomplete: {gap}"))),
                (trace, _) => told(
                    trace.as_ref().and_then(|it| serde_json::to_value(it).ok()),
                    "the execution has no trace",
                ),
            },
        }
    }
}

/// Returns the reported token counts; `None` if they are incomplete.
fn reported_usage(execution: &Execution) -> Option<Map<String, Value>> {
    let usage = execution.usage;
    let is_told = usage.is_whole() && execution.is_complete_for(Channel::Usage);
    // If only the sum is reported, the counts of input and output tokens are unknown.
    let part = |count: u64| usage.has_parts().then_some(count);
    let counts = [
        part(usage.input_tokens),
        part(usage.output_tokens),
        Some(usage.total_tokens),
        usage.cached_input_tokens,
    ];
    let counts = USAGE.into_iter().zip(counts).filter_map(|(key, count)| Some((key, count?)));
    is_told.then(|| counts.map(|(key, count)| (key.to_owned(), count.into())).collect())
}

/// Fails if the output is unknown. An empty output may be an output that was not recorded.
fn check_output(execution: &Execution) -> Result<(), Selected> {
    if !is_output_missing(execution) {
        return Ok(());
    }
    Err(Unknown(no_output(execution)))
}

/// Returns the value that a check judges: the output, or the value that `on` names.
///
/// If the value is unknown, the error is the errored result of the check.
pub(crate) fn judged_value(
    execution: &Execution,
    id: &str,
    label: &str,
) -> Result<Value, Vec<AssertionResult>> {
    match check_output(execution) {
        Err(Absent(why) | Unknown(why)) => {
            Err(missing(id, label, &format!("the output is unknown: {why}")))
        }
        Ok(()) | Err(Selected::Value(_)) => Ok(of_output(execution)),
    }
}

/// Returns a value as JSON, cut to 120 characters for a line of a report.
pub(crate) fn shown(value: &Value) -> String {
    const SHOWN: usize = 120;
    let text = ecma::stringify(value);
    let short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

/// Returns the output as a structured value or a text.
fn of_output(execution: &Execution) -> Value {
    if execution.output.is_empty() && execution.output_json.is_none() {
        // A model that only called tools has an empty output; its calls are not the output.
        return json!("");
    }
    output_value(execution)
}

/// Returns the execution with this value as its output, without turns, calls and finish reason.
///
/// The new execution counts as complete.
pub(crate) fn in_place_of_the_output(before: &Execution, value: Value) -> Execution {
    let (output, output_json) = match value {
        Value::String(text) => (text, None),
        value => (ecma::stringify(&value), Some(value)),
    };
    // The value is known, so missing evidence in the rest of the record does not change the check.
    let (coverage, gaps) = (Coverage::Complete, Vec::new());
    let (tool_calls, turns, unread, finish_reason) = (Vec::new(), Vec::new(), None, None);
    let before = before.clone();
    Execution {
        output,
        output_json,
        tool_calls,
        turns,
        completeness: Completeness { unread, coverage, gaps, ..before.completeness },
        finish_reason,
        ..before
    }
}

/// The facts of a call that were not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingFacts {
    /// The tool and the arguments.
    Call,
    /// The arguments only.
    Arguments,
}

impl MissingFacts {
    /// Returns true if the key of a call leads to the unrecorded fact.
    ///
    /// Without a key, the whole call is selected, which includes the fact.
    fn is_at(self, key: Option<&Step>) -> bool {
        match key {
            Some(Step::Key(key)) => key == "input" || (self == Self::Call && key == "name"),
            Some(Step::Item(_)) | None => true,
        }
    }

    fn why(self) -> &'static str {
        match self {
            Self::Call => "only the result of a call was reported: report its `action.called` too",
            Self::Arguments => {
                "the spans lack the arguments of a call: configure the instrumentation to record them"
            }
        }
    }
}

/// The unrecorded facts in a list of calls or events, each with the index of its item. `len` is the length of the list.
struct Gaps {
    missing: Vec<(usize, MissingFacts)>,
    len: usize,
}

fn gaps_in_calls(execution: &Execution, events: &[Event]) -> Gaps {
    let actions = Facts::from_events(events).actions;
    let missing = actions.iter().enumerate().filter_map(|(at, it)| match it.name {
        None => Some((at, MissingFacts::Call)),
        Some(_) => is_input_missing(execution, it.input).then_some((at, MissingFacts::Arguments)),
    });
    Gaps { missing: missing.collect(), len: actions.len() }
}

fn gaps_in_events(execution: &Execution, events: &[Event]) -> Gaps {
    let missing = events.iter().enumerate().filter_map(|(at, it)| match it {
        Event::ActionCalled { input, .. } => {
            is_input_missing(execution, input).then_some((at, MissingFacts::Arguments))
        }
        _ => None,
    });
    Gaps { missing: missing.collect(), len: events.len() }
}

fn number(number: f64) -> Option<Value> {
    let number = serde_json::Number::from_f64(number)?;
    Some(kindlm_schema::normalise_numbers(Value::Number(number)))
}

fn messages(events: &[Event]) -> Value {
    let check_output = events.iter().filter_map(|it| match it {
        Event::Message { role, text } => Some(json!({"role": role, "text": text})),
        _ => None,
    });
    Value::Array(check_output.collect())
}

pub(crate) fn calls(events: &[Event]) -> Value {
    let facts = Facts::from_events(events);
    let calls = facts.actions.iter().map(|it| {
        let mut call = Map::new();
        call.insert("id".to_owned(), json!(it.call_id));
        call.insert("name".to_owned(), json!(it.name));
        call.insert("input".to_owned(), it.input.clone());
        // `null` is a recorded output, unlike a missing output.
        if let (Some(output), ActionState::Ended(_)) = (it.output, it.state) {
            call.insert("output".to_owned(), output.clone());
        }
        call.insert("status".to_owned(), json!(it.state.as_str()));
        Value::Object(call)
    });
    Value::Array(calls.collect())
}

/// Returns the calls of an agent as `toolCalls` and `skillCalls`, in the form of promptfoo's metadata.
///
/// `skillCalls` has the calls of the tool `Skill`.
pub(crate) fn calls_in_metadata(events: &[Event]) -> [(&'static str, Value); 2] {
    let facts = Facts::from_events(events);
    let failed = |it: ActionState| matches!(it.as_str(), "failed" | "rejected");
    let calls = facts.actions.iter().map(|it| {
        let mut call = json!({"id": it.call_id, "name": it.name, "input": it.input});
        if let Some(output) = it.output {
            call["output"] = output.clone();
        }
        call["is_error"] = json!(failed(it.state));
        call
    });
    let skills = facts.actions.iter().filter(|it| it.name == Some("Skill")).filter_map(|it| {
        let name = it.input.get("skill").and_then(Value::as_str)?.trim();
        let is_error = failed(it.state);
        let call = json!({"name": name, "input": it.input, "is_error": is_error, "source": "tool"});
        (!name.is_empty()).then_some(call)
    });
    [("toolCalls", calls.collect()), ("skillCalls", skills.collect())]
}

#[cfg(test)]
mod tests;
