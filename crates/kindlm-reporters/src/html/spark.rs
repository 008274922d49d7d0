//! Sparklines: small charts beside the causes of failures, with one bar for each run.

use kindlm_types::{AnyReport, Summary};
use kindlm_wire::v1::RunHead;

use super::distribution::scaled;
use crate::amount::percent;

/// The width of a bar with its gap, and the height of the chart, in pixels.
const BAR: usize = 6;
const HEIGHT: u64 = 16;

/// The shares of cases that failed for a cause, one bar for each run, oldest first.
pub(super) struct Spark {
    pub(super) width: usize,
    pub(super) bars: Vec<SparkBar>,
    /// The shares as text.
    pub(super) words: String,
}

pub(super) struct SparkBar {
    pub(super) x: usize,
    pub(super) y: u64,
    pub(super) height: u64,
}

/// Returns a chart for each cause of the summary, in order; `None` if the share is known in fewer than two runs.
///
/// `past` are the totals of the runs of the suite, oldest first. Only the run of the report and earlier runs count.
/// Runs of a part of the suite are left out, because their shares are not comparable.
pub(super) fn of_causes(
    report: &AnyReport<'_>,
    summary: &Summary,
    past: &[RunHead],
) -> Vec<Option<Spark>> {
    let (run, total) = (&report.run, summary.totals.held().total);
    // Runs that started at the same time are ordered by their ids.
    let this = (run.started_at.as_str(), run.id.as_str());
    let before = past.iter().filter(|it| (it.started_at.as_str(), it.run.as_str()) < this);
    let before: Vec<&RunHead> = before.filter(|it| !it.partial && it.held.total > 0).collect();
    let of_cause = |key: &str, cases: u64| {
        let known = before.iter().filter_map(|it| Some((it.cases_of_cause(key)?, it.held.total)));
        let shares = known.chain([(cases, total)]).map(|(cases, total)| share(cases, total));
        Spark::from_shares(&shares.collect::<Vec<_>>())
    };
    let causes = summary.causes.iter();
    causes.map(|it| if run.partial { None } else { of_cause(&it.key, it.cases) }).collect()
}

#[expect(clippy::cast_precision_loss, reason = "numbers of cases stay far below 2^52")]
fn share(cases: u64, total: u64) -> f64 {
    cases as f64 / total.max(1) as f64
}

impl Spark {
    fn from_shares(shares: &[f64]) -> Option<Self> {
        if shares.len() < 2 {
            return None;
        }
        let most = shares.iter().copied().fold(0.0, f64::max);
        let bars = shares.iter().enumerate().map(|(at, share)| {
            // A run without failures of this cause has a bar of one pixel.
            let height = (scaled(*share, most) * HEIGHT / 1000).clamp(1, HEIGHT);
            SparkBar { x: at * BAR, y: HEIGHT - height, height }
        });
        let words: Vec<String> = shares.iter().map(|it| format!("{}%", percent(*it))).collect();
        let words =
            format!("Share of cases in the last {} runs: {}", shares.len(), words.join(", "));
        Some(Self { width: shares.len() * BAR, bars: bars.collect(), words })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_have_the_shares_of_earlier_complete_runs() {
        let report = kindlm_testing::sample_report();
        let summary = report.summary();
        let head = |day: u32, partial: bool| {
            let mut past = report.clone();
            past.run.id = format!("run {day}");
            past.run.started_at = format!("2020-01-{day:02}T00:00:00Z");
            past.run.partial = partial;
            RunHead::from_report(&past)
        };
        let mut clean = head(2, false);
        clean.causes = Some(Vec::new());
        let mut unknown = head(3, false);
        unknown.causes = None;
        let past = [head(1, false), clean, unknown, head(4, true)];
        let sparks = of_causes(&report, &summary, &past);
        assert_eq!(sparks.len(), summary.causes.len());
        let first = sparks[0].as_ref().unwrap();
        let share = percent(share(summary.causes[0].cases, summary.totals.held().total));
        assert_eq!(
            first.words,
            format!("Share of cases in the last 3 runs: {share}%, 0.0%, {share}%")
        );
        let heights: Vec<u64> = first.bars.iter().map(|it| it.height).collect();
        assert_eq!(heights, [HEIGHT, 1, HEIGHT]);
        assert!(of_causes(&report, &summary, &[]).iter().all(Option::is_none));
    }
}
