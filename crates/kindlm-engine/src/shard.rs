//! Shards: divides a plan between machines.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::str::FromStr;

use kindlm_types::{CaseError, CaseSource, Report, ShardInfo};

use crate::{Comparison, Digest, Part, Plan, RunOptions, Suite, Unit};

/// The maximum number of shards.
const MOST: u32 = 10_000;

/// One of several shards of a run, written `K/N`.
///
/// ```
/// use kindlm_engine::Shard;
///
/// assert_eq!("2/3".parse(), Ok(Shard::new(2, 3)));
/// assert!("0/3".parse::<Shard>().is_err() && "4/3".parse::<Shard>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shard {
    /// The number of the shard, from 1.
    pub index: u32,
    /// The number of shards.
    pub count: u32,
}

impl Shard {
    /// Creates the shard with this number, from 1 to `count`.
    pub const fn new(index: u32, count: u32) -> Self {
        Self { index, count }
    }
}

/// The error for a text that is not a valid shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no part of a run: write `1/3` to `3/3` for three parts, at most {MOST}")]
pub struct ShardError(String);

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let number = |it: &str| it.trim().parse().ok().filter(|it| (1..=MOST).contains(it));
        let parts = text.split_once('/').and_then(|(k, n)| Some((number(k)?, number(n)?)));
        parts
            .filter(|(index, count)| index <= count)
            .map(|(index, count)| Self { index, count })
            .ok_or_else(|| ShardError(text.to_owned()))
    }
}

/// The durations of executions in an earlier run.
#[derive(Clone, Debug, Default)]
pub struct Durations {
    /// The mean duration of an execution in milliseconds, by case and model.
    known: HashMap<(String, String), f64>,
    mean: Option<f64>,
}

impl Durations {
    /// Extracts the durations from a report. Cases without a measured latency are ignored. Fails if a case cannot be
    /// loaded.
    pub fn from_report<Cases: CaseSource + ?Sized>(
        report: &Report<Cases>,
    ) -> Result<Self, CaseError> {
        let mut known = HashMap::new();
        let (mut sum, mut count) = (0.0, 0.0);
        for case in report.each() {
            let case = case?;
            if let Some(mean) = case.latency_avg_ms.filter(|it| it.is_finite() && *it >= 0.0) {
                known.insert((case.case.clone(), case.model.clone()), mean);
                sum += mean;
                count += 1.0;
            }
        }
        Ok(Self { known, mean: (count > 0.0).then(|| sum / count) })
    }

    /// Returns the estimated time of executions in microseconds.
    ///
    /// The estimate for each execution is the measured mean, or else the mean of all cases, or else 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast to an integer saturates, and a negative time is left out above"
    )]
    fn micros(&self, case: &str, model: &str, executions: usize) -> u64 {
        let mean = self.known.get(&(case.to_owned(), model.to_owned())).copied().or(self.mean);
        let each = mean.map_or(1, |it| (it * 1000.0).round() as u64).max(1);
        each.saturating_mul(executions as u64)
    }
}

/// Returns the part of a plan that one of several machines runs.
///
/// Each test case is in exactly one shard, with all its models and repeats. All cases of a comparison group or history
/// are in the same shard. Each skipped case is in exactly one shard, too. Cases are assigned from the longest to the
/// shortest, each to the shard with the least work. The work is measured by `durations`, or else by the number of
/// executions. Machines with the same suite, options and durations compute the same shards.
pub fn shard(
    suite: &Suite,
    plan: &Plan,
    options: &RunOptions,
    shard: Shard,
    durations: Option<&Durations>,
) -> Plan {
    let groups: Vec<&[Unit]> =
        plan.units.chunk_by(|a, b| (a.case, a.model) == (b.case, b.model)).collect();
    let owners = deal(suite, &groups, shard.count, durations);
    let leaders = leaders(suite);
    let owner = |case: usize| {
        let leader = leaders.get(&case).unwrap_or(&case);
        owners.get(leader).copied().unwrap_or_default()
    };
    let mine = shard.index.saturating_sub(1);
    let Plan { deselected, is_selection, fixed_repeats, .. } = *plan;
    let mut part = Plan { deselected, is_selection, fixed_repeats, ..Plan::default() };
    let mut cases = Vec::new();
    for (index, group) in (0_u64..).zip(&groups) {
        if group.first().is_some_and(|it| owner(it.case) == mine) {
            cases.push(index);
            part.units.extend_from_slice(group);
        }
    }
    let mut skipped = Vec::new();
    for (index, case) in (0_u64..).zip(&plan.skipped) {
        if index % u64::from(shard.count) == u64::from(mine) {
            skipped.push(index);
            part.skipped.push(case.clone());
        }
    }
    let mut models: Vec<usize> = plan.units.iter().filter_map(|it| it.model).collect();
    models.sort_unstable();
    models.dedup();
    let info = ShardInfo {
        index: shard.index,
        count: shard.count,
        plan_digest: digest(suite, plan, options, &groups, owner),
        cases: groups.len() as u64,
        skipped: plan.skipped.len() as u64,
    };
    part.part = Some(Part { shard: info, cases, skipped, models });
    part
}

/// Maps each case in a comparison group or a history to the first case of this group or history.
fn leaders(suite: &Suite) -> HashMap<usize, usize> {
    let mut first: HashMap<(Option<&Comparison>, Option<&str>), usize> = HashMap::new();
    let cases = suite.cases.iter().enumerate();
    let bound = cases.filter(|(_, it)| it.compared.is_some() || it.history.is_some());
    bound
        .map(|(index, case)| {
            let group = (case.compared.as_ref(), case.history.as_deref());
            (index, *first.entry(group).or_insert(index))
        })
        .collect()
}

/// Returns the shard of each case, from 0.
///
/// The cases of a comparison group or history share one shard. They have one entry, for the first of these cases.
fn deal(
    suite: &Suite,
    groups: &[&[Unit]],
    count: u32,
    durations: Option<&Durations>,
) -> HashMap<usize, u32> {
    let leaders = leaders(suite);
    let mut cases: Vec<(usize, u64)> = Vec::new();
    let mut places: HashMap<usize, usize> = HashMap::new();
    for unit in groups.iter().filter_map(|it| Some((it.first()?, it.len()))) {
        let (first, executions) = unit;
        let weight = match durations {
            Some(durations) => {
                let name = suite.cases.get(first.case).map_or("", |it| &it.name);
                durations.micros(name, first.target(suite), executions)
            }
            None => executions as u64,
        };
        let leader = *leaders.get(&first.case).unwrap_or(&first.case);
        let place = *places.entry(leader).or_insert(cases.len());
        match cases.get_mut(place) {
            Some((_, sum)) => *sum = sum.saturating_add(weight),
            None => cases.push((leader, weight)),
        }
    }
    cases.sort_by_key(|(case, weight)| (Reverse(*weight), *case));
    let mut loads: std::collections::BinaryHeap<Reverse<(u64, u32)>> =
        (0..count).map(|it| Reverse((0, it))).collect();
    let mut owners = HashMap::with_capacity(cases.len());
    for (case, weight) in cases {
        let Some(Reverse((load, part))) = loads.pop() else { break };
        owners.insert(case, part);
        loads.push(Reverse((load.saturating_add(weight), part)));
    }
    owners
}

/// Returns a digest of the plan, the option `strict`, and the shard of each case. All shards of one run share the
/// digest.
fn digest(
    suite: &Suite,
    plan: &Plan,
    options: &RunOptions,
    groups: &[&[Unit]],
    owner: impl Fn(usize) -> u32,
) -> String {
    let mut digest = Digest::default().number(options.strict.into()).number(groups.len() as u64);
    for (first, repeats) in groups.iter().filter_map(|it| Some((it.first()?, it.len()))) {
        let case = suite.cases.get(first.case);
        let content = case.and_then(|it| it.digest);
        digest = digest
            .text(case.map_or("", |it| &it.name))
            .text(&content.map(|it| it.to_string()).unwrap_or_default())
            .text(first.target(suite))
            .number(repeats as u64)
            .number(owner(first.case).into());
    }
    for case in &plan.skipped {
        digest = digest.text(&case.case).text(&case.reason);
    }
    digest.finish().to_string()
}
