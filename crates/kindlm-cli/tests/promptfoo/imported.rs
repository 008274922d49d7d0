//! `kindlm import` writes a suite with the same results as the config, for all fixtures.

use std::path::{Path, PathBuf};

use kindlm_testing::installed;
use serde_json::Value;

use crate::ran::{CONFIG, folder, kindlm, rows};

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

/// A config, its files, and texts that its imported suite has.
type Form = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

const FORMS: [Form; 8] = [
    (
        "prompts: ['Say {{word}}', file://ask.txt]\nproviders: [echo]\ntests: file://tests.csv\n\
         defaultTest: { vars: { end: now }, assert: [{ type: contains, value: '{{word}}' }] }\n",
        &[
            ("ask.txt", "Ask {{word}} {{end}}\n"),
            (
                "tests.csv",
                "word,__expected,__expected2,__description,__metadata:tags[],__config:__expected2:threshold,__threshold,__metric\n\
                 one,contains: one,levenshtein: two,,a,3,0.5,m\ntwo,equals: Say two,,described,\"a,b\",,,\n",
            ),
        ],
        &[
            "- { dataset: file://tests.csv, format: promptfoo }",
            "  ask.txt: file://ask.txt",
            "vars: { end: now }",
        ],
    ),
    (
        "prompts: ['Say {{word}}']\nproviders: [echo]\ntests:\n- file://tests.jsonl\n- file://more.yaml\n\
         - { description: own, vars: { word: a }, assert: [{ type: contains, value: a }] }\n",
        &[
            (
                "tests.jsonl",
                "{\"vars\": {\"word\": [\"x\", \"y\"]}, \"assert\": [{\"type\": \"icontains\", \"value\": \"X\"}]}\n",
            ),
            (
                "more.yaml",
                "- { description: other, vars: { word: z }, metadata: { a: 1 }, threshold: 0.5 }\n",
            ),
        ],
        &["dataset: file://tests.jsonl", "dataset: file://more.yaml", "name: own"],
    ),
    (
        "prompts: [file://chat.json]\nproviders: [echo]\ntests: [{ vars: { a: [u, v], b: [w, x], c: z } }]\n",
        &[(
            "chat.json",
            "[{\"role\": \"system\", \"content\": \"{{a}}\"}, {\"role\": \"user\", \"content\": \"{{b}} {{c}}\"}]",
        )],
        &["chat.json: file://chat.json", "matrix: { a: [u, v], b: [w, x], c: [z] }"],
    ),
    (
        "# About the file.\nprompts:\n  # The first prompt.\n  - 'Say {{word}}' # in short\n  - 'Ask #1 {{word}}'\n\
         # Models that answer.\nproviders: [echo]\ntests:\n  # Checks a word.\n  - vars: { word: 'a # b' }\n    assert:\n      \
         # It must be there.\n      - { type: contains, value: a }\n  - vars: { word: b }\n# The end.\n",
        &[],
        &[
            "# About the file.\nkindlm: 1\n",
            "  # The first prompt.\n  # in short\n",
            "# Models that answer.\nmodels:",
            "# Checks a word.\n# It must be there.\n- ",
            "# The end.\n",
        ],
    ),
    // The tests of a file that a dataset cannot have are written out.
    (
        "prompts: ['Say {{word}}', 'Ask {{word}}']\nproviders: [echo]\ntests: file://tests.yaml\n",
        &[(
            "tests.yaml",
            "- { vars: { word: a }, prompts: ['Say {{word}}'] }\n- { vars: { word: b }, options: { prefix: 'Now: ' } }\n",
        )],
        &["name: 'Test 1 · Say {{word}}'", "'Now: Say {{word}}': *part1"],
    ),
    // A missing variable of a row is an empty text, as in promptfoo.
    (
        "prompts: ['Say {{word}}{{gone}}']\nproviders: [echo]\ntests: file://tests.csv\n",
        &[("tests.csv", "word,__expected\na,Say {{word}}\nb,contains: b{{gone}}\n")],
        &["kindlm: 1"],
    ),
    (
        "prompts: ['Say {{word}}']\nproviders: [{ id: echo, label: first }, { id: echo, label: second }]\n\
         tests: [{ vars: { word: a } }, { vars: { word: 'file://word.txt' } }]\n",
        &[("word.txt", "several\nlines\n")],
        &["kindlm: 1"],
    ),
    (
        "prompts: { file://a.txt: A, file://b.md: B }\nproviders: [echo]\ntests: [{ vars: { word: a }, prompts: [B] }, { vars: { word: b } }]\n",
        &[("a.txt", "A {{word}}"), ("b.md", "B {{word}}\n\n  two")],
        &["A: file://a.txt", "B: file://b.md"],
    ),
];

#[test]
fn an_imported_suite_keeps_files_lists_and_comments() {
    for (config, files, texts) in FORMS {
        let folder = folder(files);
        std::fs::write(folder.path().join(CONFIG), config).unwrap();
        assert!(same(config, folder.path(), CONFIG), "{config} cannot be read");
        let imported = std::fs::read_to_string(folder.path().join("imported.yaml")).unwrap();
        for text in texts {
            assert!(imported.contains(text), "{text}:\n{imported}");
        }
        let [direct, again] = [CONFIG, "imported.yaml"].map(|it| {
            kindlm(folder.path(), &["validate", "-c", it]).stderr.matches("warning").count()
        });
        assert!(again <= direct, "{config}\n{imported}");
    }
}
