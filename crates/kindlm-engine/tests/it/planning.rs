//! Planning: what is selected, in which order, and what is refused.

use std::collections::HashSet;

use kindlm_engine::{Filter, PlanError, RunOptions, Suite, Targets, TestCase, Unit, plan};
use proptest::prelude::*;

use crate::support::{model, suite};

/// Cases `refund` [eu, slow], `refund-late` [eu] on both models, `tone` (skipped), and the command `agent` [slow].
fn example() -> Suite {
    let mut it = suite(&["refund", "refund-late", "tone"]);
    it.cases[0].tags = vec!["eu".to_owned(), "slow".to_owned()];
    it.cases[1].tags = vec!["eu".to_owned()];
    it.cases[1].models.push("b".to_owned());
    it.cases[1].repeat = 2;
    it.cases[2].skip = Some("not ready".to_owned());
    it.cases
        .push(TestCase { tags: vec!["slow".to_owned()], ..TestCase::command("agent", "./agent") });
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
    let unit = |case, model, repeat| Unit { case, model, repeat };
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
    assert_eq!(plan.deselected, 0);
}

#[test]
fn selects_by_tag_name_and_model() {
    let suite = example();
    for (tags, tests, models, units, skipped, deselected) in [
        (&["eu"][..], &[][..], &[][..], 5, 0, 2),
        (&["eu", "slow"], &[], &[], 6, 0, 1),
        (&[], &["refund"], &[], 5, 0, 2),
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
fn leaves_out_what_has_a_tag() {
    let suite = example();
    for (tags, without, units) in [
        (&[][..], &["slow"][..], 4),
        (&["eu"], &["slow"], 4),
        (&["eu", "slow"], &["eu"], 1),
        (&[], &["eu"], 1),
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
    options.filter.without_tags = vec!["slwo".to_owned()];
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
    suite.cases[0].models = vec!["aa".to_owned()];
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
    suite.cases[0].models.clear();
    let plan = plan(&suite, &RunOptions::default()).unwrap();
    assert!(plan.units.is_empty());
    assert_eq!(plan.skipped[0].reason, "it names no model to run on");
}

#[test]
fn a_model_named_twice_is_run_twice_as_often() {
    let mut suite = suite(&["x"]);
    suite.cases[0].models = ["a", "b", "a"].map(str::to_owned).into();
    let plan = plan(&suite, &RunOptions { repeat: Some(2), ..RunOptions::default() }).unwrap();
    let units: Vec<_> = plan.units.iter().map(|it| (it.model.unwrap(), it.repeat)).collect();
    assert_eq!(units, [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]);
}

#[test]
fn patterns_that_cannot_be_read_say_why() {
    for (pattern, reason) in [
        ("", "it is empty"),
        ("[a", "unclosed character class; missing ']'"),
        ("/(/", "unclosed group"),
    ] {
        let err = pattern.parse::<kindlm_engine::Pattern>().unwrap_err();
        assert_eq!(
            err.to_string(),
            format!("`{pattern}` is not a pattern for test names: {reason}")
        );
    }
}

proptest! {
    #[test]
    fn covers_each_unit_exactly_once(
        shape in proptest::collection::vec((1..4_u32, 0..4_usize, any::<bool>()), 0..12),
        repeat in proptest::option::of(1..5_u32),
    ) {
        let ids = ["a", "b", "c"];
        let cases = shape.iter().enumerate().map(|(i, (repeat, models, skip))| TestCase {
            repeat: *repeat,
            skip: skip.then(|| "later".to_owned()),
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
                    expected.extend((0..repeat.unwrap_or(*own)).map(|repeat| Unit { case, model: Some(model), repeat }));
                }
            }
        }
        let unique: HashSet<Unit> = plan.units.iter().copied().collect();
        prop_assert_eq!(unique.len(), plan.units.len());
        prop_assert_eq!(plan.units, expected);
    }
}
