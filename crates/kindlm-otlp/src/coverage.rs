//! Determines the kinds of evidence for which a trace is complete.
//!
//! A check can assert that an event is absent only if the event would have been recorded. Many instrumentations do not
//! record conversation texts by default, and spans may be lost. This module looks for signs of both cases.

use std::collections::HashSet;

use kindlm_types::{Channel, Coverage, Event, SpanMapping};

use crate::calls::Call;
use crate::message::RecordedMessage;
use crate::span::OtlpSpan;
use crate::step::{self, Kind};
use crate::timeline::Conversation;
use crate::tree::{Step, Tree};

/// Returns the reasons why the spans are incomplete, as text.
pub(crate) fn gaps(spans: &[OtlpSpan]) -> Vec<String> {
    let lost: Vec<&OtlpSpan> = orphans(spans).collect();
    let mut gaps = Vec::new();
    if let Some(orphan) = lost.first() {
        let lost = lost.len();
        gaps.push(format!(
            "the parent span of `{}` is missing (spans without their parent: {lost} of {})",
            orphan.name,
            spans.len()
        ));
    }
    if let Some(cut) = spans.iter().find(|it| it.is_cut) {
        gaps.push(format!("`{}` has lost attributes or events on its way", cut.name));
    }
    if let Some(event) = spans.iter().find_map(|it| it.lost_event.as_deref()) {
        gaps.push(format!("the span of a log event `{event}` is missing"));
    }
    if let Some(it) = spans.iter().find(|it| it.is_disputed) {
        let (name, id) = (&it.name, &it.span_id);
        gaps.push(format!("`{name}` is one of several spans of the id {id} that have different content; give each span its own id"));
    }
    // A span is usually sent only after its end, so a span without an end was sent early.
    if let Some(open) = spans.iter().find(|it| it.end_ns.is_none()) {
        gaps.push(format!("`{}` has no end time: the span was still running", open.name));
    }
    if spans.iter().any(step::is_nameless_tool) {
        gaps.push("a span `execute_tool` does not name its tool (`gen_ai.tool.name`)".to_owned());
    }
    gaps
}

/// Returns the spans whose parent span is missing, except for spans with a parent in another process.
fn orphans(spans: &[OtlpSpan]) -> impl Iterator<Item = &OtlpSpan> {
    let ids: HashSet<(&str, &str)> =
        spans.iter().map(|it| (it.trace_id.as_str(), it.span_id.as_str())).collect();
    spans.iter().filter(move |it| {
        let parent = it.parent_span_id.as_deref();
        let here = parent.is_none_or(|id| ids.contains(&(it.trace_id.as_str(), id)));
        !here && !it.parent_is_remote
    })
}

/// Returns true if the parent span of a span is missing, except for a parent in another process.
///
/// With such a span, the start and the end of the trace are unknown.
pub(crate) fn has_orphans(spans: &[OtlpSpan]) -> bool {
    orphans(spans).next().is_some()
}

/// The data from which the coverage is computed.
pub(crate) struct Shown<'t, 's> {
    pub(crate) tree: &'t Tree<'s>,
    pub(crate) conversation: &'t Conversation,
    pub(crate) calls: &'t [Call],
    /// The spans that the filter excludes.
    pub(crate) left_out: &'t [&'s OtlpSpan],
    /// False if the trace is known to be incomplete, for example because a span or a requested tool call is missing.
    pub(crate) is_whole: bool,
}

impl Shown<'_, '_> {
    /// Returns the kinds of evidence for which the trace is complete.
    pub(crate) fn coverage(&self, events: &[Event], mapping: &SpanMapping) -> Coverage {
        let answers = &self.conversation.said;
        // An unsupported part may contain any evidence.
        let is_understood = |it: &RecordedMessage| it.not_understood.is_empty();
        if !self.is_whole || !answers.iter().flat_map(|(_, it)| it).all(is_understood) {
            return Coverage::default().losing(Channel::ALL);
        }
        let left_out = |kind: Kind| self.left_out.iter().any(|it| step::kind(it, mapping) == kind);
        // A completely recorded answer also contains the tool calls that it requests.
        let shows_answers = !answers.is_empty()
            && answers
                .iter()
                .all(|(_, messages)| messages.iter().any(RecordedMessage::has_content))
            && !left_out(Kind::Inference);
        let counts = |at: usize| {
            let is_whole = |it: &Step<'_>| it.usage.is_some_and(|it| it.is_whole());
            self.tree.steps.get(at).is_some_and(is_whole) || self.tree.is_within(at, is_whole)
        };
        let shows_usage = !answers.is_empty()
            && answers.iter().all(|(at, _)| counts(*at))
            && !left_out(Kind::Inference);
        let agents = self.tree.of_kind(Kind::Agent).next().is_some() && !left_out(Kind::Agent);
        let thinks = events.iter().any(|it| matches!(it, Event::Thinking { .. }));
        // An instrumentation that records one call is assumed to record all calls.
        let shows_calls = shows_answers || !self.calls.is_empty();
        let channels = [
            (shows_answers, Channel::Messages),
            (shows_calls && !left_out(Kind::Tool), Channel::Actions),
            (shows_usage, Channel::Usage),
            (agents, Channel::Subagents),
            (thinks, Channel::Thinking),
            // Every span has a status, but only spans of the agent are evidence about the agent.
            (self.tree.steps.iter().any(|it| it.kind != Kind::Other), Channel::Errors),
        ];
        channels.into_iter().filter(|(is, _)| *is).map(|(_, channel)| channel).collect()
    }
}
