//! The tree of the spans that pass the filter. Each span is a step.

use std::collections::{HashMap, HashSet};

use kindlm_types::{SpanMapping, Usage};

use crate::span::OtlpSpan;
use crate::step::{self, Kind};

/// The maximum number of ancestors of a span that are searched.
///
/// Without a limit, parent ids that form a cycle would cause an endless loop.
const MAX_CLIMB: usize = 256;

/// A span that passes the filter.
#[derive(Clone, Debug)]
pub(crate) struct Step<'s> {
    pub(crate) span: &'s OtlpSpan,
    pub(crate) kind: Kind,
    /// The tokens that this span records; `None` if it records none, or if they are counted at another span.
    pub(crate) usage: Option<Usage>,
}

/// The spans of one execution.
pub(crate) struct Tree<'s> {
    /// The steps in order of arrival.
    pub(crate) steps: Vec<Step<'s>>,
    /// The nearest ancestor step of each step, if any. Excluded spans between them are skipped.
    parents: Vec<Option<usize>>,
    /// The steps ordered by their starts, or by arrival if the times are not reliable.
    in_time: Vec<usize>,
    /// True for each step whose ancestors up to a root span have all arrived.
    is_rooted: Vec<bool>,
    /// True if the times are reliable: no span ended before it started.
    pub(crate) has_time: bool,
}

impl<'s> Tree<'s> {
    /// Builds the tree of the selected spans.
    ///
    /// Ancestors are searched in `all` spans. So an excluded span does not separate its descendants from its ancestors.
    pub(crate) fn new(all: &'s [OtlpSpan], spans: &[&'s OtlpSpan], mapping: &SpanMapping) -> Self {
        let ids: HashMap<(&str, &str), &OtlpSpan> =
            all.iter().map(|it| ((it.trace_id.as_str(), it.span_id.as_str()), it)).collect();
        let steps: HashMap<(&str, &str), usize> = spans
            .iter()
            .enumerate()
            .map(|(at, it)| ((it.trace_id.as_str(), it.span_id.as_str()), at))
            .collect();
        let key = |it: &&'s OtlpSpan| Some((it.trace_id.as_str(), it.parent_span_id.as_deref()?));
        let above = |it: &&'s OtlpSpan| key(it).and_then(|it| ids.get(&it)).copied();
        let chain = |it: &'s OtlpSpan| std::iter::successors(Some(it), above).take(MAX_CLIMB);
        let parent = |it: &&'s OtlpSpan| {
            chain(it).filter_map(|it| key(&it)).find_map(|it| steps.get(&it).copied())
        };
        let parents: Vec<Option<usize>> = spans.iter().map(parent).collect();
        let is_rooted = |it: &&'s OtlpSpan| chain(it).any(|it| it.parent_span_id.is_none());
        let is_rooted = spans.iter().map(is_rooted).collect();
        let step = |it: &&'s OtlpSpan| Step {
            span: it,
            kind: step::kind(it, mapping),
            usage: step::usage(it, mapping),
        };
        let steps = spans.iter().map(step).collect();
        let has_time = !spans.iter().any(|it| it.is_backwards());
        let mut in_time: Vec<usize> = (0..spans.len()).collect();
        if has_time {
            // On equal start times, the outer span comes first.
            let depth = |at: usize| climb(&parents, at).count();
            let keys: Vec<(u64, usize)> =
                spans.iter().enumerate().map(|(at, it)| (it.start_ns, depth(at))).collect();
            in_time.sort_by_key(|at| keys.get(*at).copied());
        }
        let mut tree = Self { steps, parents, in_time, is_rooted, has_time };
        tree.count_once();
        tree
    }

    /// Ensures that data which several nested spans record counts only once.
    ///
    /// For example, a wrapper and the library inside it may both record a model request. The data of the inner span
    /// counts.
    ///
    /// For tokens, the outer span counts instead if its tokens are complete, and the tokens of an inner span are not.
    fn count_once(&mut self) {
        let around = |inner: HashSet<usize>| -> HashSet<usize> {
            inner.into_iter().flat_map(|at| self.ancestors(at)).collect()
        };
        let all = |is: fn(&Step<'_>) -> bool| -> HashSet<usize> {
            (0..self.steps.len()).filter(|at| self.steps.get(*at).is_some_and(is)).collect()
        };
        let partial = all(|it| it.usage.is_some_and(|it| !it.is_whole()));
        let complete = all(|it| it.usage.is_some_and(|it| it.is_whole()));
        // These are the innermost spans with complete usage around a span with incomplete usage.
        let mut outer: HashSet<usize> = HashSet::new();
        for at in partial {
            outer.extend(self.ancestors(at).find(|it| complete.contains(it)));
        }
        let around_outer = around(outer.clone());
        outer.retain(|it| !around_outer.contains(it));
        let is_inside = |at: usize| self.ancestors(at).any(|it| outer.contains(&it));
        let inside: HashSet<usize> = (0..self.steps.len()).filter(|at| is_inside(*at)).collect();
        let counted = all(|it| it.usage.is_some()).difference(&inside).copied().collect();
        let around_usage = around(counted);
        let around_inference = around(all(|it| it.kind == Kind::Inference));
        for (at, step) in self.steps.iter_mut().enumerate() {
            if around_usage.contains(&at) || inside.contains(&at) {
                step.usage = None;
            }
            if step.kind == Kind::Inference && around_inference.contains(&at) {
                step.kind = Kind::Other;
            }
        }
    }

    /// Returns the ancestors of a step, from the nearest to the root.
    pub(crate) fn ancestors(&self, at: usize) -> impl Iterator<Item = usize> {
        climb(&self.parents, at)
    }

    /// Returns the steps in the order of their starts.
    ///
    /// If the times are not reliable, the order is the order of arrival.
    pub(crate) fn in_time(&self) -> impl Iterator<Item = usize> {
        self.in_time.iter().copied()
    }

    /// Returns the steps of a kind, ordered by their starts.
    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (usize, &Step<'s>)> {
        self.in_time().filter_map(move |at| {
            let step = self.steps.get(at)?;
            (step.kind == kind).then_some((at, step))
        })
    }

    /// Returns true if an ancestor of the step meets the condition.
    pub(crate) fn is_within(&self, at: usize, is: impl Fn(&Step<'_>) -> bool) -> bool {
        self.ancestors(at).filter_map(|it| self.steps.get(it)).any(is)
    }

    /// Returns the root spans.
    ///
    /// A span below a missing span only counts as a root if there are no other roots.
    pub(crate) fn roots(&self) -> Vec<&'s OtlpSpan> {
        let alone = || {
            let steps = self.steps.iter().zip(&self.parents).zip(&self.is_rooted);
            steps.filter(|((_, parent), _)| parent.is_none()).map(|((it, _), rooted)| (it, *rooted))
        };
        let any_rooted = alone().any(|(_, is_rooted)| is_rooted);
        alone().filter(|(_, it)| *it || !any_rooted).map(|(it, _)| it.span).collect()
    }
}

/// Returns the ancestors of a position, from the nearest to the root.
fn climb(parents: &[Option<usize>], at: usize) -> impl Iterator<Item = usize> {
    let above = |at: &usize| parents.get(*at).copied().flatten();
    std::iter::successors(above(&at), above).take(MAX_CLIMB)
}
