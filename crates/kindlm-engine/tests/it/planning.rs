//! Planning: selection, order and errors.

use std::collections::HashSet;

use kindlm_engine::{
    Digest, Filter, PlanError, RunOptions, Shard, Suite, Targets, TestCase, Unit, plan, shard,
};
use proptest::prelude::*;

use crate::support::{model, suite};

/// Builds a suite with `refund` (tags eu, slow), `refund-late` (eu), `tone` (skipped) and the command `agent` (slow).
fn example() -> Suite {
    let mut it = suite(&["refund", "refund-late", "tone"]);
    it.cases[0].tags = ["eu", "slow"].map(str::to_owned).into();
    it.cases[1].tags = ["eu".to_owned()].into();
    it.cases[1].models = ["a", "b"].map(str::to_owned).into();
    it.cases[1].repeat = 2;
    it.cases[2].skip = Some("not ready".into());
    it.cases.push(TestCase {
        tags: ["slow".to_owned()].into(),
        ..TestCase::command("agent", "./agent")
    });
    it
}

fn options(tags: &[&str], tests: &[&str], models: &[&str]) -> RunOptions {
    let owned = |list: &[&str]| list.iter().map(|&it| it.to_owned()).collect();
    RunOptions {
        filter: Filter {
            tags: owned(tags),
            tests: tests.iter().map(|it| it.parse().unwrap()).collect(),
            models: owned(models),
            ..Filter::default()
        },
        ..RunOptions::default()
    }
}

#[test]
fn plans_by_case_then_model_then_repeat() {
    let plan = plan(&example(), &RunOptions::default()).unwrap();
    let unit = Unit::new;
    assert_eq!(
        plan.units,
        [
            unit(0, Some(0), 0),
            unit(1, Some(0), 0),
            unit(1, Some(0), 1),
            unit(1, Some(1), 0),
            unit(1, Some(1), 1),
            unit(3, None, 0),
        ]
    );
    let skipped: Vec<(&str, &str)> =
        plan.skipped.iter().map(|it| (it.case.as_str(), it.reason.as_str())).collect();
    assert_eq!(skipped, [("tone", "not ready")]);
    assert_eq!((plan.deselected, plan.is_selection), (0, false));
}

#[test]
fn plans_know_if_a_filter_leaves_something_out() {
    let suite = example();
    for (tests, models, deselected, is_selection) in [
        (&["/./"][..], &[][..], 0, false),
        (&["refu"], &[], 2, true),
        // Each case runs on one of these models, but one case also runs on another model.
        (&[], &["a", "command"], 0, true),
        (&[], &["a", "b", "command"], 0, false),
    ] {
        let plan = plan(&suite, &options(&[], tests, models)).unwrap();
        let found = (plan.deselected, plan.is_selection);
        assert_eq!(found, (deselected, is_selection), "{tests:?} {models:?}");
    }
}

#[test]
fn selects_by_tag_name_and_model() {
    let suite = example();
    for (tags, tests, models, units, skipped, deselected) in [
        (&["eu"][..], &[][..], &[][..], 5, 0, 2),
        (&["eu", "slow"], &[], &[], 6, 0, 1),
        (&[], &["refu"], &[], 5, 0, 2),
        // The whole name of a case selects only this case.
        (&[], &["refund"], &[], 1, 0, 3),
        (&[], &["refund", "late"], &[], 5, 0, 2),
        (&[], &["refund-*"], &[], 4, 0, 3),
        (&[], &["/^refund$/"], &[], 1, 0, 3),
        (&[], &["/REFUND$/i", "tone"], &[], 1, 1, 2),
        (&[], &[], &["b"], 2, 0, 3),
        (&[], &[], &["command"], 1, 0, 3),
        (&[], &[], &["a"], 3, 1, 1),
        (&["slow"], &["/./"], &["a"], 1, 0, 3),
    ] {
        let plan = plan(&suite, &options(tags, tests, models)).unwrap();
        let case = format!("{tags:?} {tests:?} {models:?}");
        assert_eq!(plan.units.len(), units, "{case}");
        assert_eq!(plan.skipped.len(), skipped, "{case}");
        assert_eq!(plan.deselected, deselected, "{case}");
    }
}

#[test]
fn excluded_tags_deselect_tests() {
    let suite = example();
    for (tags, without, units) in [
        (&[][..], &["slow"][..], 4),
        (&["eu"], &["slow"], 4),
        (&["eu", "slow"], &["eu"], 1),
        (&[], &["eu"], 1),
        // No case has the excluded tag, so all cases are selected.
        (&[], &["slwo"], 6),
        (&["eu"], &["slwo", "slow"], 4),
    ] {
        let mut options = options(tags, &[], &[]);
        options.filter.without_tags = without.iter().map(|&it| it.to_owned()).collect();
        let plan = plan(&suite, &options).unwrap();
        assert_eq!(plan.units.len(), units, "{tags:?} without {without:?}");
    }
    let mut options = options(&["eu"], &[], &[]);
    options.filter.without_tags = vec!["eu".to_owned()];
    assert_eq!(
        plan(&suite, &options).unwrap_err().to_string(),
        "no test case is selected: each of the tags `eu` and the tags `!eu` selects some, but none is selected by \
         all; ask for less at once"
    );
    options.filter.tags = vec!["slwo".to_owned()];
    assert_eq!(
        plan(&suite, &options).unwrap_err().to_string(),
        "no test case has the tag `slwo`: did you mean `slow`?"
    );
}

#[test]
fn selects_cases_on_some_of_their_models() {
    let suite = example();
    let mut targets = Targets::default();
    targets.insert("refund-late", "b");
    targets.insert("agent", "command");
    targets.insert("tone", "b");
    targets.insert("gone", "a");
    let mut options = options(&[], &[], &[]);
    options.filter.only = Some(targets);
    let it = plan(&suite, &options).unwrap();
    let units: Vec<_> = it.units.iter().map(|it| (it.case, it.model, it.repeat)).collect();
    assert_eq!(units, [(1, Some(1), 0), (1, Some(1), 1), (3, None, 0)]);
    assert_eq!((it.skipped.len(), it.deselected), (0, 2));
    options.filter.only = Some(Targets::default());
    assert!(matches!(plan(&suite, &options), Err(PlanError::NothingSelected { .. })));
}

#[test]
fn a_filter_that_selects_nothing_is_an_error() {
    let suite = example();
    for (options, message) in [
        (options(&["ue"], &[], &[]), "no test case has the tag `ue`: did you mean `eu`?"),
        (
            options(&["european"], &[], &[]),
            "no test case has the tag `european`: tags: `eu`, `slow`",
        ),
        (options(&[], &["refnd"], &[]), "no test case matches `refnd`: did you mean `refund`?"),
        (options(&[], &["/x+/"], &[]), "no test case matches `/x+/`: the suite has 4 test cases"),
        (options(&[], &[], &["gpt"]), "model `gpt` is not configured: configured models: `a`, `b`"),
        (
            options(&["slow"], &["tone"], &["a"]),
            "no test case is selected: each of the tags `slow` and the test names `tone` and the models `a` \
             selects some, but none is selected by all; ask for less at once",
        ),
    ] {
        assert_eq!(plan(&suite, &options).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_case_with_an_unknown_model_is_an_error() {
    let mut suite = example();
    suite.cases[0].models = ["aa".to_owned()].into();
    assert_eq!(
        plan(&suite, &RunOptions::default()),
        Err(PlanError::UnknownModelOfCase {
            case: "refund".to_owned(),
            model: "aa".to_owned(),
            help: "did you mean `a`?".to_owned(),
        })
    );
}

#[test]
fn a_case_without_models_is_skipped_with_a_reason() {
    let mut suite = suite(&["x"]);
    suite.cases[0].models = [].into();
    let plan = plan(&suite, &RunOptions::default()).unwrap();
    assert!(plan.units.is_empty());
    assert_eq!(plan.skipped[0].reason, "it names no model to run on");
}

#[test]
fn duplicate_models_run_twice_as_often() {
    let mut suite = suite(&["x"]);
    suite.cases[0].models = ["a", "b", "a"].map(str::to_owned).into();
    let plan = plan(&suite, &RunOptions { repeat: Some(2), ..RunOptions::default() }).unwrap();
    let units: Vec<_> = plan.units.iter().map(|it| (it.model.unwrap(), it.repeat)).collect();
    assert_eq!(units, [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]);
}

#[test]
fn unreadable_patterns_name_the_reason() {
    for (pattern, reason) in [("", "it is empty"), ("/(/", "unclosed group")] {
        let err = pattern.parse::<kindlm_engine::Pattern>().unwrap_err();
        assert_eq!(
            err.to_string(),
            format!("`{pattern}` is not a pattern for test names: {reason}")
        );
    }
}

#[test]
fn texts_that_name_no_shard_are_refused() {
    for text in ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1/99999"] {
        assert_eq!(
            text.parse::<Shard>().unwrap_err().to_string(),
            format!(
                "`{text}` is no part of a run: write `1/3` to `3/3` for three parts, at most 10000"
            )
        );
    }
}

#[test]
fn shards_of_different_plans_have_different_digests() {
    let suite = example();
    let digest = |suite: &Suite, options: &RunOptions, durations, count| {
        let whole = plan(suite, options).unwrap();
        let part = shard(suite, &whole, options, Shard::new(1, count), durations);
        part.part.unwrap().shard.plan_digest
    };
    let usual = RunOptions::default();
    let first = digest(&suite, &usual, None, 2);
    assert_eq!(digest(&suite, &usual, None, 2), first);
    assert_ne!(digest(&suite, &usual, None, 3), first, "number of shards");
    let others = [
        RunOptions { repeat: Some(5), ..usual.clone() },
        RunOptions { strict: true, ..usual.clone() },
        options(&["eu"], &[], &[]),
        options(&[], &[], &["b"]),
    ];
    for other in others {
        assert_ne!(digest(&suite, &other, None, 2), first, "{other:?}");
    }
    let mut changed = example();
    changed.cases[0].digest = Some(Digest::default().text("other").finish());
    assert_ne!(digest(&changed, &usual, None, 2), first, "content of a case");
}

proptest! {
    #[test]
    fn shards_cover_each_unit_exactly_once(
        repeats in proptest::collection::vec(1..9_u32, 0..20),
        count in 1..9_u32,
    ) {
        let cases = repeats.iter().enumerate().map(|(i, repeat)| TestCase {
            repeat: *repeat,
            skip: (i % 5 == 4).then(|| "later".into()),
            ..TestCase::prompt(format!("case {i}"), "hi", &["a", "b"])
        });
        let suite = Suite { models: ["a", "b"].map(model).into(), cases: cases.collect(), ..Suite::default() };
        let options = RunOptions::default();
        let whole = plan(&suite, &options).unwrap();
        let parts: Vec<_> = (1..=count)
            .map(|index| shard(&suite, &whole, &options, Shard::new(index, count), None))
            .collect();
        let mut units: Vec<Unit> = parts.iter().flat_map(|it| it.units.iter().copied()).collect();
        units.sort_by_key(|it| (it.case, it.model, it.repeat));
        prop_assert_eq!(&units, &whole.units);
        prop_assert_eq!(parts.iter().map(|it| it.skipped.len()).sum::<usize>(), whole.skipped.len());
        let digests: HashSet<String> = parts.iter().map(|it| it.part.clone().unwrap().shard.plan_digest).collect();
        prop_assert_eq!(digests.len(), 1);
        // The sizes of two shards differ by at most the heaviest case.
        let sizes: Vec<usize> = parts.iter().map(|it| it.units.len()).collect();
        let heaviest = repeats.iter().max().copied().unwrap_or_default() as usize * 2;
        prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= heaviest);
    }

    #[test]
    fn covers_each_unit_exactly_once(
        shape in proptest::collection::vec((1..4_u32, 0..4_usize, any::<bool>()), 0..12),
        repeat in proptest::option::of(1..5_u32),
    ) {
        let ids = ["a", "b", "c"];
        let cases = shape.iter().enumerate().map(|(i, (repeat, models, skip))| TestCase {
            repeat: *repeat,
            skip: skip.then(|| "later".into()),
            ..TestCase::prompt(format!("case {i}"), "hi", &ids[..*models])
        });
        let suite = Suite {
            models: ids.map(model).into(),
            cases: cases.collect(),
            ..Suite::default()
        };
        let plan = plan(&suite, &RunOptions { repeat, ..RunOptions::default() }).unwrap();
        let mut expected = Vec::new();
        for (case, (own, models, skip)) in shape.iter().enumerate() {
            if !skip {
                for model in 0..*models {
                    expected.extend((0..repeat.unwrap_or(*own)).map(|repeat| Unit::new(case, Some(model), repeat)));
                }
            }
        }
        let unique: HashSet<Unit> = plan.units.iter().copied().collect();
        prop_assert_eq!(unique.len(), plan.units.len());
        prop_assert_eq!(plan.units, expected);
    }
}
