//! `kindlm import` writes a suite with the same results as the config, for all fixtures.

use std::path::{Path, PathBuf};

use kindlm_testing::installed;
use serde_json::Value;

use crate::ran::{kindlm, rows};

/// Returns the folder of all fixtures.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

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

/// Runs a config and its imported suite, and checks that the results are equal.
///
/// Returns false if the config is invalid.
fn same(name: &str, folder: &Path, config: &str) -> bool {
    let (direct, expected) = rows(folder, config, &[]);
    if direct.code == 2 {
        return false;
    }
    let args = ["import", config, "-o", "imported.yaml", "--force", "--allow-programs"];
    let imported = kindlm(folder, &args);
    assert_eq!(imported.code, 0, "{name}: {}", imported.stderr);
    let (again, actual) = rows(folder, "imported.yaml", &[]);
    assert_eq!(again.code, direct.code, "{name}: {}", again.stderr);
    assert_eq!(actual, expected, "{name}");
    assert!(!actual.is_empty(), "{name}");
    true
}

#[test]
fn an_imported_suite_runs_like_the_config() {
    let mut count = 0;
    for project in ["cli/promptfoo", "promptfoo/support", "promptfoo/extraction"] {
        if project == "promptfoo/extraction" && !installed("python3") {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        copy(&fixtures().join(project), folder.path());
        assert!(same(project, folder.path(), "promptfooconfig.yaml"), "{project} cannot be read");
        count += 1;
    }
    let vectors = fixtures().join("conformance/promptfoo/eval_level.jsonl");
    for line in std::fs::read_to_string(vectors).unwrap().lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let config = vector["config"].to_string();
        std::fs::write(folder.path().join("promptfooconfig.json"), config).unwrap();
        for (name, content) in vector["files"].as_object().unwrap() {
            std::fs::write(folder.path().join(name), content.as_str().unwrap()).unwrap();
        }
        let name = vector["id"].as_str().unwrap();
        count += usize::from(same(name, folder.path(), "promptfooconfig.json"));
    }
    assert!(count >= 14, "only {count} configs could be run");
}
