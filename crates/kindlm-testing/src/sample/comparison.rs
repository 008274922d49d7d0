//! A comparison with each kind of change.

use kindlm_types::{
    AssertionChange, CaseChange, CaseChangeKind, ComparedRun, Comparison, ComparisonVerdict,
    Condition, ConditionChange, PassRate, RateChange,
};

/// Returns a comparison with all kinds of cases, and with hostile names.
///
/// The comparison is always the same, so that it can be used in snapshots.
pub fn sample_comparison() -> Comparison {
    let change = |cases: u64, before: u64, after: u64| {
        let judged = cases * 5;
        let before = PassRate::from_counts(before, judged).unwrap_or_default();
        let after = PassRate::from_counts(after, judged).unwrap_or_default();
        RateChange {
            before,
            after,
            cases,
            clusters: cases,
            difference: after.rate - before.rate,
            low: -0.112,
            high: -0.038,
            p_value: 0.000_4,
        }
    };
    Comparison {
        before: ComparedRun {
            name: "baseline `default`".to_owned(),
            run_id: Some("20261119-090000-000-1a2b".to_owned()),
            git_commit: Some("0badc0de0badc0de0badc0de0badc0de0badc0de".to_owned()),
            started_at: Some("2026-11-19T09:00:00Z".to_owned()),
        },
        after: ComparedRun {
            name: "run `20261120-140912-345-7f3a`".to_owned(),
            run_id: Some("20261120-140912-345-7f3a".to_owned()),
            ..ComparedRun::default()
        },
        verdict: ComparisonVerdict::Regression,
        alpha: 0.05,
        pass_rate: Some(change(100, 410, 373)),
        cases: cases(),
        assertions: vec![
            AssertionChange::new("judge", Some("polite".to_owned()), change(60, 280, 240), 0.001_2),
            AssertionChange::new(
                "contains",
                None,
                RateChange { p_value: 0.6, ..change(40, 190, 189) },
                0.6,
            ),
        ],
        differences: vec![ConditionChange {
            condition: Condition::Prompt,
            name: Some("support".to_owned()),
            before: Some("digest 5f1d7a84".to_owned()),
            after: Some("digest 0c2a5f2d".to_owned()),
        }],
    }
}

fn cases() -> Vec<CaseChange> {
    let case = |case: &str, kind, before: Option<u64>, after: Option<u64>| {
        let rate = |passed: Option<u64>| passed.and_then(|it| PassRate::from_counts(it, 5));
        let is_compared = before.is_some() && after.is_some();
        CaseChange {
            case: case.to_owned(),
            model: "gpt-4o".to_owned(),
            kind,
            before: rate(before),
            after: rate(after),
            p_value: is_compared.then_some(0.04),
        }
    };
    let reason = |text: &str| text.to_owned();
    vec![
        case("refund <script>alert(1)</script>", CaseChangeKind::Regression, Some(5), Some(0)),
        case("order @everyone", CaseChangeKind::Fix, Some(0), Some(5)),
        case("slower", CaseChangeKind::Changed, Some(5), Some(3)),
        case("faster", CaseChangeKind::Changed, Some(3), Some(4)),
        case("same", CaseChangeKind::Unchanged, Some(5), Some(5)),
        case(
            "unread",
            CaseChangeKind::Unknown { reason: reason("1 of 5 repeats could not be judged after") },
            Some(5),
            Some(4),
        ),
        case(
            "other rules",
            CaseChangeKind::NotComparable {
                reason: reason(
                    "its variables, checks or `repeat` differ (rules `tone`: version 3 → version 4)",
                ),
            },
            Some(5),
            Some(5),
        ),
        case("fresh", CaseChangeKind::New, None, Some(5)),
        case("removed", CaseChangeKind::Gone, Some(5), None),
    ]
}

/// Returns a comparison in which no case changed.
pub(super) fn unchanged_comparison() -> Comparison {
    let comparison = sample_comparison();
    let rate = PassRate { rate: 1.0, passed: 100, judged: 100 };
    Comparison {
        verdict: ComparisonVerdict::NoRegressionBeyond { margin: 0.05 },
        pass_rate: Some(RateChange {
            before: rate,
            after: rate,
            cases: 100,
            clusters: 100,
            difference: 0.0,
            low: -0.036_217,
            high: 0.036_217,
            p_value: 1.0,
        }),
        cases: comparison
            .cases
            .into_iter()
            .filter(|it| it.kind == CaseChangeKind::Unchanged)
            .collect(),
        assertions: Vec::new(),
        differences: Vec::new(),
        ..sample_comparison()
    }
}
