//! The plan as text for a terminal.

use kindlm_reporters::{count, one_line, usd};
use kindlm_wire::plan::{PlanReport, PlanShape, PlannedSize};

/// The headings of the columns.
const HEADS: [&str; 6] =
    ["repeats", "cases", "calls per run", "cost per run", "power", "present cases detect"];

/// The space between two columns.
const GAP: &str = "  ";

/// Returns the plan as text: the goal, the table, the advice and the remarks.
pub fn text(report: &PlanReport) -> String {
    let mut lines = head(report);
    lines.push(String::new());
    lines.extend(table(report));
    lines.push(String::new());
    lines.extend(advice(report));
    if let Some(reason) = &report.cost_unknown {
        lines.push(format!("cost unknown: {reason}"));
    }
    lines.extend(report.notes.iter().map(|it| format!("note: {it}")));
    lines.into_iter().map(|it| one_line(&it).trim_end().to_owned() + "\n").collect()
}

/// Formats a share as percentage points, without needless zeros: `5` or `2.5`.
pub(super) fn points(share: f64) -> String {
    let text = format!("{:.1}", 100.0 * share);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn head(report: &PlanReport) -> Vec<String> {
    let (pilot, goal) = (&report.pilot, &report.goal);
    let runs = report.runs.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
    let word = if report.runs.len() == 1 { "run" } else { "runs" };
    let clusters = if pilot.clusters < pilot.cases {
        format!(" in {}", plural(pilot.clusters, "cluster"))
    } else {
        String::new()
    };
    let fall = match goal.shape {
        PlanShape::Spread => format!("a fall of all cases by {} pp", points(goal.effect)),
        PlanShape::Break => {
            format!("a fall by {} pp, because some cases always fail", points(goal.effect))
        }
    };
    vec![
        format!(
            "from {word} {runs} of `{}`: pass rate {}% ({}{clusters}, {})",
            report.suite,
            percent(pilot.pass_rate),
            plural(pilot.cases, "case"),
            plural(pilot.judged, "judged repeat")
        ),
        format!(
            "to detect: {fall}, in {} of 100 comparisons, with false alarms in {} of 100",
            points(goal.power),
            points(goal.alpha)
        ),
    ]
}

fn table(report: &PlanReport) -> Vec<String> {
    let mut rows = vec![HEADS.map(str::to_owned)];
    rows.extend(report.sizes.iter().map(row));
    let widths: Vec<usize> = (0..HEADS.len())
        .map(|column| {
            rows.iter().filter_map(|it| it.get(column)).map(|it| it.chars().count()).max()
        })
        .map(Option::unwrap_or_default)
        .collect();
    let cells = |row: &[String; 6]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        cells.collect::<Vec<_>>().join(GAP)
    };
    rows.iter().map(cells).collect()
}

fn row(size: &PlannedSize) -> [String; 6] {
    let unknown = || "–".to_owned();
    let cost = match (size.cases, size.cost_usd) {
        (None, _) => unknown(),
        (Some(_), None) => "unknown".to_owned(),
        (Some(_), Some(amount)) => usd(amount),
    };
    [
        size.repeats.to_string(),
        size.cases.map_or_else(|| "too many".to_owned(), count),
        size.calls.map_or_else(unknown, count),
        cost,
        size.power.map_or_else(unknown, |it| format!("{}%", percent(it))),
        size.detectable
            .map_or_else(|| "no fall".to_owned(), |it| format!("{} pp or more", points(it))),
    ]
}

/// Returns the advice about the next step, one sentence in each item.
fn advice(report: &PlanReport) -> Vec<String> {
    let present = report.pilot.cases;
    let fits = |it: &&PlannedSize| it.cases.is_some_and(|cases| cases <= present);
    let first = if let Some(size) = report.sizes.iter().find(fits) {
        format!(
            "the present {} are enough with {}: `kindlm test --runs {}`",
            plural(present, "case"),
            plural(size.repeats.into(), "repeat"),
            size.repeats
        )
    } else {
        let most = report.sizes.iter().map(|it| it.repeats).max().unwrap_or(1);
        format!(
            "the present {} are too few with up to {}; add cases, or accept that only a larger fall is detected",
            plural(present, "case"),
            plural(most.into(), "repeat")
        )
    };
    vec![first, "a comparison needs two runs of this size: before and after the change".to_owned()]
}

fn plural(value: u64, word: &str) -> String {
    format!("{} {word}{}", count(value), if value == 1 { "" } else { "s" })
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use kindlm_wire::plan::{PilotSummary, PlanGoal};

    use super::*;

    fn report() -> PlanReport {
        let goal = PlanGoal { effect: 0.05, power: 0.8, alpha: 0.05, shape: PlanShape::Spread };
        let pilot = PilotSummary { cases: 40, clusters: 38, judged: 120, pass_rate: 0.825 };
        let size = |repeats: u32, cases: Option<u32>, detectable| {
            let mut size = PlannedSize::new(repeats);
            size.cases = cases.map(u64::from);
            size.clusters = size.cases;
            size.calls = cases.map(|it| u64::from(it * repeats));
            size.cost_usd = cases.map(|it| 0.002 * f64::from(repeats) * f64::from(it));
            size.power = cases.map(|_| 0.8034);
            size.detectable = detectable;
            size
        };
        let sizes = vec![
            size(1, None, None),
            size(3, Some(1_250), Some(0.175)),
            size(10, Some(40), Some(0.05)),
        ];
        let mut report = PlanReport::new(vec!["r1".to_owned()], "orders", pilot, goal, sizes);
        report.cost_per_call_usd = Some(0.002);
        report
    }

    #[test]
    fn the_table_has_the_numbers_and_the_next_step() {
        assert_eq!(
            text(&report()),
            "from run `r1` of `orders`: pass rate 82.5% (40 cases in 38 clusters, 120 judged repeats)\n\
             to detect: a fall of all cases by 5 pp, in 80 of 100 comparisons, with false alarms in 5 of 100\n\
             \n\
             repeats     cases  calls per run  cost per run  power  present cases detect\n      \
                   1  too many              –             –      –               no fall\n      \
                   3     1,250          3,750         $7.50  80.3%       17.5 pp or more\n     \
                  10        40            400       $0.8000  80.3%          5 pp or more\n\
             \n\
             the present 40 cases are enough with 10 repeats: `kindlm test --runs 10`\n\
             a comparison needs two runs of this size: before and after the change\n"
        );
    }

    #[test]
    fn an_unknown_cost_is_no_zero() {
        let mut report = report();
        report.cost_unknown = Some("no price".to_owned());
        report.sizes.iter_mut().for_each(|it| it.cost_usd = None);
        report.sizes.truncate(2);
        let text = text(&report);
        assert!(text.contains("  unknown  80.3%"), "{text}");
        assert!(text.contains("\ncost unknown: no price\n"), "{text}");
        assert!(!text.contains('$'), "{text}");
        assert!(text.contains("are too few with up to 3 repeats"), "{text}");
    }
}
