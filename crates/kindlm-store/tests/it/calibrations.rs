//! What is known about judges is found again, and no file is taken for another.

use kindlm_store::{Calibration, Calibrations, Counts, StoreError, prompt_digest};

fn calibration(both_pass: u64) -> Calibration {
    Calibration {
        calibrated_at: "2026-11-22T00:00:00.000Z".to_owned(),
        kindlm_version: "0.1.0".to_owned(),
        prompts: vec![prompt_digest("Be strict.")],
        labels: "labels.csv".to_owned(),
        labels_digest: "0123456789abcdef".to_owned(),
        counts: Counts { both_pass, only_human: 1, only_judge: 2, both_fail: 3 },
        errored: 0,
        base_rate: 0.5,
        agreement: 0.8,
        kappa: Some(0.6),
        kappa_interval: Some([0.4, 0.8]),
    }
}

#[test]
fn each_kind_of_check_is_kept_by_itself_and_replaced_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let calibrations = Calibrations::new(folder.path());
    assert!(calibrations.of("openai", "gpt-4o").unwrap().is_empty());
    for (check, both_pass) in [("judge", 1), ("prompt-assertion", 2), ("judge", 3)] {
        let path = calibrations.set("openai", "gpt-4o", check, calibration(both_pass)).unwrap();
        assert!(path.ends_with("calibrations/openai-gpt-4o.json"), "{}", path.display());
    }
    let known = calibrations.of("openai", "gpt-4o").unwrap();
    assert_eq!(known.keys().collect::<Vec<_>>(), ["judge", "prompt-assertion"]);
    assert_eq!(known["judge"], calibration(3));
    assert!(calibrations.of("openai", "gpt-4o-mini").unwrap().is_empty());
}

#[test]
fn judges_have_files_of_their_own_whatever_they_are_called() {
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
        judges.iter().map(|(provider, model)| calibrations.path(provider, model)).collect();
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
    let path = calibrations.path("openai", "gpt-4o");
    calibrations.set("openai", "gpt-4o", "judge", calibration(1)).unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    for (text, why) in [
        ("{".to_owned(), "EOF"),
        (good.replace(r#""version": "1""#, r#""version": "9""#), "version \"9\""),
        (good.replace(r#""model": "gpt-4o""#, r#""model": "other""#), "`openai:other`"),
        (good.replace("bothPass", "bothPasses"), "bothPasses"),
    ] {
        std::fs::write(&path, &text).unwrap();
        let err = calibrations.of("openai", "gpt-4o").unwrap_err();
        assert!(matches!(err, StoreError::Calibration { .. }), "{err}");
        assert!(err.to_string().contains(why), "{err}");
        calibrations.set("openai", "gpt-4o", "judge", calibration(2)).unwrap_err();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}
