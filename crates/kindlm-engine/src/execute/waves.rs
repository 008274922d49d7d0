//! Carries out the repeats of cases that may end early, in waves.
//!
//! A wave is a group of repeats of one case that are carried out at the same time. After each wave, the rule of the
//! case decides if further repeats are necessary. A course is the series of the waves of one case.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use futures_util::{Stream, StreamExt, stream};
use kindlm_types::{ExecutionError, ExecutionResult, Outcome};
use tokio::sync::Semaphore;

use super::collect::Groups;
use super::rounds::Ended;
use super::{Gathering, Run, Running};
use crate::until::Ending;
use crate::{Plan, Suite};

/// The repeats of one case that may end early.
pub(super) struct Course {
    ending: Ending,
    /// The position of the first repeat in the plan.
    start: usize,
    /// The outcomes of the repeats, in their order; `None` for repeats that are not carried out yet.
    outcomes: Vec<Option<Outcome>>,
    /// The repeats that only need to be judged.
    unjudged: Vec<usize>,
    /// True if the run was stopped, or a result could not be loaded.
    is_cut_short: bool,
}

/// The cases of a run that may end their repeats early.
pub(super) struct Courses {
    /// The courses, by the positions of their cases.
    all: BTreeMap<usize, Course>,
    groups: Groups,
}

/// Returns the courses of a plan.
pub(super) fn courses(suite: &Suite, plan: &Plan, groups: &Groups) -> Courses {
    let course = |position: usize| {
        let units = groups.units(position);
        let case = suite.cases.get(plan.units.get(units.start)?.case)?;
        // A single repeat is never unnecessary.
        let ending = plan.ending(case, units.len()).filter(|_| units.len() > 1)?;
        Some((
            position,
            Course {
                ending,
                start: units.start,
                outcomes: Vec::new(),
                unjudged: Vec::new(),
                is_cut_short: false,
            },
        ))
    };
    Courses { all: (0..groups.len()).filter_map(course).collect(), groups: groups.clone() }
}

impl Courses {
    /// Returns true if the execution at this position of the plan belongs to a course.
    pub(super) fn has(&self, at: usize) -> bool {
        !self.all.is_empty() && self.all.contains_key(&self.groups.position(at))
    }

    /// Adds a result of an earlier process. Returns true if the result is final, so that it can be counted.
    pub(super) fn recalled(&mut self, at: usize, result: &ExecutionResult) -> bool {
        let is_final = !result.is_unjudged();
        if let Some(course) = self.all.get_mut(&self.groups.position(at)) {
            if is_final {
                course.set(at, result.outcome);
            } else {
                course.reach(at);
                course.unjudged.push(at);
            }
        }
        is_final
    }

    /// Ends the course of a stored execution that cannot be loaded.
    pub(super) fn lost(&mut self, at: usize) {
        if let Some(course) = self.all.get_mut(&self.groups.position(at)) {
            course.set(at, Outcome::Errored);
            course.is_cut_short = true;
        }
    }

    /// Returns the courses in queues: one queue for each model if the ports limit their calls, otherwise a single
    /// queue.
    pub(super) fn in_queues(self, run: Run<'_>) -> Vec<Vec<Course>> {
        let is_by_model = run.ports.models.limits_calls();
        let mut queues: BTreeMap<Option<usize>, Vec<Course>> = BTreeMap::new();
        for course in self.all.into_values() {
            let model = run.plan.units.get(course.start).and_then(|it| it.model);
            queues.entry(model.filter(|_| is_by_model)).or_default().push(course);
        }
        queues.into_values().collect()
    }
}

impl Course {
    /// Sets the outcome of the repeat at this position of the plan.
    fn set(&mut self, at: usize, outcome: Outcome) {
        self.reach(at);
        if let Some(slot) = self.outcomes.get_mut(at - self.start) {
            *slot = Some(outcome);
        }
    }

    /// Makes room for the repeat at this position of the plan.
    fn reach(&mut self, at: usize) {
        let needed = at - self.start + 1;
        if self.outcomes.len() < needed {
            self.outcomes.resize(needed, None);
        }
    }

    /// Returns the plan positions of the repeats to carry out next; empty if the case has ended.
    ///
    /// Repeats that an earlier process has started are finished first, so that no result is left out.
    fn next(&self, most: usize) -> Vec<usize> {
        if self.is_cut_short {
            return Vec::new();
        }
        let started = self.outcomes.iter().enumerate().filter(|(_, it)| it.is_none());
        let started: Vec<usize> = started.map(|(at, _)| self.start + at).take(most).collect();
        if !started.is_empty() {
            return started;
        }
        let outcomes: Vec<Outcome> = self.outcomes.iter().flatten().copied().collect();
        let from = self.start + outcomes.len();
        (from..from + self.ending.next(&outcomes, most)).collect()
    }
}

impl<'a> Running<'a> {
    /// Carries out the repeats of courses. Each item of the stream is a wave of one case.
    ///
    /// At most `concurrency` repeats of a queue are carried out at the same time.
    pub(super) fn waves<'r>(
        &'r self,
        queues: Vec<Vec<Course>>,
        concurrency: usize,
        gathering: &'r Gathering,
    ) -> impl Stream<Item = Vec<(usize, Ended)>> + Unpin + use<'r, 'a> {
        stream::select_all(queues.into_iter().map(|queue| {
            let limit =
                std::sync::Arc::new(Semaphore::new(concurrency.min(Semaphore::MAX_PERMITS)));
            stream::iter(queue)
                .map(move |course| {
                    let limit = std::sync::Arc::clone(&limit);
                    let waves = stream::unfold(Some(course), move |course| {
                        let limit = std::sync::Arc::clone(&limit);
                        async move { self.wave(course?, concurrency, (&limit, gathering)).await }
                    });
                    Box::pin(waves)
                })
                .flatten_unordered(concurrency)
        }))
    }

    /// Carries out the next wave of a course. Returns the results of the wave, and the course if it continues.
    async fn wave(
        &self,
        mut course: Course,
        concurrency: usize,
        (limit, gathering): (&Semaphore, &Gathering),
    ) -> Option<(Vec<(usize, Ended)>, Option<Course>)> {
        let wave = course.next(concurrency);
        if wave.is_empty() {
            // `Unnecessary` completes a case whose repeats end early. It has no effect on a case that is already
            // complete.
            return Some((vec![(course.start, Ended::Unnecessary)], None));
        }
        let repeat = |at: usize| {
            let is_unjudged = course.unjudged.contains(&at);
            async move {
                // The semaphore is never closed.
                let _permit = limit.acquire().await.ok();
                gathering.over().await;
                let unit = self.run.plan.units.get(at).copied();
                let ended = match unit {
                    None => Ended::New(super::errored_at(self.run.suite, at).into()),
                    Some(unit) if is_unjudged => self.unit_again(at, unit).await,
                    Some(unit) => Ended::New(self.unit(unit, None).await.result),
                };
                (at, ended)
            }
        };
        let ended = join_all(wave.into_iter().map(repeat)).await;
        for (at, ended) in &ended {
            match ended {
                Ended::New(result) | Ended::Kept(result) => {
                    course.set(*at, result.outcome);
                    let is_not_run = matches!(result.error, Some(ExecutionError::NotRun { .. }));
                    course.is_cut_short |= is_not_run;
                }
                Ended::Lost(_) | Ended::Unnecessary => course.is_cut_short = true,
            }
        }
        Some((ended, Some(course)))
    }
}
