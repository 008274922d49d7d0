//! Typical promptfoo projects: files, programs, tables, scenarios, and models behind a server.

use std::path::Path;

use kindlm_testing::installed;
use serde_json::{Value, json};

use crate::ran::{CONFIG, kindlm, rows};

fn project(name: &str) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        for item in std::fs::read_dir(from).unwrap() {
            let path = item.unwrap().path();
            let target = to.join(path.file_name().unwrap());
            if path.is_dir() {
                std::fs::create_dir_all(&target).unwrap();
                copy(&path, &target);
            } else {
                std::fs::copy(&path, &target).unwrap();
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/promptfoo").join(name);
    copy(&from, folder.path());
    folder
}

/// Returns the number of passed and of all executions for each test, sorted by name.
fn passed(rows: &[Value]) -> Vec<(String, usize, usize)> {
    let mut counts: Vec<(String, usize, usize)> = Vec::new();
    for row in rows {
        let name = row["test"].as_str().unwrap().split(" · ").next().unwrap().to_owned();
        let passed = usize::from(row["status"] == "passed");
        match counts.iter_mut().find(|(it, ..)| *it == name) {
            Some((_, count, all)) => (*count, *all) = (*count + passed, *all + 1),
            None => counts.push((name, passed, 1)),
        }
    }
    counts.sort();
    counts
}

#[test]
fn a_support_desk_with_functions_filters_tables_and_scenarios() {
    let folder = project("support");
    let (ran, rows) = rows(folder.path(), CONFIG, &[]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let counts = passed(&rows);
    let counts: Vec<(&str, usize, usize)> =
        counts.iter().map(|(name, passed, all)| (name.as_str(), *passed, *all)).collect();
    // There are three prompts on one provider, and one of them also on another provider.
    let expected = [
        ("greets in the language", 4, 4),
        ("greets in the language (2)", 4, 4),
        ("hands over", 4, 4),
        ("knows about orders", 4, 4),
    ];
    assert_eq!(counts.iter().map(|it| it.2).sum::<usize>(), 16, "{counts:?}");
    assert!(counts.iter().all(|(_, passed, all)| passed == all), "{counts:?} {expected:?}");
    assert!(folder.path().join("results.json").is_file(), "the config asks for it");
    assert!(rows.iter().all(|it| it["namedScores"]["brevity"] == 1.0), "{rows:?}");
}

#[test]
fn an_extraction_with_python_typescript_and_templates() {
    if !installed("python3") {
        return;
    }
    let folder = project("extraction");
    let (ran, rows) = rows(folder.path(), CONFIG, &[]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    // There are five letters × two prompts × two providers.
    assert_eq!(rows.len(), 20, "{rows:?}");
    let plain = rows.iter().find(|it| it["test"].as_str().unwrap().starts_with("a plain letter"));
    assert_eq!(plain.unwrap()["namedScores"], json!({"facts": 1.0}));
    assert_eq!(plain.unwrap()["vars"]["letter"], "From: Ada Lovelace. I am 36.");
}

#[test]
fn commands_for_looking_at_a_project_send_nothing() {
    let folder = project("support");
    for args in [&["validate", "-c", CONFIG][..], &["test", "-c", CONFIG, "--dry-run"]] {
        let ran = kindlm(folder.path(), args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    }
    assert!(!folder.path().join("results.json").exists());
    assert!(!folder.path().join(".kindlm").exists());
}
