//! The spans that count, what each stands for, and how they stand to each other.

use std::collections::{HashMap, HashSet};

use kindlm_types::{SpanMapping, Usage};

use crate::span::OtlpSpan;
use crate::step::{self, Kind};

/// How far ancestors are looked for: traces may be made so that they never end.
const MAX_CLIMB: usize = 256;

/// One span that counts.
#[derive(Clone, Debug)]
pub(crate) struct Step<'s> {
    pub(crate) span: &'s OtlpSpan,
    pub(crate) kind: Kind,
    /// Tokens that this span tells of, and no other inside it.
    pub(crate) usage: Option<Usage>,
}

/// The spans of one execution.
pub(crate) struct Tree<'s> {
    /// In the order in which they came.
    pub(crate) steps: Vec<Step<'s>>,
    /// The step above each; `None` where it is not among them.
    parents: Vec<Option<usize>>,
    /// Whether times can be gone by: no span ended before it began.
    pub(crate) has_time: bool,
}

impl<'s> Tree<'s> {
    pub(crate) fn new(spans: &[&'s OtlpSpan], mapping: &SpanMapping) -> Self {
        let key = |it: &OtlpSpan, id: &str| (it.trace_id.clone(), id.to_owned());
        let ids: HashMap<(String, String), usize> =
            spans.iter().enumerate().map(|(at, it)| (key(it, &it.span_id), at)).collect();
        let parent = |it: &&OtlpSpan| {
            let id = it.parent_span_id.as_deref()?;
            ids.get(&key(it, id)).copied()
        };
        let parents: Vec<Option<usize>> = spans.iter().map(parent).collect();
        let step = |it: &&'s OtlpSpan| Step {
            span: it,
            kind: step::kind(it, mapping),
            usage: step::usage(it, mapping),
        };
        let steps = spans.iter().map(step).collect();
        let has_time = !spans.iter().any(|it| it.is_backwards());
        let mut tree = Self { steps, parents, has_time };
        tree.count_once();
        tree
    }

    /// What is told by a span and by others inside it, as frames around instrumented libraries do, is told once: by the
    /// inner ones.
    fn count_once(&mut self) {
        let frames = |is: fn(&Step<'_>) -> bool| -> HashSet<usize> {
            let inner = (0..self.steps.len()).filter(|at| self.steps.get(*at).is_some_and(is));
            inner.flat_map(|at| self.ancestors(at)).collect()
        };
        let around_usage = frames(|it| it.usage.is_some());
        let around_inference = frames(|it| it.kind == Kind::Inference);
        for (at, step) in self.steps.iter_mut().enumerate() {
            if around_usage.contains(&at) {
                step.usage = None;
            }
            if step.kind == Kind::Inference && around_inference.contains(&at) {
                step.kind = Kind::Other;
            }
        }
    }

    /// The positions of the steps above this one, from the inside out.
    pub(crate) fn ancestors(&self, at: usize) -> Vec<usize> {
        let above = |at: &usize| self.parents.get(*at).copied().flatten();
        std::iter::successors(above(&at), above).take(MAX_CLIMB).collect()
    }

    /// The positions of the steps in the order in which they began; as they came, where times cannot be gone by.
    pub(crate) fn in_time(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.steps.len()).collect();
        if self.has_time {
            // A frame begins with its first step.
            let depths: Vec<usize> = order.iter().map(|at| self.ancestors(*at).len()).collect();
            let start = |at: usize| self.steps.get(at).map_or(0, |it| it.span.start_ns);
            order.sort_by_key(|at| (start(*at), depths.get(*at).copied()));
        }
        order
    }

    /// The steps of a kind, in the order in which they began.
    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (usize, &Step<'s>)> {
        let order = self.in_time();
        order.into_iter().filter_map(move |at| {
            let step = self.steps.get(at)?;
            (step.kind == kind).then_some((at, step))
        })
    }

    /// Whether a step of this kind is above.
    pub(crate) fn is_within(&self, at: usize, is: impl Fn(&Step<'_>) -> bool) -> bool {
        self.ancestors(at).into_iter().filter_map(|it| self.steps.get(it)).any(is)
    }

    /// The outermost steps: those without a parent or, where the one at the top has not come, without one that has.
    pub(crate) fn roots(&self) -> Vec<&'s OtlpSpan> {
        let spans = || self.steps.iter().map(|it| it.span);
        let roots: Vec<&OtlpSpan> = spans().filter(|it| it.parent_span_id.is_none()).collect();
        if !roots.is_empty() {
            return roots;
        }
        let alone = spans().zip(&self.parents).filter(|(_, parent)| parent.is_none());
        alone.map(|(span, _)| span).collect()
    }
}
