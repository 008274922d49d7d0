//! Finds tool calls: calls with a span of their own, and calls without a span that a model's answer requests.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value};

use crate::message::{RecordedMessage, RequestedCall};
use crate::step::{self, Kind};
use crate::tree::{Step, Tree};

/// A tool call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
    /// The original text of the arguments, if the text is not JSON.
    pub(crate) malformed: Option<String>,
    /// True if the trace contains the arguments.
    pub(crate) shows_arguments: bool,
    pub(crate) output: Option<Value>,
    /// The index of the step that reports the call.
    pub(crate) step: usize,
    /// True if the step is the span of the call, false if the step is the answer that requests the call.
    pub(crate) has_span: bool,
    /// True if the span of the call has an error status.
    pub(crate) failed: bool,
}

/// A tool call that has a span.
struct Tool {
    step: usize,
    asked: RequestedCall,
    output: Option<Value>,
    failed: bool,
    /// The model's request for this call; `None` if no request was found.
    by_model: Option<RequestedCall>,
}

/// Finds all calls.
///
/// `answers` has the models' answers, each with the index of its step. `results` has the results that models
/// received, by call id.
pub(crate) fn find(
    tree: &Tree<'_>,
    answers: &[(usize, Vec<RecordedMessage>)],
    results: &HashMap<String, Value>,
) -> Vec<Call> {
    let mut tools = tools(tree);
    let mut ids = Ids::new(tree, answers, &tools);
    let mut open = Open::new(&tools);
    let mut calls = Vec::new();
    for (at, messages) in answers {
        for asked in messages.iter().flat_map(|it| &it.calls) {
            if let Some(tool) = open.take(asked).and_then(|it| tools.get_mut(it)) {
                tool.by_model = Some(asked.clone());
            } else {
                let id = asked.id.clone().unwrap_or_else(|| ids.free(calls.len()));
                calls.push(asked_only(asked, id, *at, results));
            }
        }
    }
    for tool in tools {
        let Tool { step: at, asked, output, failed, by_model } = tool;
        let by_model = by_model.as_ref();
        let written = asked.arguments.as_ref().or(by_model.and_then(|it| it.arguments.as_ref()));
        let (arguments, malformed) = arguments(written);
        let explicit = asked.id.clone().or_else(|| by_model.and_then(|it| it.id.clone()));
        let result = explicit.as_deref().and_then(|it| results.get(it));
        let own_id = tree.steps.get(at).map(|it| it.span.span_id.clone());
        calls.push(Call {
            id: explicit.or(own_id).unwrap_or_default(),
            name: asked.name,
            shows_arguments: written.is_some(),
            arguments,
            malformed,
            output: output.or_else(|| result.cloned()),
            step: at,
            has_span: true,
            failed,
        });
    }
    calls
}

/// The ids of all calls. A call span without a recorded call id uses its span id.
struct Ids(HashSet<String>);

impl Ids {
    fn new(tree: &Tree<'_>, answers: &[(usize, Vec<RecordedMessage>)], tools: &[Tool]) -> Self {
        let asked = answers.iter().flat_map(|(_, messages)| messages).flat_map(|it| &it.calls);
        let recorded = asked.chain(tools.iter().map(|it| &it.asked)).filter_map(|it| it.id.clone());
        let spans = tools.iter().filter_map(|it| tree.steps.get(it.step));
        let spans = spans.map(|it| it.span.span_id.clone());
        Self(recorded.chain(spans).collect())
    }

    /// Returns a new id: `call_<n>` with the first free number from `from`.
    fn free(&mut self, from: usize) -> String {
        let mut number = from;
        loop {
            let id = format!("call_{number}");
            if self.0.insert(id.clone()) {
                return id;
            }
            number += 1;
        }
    }
}

/// Returns the tool calls that have a span, in the order of their starts.
fn tools(tree: &Tree<'_>) -> Vec<Tool> {
    let read = |(at, step): (usize, &Step<'_>)| {
        let (asked, output) = step::tool(step.span);
        let failed = step.span.has_failed();
        Tool { step: at, asked, output, failed, by_model: None }
    };
    let all: Vec<Tool> = tree.of_kind(Kind::Tool).map(read).collect();
    let names: HashMap<usize, &str> =
        all.iter().map(|it| (it.step, it.asked.name.as_str())).collect();
    // A tool span inside a span of the same tool belongs to the same call, recorded by a second instrumentation.
    let is_nested = |it: &Tool| {
        tree.ancestors(it.step).any(|above| names.get(&above) == Some(&it.asked.name.as_str()))
    };
    let nested: Vec<bool> = all.iter().map(is_nested).collect();
    all.into_iter().zip(nested).filter(|(_, is_nested)| !is_nested).map(|(it, _)| it).collect()
}

/// The key by which two records of a call are matched.
///
/// The key consists of the name, the known arguments, and the presence of an id. Two records with different ids are
/// never matched, even if all else is equal.
#[derive(PartialEq, Eq, Hash)]
struct CallKey {
    name: String,
    arguments: ArgumentsKey,
    has_id: bool,
}

/// The state of a call's arguments, as a part of a [`CallKey`].
#[derive(PartialEq, Eq, Hash)]
enum ArgumentsKey {
    /// Matches a request whose arguments were not recorded. Every span also has a key with this state.
    Any,
    /// The arguments of the span were not recorded, so a request with any arguments matches.
    NotRecorded,
    /// The arguments as JSON text with sorted keys, then the original text if it is not JSON.
    Recorded(String),
}

/// The call spans for which no request of a model was found yet.
struct Open {
    taken: Vec<bool>,
    by_id: HashMap<String, VecDeque<usize>>,
    by_key: HashMap<CallKey, VecDeque<usize>>,
}

impl Open {
    fn new(tools: &[Tool]) -> Self {
        let taken = vec![false; tools.len()];
        let mut open = Self { taken, by_id: HashMap::new(), by_key: HashMap::new() };
        for (at, Tool { asked, .. }) in tools.iter().enumerate() {
            if let Some(id) = &asked.id {
                open.by_id.entry(id.clone()).or_default().push_back(at);
            }
            for arguments in [ArgumentsKey::Any, arguments_key(asked)] {
                let (name, has_id) = (asked.name.clone(), asked.id.is_some());
                let key = CallKey { name, arguments, has_id };
                open.by_key.entry(key).or_default().push_back(at);
            }
        }
        open
    }

    /// Returns the call span for a call that a model requests, and marks it as taken.
    ///
    /// This is the span with the id of the call, or else the first span with a matching [key](CallKey). Returns
    /// `None` without such a span.
    fn take(&mut self, asked: &RequestedCall) -> Option<usize> {
        let Self { taken, by_id, by_key } = self;
        let same = asked.id.as_ref().and_then(|id| by_id.get_mut(id));
        let found = same.and_then(|it| first(it, taken)).or_else(|| {
            // Two different ids belong to two different calls.
            let ids = if asked.id.is_some() { &[false][..] } else { &[false, true] };
            let mut found: Option<usize> = None;
            for &has_id in ids {
                let kinds = match arguments_key(asked) {
                    ArgumentsKey::NotRecorded => vec![ArgumentsKey::Any],
                    these => vec![these, ArgumentsKey::NotRecorded],
                };
                for arguments in kinds {
                    let key = CallKey { name: asked.name.clone(), arguments, has_id };
                    let next = by_key.get_mut(&key).and_then(|it| first(it, taken));
                    found = found.into_iter().chain(next).min();
                }
            }
            found
        })?;
        if let Some(slot) = taken.get_mut(found) {
            *slot = true;
        }
        Some(found)
    }
}

/// Returns the first index of the queue that is not taken; `None` if there is none.
///
/// Removes the taken indices before the returned index, so that no later search passes them again.
fn first(queue: &mut VecDeque<usize>, taken: &[bool]) -> Option<usize> {
    while queue.front().is_some_and(|at| taken.get(*at) == Some(&true)) {
        queue.pop_front();
    }
    queue.front().copied()
}

fn arguments_key(asked: &RequestedCall) -> ArgumentsKey {
    if asked.arguments.is_none() {
        return ArgumentsKey::NotRecorded;
    }
    let (mut value, malformed) = arguments(asked.arguments.as_ref());
    value.sort_all_objects();
    ArgumentsKey::Recorded(format!("{value}\n{}", malformed.unwrap_or_default()))
}

fn asked_only(
    asked: &RequestedCall,
    id: String,
    step: usize,
    results: &HashMap<String, Value>,
) -> Call {
    let (arguments, malformed) = arguments(asked.arguments.as_ref());
    let output = asked.id.as_deref().and_then(|it| results.get(it)).cloned();
    Call {
        id,
        name: asked.name.clone(),
        arguments,
        malformed,
        shows_arguments: asked.arguments.is_some(),
        output,
        step,
        has_span: false,
        failed: false,
    }
}

/// Parses arguments. If a text is not JSON, returns `null` and the original text.
///
/// Missing arguments become an empty object.
fn arguments(written: Option<&Value>) -> (Value, Option<String>) {
    let none = || (Value::Object(Map::new()), None);
    match written {
        None | Some(Value::Null) => none(),
        Some(Value::String(text)) if text.trim().is_empty() => none(),
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(Value::Null) => none(),
            Ok(value) => (value, None),
            Err(_) => (Value::Null, Some(text.clone())),
        },
        Some(other) => (other.clone(), None),
    }
}
