//! The report of a whole run, out of those of its parts.

use kindlm_types::{Report, ShardInfo};

use crate::derived::{Derivation, derive};
use crate::evaluate_gates;
use crate::gates::Gate;

/// Why reports are not the parts of one run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// There is no report.
    #[error("there is no report to merge")]
    Nothing,
    /// A report is about a whole run.
    #[error("{name} is the report of a whole run: parts come from `kindlm test --shard K/N`")]
    Whole {
        /// The report, as it is called in messages.
        name: String,
    },
    /// Two reports differ in what all parts of a run share.
    #[error("{name} is not of the same run as {first}: {what}")]
    Other {
        /// The report.
        name: String,
        /// The one it was compared with.
        first: String,
        /// What differs, and what to do.
        what: &'static str,
    },
    /// Two reports are of the same part.
    #[error("{first} and {second} are both shard {index} of {count}: give each shard once")]
    Twice {
        /// Which part.
        index: u32,
        /// Of how many.
        count: u32,
        /// The first report.
        first: String,
        /// The second.
        second: String,
    },
    /// Parts are missing.
    #[error("{missing} of {count} {} missing: nothing is reported about a part of a run", if *.several { "are" } else { "is" })]
    Missing {
        /// Which, in words.
        missing: String,
        /// Of how many.
        count: u32,
        /// Whether there is more than one.
        several: bool,
    },
    /// The results do not make a whole.
    #[error(
        "the results of the shards do not make a whole run: {what}; a report was changed after it was written"
    )]
    Damaged {
        /// What is wrong.
        what: String,
    },
}

/// Merges the reports of all parts of a run, each with what it is called in messages, in any order.
///
/// The result is the report of the undivided run, but for [`Report::run`]: that is the first part's, started when the
/// first part started, as long as the longest part took. `gates` are evaluated over everything.
pub fn merge(
    mut parts: Vec<(String, Report)>,
    gates: &[Box<dyn Gate>],
) -> Result<Report, MergeError> {
    for (name, report) in &parts {
        if report.shard.is_none() {
            return Err(MergeError::Whole { name: name.clone() });
        }
    }
    parts.sort_by_key(|(_, it)| it.shard.as_ref().map_or(0, |it| it.index));
    check_same_run(&parts)?;
    check_complete(&parts)?;
    let Some(shard) = parts.first().and_then(|(_, it)| it.shard.clone()) else {
        return Err(MergeError::Nothing);
    };
    let mut reports = parts.into_iter().map(|(_, report)| report);
    let mut whole = reports.next().ok_or(MergeError::Nothing)?;
    for part in reports {
        add(&mut whole, part);
    }
    put_in_order(&mut whole, &shard)?;
    whole.shard = None;
    whole.gates = evaluate_gates(gates, &whole.cases);
    let derivations: Vec<Derivation> = whole
        .derived
        .iter()
        .map(|it| Derivation { name: it.name.clone(), formula: it.formula.clone() })
        .collect();
    whole.derived = derive(&derivations, &whole.summary().models);
    Ok(whole)
}

fn check_same_run(parts: &[(String, Report)]) -> Result<(), MergeError> {
    let Some(((first, one), rest)) = parts.split_first() else { return Err(MergeError::Nothing) };
    for (name, other) in rest {
        let gates = |it: &Report| -> Vec<_> {
            it.gates.iter().map(|it| (it.gate.clone(), it.threshold.to_bits())).collect()
        };
        let plan = |it: &Report| it.shard.as_ref().map(|it| (it.count, it.plan_digest.clone()));
        let what = if one.suite.config_sha256 != other.suite.config_sha256 {
            "the config files differ"
        } else if one.suite != other.suite {
            "the suites differ"
        } else if one.run.version != other.run.version {
            "other versions of KindLM wrote them"
        } else if plan(one) != plan(other) {
            "the plans differ; give all shards the same number of shards, files, selection, `--runs` and \
             `--shard-durations`"
        } else if one.models != other.models {
            "the models differ"
        } else if gates(one) != gates(other) {
            "the gates differ; give all shards the same `--gate`"
        } else {
            continue;
        };
        return Err(MergeError::Other { name: name.clone(), first: first.clone(), what });
    }
    Ok(())
}

/// Each part once. The parts are in order.
fn check_complete(parts: &[(String, Report)]) -> Result<(), MergeError> {
    let shards = parts.iter().filter_map(|(name, it)| Some((name, it.shard.as_ref()?)));
    let mut missing = Vec::new();
    let mut next = 1;
    let mut count = 0;
    let mut before: Option<(&String, u32)> = None;
    for (name, shard) in shards {
        count = shard.count;
        if let Some((first, index)) = before.filter(|(_, index)| *index == shard.index) {
            let (first, second) = (first.clone(), name.clone());
            return Err(MergeError::Twice { index, count, first, second });
        }
        missing.extend(next..shard.index);
        next = shard.index.saturating_add(1);
        before = Some((name, shard.index));
    }
    missing.extend(next..=count);
    if missing.is_empty() {
        return Ok(());
    }
    let several = missing.len() > 1;
    let shown: Vec<String> = missing.iter().take(5).map(u32::to_string).collect();
    let more = if missing.len() > 5 { ", …" } else { "" };
    let word = if several { "shards" } else { "shard" };
    let missing = format!("{word} {}{more}", shown.join(", "));
    Err(MergeError::Missing { missing, count, several })
}

fn add(whole: &mut Report, part: Report) {
    whole.cases.extend(part.cases);
    whole.skipped.extend(part.skipped);
    for warning in part.warnings {
        if !whole.warnings.contains(&warning) {
            whole.warnings.push(warning);
        }
    }
    let run = &mut whole.run;
    run.interrupted |= part.run.interrupted;
    run.duration_ms = run.duration_ms.max(part.run.duration_ms);
    // RFC 3339 in UTC: the order of the texts is that of the times.
    if part.run.started_at < run.started_at {
        run.started_at = part.run.started_at;
    }
    if run.git_commit != part.run.git_commit {
        run.git_commit = None;
    }
    if !run.platform.split(", ").any(|it| it == part.run.platform) {
        run.platform = format!("{}, {}", run.platform, part.run.platform);
    }
}

/// Brings the results into the order of the plan; each must be there once.
fn put_in_order(whole: &mut Report, shard: &ShardInfo) -> Result<(), MergeError> {
    let damaged = |what: &str| MergeError::Damaged { what: what.to_owned() };
    whole.cases.sort_by_key(|it| it.plan_index);
    whole.skipped.sort_by_key(|it| it.plan_index);
    let cases = whole.cases.iter().map(|it| it.plan_index);
    if !cases.eq((0..shard.cases).map(Some)) {
        return Err(damaged("a result is missing or comes twice"));
    }
    let skipped = whole.skipped.iter().map(|it| it.plan_index);
    if !skipped.eq((0..shard.skipped).map(Some)) {
        return Err(damaged("a skipped test case is missing or comes twice"));
    }
    whole.cases.iter_mut().for_each(|it| it.plan_index = None);
    whole.skipped.iter_mut().for_each(|it| it.plan_index = None);
    Ok(())
}
