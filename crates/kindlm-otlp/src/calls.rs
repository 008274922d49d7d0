//! The calls of tools: those that have spans of their own, and those that a model's answer only asks for.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};

use crate::said::{Asked, Said};
use crate::step::{self, Kind};
use crate::tree::{Step, Tree};

/// One call of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
    /// The arguments as they were sent, where they are not JSON.
    pub(crate) malformed: Option<String>,
    /// True if the trace shows the arguments.
    pub(crate) shows_arguments: bool,
    pub(crate) output: Option<Value>,
    /// The step that reports it.
    pub(crate) step: usize,
    /// True if that step is the call itself, and not the answer of a model that asks for it.
    pub(crate) has_span: bool,
    /// True if it went wrong, as far as its span says.
    pub(crate) failed: bool,
}

/// A call that has a span of its own.
struct Tool {
    step: usize,
    asked: Asked,
    output: Option<Value>,
    failed: bool,
    /// The model's request for this call, if it is found.
    by_model: Option<Asked>,
}

/// Finds all calls; `said` has the answers of models, by step, and `answered` results by the ids of their calls.
pub(crate) fn find(
    tree: &Tree<'_>,
    said: &[(usize, Vec<Said>)],
    answered: &HashMap<String, Value>,
) -> Vec<Call> {
    let mut tools = tools(tree);
    let mut open = Open::new(&tools);
    let mut calls = Vec::new();
    for (at, messages) in said {
        for asked in messages.iter().flat_map(|it| &it.calls) {
            match open.take(asked).and_then(|it| tools.get_mut(it)) {
                Some(tool) => tool.by_model = Some(asked.clone()),
                None => calls.push(asked_only(asked, *at, calls.len(), answered)),
            }
        }
    }
    for tool in tools {
        let Tool { step: at, asked, output, failed, by_model } = tool;
        let by_model = by_model.as_ref();
        let written = asked.arguments.as_ref().or(by_model.and_then(|it| it.arguments.as_ref()));
        let (arguments, malformed) = arguments(written);
        let explicit = asked.id.clone().or_else(|| by_model.and_then(|it| it.id.clone()));
        let answered = explicit.as_deref().and_then(|it| answered.get(it));
        let own_id = tree.steps.get(at).map(|it| it.span.span_id.clone());
        calls.push(Call {
            id: explicit.or(own_id).unwrap_or_default(),
            name: asked.name,
            shows_arguments: written.is_some(),
            arguments,
            malformed,
            output: output.or_else(|| answered.cloned()),
            step: at,
            has_span: true,
            failed,
        });
    }
    calls
}

/// The spans of tools, in the order in which they began.
fn tools(tree: &Tree<'_>) -> Vec<Tool> {
    let read = |(at, step): (usize, &Step<'_>)| {
        let (asked, output) = step::tool(step.span);
        let failed = step.span.has_failed();
        Tool { step: at, asked, output, failed, by_model: None }
    };
    let all: Vec<Tool> = tree.of_kind(Kind::Tool).map(read).collect();
    let names: HashMap<usize, &str> =
        all.iter().map(|it| (it.step, it.asked.name.as_str())).collect();
    // A frame around a tool, by another instrumentation, is the same call.
    let is_framed = |it: &Tool| {
        tree.ancestors(it.step).any(|above| names.get(&above) == Some(&it.asked.name.as_str()))
    };
    let framed: Vec<bool> = all.iter().map(is_framed).collect();
    all.into_iter().zip(framed).filter(|(_, is_framed)| !is_framed).map(|(it, _)| it).collect()
}

/// The properties that two records of one call have in common. These are the name, the arguments if they are known,
/// and whether there is an id. An id must also be the same.
#[derive(PartialEq, Eq, Hash)]
struct Alike {
    name: String,
    arguments: Known,
    has_id: bool,
}

/// Which arguments are looked for.
#[derive(PartialEq, Eq, Hash)]
enum Known {
    /// Whatever they are.
    Any,
    /// Those that were not recorded.
    Untold,
    /// These, with their keys in order.
    These(String),
}

/// The spans of calls that no model was found to ask for yet.
struct Open {
    taken: Vec<bool>,
    by_id: HashMap<String, VecDeque<usize>>,
    alike: HashMap<Alike, VecDeque<usize>>,
}

impl Open {
    fn new(tools: &[Tool]) -> Self {
        let taken = vec![false; tools.len()];
        let mut open = Self { taken, by_id: HashMap::new(), alike: HashMap::new() };
        for (at, Tool { asked, .. }) in tools.iter().enumerate() {
            if let Some(id) = &asked.id {
                open.by_id.entry(id.clone()).or_default().push_back(at);
            }
            for arguments in [Known::Any, known(asked)] {
                let (name, has_id) = (asked.name.clone(), asked.id.is_some());
                let alike = Alike { name, arguments, has_id };
                open.alike.entry(alike).or_default().push_back(at);
            }
        }
        open
    }

    /// The span of the call that a model asks for, if it has one: that with its id, else the first that is like it.
    fn take(&mut self, asked: &Asked) -> Option<usize> {
        let Self { taken, by_id, alike } = self;
        let same = asked.id.as_ref().and_then(|id| by_id.get_mut(id));
        let found = same.and_then(|it| first(it, taken)).or_else(|| {
            // If both have an id, and the ids differ, they are two calls.
            let ids = if asked.id.is_some() { &[false][..] } else { &[false, true] };
            let mut found: Option<usize> = None;
            for &has_id in ids {
                let kinds = match known(asked) {
                    Known::Untold => vec![Known::Any],
                    these => vec![these, Known::Untold],
                };
                for arguments in kinds {
                    let key = Alike { name: asked.name.clone(), arguments, has_id };
                    let next = alike.get_mut(&key).and_then(|it| first(it, taken));
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

/// The first that is not taken; those that are, are never looked at again.
fn first(queue: &mut VecDeque<usize>, taken: &[bool]) -> Option<usize> {
    while queue.front().is_some_and(|at| taken.get(*at) == Some(&true)) {
        queue.pop_front();
    }
    queue.front().copied()
}

fn known(asked: &Asked) -> Known {
    if asked.arguments.is_none() {
        return Known::Untold;
    }
    let (mut value, malformed) = arguments(asked.arguments.as_ref());
    value.sort_all_objects();
    Known::These(format!("{value}\n{}", malformed.unwrap_or_default()))
}

fn asked_only(
    asked: &Asked,
    step: usize,
    before: usize,
    answered: &HashMap<String, Value>,
) -> Call {
    let (arguments, malformed) = arguments(asked.arguments.as_ref());
    let output = asked.id.as_deref().and_then(|it| answered.get(it)).cloned();
    Call {
        id: asked.id.clone().unwrap_or_else(|| format!("call_{before}")),
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

/// The arguments, and their text where it is not JSON. None are an empty object.
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
