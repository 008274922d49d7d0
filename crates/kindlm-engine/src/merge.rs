//! Merges the reports of the shards of a run.

use std::borrow::Cow;
use std::collections::HashMap;

use kindlm_types::{
    CaseError, CaseMark, CaseResult, CaseSource, JudgeInfo, MAX_SPECIFIED_TESTS, Report, ShardInfo,
    SuiteInfo, Tally, TestInfo,
};

use crate::derived::{Derivation, derive};
use crate::gates::{Gate, Measurements};

/// The reason why reports cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// There are no reports.
    #[error("there is no report to merge")]
    Nothing,
    /// A report covers a whole run.
    #[error("{name} is the report of a whole run: parts come from `kindlm test --shard K/N`")]
    Whole {
        /// The name of the report, for error messages.
        name: String,
    },
    /// Two reports differ in data that all shards of a run share.
    #[error("{name} does not belong to the same run as {first}: {what}")]
    Other {
        /// The name of the report.
        name: String,
        /// The name of the report that the differing report was compared with.
        first: String,
        /// The data that differs, and advice for the user.
        what: &'static str,
    },
    /// Two reports cover the same shard.
    #[error("{first} and {second} are both shard {index} of {count}: give each shard once")]
    Twice {
        /// The number of the shard, from 1.
        index: u32,
        /// The number of shards.
        count: u32,
        /// The name of the first report.
        first: String,
        /// The name of the second report.
        second: String,
    },
    /// Shards are missing.
    #[error("{missing} of {count} {} missing: a report needs all parts of a run", if *.several { "are" } else { "is" })]
    Missing {
        /// A list of the missing shards.
        missing: String,
        /// The number of shards.
        count: u32,
        /// True if more than one shard is missing.
        several: bool,
    },
    /// The results are incomplete or contradictory.
    #[error(
        "the results of the shards do not make a whole run: {what}; a report was changed after it was written"
    )]
    Damaged {
        /// The description of the missing or contradictory results.
        what: String,
    },
    /// A case of a report could not be loaded.
    #[error(transparent)]
    Case(#[from] CaseError),
}

/// Merges the reports of all shards of a run, in any order. Each report has a name for error messages.
///
/// The result equals the report of the undivided run, with two exceptions: it has no comparison, and it has the
/// canaries of all shards. [`Report::run`] has the earliest start, the longest duration and all platforms of the
/// shards. `gates` are evaluated over all cases.
///
/// Fails if the reports are not those of all shards of one run, or if a case cannot be loaded.
pub fn merge(parts: Vec<(String, Report)>, gates: &[Box<dyn Gate>]) -> Result<Report, MergeError> {
    let whole = merge_streamed(parts, gates)?;
    let cases = whole.each().map(|it| it.map(Cow::into_owned)).collect::<Result<_, _>>()?;
    Ok(whole.with_cases(cases).0)
}

/// Merges reports like [`merge`], but loads the cases one at a time on request.
///
/// Fails if the reports are not those of all shards of one run, or if a case cannot be loaded.
pub fn merge_streamed<Cases: CaseSource>(
    mut parts: Vec<(String, Report<Cases>)>,
    gates: &[Box<dyn Gate>],
) -> Result<Report<Merged<Cases>>, MergeError> {
    for (name, report) in &parts {
        if report.shard.is_none() {
            return Err(MergeError::Whole { name: name.clone() });
        }
    }
    parts.sort_by_key(|(_, it)| it.shard.as_ref().map_or(0, |it| it.index));
    check_same_run(&parts)?;
    check_complete(&parts)?;
    // If a shard has too many tests to list them, the merged report lists no tests either.
    let lists_tests = parts.iter().all(|(_, it)| it.cases.is_empty() || !it.suite.tests.is_empty());
    let mut heads = Vec::with_capacity(parts.len());
    let mut sources = Vec::with_capacity(parts.len());
    for (_, report) in parts {
        let (mut head, cases) = report.with_cases(());
        // Remove the comparison, because it covers only one shard.
        head.comparison = None;
        heads.push(head);
        sources.push(cases);
    }
    let mut heads = heads.into_iter();
    let mut whole = heads.next().ok_or(MergeError::Nothing)?;
    let shard = whole.shard.take().ok_or(MergeError::Nothing)?;
    for head in heads {
        add(&mut whole, head);
    }
    put_in_order(&mut whole, &shard)?;
    let order = order(&sources, &shard)?;
    let mut cases = Merged { parts: sources, order, tally: Tally::default() };
    let (mut tally, mut measurements) =
        (Tally::default(), Measurements::after(gates, &whole.canaries));
    let mut positions: HashMap<String, usize> = HashMap::new();
    for position in 0..cases.len() {
        let case = cases.read_case(position)?;
        tally.observe(position, &case);
        measurements.observe(&case);
        if lists_tests && !positions.contains_key(&case.case) {
            positions.insert(case.case.clone(), position);
        }
    }
    sort_tests(&mut whole.suite.tests, &positions);
    cases.tally = tally;
    whole.gates = measurements.finish();
    let mut whole = whole.with_cases(cases).0;
    let derivations: Vec<Derivation> = whole
        .derived
        .iter()
        .map(|it| Derivation { name: it.name.clone(), formula: it.formula.clone() })
        .collect();
    whole.derived = derive(&derivations, &whole.summary().models);
    Ok(whole)
}

/// The cases of all shards of a run, in the order of the plan.
#[derive(Debug)]
pub struct Merged<Cases> {
    parts: Vec<Cases>,
    /// The shard of each case, and the position in that shard.
    order: Vec<(usize, usize)>,
    tally: Tally,
}

impl<Cases: CaseSource> CaseSource for Merged<Cases> {
    fn len(&self) -> usize {
        self.order.len()
    }

    fn mark(&self, position: usize) -> Option<CaseMark<'_>> {
        let (part, at) = *self.order.get(position)?;
        let mut mark = self.parts.get(part)?.mark(at)?;
        mark.plan_index = None;
        Some(mark)
    }

    fn read_case(&self, position: usize) -> Result<Cow<'_, CaseResult>, CaseError> {
        let found = self.order.get(position).copied();
        let found = found.and_then(|(part, at)| Some((self.parts.get(part)?, at)));
        let Some((part, at)) = found else {
            return Err(CaseError::new(format!("there is no case result {position}")));
        };
        Ok(Cow::Owned(CaseResult { plan_index: None, ..part.read_case(at)?.into_owned() }))
    }

    fn tally(&self) -> Cow<'_, Tally> {
        Cow::Borrowed(&self.tally)
    }
}

fn check_same_run<Cases>(parts: &[(String, Report<Cases>)]) -> Result<(), MergeError> {
    let Some(((first, one), rest)) = parts.split_first() else { return Err(MergeError::Nothing) };
    for (name, other) in rest {
        let gates = |it: &Report<Cases>| -> Vec<_> {
            it.gates.iter().map(|it| (it.gate.clone(), it.threshold.to_bits())).collect()
        };
        let plan =
            |it: &Report<Cases>| it.shard.as_ref().map(|it| (it.count, it.plan_digest.clone()));
        let what = if one.suite.config_sha256 != other.suite.config_sha256 {
            "the config files differ"
        } else if comparable(&one.suite) != comparable(&other.suite) {
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

/// Fails unless each shard is present exactly once. The reports must be sorted by shard.
fn check_complete<Cases>(parts: &[(String, Report<Cases>)]) -> Result<(), MergeError> {
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

/// Adds the data of a shard's report, except the cases.
fn add(whole: &mut Report<()>, part: Report<()>) {
    whole.skipped.extend(part.skipped);
    for warning in part.warnings {
        if !whole.warnings.contains(&warning) {
            whole.warnings.push(warning);
        }
    }
    whole.suite.tests.extend(part.suite.tests);
    add_alarms(&mut whole.suite.judges, part.suite.judges);
    whole.canaries.extend(part.canaries);
    let run = &mut whole.run;
    run.interrupted |= part.run.interrupted;
    run.partial |= part.run.partial;
    run.duration_ms = run.duration_ms.max(part.run.duration_ms);
    // The times are RFC 3339 in UTC, so the order of the strings is chronological.
    if part.run.started_at < run.started_at {
        run.started_at = part.run.started_at;
    }
    if run.git_commit != part.run.git_commit {
        run.git_commit = None;
    }
    if run.git_branch != part.run.git_branch {
        run.git_branch = None;
    }
    run.git_dirty = match (run.git_dirty, part.run.git_dirty) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (one, other) => one.and(other),
    };
    if !run.platform.split(", ").any(|it| it == part.run.platform) {
        run.platform = format!("{}, {}", run.platform, part.run.platform);
    }
}

/// Returns the data of a suite that all shards of a run share.
///
/// The result lacks the tests, and the calibrations of judges. Each machine loads the calibrations from its own folder
/// when its shard starts.
fn comparable(suite: &SuiteInfo) -> SuiteInfo {
    let judges = suite.judges.iter().map(uncalibrated).collect();
    SuiteInfo { tests: Vec::new(), judges, ..suite.clone() }
}

fn uncalibrated(judge: &JudgeInfo) -> JudgeInfo {
    JudgeInfo { calibration: None, ..judge.clone() }
}

/// Copies the calibrations with an alarm from a shard. An alarm of any shard shows that the judge has changed.
fn add_alarms(judges: &mut [JudgeInfo], part: Vec<JudgeInfo>) {
    let has_alarm = |it: &JudgeInfo| it.calibration.as_ref().is_some_and(|it| it.alarm.is_some());
    for alarmed in part.into_iter().filter(has_alarm) {
        let same = judges.iter_mut().find(|it| uncalibrated(it) == uncalibrated(&alarmed));
        if let Some(judge) = same.filter(|it| !has_alarm(it)) {
            judge.calibration = alarmed.calibration;
        }
    }
}

/// Sorts the tests of all shards by the plan, and removes duplicates.
///
/// Removes all tests if there are too many for a report. Also removes all tests if `tests` and `positions` differ in
/// length.
fn sort_tests(tests: &mut Vec<TestInfo>, positions: &HashMap<String, usize>) {
    tests.sort_by_key(|it| positions.get(&it.name));
    tests.dedup_by(|one, other| one.name == other.name);
    if tests.len() != positions.len() || tests.len() > MAX_SPECIFIED_TESTS {
        tests.clear();
    }
}

/// Sorts the skipped test cases by the plan. Fails unless each is present exactly once.
fn put_in_order(whole: &mut Report<()>, shard: &ShardInfo) -> Result<(), MergeError> {
    whole.skipped.sort_by_key(|it| it.plan_index);
    let skipped = whole.skipped.iter().map(|it| it.plan_index);
    if !skipped.eq((0..shard.skipped).map(Some)) {
        return Err(damaged("a skipped test case is missing or duplicated"));
    }
    whole.skipped.iter_mut().for_each(|it| it.plan_index = None);
    Ok(())
}

/// Returns the shard and position of each case, in the order of the plan.
///
/// Fails unless each case is present exactly once.
fn order<Cases: CaseSource>(
    parts: &[Cases],
    shard: &ShardInfo,
) -> Result<Vec<(usize, usize)>, MergeError> {
    let all = parts.iter().enumerate().flat_map(|(part, cases)| {
        let of = move |at| (cases.mark(at).and_then(|it| it.plan_index), part, at);
        (0..cases.len()).map(of)
    });
    let mut all: Vec<_> = all.collect();
    all.sort_unstable();
    if !all.iter().map(|(index, ..)| *index).eq((0..shard.cases).map(Some)) {
        return Err(damaged("a result is missing or duplicated"));
    }
    Ok(all.into_iter().map(|(_, part, at)| (part, at)).collect())
}

fn damaged(what: &str) -> MergeError {
    MergeError::Damaged { what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use kindlm_types::JudgeCalibration;

    use super::*;

    #[test]
    fn shards_may_know_other_calibrations() {
        let known = |kappa: f64, alarm: Option<&str>| {
            let alarm = alarm.map(str::to_owned);
            Some(JudgeCalibration { kappa: Some(kappa), alarm, ..JudgeCalibration::default() })
        };
        let part = |index: u32, calibration: Option<JudgeCalibration>| {
            let judge =
                JudgeInfo { check: "judge".to_owned(), calibration, ..JudgeInfo::default() };
            let report = Report {
                shard: Some(ShardInfo { index, count: 2, ..ShardInfo::default() }),
                suite: SuiteInfo { judges: vec![judge], ..SuiteInfo::default() },
                ..Report::default()
            };
            (format!("{index}.json"), report)
        };
        let alarmed = known(0.7, Some("judge changed"));
        for (first, second, expected) in [
            (known(0.8, None), known(0.7, None), known(0.8, None)),
            (known(0.8, None), None, known(0.8, None)),
            (known(0.8, None), alarmed.clone(), alarmed.clone()),
            (alarmed.clone(), known(0.8, None), alarmed.clone()),
            (None, alarmed.clone(), alarmed),
        ] {
            let whole = merge(vec![part(1, first), part(2, second)], &[]).unwrap();
            assert_eq!(whole.suite.judges[0].calibration, expected);
        }
        let (name, mut other) = part(2, None);
        other.suite.judges[0].samples = 3;
        let refused = merge(vec![part(1, None), (name, other)], &[]).unwrap_err();
        assert!(matches!(refused, MergeError::Other { what: "the suites differ", .. }));
    }
}
