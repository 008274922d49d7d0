//! Groups received spans by trace.

use std::collections::HashMap;

use crate::span::{Decoded, LooseEvent, OtlpSpan};

/// The maximum number of spans of a [`Received`]. It is also the maximum number of events that arrive in log records,
/// separately from their spans. A run of an agent usually has hundreds of spans.
pub const MAX_SPANS: usize = 100_000;

/// The received spans and events.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// The ids of the traces, in order of first arrival.
    order: Vec<String>,
    traces: HashMap<String, Vec<OtlpSpan>>,
    /// The position of each span in its trace, by trace id and span id. A repeated span has only its first position.
    known: HashMap<(String, String), usize>,
    events: Vec<LooseEvent>,
}

impl Received {
    /// Adds the spans and events of a request or a file.
    ///
    /// Returns one message for each rejected span or event. A span that arrives again is not added. If the new content
    /// differs, the first span is marked as [disputed](OtlpSpan::is_disputed).
    pub fn add(&mut self, decoded: Decoded) -> Vec<String> {
        let Decoded { spans, events, mut rejected, .. } = decoded;
        for span in spans {
            let key = (span.trace_id.clone(), span.span_id.clone());
            if let Some(at) = self.known.get(&key) {
                let first = self.traces.get_mut(&span.trace_id).and_then(|it| it.get_mut(*at));
                if let Some(first) = first {
                    let is_disputed = first.is_disputed;
                    first.is_disputed |= *first != OtlpSpan { is_disputed, ..span };
                }
                continue;
            }
            if self.known.len() >= MAX_SPANS {
                rejected.push(format!("rejected: the limit of {MAX_SPANS} spans is reached"));
                continue;
            }
            if !self.traces.contains_key(&span.trace_id) {
                self.order.push(span.trace_id.clone());
            }
            let trace = self.traces.entry(span.trace_id.clone()).or_default();
            self.known.insert(key, trace.len());
            trace.push(span);
        }
        for event in events {
            if self.events.len() >= MAX_SPANS {
                rejected.push(format!("rejected: the limit of {MAX_SPANS} events is reached"));
            } else {
                self.events.push(event);
            }
        }
        rejected
    }

    /// Returns the number of spans.
    pub fn spans(&self) -> usize {
        self.known.len()
    }

    /// Returns the number of spans whose id was received with different contents.
    pub fn disputed_spans(&self) -> usize {
        self.traces.values().flatten().filter(|it| it.is_disputed).count()
    }

    /// Returns the number of traces.
    pub fn traces(&self) -> usize {
        self.order.len()
    }

    /// Returns the number of traces whose root span, or a span with a remote parent, has arrived.
    ///
    /// A span is sent when it ends, and a root span ends last. So these traces are usually complete.
    pub fn finished_traces(&self) -> usize {
        let has_root = |spans: &&Vec<OtlpSpan>| spans.iter().any(OtlpSpan::is_root);
        self.traces.values().filter(has_root).count()
    }

    /// Returns the spans of each trace in order of arrival.
    ///
    /// Events that arrived separately are added to their spans. If the span of an event did not arrive, the first span
    /// of the trace has the name of the event in [`OtlpSpan::lost_event`].
    pub fn into_traces(mut self) -> Vec<Vec<OtlpSpan>> {
        let mut events: HashMap<(String, String), Vec<_>> = HashMap::new();
        for LooseEvent { trace_id, span_id, event } in self.events {
            events.entry((trace_id, span_id)).or_default().push(event);
        }
        let mut traces: Vec<Vec<OtlpSpan>> =
            self.order.iter().filter_map(|id| self.traces.remove(id)).collect();
        for span in traces.iter_mut().flatten() {
            if let Some(more) = events.remove(&(span.trace_id.clone(), span.span_id.clone())) {
                span.events.extend(more);
                span.events.sort_by_key(|it| it.time_ns);
            }
        }
        // Several events may lack their span. The alphabetically first name is kept, so that the message does not
        // depend on the order of the hash map.
        let mut lost: HashMap<String, String> = HashMap::new();
        for ((trace_id, _), events) in events {
            for event in events {
                let name = lost.entry(trace_id.clone()).or_insert_with(|| event.name.clone());
                if event.name < *name {
                    *name = event.name;
                }
            }
        }
        for first in traces.iter_mut().filter_map(|it| it.first_mut()) {
            first.lost_event = lost.remove(&first.trace_id);
        }
        traces
    }
}
