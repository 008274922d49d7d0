//! Calibrations are loaded for the right judge, and files of other judges are not mixed up.

use kindlm_stats::Confusion;
use kindlm_store::{
    Calibration, Calibrations, CriterionCounts, Judge, JudgeModel, StoreError, Watch,
};
use serde_json::json;

fn model(provider: &str, model: &str) -> JudgeModel {
    JudgeModel::new(provider, model)
}

fn one(provider: &str, name: &str) -> Judge {
    Judge::new(vec![model(provider, name)])
}

fn calibration(check: &str, both_pass: u64) -> Calibration {
    let counts = Confusion { both_pass, only_human: 1, only_judge: 2, both_fail: 3 };
    Calibration {
        kindlm_version: "0.1.0".to_owned(),
        prompts: vec!["0123".to_owned()],
        labels: "labels.csv".to_owned(),
        labels_digest: "0123456789abcdef".to_owned(),
        fingerprints: vec!["fp_1".to_owned()],
        ..Calibration::new(check, "2026-11-22T00:00:00.000Z", counts)
    }
}

#[test]
fn each_kind_of_check_has_its_own_calibration() {
    let folder = tempfile::tempdir().unwrap();
    let calibrations = Calibrations::new(folder.path());
    let judge = one("openai", "gpt-4o");
    assert!(
        calibrations.for_judge(&judge).unwrap().is_empty()
            && calibrations.all().unwrap().is_empty()
    );
    for (check, both_pass) in [("judge", 1), ("prompt-assertion", 2), ("judge", 3)] {
        let path = calibrations.set(&judge, calibration(check, both_pass)).unwrap();
        assert!(path.ends_with("calibrations/openai-gpt-4o.json"), "{}", path.display());
    }
    // Calibrations with different instructions are both stored.
    let other = Calibration { prompts: vec!["4567".to_owned()], ..calibration("judge", 4) };
    calibrations.set(&judge, other.clone()).unwrap();
    let known = calibrations.for_judge(&judge).unwrap();
    assert_eq!(known, [calibration("judge", 3), other, calibration("prompt-assertion", 2)]);
    assert!(calibrations.for_judge(&one("openai", "gpt-4o-mini")).unwrap().is_empty());
    assert_eq!(calibrations.all().unwrap(), [(judge, known)]);
}

#[test]
fn a_judge_asked_three_times_is_another_judge() {
    let folder = tempfile::tempdir().unwrap();
    let calibrations = Calibrations::new(folder.path());
    let with = |settings: serde_json::Value| {
        let mut judge = one("openai", "gpt-4o");
        judge.settings = settings.as_object().cloned().unwrap();
        judge
    };
    let judges = [
        one("openai", "gpt-4o"),
        with(json!({"samples": 3, "agg": "median"})),
        with(json!({"samples": 3, "agg": "mean"})),
        with(json!({"temperature": 1})),
        Judge::new(vec![model("a", "b"), model("c", "d")]),
        Judge::new(vec![model("a", "b"), model("c", "e")]),
    ];
    for (number, judge) in (1..).zip(&judges) {
        calibrations.set(judge, calibration("judge", number)).unwrap();
    }
    for (number, judge) in (1..).zip(&judges) {
        assert_eq!(calibrations.for_judge(judge).unwrap(), [calibration("judge", number)]);
    }
    assert_eq!(calibrations.all().unwrap().len(), judges.len());
}

#[test]
fn every_judge_has_its_own_file() {
    let calibrations = Calibrations::new("state");
    let long = "m".repeat(300);
    let judges = [
        ("openai", "gpt-4o"),
        ("openai", "gpt/4o"),
        ("openai", "gpt:4o"),
        ("open-ai", "gpt"),
        ("open", "ai-gpt"),
        ("..", "x"),
        ("openai", long.as_str()),
        ("ollama", "llama3:8b"),
        ("é", "ü"),
    ];
    let paths: std::collections::BTreeSet<_> =
        judges.iter().map(|(provider, model)| calibrations.path(&one(provider, model))).collect();
    assert_eq!(paths.len(), judges.len());
    for path in &paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(path.parent(), Some(std::path::Path::new("state/calibrations")));
        assert!(name.len() < 120 && name.is_ascii() && !name.starts_with('.'), "{name}");
    }
}

#[test]
fn a_damaged_file_is_an_error_and_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let calibrations = Calibrations::new(folder.path());
    let judge = one("openai", "gpt-4o");
    let path = calibrations.path(&judge);
    calibrations.set(&judge, calibration("judge", 1)).unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    let with = |key: &str, value: serde_json::Value| {
        let mut file: serde_json::Value = serde_json::from_str(&good).unwrap();
        file["calibrations"][0][key] = value;
        file.to_string()
    };
    for (text, why) in [
        ("{".to_owned(), "EOF"),
        (good.replace(r#""version": "3""#, r#""version": "9""#), "version \"9\""),
        (good.replace(r#""model": "gpt-4o""#, r#""model": "other""#), "`openai:other`"),
        (good.replace("bothPass", "bothPasses"), "bothPasses"),
        (with("kappa", json!(0.9)), "`kappa` has 0.9, which does not match the counts"),
        (good.replace(r#""bothPass": 1"#, r#""bothPass": 90"#), "does not match the counts"),
        (
            good.replace(r#""bothPass": 1"#, &format!(r#""bothPass": {}"#, u64::MAX)),
            "does not match the counts",
        ),
        (with("baseRate", json!(7.2)), "`baseRate` has 7.2"),
    ] {
        std::fs::write(&path, &text).unwrap();
        let err = calibrations.for_judge(&judge).unwrap_err();
        assert!(matches!(err, StoreError::Calibration { .. }), "{err}");
        assert!(err.to_string().contains(why), "{err}");
        calibrations.set(&judge, calibration("judge", 2)).unwrap_err();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

fn watch(of: &Calibration, alarm: Option<&str>) -> Watch {
    let mut watch = of.new_watch("2026-12-01T00:00:00.000Z");
    (watch.different, watch.asked, watch.evidence) = (9, 50, 346.28);
    watch.fingerprints = vec!["fp_2".to_owned()];
    watch.run = Some("20261201-000000-000-0a1b".to_owned());
    (watch.cost_usd, watch.known_cost_usd, watch.tokens) = (Some(0.002), 0.002, 812);
    watch.alarm = alarm.map(str::to_owned);
    watch
}

#[test]
fn an_alarm_lasts_until_the_judge_is_calibrated_again() {
    let folder = tempfile::tempdir().unwrap();
    let calibrations = Calibrations::new(folder.path());
    let judge = one("openai", "gpt-4o");
    let criterion = |name: &str| CriterionCounts {
        name: name.to_owned(),
        digest: name.to_owned(),
        calibrated_at: "2026-11-22T00:00:00.000Z".to_owned(),
        counts: calibration("judge", 1).counts,
    };
    let with = |name: &str, at: &str| Calibration {
        criteria: vec![criterion(name)],
        calibrated_at: at.to_owned(),
        ..calibration("judge", 1)
    };
    let (first, other) = (with("polite", "2026-11-22"), calibration("prompt-assertion", 1));
    calibrations.set(&judge, first.clone()).unwrap();
    calibrations.set(&judge, other.clone()).unwrap();
    assert_eq!(calibrations.alarm(&judge, &first).unwrap(), None);
    calibrations
        .add_watch(&judge, &first, |earlier| {
            assert!(earlier.is_empty());
            watch(&first, Some("judge changed"))
        })
        .unwrap();
    calibrations
        .add_watch(&judge, &first, |earlier| {
            assert_eq!(earlier.len(), 1);
            watch(&first, None)
        })
        .unwrap();
    assert_eq!(calibrations.alarm(&judge, &first).unwrap().as_deref(), Some("judge changed"));
    assert_eq!(calibrations.alarm(&judge, &other).unwrap(), None);
    // Agreement on other criteria is older than the change, so it does not count any more.
    let second = with("short", "2026-12-02");
    calibrations.set(&judge, second.clone()).unwrap();
    let known = |at: usize| calibrations.for_judge(&judge).unwrap()[at].clone();
    assert_eq!(known(0), second);
    assert_eq!(calibrations.alarm(&judge, &second).unwrap(), None);
    calibrations.set(&judge, with("polite", "2026-12-03")).unwrap();
    assert_eq!(known(0).criteria, [criterion("polite"), criterion("short")]);
    assert_eq!(calibrations.all().unwrap().len(), 1, "watches are no calibrations");
}

#[test]
fn a_damaged_watch_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let calibrations = Calibrations::new(folder.path());
    let (judge, known) = (one("openai", "gpt-4o"), calibration("judge", 1));
    calibrations.set(&judge, known.clone()).unwrap();
    let path = calibrations.path(&judge).with_extension("watches.jsonl");
    let line = serde_json::to_string(&watch(&known, None)).unwrap();
    // An editor may remove the last line break. The next watch must not damage the line without it.
    std::fs::write(&path, &line).unwrap();
    calibrations.add_watch(&judge, &known, |_| watch(&known, Some("changed"))).unwrap();
    assert_eq!(calibrations.watches(&judge, &known).unwrap().len(), 2);
    std::fs::write(&path, format!("{line}\n{}", &line[..20])).unwrap();
    for err in [
        calibrations.alarm(&judge, &known).unwrap_err(),
        calibrations.add_watch(&judge, &known, |_| unreachable!()).unwrap_err(),
    ] {
        assert!(err.to_string().contains("watches.jsonl`: line 2: EOF"), "{err}");
    }
}

#[test]
fn watches_of_several_threads_are_counted_one_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let calibrations = Calibrations::new(folder.path());
    let (judge, known) = (one("openai", "gpt-4o"), calibration("judge", 1));
    calibrations.set(&judge, known.clone()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let make = |earlier: &[Watch]| {
                    let mut watch = watch(&known, None);
                    watch.asked = earlier.len() as u64;
                    watch
                };
                calibrations.add_watch(&judge, &known, make).unwrap();
            });
        }
    });
    let asked = calibrations.watches(&judge, &known).unwrap();
    assert!(asked.iter().map(|it| it.asked).eq(0..8), "{asked:?}");
}

#[test]
fn calibrations_of_several_threads_are_all_stored() {
    let folder = tempfile::tempdir().unwrap();
    let calibrations = Calibrations::new(folder.path());
    let judge = one("openai", "gpt-4o");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (calibrations, judge) = (&calibrations, &judge);
            scope.spawn(move || {
                for number in 0..8 {
                    let check = format!("check-{thread}-{number}");
                    calibrations.set(judge, calibration(&check, 1)).unwrap();
                }
            });
        }
    });
    assert_eq!(calibrations.for_judge(&judge).unwrap().len(), 64);
    assert_eq!(std::fs::read_dir(folder.path().join("calibrations")).unwrap().count(), 1);
}
