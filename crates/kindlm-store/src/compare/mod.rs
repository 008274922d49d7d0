//! Compares a run with a baseline or an earlier run, with a limited rate of false alarms.

mod conditions;
mod pair;

use std::collections::{BTreeMap, BTreeSet};

use kindlm_stats::{Confidence, Difference, Paired, PairedTest, Tally, benjamini_hochberg};
use kindlm_types::{
    AssertionChange, CaseChange, CaseChangeKind, ComparedRun, Comparison, ComparisonVerdict,
    PassRate, RateChange,
};

use crate::{Baseline, Digest, Entry, EntryRate};
use pair::Pair;

/// The default of [`CompareOptions::alpha`]: 5 % of false alarms.
pub const ALPHA: f64 = 0.05;

/// The default of [`CompareOptions::margin`]: 5 percentage points.
pub const MARGIN: f64 = 0.05;

/// The largest difference at which two rates count as equal.
const TOLERANCE: f64 = 1e-9;

/// The settings of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompareOptions {
    /// The accepted rate of false alarms, above 0 and below 1.
    pub alpha: f64,
    /// The non-inferiority margin: the largest tolerated fall of the pass rate, from 0 to 1. The verdict is "no
    /// regression" only if the confidence interval excludes a larger fall.
    pub margin: f64,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self { alpha: ALPHA, margin: MARGIN }
    }
}

impl Baseline {
    /// Compares a later run with this baseline.
    ///
    /// Cases are paired by name and model. A case that cannot be compared is listed with the reason, and is not
    /// measured. The same applies to a case with an unknown pass rate.
    ///
    /// `names` holds the name of the baseline and the name of the run.
    pub fn compare(
        &self,
        after: &Self,
        names: (&str, &str),
        options: CompareOptions,
    ) -> Comparison {
        let test = PairedTest::new(options.alpha, Confidence::P95, seed(self, after));
        let differences = conditions::differences(self, after);
        let rules = conditions::rules(&differences);
        let mut cases = Vec::new();
        let mut pairs = Vec::new();
        for now in after.entries().filter(|it| it.was_executed()) {
            let then = self.get(&now.case, &now.model).filter(|it| it.was_executed());
            let Some(then) = then else {
                cases.push(change(now, None, now.rate(), CaseChangeKind::New));
                continue;
            };
            match Pair::new(then, now, rules.as_deref()) {
                Ok(pair) => {
                    pairs.push((cases.len(), pair));
                    cases.push(pair.change());
                }
                Err(kind) => cases.push(change(now, then.rate(), now.rate(), kind)),
            }
        }
        let is_gone = |then: &&Entry| {
            let now = after.get(&then.case, &then.model);
            then.was_executed() && !now.is_some_and(Entry::was_executed)
        };
        let gone = self.entries().filter(is_gone);
        cases.extend(gone.map(|it| change(it, it.rate(), None, CaseChangeKind::Gone)));
        decide_cases(&mut cases, &pairs, options.alpha);
        let pairs: Vec<Pair<'_>> = pairs.into_iter().map(|(_, pair)| pair).collect();
        let overall = measure(&test, pairs.iter().map(Pair::difference));
        let verdict = overall.as_ref().map_or_else(
            || ComparisonVerdict::NotComparable { reason: why_nothing(&cases) },
            |(change, paired)| verdict(change, paired.detectable, options),
        );
        // The largest changes come first. Cases without a measured change stay in the order of the runs.
        let size = |it: &CaseChange| {
            it.difference().filter(|_| it.kind.is_compared()).map_or(0.0, f64::abs)
        };
        cases.sort_by(|one, other| size(other).total_cmp(&size(one)));
        Comparison {
            before: self.compared(names.0),
            after: after.compared(names.1),
            verdict,
            alpha: options.alpha,
            pass_rate: overall.map(|it| it.0),
            cases,
            assertions: assertions(&test, &pairs),
            differences,
        }
    }

    fn compared(&self, name: &str) -> ComparedRun {
        ComparedRun {
            name: name.to_owned(),
            run_id: self.run_id.clone(),
            git_commit: self.git_commit.clone(),
            started_at: Some(self.created_at.clone()).filter(|it| !it.is_empty()),
        }
    }
}

/// Returns the seed for the random sign flips of [`PairedTest`].
///
/// The seed depends on the runs, so the same comparison gives the same p value.
fn seed(before: &Baseline, after: &Baseline) -> u64 {
    let key = |it: &Baseline| it.run_id.clone().unwrap_or_else(|| it.created_at.clone());
    Digest::from_content(format!("{}\n{}", key(before), key(after))).bits()
}

fn change(
    entry: &Entry,
    before: Option<PassRate>,
    after: Option<PassRate>,
    kind: CaseChangeKind,
) -> CaseChange {
    CaseChange { before, after, ..CaseChange::new(&entry.case, &entry.model, kind) }
}

/// Sets the adjusted p value of each pair, and marks a significant change as a regression or a fix.
fn decide_cases(cases: &mut [CaseChange], pairs: &[(usize, Pair<'_>)], alpha: f64) {
    let p_values: Vec<f64> = pairs.iter().map(|(_, pair)| pair.p_value()).collect();
    for ((at, pair), p) in pairs.iter().zip(benjamini_hochberg(&p_values)) {
        let Some(case) = cases.get_mut(*at) else { continue };
        case.p_value = Some(p);
        if p <= alpha && case.kind == CaseChangeKind::Changed {
            case.kind = if pair.after.rate() < pair.before.rate() {
                CaseChangeKind::Regression
            } else {
                CaseChangeKind::Fix
            };
        }
    }
}

/// Measures the mean change of the pass rate over paired cases; `None` without cases.
fn measure<'a>(
    test: &PairedTest,
    differences: impl Iterator<Item = Difference<'a>>,
) -> Option<(RateChange, Paired)> {
    let differences: Vec<Difference<'a>> = differences.collect();
    let paired = test.compare(&differences).ok()?;
    let change = RateChange {
        before: mean_rate(differences.iter().map(|it| it.before)),
        after: mean_rate(differences.iter().map(|it| it.after)),
        cases: differences.len() as u64,
        clusters: paired.clusters as u64,
        difference: paired.mean,
        low: paired.interval.low,
        high: paired.interval.high,
        p_value: paired.p_value,
    };
    Some((change, paired))
}

/// Returns the mean of the rates, and the sums of the counts.
fn mean_rate(tallies: impl Iterator<Item = Tally>) -> PassRate {
    let mut all = PassRate::default();
    let mut cases = 0.0;
    for it in tallies {
        all.rate += it.rate();
        all.passed += it.passed();
        all.judged += it.total();
        cases += 1.0;
    }
    if cases > 0.0 {
        all.rate /= cases;
    }
    all
}

fn verdict(
    change: &RateChange,
    detectable: Option<f64>,
    options: CompareOptions,
) -> ComparisonVerdict {
    let is_beyond_chance = change.p_value <= options.alpha;
    if change.difference < -TOLERANCE && is_beyond_chance {
        ComparisonVerdict::Regression
    } else if change.difference > TOLERANCE && is_beyond_chance {
        ComparisonVerdict::Improved
    } else if change.low > -options.margin {
        ComparisonVerdict::NoRegressionBeyond { margin: options.margin }
    } else {
        ComparisonVerdict::NotEnoughData { detectable }
    }
}

/// Returns the reason why no case was measured.
fn why_nothing(cases: &[CaseChange]) -> String {
    match cases.iter().find_map(|it| Some((it, it.kind.reason()?))) {
        Some((case, reason)) => format!("no case can be compared; `{}`: {reason}", case.case),
        None if cases.is_empty() => "no case was run".to_owned(),
        None => "no case is in both runs".to_owned(),
    }
}

/// Returns the changes of assertions, one row for each assertion, the largest fall first.
///
/// A label has its own row if several cases have the label and the assertion has other labels. In a row for all labels,
/// a rise of one check could hide the fall of another check.
fn assertions(test: &PairedTest, pairs: &[Pair<'_>]) -> Vec<AssertionChange> {
    let labels = Labels::from_pairs(pairs);
    let mut by_row: BTreeMap<Row<'_>, Vec<Difference<'_>>> = BTreeMap::new();
    for pair in pairs {
        let mut counts: BTreeMap<Row<'_>, [(u64, u64); 2]> = BTreeMap::new();
        for (before, after) in pair.assertions() {
            let sums = counts.entry((&after.assertion, labels.shown(after))).or_default();
            for (sum, it) in sums.iter_mut().zip([before, after]) {
                *sum = (sum.0.saturating_add(it.passed), sum.1.saturating_add(it.judged));
            }
        }
        for (row, [before, after]) in counts {
            let tally = |it: (u64, u64)| Tally::new(it.0, it.1).ok();
            let (Some(before), Some(after)) = (tally(before), tally(after)) else { continue };
            let difference = Difference::new(pair.cluster(), before, after);
            by_row.entry(row).or_default().push(difference);
        }
    }
    let mut rows: Vec<AssertionChange> = by_row
        .into_iter()
        .filter_map(|((id, label), differences)| {
            let (change, _) = measure(test, differences.into_iter())?;
            let (assertion, label) = (id.to_owned(), label.map(str::to_owned));
            Some(AssertionChange::new(assertion, label, change, 1.0))
        })
        .collect();
    let p_values: Vec<f64> = rows.iter().map(|it| it.change.p_value).collect();
    for (row, p) in rows.iter_mut().zip(benjamini_hochberg(&p_values)) {
        row.adjusted_p_value = p;
    }
    rows.sort_by(|one, other| one.change.difference.total_cmp(&other.change.difference));
    rows
}

/// The assertion of a row, and the label if the label has its own row.
type Row<'a> = (&'a str, Option<&'a str>);

/// For each assertion and label, the test cases that have the label. A case on several models counts once.
struct Labels<'a>(BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<&'a str>>>);

impl<'a> Labels<'a> {
    fn from_pairs(pairs: &[Pair<'a>]) -> Self {
        let mut labels = Self(BTreeMap::new());
        for pair in pairs {
            for (_, it) in pair.assertions() {
                let of_id = labels.0.entry(&it.assertion).or_default();
                of_id.entry(&it.label).or_default().insert(pair.case());
            }
        }
        labels
    }

    /// Returns the label if it has its own row: several cases have it, and the assertion has other labels.
    fn shown<'b>(&self, rate: &'b EntryRate) -> Option<&'b str> {
        let labels = self.0.get(&*rate.assertion)?;
        let cases = labels.get(&*rate.label)?;
        (cases.len() > 1 && labels.len() > 1).then_some(&*rate.label)
    }
}
