//! `on`: which value of the execution a check sees, in the place of the output.

mod path;

use std::borrow::Cow;
use std::fmt;

use kindlm_types::workspace::{FileSeen, Gather};
use kindlm_types::{
    ActionState, AssertionResult, Channel, Coverage, Event, Execution, Facts, Problem, ecma,
};
use serde_json::{Map, Value, json};

use crate::core::grade::parsed;
use crate::core::output::{output_value, prompt};
use crate::core::recorded::{missing, untold_of};
use crate::core::untold::{inputs_are_untold, is_untold, no_output};
use crate::core::workspace::stays_inside;
use path::{Step, follow, place, read, unknown};

/// The roots of paths.
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

/// The keys of tokens.
const USAGE: [&str; 4] = ["inputTokens", "outputTokens", "totalTokens", "cachedInputTokens"];
/// The keys of a tool call.
const CALL: [&str; 5] = ["id", "name", "input", "output", "status"];
/// The keys of a message.
const MESSAGE: [&str; 2] = ["role", "text"];

/// A value of an execution, by its path.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    root: &'static str,
    steps: Vec<Step>,
}

/// The value of an execution at a path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Selected {
    /// This value.
    Value(Value),
    /// Nothing, and that is certain: the check does not hold. Why.
    Absent(String),
    /// It is not known what. Why, and what to do.
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
    /// Reads a path, such as `json.order.id`; problems point from its text.
    pub fn new(written: &str) -> Result<Self, Problem> {
        let (word, steps) = read(written)?;
        let Some(root) = ROOTS.into_iter().find(|it| *it == word) else {
            return Err(unknown(written, word, &ROOTS));
        };
        match (root, steps.as_slice()) {
            ("files", [Step::Key(path)]) => {
                if let Err(problems) = stays_inside(path, "") {
                    return Err(problems.into_iter().next().unwrap_or_else(|| {
                        Problem::new("", format!("`{path}` is no path of a file"))
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

    /// True if it names the output, or a part of it.
    pub(crate) fn is_of_output(&self) -> bool {
        matches!(self.root, "output" | "json" | "stdout")
    }

    /// The file of the workspace that it names.
    fn file(&self) -> Option<&str> {
        match (self.root, self.steps.as_slice()) {
            ("files", [Step::Key(path)]) => Some(path),
            _ => None,
        }
    }

    /// The part of the workspace that it looks at when the agent has finished.
    pub(crate) fn gathers(&self) -> Option<Gather> {
        // A path was read already, so it can be read again.
        let path = stays_inside(self.file()?, "").ok()?;
        Some(Gather::File { path })
    }

    /// True if it names something of the agent's workspace.
    pub(crate) fn needs_workspace(&self) -> bool {
        matches!(self.root, "diff" | "files")
    }

    /// The value that an execution has there.
    pub(crate) fn find(&self, execution: &Execution) -> Selected {
        if self.needs_workspace() {
            return self.in_workspace(execution);
        }
        let from = match self.root(execution) {
            Ok(value) => value,
            Err(none) => return none,
        };
        if let Some(why) = self.untold(execution) {
            return Unknown(why);
        }
        match follow(&from, self.root, &self.steps) {
            Ok(value) => Selected::Value(value.clone()),
            Err(why) if self.is_told_by_the_agent() && !self.is_pending(&from) => Absent(why),
            Err(why) => Unknown(why),
        }
    }

    /// True if the value is what the agent answered, or a part of it.
    pub(crate) fn is_of_the_output(&self) -> bool {
        matches!(self.root, "output" | "json")
    }

    /// The diff, or a file as the agent left it.
    fn in_workspace(&self, execution: &Execution) -> Selected {
        let Some(workspace) = &execution.workspace else {
            return Unknown("the agent had no workspace: give the test a `workspace`".to_owned());
        };
        let Some(Gather::File { path }) = self.gathers() else {
            return workspace.diff().map_or_else(Unknown, |diff| Selected::Value(diff.into()));
        };
        match workspace.files.iter().find(|it| it.path == path) {
            Some(FileSeen { problem: Some(problem), .. }) => Unknown(problem.clone()),
            Some(FileSeen { text: Some(text), .. }) => Selected::Value(text.as_str().into()),
            Some(_) => Absent(format!("there is no `{path}`")),
            None => Unknown(format!("`{path}` was not looked at when the agent had finished")),
        }
    }

    /// True if what is not in the value does not exist. Of what others tell it is not known whether they would tell it.
    fn is_told_by_the_agent(&self) -> bool {
        matches!(self.root, "output" | "json" | "messages" | "toolCalls" | "events")
    }

    /// Why it is not known what is there, if it is, or holds, what nobody told of a call: the tool where only the result
    /// was told, and arguments that spans do not show.
    fn untold(&self, execution: &Execution) -> Option<String> {
        let events = execution.events();
        let of_calls = match self.root {
            "toolCalls" => untold_of_calls(execution, &events),
            "events" => untold_of_events(execution, &events),
            _ => return None,
        };
        let key = self.steps.get(1);
        let is_meant = |it: &(usize, Untold)| {
            let here = match self.steps.first() {
                Some(Step::Item(index)) => place(*index, of_calls.len) == Some(it.0),
                _ => true,
            };
            here && it.1.is_at(key)
        };
        let (_, untold) = of_calls.untold.iter().find(|it| is_meant(it))?;
        Some(untold.why().to_owned())
    }

    /// True if the path leads to the output of a call whose result was not recorded.
    fn is_pending(&self, calls: &Value) -> bool {
        let (Some(call), Some(Step::Key(key))) = (self.steps.first(), self.steps.get(1)) else {
            return false;
        };
        let call = follow(calls, self.root, std::slice::from_ref(call)).ok();
        self.root == "toolCalls"
            && key == "output"
            && call.is_some_and(|it| it.get("output").is_none())
    }

    /// The value that the path begins with.
    fn root<'e>(&self, execution: &'e Execution) -> Result<Cow<'e, Value>, Selected> {
        let needs = |channel: Channel| {
            if execution.tells_all(channel) {
                return Ok(());
            }
            let why = untold_of(execution, channel);
            Err(Unknown(format!("the source does not record all of it{why}")))
        };
        let told = |value: Option<Value>, why: &str| {
            value.map(Cow::Owned).ok_or_else(|| Unknown(why.to_owned()))
        };
        match self.root {
            "output" if self.steps.is_empty() => {
                said(execution)?;
                Ok(Cow::Owned(of_output(execution)))
            }
            "output" | "json" => {
                said(execution)?;
                parsed(execution).ok_or_else(|| Absent("the output is not JSON".to_owned()))
            }
            "input" => told(prompt(&execution.input), "the source does not tell what was asked"),
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
                told(serde_json::to_value(execution.events()).ok(), "the events cannot be told")
            }
            "usage" => {
                let told_usage = told_usage(execution).filter(|it| {
                    // A partly known object is not known as a whole. Many sources do not report cached tokens.
                    !self.steps.is_empty() || it.contains_key(USAGE[0])
                });
                told(
                    told_usage.map(Value::Object),
                    "the source does not tell how many tokens it took, or not all of them",
                )
            }
            "latencyMs" => told(
                execution.latency_ms.and_then(number),
                "the source does not tell how long it took",
            ),
            "costUsd" => told(
                execution.cost_usd.and_then(number),
                "nobody tells what it cost; give the model a price with `models[].price`",
            ),
            "finishReason" => told(
                execution.finish_reason.as_ref().map(|it| json!(it.as_str())),
                "the source does not tell why the model stopped",
            ),
            "exitCode" => told(
                execution.exit_code.map(Value::from),
                "only tests with a `command` have an exit code",
            ),
            "stdout" | "stderr" => {
                let ran = execution.exit_code.is_some();
                let text =
                    if self.root == "stdout" { &execution.output } else { &execution.stderr };
                told(ran.then(|| json!(text)), "only tests with a `command` have it")
            }
            "vars" => Ok(Cow::Owned(Value::Object(execution.vars.clone()))),
            "metadata" => Ok(Cow::Owned(Value::Object(execution.metadata.clone()))),
            // The roots are a closed list, of which this is the last.
            _ => match (&execution.trace, execution.gaps.first()) {
                (Some(_), Some(gap)) => Err(Unknown(format!("the trace is not complete: {gap}"))),
                (trace, _) => told(
                    trace.as_ref().and_then(|it| serde_json::to_value(it).ok()),
                    "the execution has no trace",
                ),
            },
        }
    }
}

/// The counts of tokens that are known.
fn told_usage(execution: &Execution) -> Option<Map<String, Value>> {
    let usage = execution.usage;
    let is_told = usage.is_whole() && execution.tells_all(Channel::Usage);
    // If only the sum is reported, the shares of prompt and answer are unknown.
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

/// True if the output is known: an empty one may be one that was not recorded.
fn said(execution: &Execution) -> Result<(), Selected> {
    if !is_untold(execution) {
        return Ok(());
    }
    Err(Unknown(no_output(execution)))
}

/// The value that a check sees: the output, or what `on` names. Where it is not known, the result of the check.
pub(crate) fn seen(
    execution: &Execution,
    id: &str,
    label: &str,
) -> Result<Value, Vec<AssertionResult>> {
    match said(execution) {
        Err(Absent(why) | Unknown(why)) => {
            Err(missing(id, label, &format!("The output is not known: {why}")))
        }
        Ok(()) | Err(Selected::Value(_)) => Ok(of_output(execution)),
    }
}

/// As much of a value as a line of a report should have.
pub(crate) fn shown(value: &Value) -> String {
    const SHOWN: usize = 120;
    let text = ecma::stringify(value);
    let short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

/// The output as a value: structured, or a text.
fn of_output(execution: &Execution) -> Value {
    if execution.output.is_empty() && execution.output_json.is_none() {
        // A model that called tools and said nothing has said nothing.
        return json!("");
    }
    output_value(execution)
}

/// The execution that a check of a value sees: this value as the output, without other texts or calls.
pub(crate) fn in_place_of_the_output(before: &Execution, value: Value) -> Execution {
    let (output, output_json) = match value {
        Value::String(text) => (text, None),
        value => (ecma::stringify(&value), Some(value)),
    };
    // The value is there, whatever the source does not tell beside it.
    let (coverage, gaps) = (Coverage::Complete, Vec::new());
    let (tool_calls, turns, unread, finish_reason) = (Vec::new(), Vec::new(), None, None);
    let before = before.clone();
    Execution {
        output,
        output_json,
        tool_calls,
        turns,
        unread,
        finish_reason,
        coverage,
        gaps,
        ..before
    }
}

/// The facts of a call that were not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Untold {
    /// Which tool it was of, and with which arguments.
    Call,
    /// With which arguments.
    Arguments,
}

impl Untold {
    /// True if a key of a call leads to it; a call as a whole has it.
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
                "the spans do not show the arguments of a call: let the instrumentation record them"
            }
        }
    }
}

/// The unknown parts of a list, by places, and its length.
struct Gaps {
    untold: Vec<(usize, Untold)>,
    len: usize,
}

fn untold_of_calls(execution: &Execution, events: &[Event]) -> Gaps {
    let actions = Facts::of(events).actions;
    let untold = actions.iter().enumerate().filter_map(|(at, it)| match it.name {
        None => Some((at, Untold::Call)),
        Some(_) => inputs_are_untold(execution, it.input).then_some((at, Untold::Arguments)),
    });
    Gaps { untold: untold.collect(), len: actions.len() }
}

fn untold_of_events(execution: &Execution, events: &[Event]) -> Gaps {
    let untold = events.iter().enumerate().filter_map(|(at, it)| match it {
        Event::ActionCalled { input, .. } => {
            inputs_are_untold(execution, input).then_some((at, Untold::Arguments))
        }
        _ => None,
    });
    Gaps { untold: untold.collect(), len: events.len() }
}

fn number(number: f64) -> Option<Value> {
    let number = serde_json::Number::from_f64(number)?;
    Some(kindlm_schema::normalise_numbers(Value::Number(number)))
}

fn messages(events: &[Event]) -> Value {
    let said = events.iter().filter_map(|it| match it {
        Event::Message { role, text } => Some(json!({"role": role, "text": text})),
        _ => None,
    });
    Value::Array(said.collect())
}

pub(crate) fn calls(events: &[Event]) -> Value {
    let facts = Facts::of(events);
    let calls = facts.actions.iter().map(|it| {
        let mut call = Map::new();
        call.insert("id".to_owned(), json!(it.call_id));
        call.insert("name".to_owned(), json!(it.name));
        call.insert("input".to_owned(), it.input.clone());
        // `null` is an answer; no answer is none.
        if let (Some(output), ActionState::Ended(_)) = (it.output, it.state) {
            call.insert("output".to_owned(), output.clone());
        }
        call.insert("status".to_owned(), json!(it.state.as_str()));
        Value::Object(call)
    });
    Value::Array(calls.collect())
}

#[cfg(test)]
mod tests;
