//! Carries out cases that depend on earlier cases: the cases of one history, one after another.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use kindlm_assertions::output_of_model;
use kindlm_types::{
    CallForm, ContentPart, Execution, ExecutionError, ExecutionResult, Message, ToolSpec,
};
use serde_json::{Map, Value, json};

use super::rounds::Ended;
use super::unit::{begun, errored, subject};
use super::{Gathering, Running};
use crate::{HISTORY, Suite, Unit};

/// The executions of one history, on one model and in one repeat.
///
/// A history is a series of cases. Each case gets the exchanges of the earlier cases.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// The plan positions of the executions that are not finished.
    open: VecDeque<usize>,
    /// The exchanges of the finished executions.
    earlier: Vec<Value>,
    /// The stored outputs, by the names of their variables.
    stored: Map<String, Value>,
    /// The name of the first case without an answer; `None` if there is no such case. The later cases are not run.
    without_answer: Option<String>,
}

impl Sequence {
    /// Returns the plan positions of the executions that are not finished.
    pub(super) fn open(&self) -> impl Iterator<Item = usize> + '_ {
        self.open.iter().copied()
    }

    /// Adds the exchange of a finished execution.
    fn add(&mut self, result: &ExecutionResult, form: &PromptForm) {
        if result.error.is_some() && !result.is_unjudged() {
            self.without_answer.get_or_insert_with(|| result.execution.case.clone());
        } else {
            let exchange = exchange(&result.execution, form);
            // As in promptfoo, an empty output does not replace an earlier one.
            if let Some(name) = form.stores.as_deref().filter(|_| exchange["output"] != "") {
                self.stored.insert(name.to_owned(), exchange["output"].clone());
            }
            self.earlier.push(exchange);
        }
    }

    /// Returns the variable with the earlier exchanges, and the stored outputs.
    fn vars(&self) -> Map<String, Value> {
        let mut vars = self.stored.clone();
        vars.insert(HISTORY.to_owned(), self.earlier.clone().into());
        vars
    }
}

/// The data about the prompt and the output of a case that a stored execution lacks.
#[derive(Clone, Debug, Default)]
struct PromptForm {
    /// True if the prompt is written as messages.
    is_chat: bool,
    /// The form of tool calls in the output; `None` if calls are no output.
    calls: Option<CallForm>,
    /// The tools that the case offers. Calls of other tools were answered by the API itself.
    tools: Vec<ToolSpec>,
    /// The variable that stores the output; `None` if the output is not stored.
    stores: Option<Arc<str>>,
}

/// Returns the sequences of a plan, in the order in which they begin.
pub(super) fn sequences(suite: &Suite, units: &[Unit]) -> Vec<Sequence> {
    let mut sequences: Vec<Sequence> = Vec::new();
    let mut known: HashMap<(&str, Option<usize>, u32), usize> = HashMap::new();
    for (at, unit) in units.iter().enumerate() {
        let Some(history) = suite.cases.get(unit.case).and_then(|it| it.history.as_deref()) else {
            continue;
        };
        let place =
            *known.entry((history, unit.model, unit.repeat)).or_insert_with(|| sequences.len());
        match sequences.get_mut(place) {
            Some(sequence) => sequence.open.push_back(at),
            None => sequences.push(Sequence { open: [at].into(), ..Sequence::default() }),
        }
    }
    sequences
}

impl<'a> Running<'a> {
    /// Carries out sequences. Each item of the stream contains one execution.
    pub(super) fn sequences<'r>(
        &'r self,
        sequences: Vec<Sequence>,
        concurrency: usize,
        gathering: &'r Gathering,
    ) -> impl Stream<Item = Vec<(usize, Ended)>> + Unpin + use<'r, 'a> {
        stream::iter(sequences)
            .map(move |sequence| {
                Box::pin(stream::unfold(sequence, move |mut sequence| async move {
                    let at = sequence.open.pop_front()?;
                    gathering.over().await;
                    let ended = self.next_of(at, &mut sequence).await;
                    Some((vec![(at, ended)], sequence))
                }))
            })
            .flatten_unordered(concurrency)
    }

    /// Carries out the next execution of a sequence, or loads it.
    async fn next_of(&self, at: usize, sequence: &mut Sequence) -> Ended {
        let Some(unit) = self.run.plan.units.get(at).copied() else {
            return Ended::New(super::errored_at(self.run.suite, at).into());
        };
        let recalled = match self.recall(at, unit) {
            Ok(recalled) => recalled,
            Err(err) => {
                let name = begun(self.run.suite, unit).case;
                sequence.without_answer.get_or_insert(name);
                return Ended::Lost(err);
            }
        };
        let vars = sequence.vars();
        // No case follows the last execution, so its form is not needed.
        let is_last = sequence.open.is_empty();
        let form = if is_last { PromptForm::default() } else { self.form_of(unit, &vars) };
        let result = match recalled {
            Some(earlier) if !earlier.is_unjudged() => {
                sequence.add(&earlier, &form);
                return Ended::Kept(earlier.into());
            }
            // The answer is there, and only the verdict is missing.
            Some(earlier) => self.unit_with(unit, Some(earlier), &vars).await.result,
            None => match &sequence.without_answer {
                Some(name) => {
                    let reason = format!("not sent: the earlier test `{name}` has no answer");
                    let not_run = ExecutionError::NotRun { reason };
                    return Ended::New(errored(begun(self.run.suite, unit), not_run).into());
                }
                None => self.unit_with(unit, None, &vars).await.result,
            },
        };
        sequence.add(&result, &form);
        Ended::New(result)
    }

    fn form_of(&self, unit: Unit, vars: &Map<String, Value>) -> PromptForm {
        let Some((case, model)) = subject(self.run.suite, unit) else {
            return PromptForm::default();
        };
        // If the body cannot be created, the result of the execution has the error.
        let body = case.made_body(vars).ok();
        let simulated = body.iter().flat_map(|it| it.tools.iter().map(|tool| &tool.spec));
        let offered = model.into_iter().flat_map(|it| &*it.offers);
        PromptForm {
            is_chat: body.as_ref().is_some_and(|it| it.is_chat),
            calls: case.calls_as_output,
            tools: simulated.chain(offered).cloned().collect(),
            stores: case.stores.clone(),
        }
    }
}

/// Returns the prompt and the output of an execution, in the same form as in promptfoo.
fn exchange(execution: &Execution, form: &PromptForm) -> Value {
    let last = execution.input.last().map(content).unwrap_or_default();
    let prompt = if form.is_chat || execution.input.len() > 1 {
        let message = |it: &Message| json!({"role": it.role.as_str(), "content": content(it)});
        execution.input.iter().map(message).collect()
    } else {
        last.clone()
    };
    // A stored execution has no tools, so the tools of the case are added.
    let restored;
    let whole = if form.calls.is_some() && execution.tools.is_empty() && !form.tools.is_empty() {
        restored = Execution { tools: form.tools.clone(), ..execution.clone() };
        &restored
    } else {
        execution
    };
    let output = match output_of_model(whole, form.calls) {
        // As in promptfoo, `null` is an empty output.
        Value::Null => Value::from(""),
        output => output,
    };
    json!({"prompt": prompt, "input": last, "output": output, "metadata": execution.metadata})
}

/// Returns the content of a message: its text, or its parts.
fn content(message: &Message) -> Value {
    if message.parts.is_empty() {
        return Value::from(&*message.content);
    }
    let part = |part: &ContentPart| match part {
        ContentPart::Raw(raw) => raw.value().clone(),
        ContentPart::Text(text) => json!({"type": "text", "text": text}),
        ContentPart::Media(_) => json!({"type": "text", "text": part.label()}),
    };
    message.parts.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use kindlm_types::ToolCall;

    use super::*;

    #[test]
    fn stored_executions_show_calls_of_simulated_tools() {
        let call =
            ToolCall { name: "f".to_owned(), response: Some(json!("ok")), ..ToolCall::default() };
        let execution = Execution {
            output: "Done.".to_owned(),
            tool_calls: vec![call],
            ..Execution::default()
        };
        let form = PromptForm {
            calls: Some(CallForm::Openai),
            tools: vec![ToolSpec { name: "f".to_owned(), ..ToolSpec::default() }],
            ..PromptForm::default()
        };
        let exchange = exchange(&execution, &form);
        assert_eq!(exchange["output"]["tool_calls"][0]["function"]["name"], "f", "{exchange}");
    }
}
