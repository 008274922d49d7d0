//! Converts the spans of one execution to its evidence.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use kindlm_types::{
    Completeness, Coverage, Event, Execution, FinishReason, Message, Role, Span, SpanMapping,
    ToolCall, Trace, UnsupportedPart, Usage, UsageSum,
};
use serde_json::{Map, Value, json};

use crate::calls::{self, Call};
use crate::coverage;
use crate::filter::Filter;
use crate::message::{RecordedMessage, RequestedCall};
use crate::span::OtlpSpan;
use crate::step::{self, Kind};
use crate::timeline::{self, Conversation};
use crate::tree::{Step, Tree};

/// The key of the attribute that names the test case.
///
/// The attribute belongs to a span or to its resource.
pub const TEST: &str = "kindlm.test";

/// The evidence in the spans of one execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The execution, without the data that only the suite has: the test case, the model id, the variables and the
    /// price.
    pub execution: Execution,
    /// The spans that record tokens: model requests, or wrappers around them.
    pub inferences: Vec<Inference>,
    /// The test case that the trace names; `None` if the trace names no test case.
    pub test: Option<String>,
    /// True if a span is a model request, a tool call, or the work of an agent.
    pub shows_agent: bool,
    /// The number of spans that the filter excluded.
    pub left_out: usize,
}

impl Reading {
    /// Records that data was lost, with the reason.
    ///
    /// After that, no kind of evidence is complete, so no check can assert the absence of an event. The latency and the
    /// time to the first token are unknown too.
    pub fn lose(&mut self, why: &str) {
        let execution = &mut self.execution;
        execution.completeness.coverage = Coverage::from_iter([]);
        execution.latency_ms = None;
        execution.first_token_ms = None;
        execution.completeness.gaps.push(why.to_owned());
    }
}

/// The data of a model request that determines its cost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inference {
    /// The vendor's name in the conventions, such as `openai` or `aws.bedrock`.
    pub vendor: Option<String>,
    /// The vendor's model names: the name in the answer, then the requested name.
    pub models: Vec<String>,
    /// The tokens of the request.
    pub usage: Usage,
}

/// Converts the spans of one execution, in order of arrival, to evidence.
///
/// Fails if the filter cannot decide about a span.
pub fn read_trace(
    spans: &[OtlpSpan],
    mapping: &SpanMapping,
    filter: Filter<'_>,
) -> Result<Reading, String> {
    let mut kept = Vec::with_capacity(spans.len());
    let mut left_out = Vec::new();
    for span in spans {
        if filter.keeps(span)? { kept.push(span) } else { left_out.push(span) }
    }
    let tree = Tree::new(spans, &kept, mapping);
    let of_inference = |read: &dyn Fn(&OtlpSpan) -> Vec<crate::message::RecordedMessage>| {
        tree.of_kind(Kind::Inference).map(|(at, step)| (at, read(step.span))).collect()
    };
    let conversation = Conversation {
        told: of_inference(&step::input),
        said: of_inference(&|it| step::output(it, mapping)),
    };
    let calls = calls::find(&tree, &conversation.said, &answers(&conversation));
    let mut events = timeline::ordered_events(&tree, &conversation, &calls);
    let (output, unread) = output(&tree, &conversation, mapping);
    frame(&tree, &mut events, &output, mapping);
    let mut gaps = coverage::gaps(spans);
    let open = open_call(&tree, &conversation, &calls);
    gaps.extend(open.filter(|_| !shows_result(&tree, &conversation)));
    let shown = coverage::Shown {
        tree: &tree,
        conversation: &conversation,
        calls: &calls,
        left_out: &left_out,
        is_whole: gaps.is_empty(),
    };
    let coverage = shown.coverage(&events, mapping);
    let unsupported = unsupported(&tree, &conversation);
    Ok(Reading {
        execution: Execution {
            input: input(&conversation),
            output,
            tool_calls: in_order(&events, &calls),
            requests: requests(&tree),
            usage: usage(&tree),
            latency_ms: latency(&tree).filter(|_| !coverage::has_orphans(spans)),
            first_token_ms: first_token(&tree).filter(|_| !coverage::has_orphans(spans)),
            finish_reason: tree
                .of_kind(Kind::Inference)
                .last()
                .and_then(|(at, step)| finish_reason(step.span, at, &conversation)),
            metadata: metadata(&kept, &unsupported, left_out.len(), mapping),
            recorded_events: events,
            trace: Some(Box::new(trace(&kept))),
            completeness: Completeness {
                unread,
                coverage,
                gaps,
                unsupported,
                ..Completeness::default()
            },
            ..Execution::default()
        },
        inferences: inferences(&tree, mapping),
        test: spans.iter().find_map(|it| {
            let named = it.text(TEST).or_else(|| it.resource.get(TEST)?.as_str());
            named.map(str::to_owned)
        }),
        shows_agent: shows_agent(&tree),
        left_out: left_out.len(),
    })
}

/// Returns the results of tool calls that models received, by call id.
fn answers(conversation: &Conversation) -> HashMap<String, Value> {
    let inputs = conversation.told.iter().flat_map(|(_, messages)| messages);
    inputs
        .flat_map(|it| &it.answers)
        .filter_map(|it| {
            let output = crate::attributes::unpacked(&it.output);
            Some((it.id.clone()?, output.unwrap_or_else(|| it.output.clone())))
        })
        .collect()
}

/// Returns the system and user messages of the first model request with messages.
fn input(conversation: &Conversation) -> Vec<Message> {
    let first = conversation.told.iter().find(|(_, messages)| !messages.is_empty());
    let messages = first.into_iter().flat_map(|(_, messages)| messages);
    let plain = messages.filter(|it| matches!(it.role, Role::System | Role::User));
    plain.filter_map(|it| Some(Message::new(it.role, it.text.clone()?))).collect()
}

/// Returns the output of the execution, and a description of unsupported parts.
///
/// The output is the first of these that is recorded:
///
/// 1. the texts of the mapped attribute in all spans, one per line;
/// 2. the last text, or else the whole output, of the last top-level agent;
/// 3. the last text of a model;
/// 4. the whole output of the last root span that has an output.
///
/// If the last model request succeeded but its answer is not recorded, 1 and 3 are skipped. They would give an earlier
/// answer.
///
/// The description names an unsupported part of the messages that gave 2 or 3; `None` if all parts are supported.
fn output(
    tree: &Tree<'_>,
    conversation: &Conversation,
    mapping: &SpanMapping,
) -> (String, Option<String>) {
    let last = last_answer(tree, conversation);
    let is_shown = last.is_none_or(|(step, messages)| {
        step.span.has_failed() || messages.iter().any(RecordedMessage::has_content)
    });
    let texts = tree.steps.iter().filter_map(|it| it.span.text(&mapping.output_text_attr));
    let texts: Vec<&str> = texts.filter(|it| !it.is_empty()).collect();
    if !texts.is_empty() && is_shown {
        return (texts.join("\n"), None);
    }
    let outermost = |at: usize| !tree.is_within(at, |it| it.kind == Kind::Agent);
    let agents = tree.of_kind(Kind::Agent).filter(|(at, _)| outermost(*at));
    let by_agent = agents.last().and_then(|(_, step)| {
        let messages = step::output(step.span, mapping);
        let unread = unsupported_part(step, &messages);
        let last_text = messages.into_iter().filter_map(|it| it.text).next_back();
        let last_text = last_text.map(|it| (it, unread));
        last_text.or_else(|| Some((step::whole_output(step.span)?.to_owned(), None)))
    });
    if let Some(output) = by_agent {
        return output;
    }
    let by_model = conversation.said.iter().flat_map(|(_, messages)| messages);
    let by_model = by_model.filter_map(|it| it.text.as_deref()).rfind(|it| !it.is_empty());
    if let Some(text) = by_model.filter(|_| is_shown) {
        return (
            text.to_owned(),
            last.and_then(|(step, messages)| unsupported_part(step, messages)),
        );
    }
    let by_root = tree.roots().into_iter().filter_map(step::whole_output).next_back();
    (by_root.unwrap_or_default().to_owned(), None)
}

/// Describes the first unsupported part of these messages.
///
/// Returns `None` if all parts are supported.
fn unsupported_part(step: &Step<'_>, messages: &[RecordedMessage]) -> Option<String> {
    let what = messages.iter().flat_map(|it| &it.not_understood).next()?;
    Some(format!("`{what}` at {} has an unsupported type", place(step)))
}

/// The maximum number of steps that are named for one type of unsupported part.
const PLACES: usize = 5;

/// Returns the name of a step for error messages.
fn place(step: &Step<'_>) -> String {
    format!("span `{}`", step.span.name)
}

/// Returns the last model request and its answer; `None` if the trace has no model request.
fn last_answer<'t, 's, 'c>(
    tree: &'t Tree<'s>,
    conversation: &'c Conversation,
) -> Option<(&'t Step<'s>, &'c [RecordedMessage])> {
    let (at, messages) = conversation.said.last()?;
    Some((tree.steps.get(*at)?, messages))
}

/// Returns the reason why the trace is incomplete, if the last model answer requests a tool that does not run.
///
/// Returns `None` for any other trace. Returns `None` too if the times are not reliable, because then the last model
/// request is unknown.
fn open_call(tree: &Tree<'_>, conversation: &Conversation, calls: &[Call]) -> Option<String> {
    let (at, messages) = conversation.said.last().filter(|_| tree.has_time)?;
    let step = tree.steps.get(*at)?;
    let asked: Vec<&RequestedCall> = messages.iter().flat_map(|it| &it.calls).collect();
    let begins_later =
        |it: usize| tree.steps.get(it).is_some_and(|it| it.span.start_ns >= step.span.start_ns);
    let name = &step.span.name;
    if asked.is_empty() {
        let asks = finish_reason(step.span, *at, conversation) == Some(FinishReason::ToolCalls);
        let is_followed = calls.iter().any(|it| it.has_span && begins_later(it.step));
        return (asks && !is_followed).then(|| {
            format!("the trace ends with `{name}`, which requests a tool, but no tool call follows")
        });
    }
    // Instrumentations may use different ids. But a span with the id of another requested call belongs to that call.
    let is_another = |it: &Call| asked.iter().any(|asked| asked.id.as_ref() == Some(&it.id));
    let runs = |it: &Call, name: &str| {
        it.has_span && it.name == name && begins_later(it.step) && !is_another(it)
    };
    let mut open = calls.iter().filter(|it| it.step == *at && !it.has_span && it.output.is_none());
    let open = open.find(|open| !calls.iter().any(|it| runs(it, &open.name)))?;
    let tool = &open.name;
    Some(format!(
        "the trace ends with `{name}`, which requests `{tool}`, but no call of it follows"
    ))
}

/// Returns true if a top-level agent or a root span succeeded and records its result.
///
/// In such a trace, a tool call at the end may be the structured answer, so no tool had to run.
///
/// A text is not a result if it names the call, or if the model wrote it in the message with the call.
fn shows_result(tree: &Tree<'_>, conversation: &Conversation) -> bool {
    let last = conversation.said.last().map_or(&[][..], |(_, messages)| messages);
    let calls = last.iter().flat_map(|it| &it.calls);
    let named: Vec<&String> = calls.flat_map(|it| it.id.iter().chain([&it.name])).collect();
    let is_result = |text: &str| {
        let is_said = last.iter().filter_map(|it| it.text.as_deref()).any(|it| it == text);
        !text.trim().is_empty() && !is_said && !named.iter().any(|it| text.contains(it.as_str()))
    };
    let agents = tree
        .of_kind(Kind::Agent)
        .filter(|(at, _)| !tree.is_within(*at, |it| it.kind == Kind::Agent));
    agents.map(|(_, step)| step.span).chain(tree.roots()).any(|it| {
        let has_ended = it.end_ns.is_some() && it.status_code != 2;
        has_ended && step::whole_output(it).is_some_and(is_result)
    })
}

/// Adds the user message and the answer of an agent span or root span if no model request records them.
fn frame(tree: &Tree<'_>, events: &mut Vec<Event>, output: &str, mapping: &SpanMapping) {
    use kindlm_types::Speaker;
    let has = |wanted: Speaker| {
        let is = |it: &Event| matches!(it, Event::Message { role, .. } if *role == wanted);
        events.iter().any(is)
    };
    let (has_user, has_answer) = (has(Speaker::User), has(Speaker::Assistant));
    if !has_user {
        let first = tree.of_kind(Kind::Agent).next().map(|(_, step)| step.span);
        let span = first.or_else(|| tree.roots().first().copied());
        let messages = span.map(step::input).unwrap_or_default();
        let message =
            messages.into_iter().filter(|it| it.role == Role::User).find_map(|it| it.text);
        let text = message.or_else(|| span.and_then(step::whole_input).map(str::to_owned));
        if let Some(text) = text {
            events.insert(0, Event::Message { role: Speaker::User, text });
        }
    }
    let maps = |it: &OtlpSpan| it.attributes.contains_key(&mapping.output_text_attr);
    if !has_answer && !output.is_empty() && !tree.steps.iter().any(|it| maps(it.span)) {
        events.push(Event::Message { role: Speaker::Assistant, text: output.to_owned() });
    }
}

/// Returns the tool calls in the order of their events.
fn in_order(events: &[Event], calls: &[Call]) -> Vec<ToolCall> {
    let mut left: HashMap<(&str, &str), VecDeque<&Call>> = HashMap::new();
    for call in calls {
        left.entry((&call.id, &call.name)).or_default().push_back(call);
    }
    let called = events.iter().filter_map(|it| match it {
        Event::ActionCalled { call_id, name, .. } => Some((call_id.as_str(), name.as_str())),
        _ => None,
    });
    called
        .filter_map(|key| left.get_mut(&key)?.pop_front())
        .map(|call| ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            malformed_arguments: call.malformed.clone(),
            response: call.output.clone(),
        })
        .collect()
}

fn requests(tree: &Tree<'_>) -> u32 {
    let requests = tree.of_kind(Kind::Inference).count();
    // A trace of an agent without model spans implies at least one request.
    u32::try_from(requests).unwrap_or(u32::MAX).max(u32::from(shows_agent(tree)))
}

/// Returns true if a span is a model request, a tool call or an agent's work.
fn shows_agent(tree: &Tree<'_>) -> bool {
    tree.steps.iter().any(|it| it.kind != Kind::Other)
}

/// Returns the sum of the recorded usage.
///
/// The sum is incomplete if a successful model span has no usage, while another model span records usage.
fn usage(tree: &Tree<'_>) -> Usage {
    let models_record_usage = tree.of_kind(Kind::Inference).any(|(_, it)| it.usage.is_some());
    let mut sum = UsageSum::default();
    for it in &tree.steps {
        let is_uncounted =
            it.kind == Kind::Inference && models_record_usage && !it.span.has_failed();
        if let Some(usage) = it.usage.or(is_uncounted.then(Usage::default)) {
            sum.add(usage);
        }
    }
    sum.total()
}

/// Returns the sum of the durations of the root spans.
///
/// Returns `None` without root spans, if the times are not reliable, or if a duration is unknown.
fn latency(tree: &Tree<'_>) -> Option<f64> {
    let durations: Option<Vec<i64>> = tree.roots().into_iter().map(OtlpSpan::duration_ms).collect();
    let durations = durations.filter(|it| !it.is_empty() && tree.has_time)?;
    #[expect(clippy::cast_precision_loss, reason = "durations are far below 2^52 ms")]
    let sum = durations.into_iter().fold(0_i64, i64::saturating_add) as f64;
    Some(sum)
}

/// Returns the longest time to the first token of the model requests, in milliseconds.
///
/// Returns `None` without model requests, or if one of them does not record the time.
fn first_token(tree: &Tree<'_>) -> Option<f64> {
    let times = tree.of_kind(Kind::Inference).map(|(_, it)| step::first_token_ms(it.span));
    let times: Option<Vec<f64>> = times.collect();
    times?.into_iter().reduce(f64::max)
}

fn finish_reason(span: &OtlpSpan, at: usize, conversation: &Conversation) -> Option<FinishReason> {
    let answer = conversation.said.iter().find(|(it, _)| *it == at);
    // A refusal takes precedence over the model's finish reason.
    if answer.is_some_and(|(_, messages)| messages.iter().any(|it| it.is_refusal)) {
        return Some(FinishReason::Refusal);
    }
    let by_message = || answer?.1.iter().rev().find_map(|it| it.finish_reason.clone());
    let word = step::finish_reason(span).or_else(by_message)?;
    Some(FinishReason::of_vendor(&word))
}

fn inferences(tree: &Tree<'_>, mapping: &SpanMapping) -> Vec<Inference> {
    let counted = tree.steps.iter().filter_map(|it| Some((it.span, it.usage?)));
    counted
        .map(|(span, usage)| Inference {
            vendor: step::vendor(span, mapping).map(str::to_owned),
            models: step::models(span, mapping),
            usage,
        })
        .collect()
}

/// Returns the unsupported parts of the answers of the models, by type.
fn unsupported(tree: &Tree<'_>, conversation: &Conversation) -> Vec<UnsupportedPart> {
    let mut unknown: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (at, messages) in &conversation.said {
        for what in messages.iter().flat_map(|it| &it.not_understood) {
            let places = unknown.entry(what).or_default();
            if let Some(step) = tree.steps.get(*at).filter(|_| places.len() < PLACES) {
                places.push(place(step));
            }
        }
    }
    unknown.into_iter().map(|(kind, places)| UnsupportedPart::new(kind, places)).collect()
}

/// Returns the metadata of the evidence, which reports show.
fn metadata(
    kept: &[&OtlpSpan],
    unsupported: &[UnsupportedPart],
    left_out: usize,
    mapping: &SpanMapping,
) -> Map<String, Value> {
    let mut metadata = Map::new();
    UnsupportedPart::add_to_metadata(unsupported, &mut metadata);
    let mut put = |key: &str, value: Value| metadata.insert(key.to_owned(), value);
    let distinct = |values: &mut dyn Iterator<Item = &str>| {
        let mut seen = HashSet::new();
        let values: Vec<&str> = values.filter(|it| seen.insert(it.to_owned())).collect();
        (!values.is_empty()).then(|| json!(values))
    };
    if let Some(ids) = distinct(&mut kept.iter().map(|it| it.trace_id.as_str())) {
        put("traceIds", ids);
    }
    put("spans", json!(kept.len()));
    if left_out > 0 {
        put("spansLeftOut", json!(left_out));
    }
    if let Some(models) = distinct(&mut kept.iter().filter_map(|it| step::model(it, mapping))) {
        put("models", models);
    }
    if let Some(vendors) = distinct(&mut kept.iter().filter_map(|it| step::vendor(it, mapping))) {
        put("providers", vendors);
    }
    let service = kept.iter().filter_map(|it| it.resource.get("service.name")?.as_str());
    if let Some(services) = distinct(&mut { service }) {
        put("services", services);
    }
    metadata
}

/// Returns the trace for scripts and for trace checks.
fn trace(kept: &[&OtlpSpan]) -> Trace {
    let resource = kept.first().map(|it| &*it.resource).filter(|it| !it.is_empty());
    let metadata = resource.map(|it| {
        let mut metadata = Map::new();
        metadata.insert("resource".to_owned(), Value::Object(it.clone()));
        metadata
    });
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are below 2^52")]
    let ms = |ns: u64| ns as f64 / 1e6;
    let span = |it: &&OtlpSpan| Span {
        span_id: it.span_id.clone(),
        parent_span_id: it.parent_span_id.clone(),
        name: it.name.clone(),
        start_time: ms(it.start_ns),
        // Without a start time, the duration is unknown.
        end_time: it.end_ns.filter(|_| it.start_ns > 0).map(ms),
        attributes: (!it.attributes.is_empty()).then(|| it.attributes.clone()),
        status_code: (it.status_code != 0).then_some(it.status_code),
        status_message: it.status_message.clone(),
    };
    Trace {
        trace_id: kept.first().map(|it| it.trace_id.clone()),
        metadata,
        spans: kept.iter().map(span).collect(),
        ..Trace::default()
    }
}
