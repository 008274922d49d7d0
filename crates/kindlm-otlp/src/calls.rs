//! The calls of tools: those that have spans of their own, and those that a model's answer only asks for.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::said::{Asked, Said};
use crate::step::{self, Kind};
use crate::tree::Tree;

/// One call of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
    /// The arguments as they were sent, where they are not JSON.
    pub(crate) malformed: Option<String>,
    /// Whether the trace shows what it was called with.
    pub(crate) shows_arguments: bool,
    pub(crate) output: Option<Value>,
    /// The step that it is told by.
    pub(crate) step: usize,
    /// Whether that step is the call itself, and not the answer of a model that asks for it.
    pub(crate) has_span: bool,
    /// Whether it went wrong, as far as its span says.
    pub(crate) failed: bool,
}

/// Finds all calls; `said` has the answers of models, by step, and `answered` results by the ids of their calls.
pub(crate) fn find(
    tree: &Tree<'_>,
    said: &[(usize, Vec<Said>)],
    answered: &HashMap<String, Value>,
) -> Vec<Call> {
    let tools: Vec<(usize, Asked, Option<Value>, bool)> = tree
        .of_kind(Kind::Tool)
        // A frame around a tool, by another instrumentation, is the same call.
        .filter(|(at, step)| {
            let name = step::tool(step.span).0.name;
            let same = |it: &crate::tree::Step<'_>| {
                it.kind == Kind::Tool && step::tool(it.span).0.name == name
            };
            !tree.is_within(*at, same)
        })
        .map(|(at, step)| {
            let (asked, output) = step::tool(step.span);
            (at, asked, output, step.span.status_code == 2)
        })
        .collect();
    let mut partner: Vec<Option<Asked>> = vec![None; tools.len()];
    let mut calls = Vec::new();
    for (at, messages) in said {
        for asked in messages.iter().flat_map(|it| &it.calls) {
            match partner_of(asked, &tools, &partner) {
                Some(tool) => {
                    if let Some(slot) = partner.get_mut(tool) {
                        *slot = Some(asked.clone());
                    }
                }
                None => calls.push(asked_only(asked, *at, calls.len(), answered)),
            }
        }
    }
    for ((at, asked, output, failed), partner) in tools.into_iter().zip(partner) {
        let by_model = partner.as_ref();
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

type Tool = (usize, Asked, Option<Value>, bool);

/// The span of the call that a model asks for, if it has one: that with its id, else the first that is like it.
fn partner_of(asked: &Asked, tools: &[Tool], taken: &[Option<Asked>]) -> Option<usize> {
    let free = || tools.iter().zip(taken).enumerate().filter(|(_, (_, taken))| taken.is_none());
    if asked.id.is_some()
        && let Some((at, _)) = free().find(|(_, ((_, it, ..), _))| it.id == asked.id)
    {
        return Some(at);
    }
    let alike = |it: &Asked| {
        let (mine, theirs) =
            (arguments(asked.arguments.as_ref()), arguments(it.arguments.as_ref()));
        let unknown = asked.arguments.is_none() || it.arguments.is_none();
        it.name == asked.name
            && (it.id.is_none() || asked.id.is_none())
            && (unknown || mine == theirs)
    };
    free().find(|(_, ((_, it, ..), _))| alike(it)).map(|(at, _)| at)
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
