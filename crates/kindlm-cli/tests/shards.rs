//! A run that is divided into shards has the same result as the undivided run.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use kindlm_wire::parse_report;
use regex::Regex;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Creates a folder with the files of the quickstart.
///
/// Adds a suite whose provider rejects requests, and other suites.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&root().join("fixtures/quickstart"), folder.path());
    let unreachable = "kindlm: 1\nproject: p\nsuite: { name: unreachable }\n\
        providers: { echo: {}, scripted: { replies: [{ error: { status: 401, message: no } }] } }\n\
        models: [{ id: m, provider: echo, model: m }, { id: gone, provider: scripted, model: gone }]\n\
        prompts: { p: { user: hello } }\ntests:\n  \
        - { name: a, prompt: p, models: [m], expect: { output: { contains: [hello] } } }\n  \
        - { name: b, prompt: p, models: [gone], expect: { output: { contains: [hello] } } }\n  \
        - { name: c, prompt: p, models: [m], skip: later, expect: { output: { contains: [hello] } } }\n";
    fs::write(folder.path().join("unreachable.yaml"), unreachable).unwrap();
    let repeats = "kindlm: 1\nproject: p\nsuite: { name: repeats }\nproviders: { echo: {} }\n\
        models: [{ id: m, provider: echo, model: m }, { id: n, provider: echo, model: n }]\n\
        prompts: { p: { user: \"{{n}}\" } }\ndefaults: { repeat: 3 }\ntests:\n";
    let mut repeats = repeats.to_owned();
    for n in 0..23 {
        let more = ["", ", skip: later", ", models: [n]", ", repeat: 7"][n % 4];
        writeln!(
            repeats,
            "  - {{ name: case {n}, prompt: p, vars: {{ n: \"{n}\" }}, \
             expect: {{ output: {{ contains: [\"1\"] }} }}{more} }}"
        )
        .unwrap();
    }
    fs::write(folder.path().join("repeats.yaml"), repeats).unwrap();
    let mut metrics = "kindlm: 1\nproject: p\nsuite: { name: metrics }\nproviders: { echo: {} }\n\
        models: [{ id: m, provider: echo, model: m }, { id: n, provider: echo, model: n }]\n\
        prompts: { p: { user: \"{{n}}\" } }\n\
        derivedMetrics: [{ name: style per test, value: style / __count }, { name: both, value: style + length }]\n\
        tests:\n"
        .to_owned();
    for n in 0..11 {
        writeln!(
            metrics,
            "  - {{ name: case {n}, prompt: p, vars: {{ n: \"{n}\" }}, expect: {{ assert: [\
             {{ type: contains, value: \"1\", metric: style, weight: 2 }}, \
             {{ type: word-count, value: 1, metric: length }}, {{ type: max-score }}] }} }}"
        )
        .unwrap();
    }
    fs::write(folder.path().join("metrics.yaml"), metrics).unwrap();
    folder
}

fn copy(from: &Path, to: &Path) {
    for item in fs::read_dir(from).unwrap() {
        let path = item.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_file() {
            fs::copy(&path, &target).unwrap();
        } else if !path.ends_with(".kindlm") {
            fs::create_dir(&target).unwrap();
            copy(&path, &target);
        }
    }
}

fn start(folder: &Path, args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_kindlm"))
        .args(args)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn run(folder: &Path, args: &[&str]) -> (String, Option<i32>, String) {
    split_output(start(folder, args).wait_with_output().unwrap())
}

fn split_output(output: Output) -> (String, Option<i32>, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), output.status.code(), text(output.stderr))
}

/// Replaces times and ids of runs, because nothing else may differ.
fn normalise(text: &str) -> String {
    [
        (r"\b\d{8}-\d{6}-\d{3}-[0-9a-f]{4}\b", "<run>"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( UTC|Z)?", "<time>"),
        (r#"name="latency_p50_ms" value="[^"]*""#, r#"name="latency_p50_ms" value="<ms>""#),
        (r#""latencyMs": ?\{[^}]*\}"#, "\"latencyMs\": <ms>"),
        (r#""(durationMs|latencyMs|latencyAvgMs)": ?[0-9.e-]+"#, "\"$1\": <ms>"),
        (r#"\btime="[^"]*""#, "time=\"<s>\""),
        (r" +\d+(\.\d+)? (ms|s)\b", " <ms>"),
    ]
    .into_iter()
    .fold(text.to_owned(), |text, (pattern, to)| {
        Regex::new(pattern).unwrap().replace_all(&text, to).into_owned()
    })
}

/// Runs all shards concurrently; returns the names of their reports, and their exit codes.
fn shards(
    folder: &Path,
    config: &str,
    count: u32,
    extra: &[&str],
) -> (Vec<String>, Vec<Option<i32>>) {
    let names: Vec<String> =
        (1..=count).map(|it| format!("{config}-{it}-of-{count}.json")).collect();
    let children: Vec<Child> = (1..=count)
        .zip(&names)
        .map(|(index, name)| {
            let (shard, reporter) = (format!("{index}/{count}"), format!("json={name}"));
            let args = ["test", "-c", config, "-q", "--shard", &shard, "--reporter", &reporter];
            start(folder, &[&args, extra].concat())
        })
        .collect();
    let codes =
        children.into_iter().map(|it| split_output(it.wait_with_output().unwrap()).1).collect();
    (names, codes)
}

const REPORTERS: [&str; 4] = ["json", "junit", "compliance", "pretty"];

/// Runs `command` with all reporters; returns the normalized reports, and the exit code.
fn reports(folder: &Path, command: &[&str]) -> (Vec<String>, Option<i32>) {
    let mut args = command.to_vec();
    let files = REPORTERS.map(|it| format!("{it}={it}.out"));
    for file in &files {
        args.extend(["--reporter", file]);
    }
    let (_, code, _) = run(folder, &args);
    let read = |id| {
        let text = normalise(&fs::read_to_string(folder.join(format!("{id}.out"))).unwrap());
        match id {
            // The hashes in this report depend on times and ids.
            "compliance" => {
                Regex::new(r"\b[0-9a-f]{64}\b").unwrap().replace_all(&text, "<hash>").into()
            }
            _ => text,
        }
    };
    (REPORTERS.map(read).into(), code)
}

#[test]
fn merged_shards_are_the_undivided_run() {
    let folder = folder();
    let folder = folder.path();
    for (config, exit, shard_exits) in [
        ("kindlm.yaml", 0, &[0][..]),
        ("broken.yaml", 1, &[0]),
        ("repeats.yaml", 1, &[0]),
        ("metrics.yaml", 1, &[0]),
        ("unreachable.yaml", 3, &[0, 3]),
    ] {
        let (whole, code) = reports(folder, &["test", "-c", config]);
        assert_eq!(code, Some(exit), "{config}");
        if config == "metrics.yaml" {
            let has = |text: &str| whole[0].contains(text);
            assert!(has("style / __count") && has("0.36363636363636365"), "{}", whole[0]);
        }
        for count in [1, 2, 3, 7] {
            let (mut names, codes) = shards(folder, config, count, &[]);
            let expected: BTreeSet<Option<i32>> = shard_exits.iter().copied().map(Some).collect();
            let actual: BTreeSet<Option<i32>> = codes.into_iter().collect();
            assert!(actual.is_subset(&expected), "{config} in {count}: {actual:?}");
            names.reverse();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let (merged, code) = reports(folder, &[&["merge"], names.as_slice()].concat());
            assert_eq!(code, Some(exit), "{config} in {count}");
            for (id, (merged, whole)) in REPORTERS.iter().zip(merged.iter().zip(&whole)) {
                assert!(whole.len() > 100, "{id}: {whole}");
                let diff = similar::TextDiff::from_lines(whole, merged);
                let diff = diff.unified_diff().to_string();
                assert!(diff.is_empty(), "{id} of {config} in {count}:\n{diff}");
            }
        }
    }
}

#[test]
fn every_case_is_in_one_shard_and_the_shards_are_balanced() {
    let folder = folder();
    let folder = folder.path();
    let (names, _) = shards(folder, "repeats.yaml", 4, &[]);
    let mut seen = BTreeSet::new();
    let mut sizes = Vec::new();
    for name in names {
        let report = parse_report(&fs::read(folder.join(name)).unwrap()).unwrap();
        assert!(report.shard.is_some());
        let cases: BTreeSet<String> = report.cases.iter().map(|it| it.case.clone()).collect();
        sizes.push(report.cases.iter().map(|it| it.executions.len()).sum::<usize>());
        for case in cases.into_iter().chain(report.skipped.iter().map(|it| it.case.clone())) {
            assert!(seen.insert(case.clone()), "{case} is in two shards");
        }
    }
    assert_eq!(seen.len(), 23);
    let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
    assert!(most - least <= 14, "{sizes:?}");
}

/// One case takes longer than all others together, so it gets a separate shard.
#[test]
fn durations_of_an_earlier_run_balance_the_shards() {
    let folder = folder();
    let folder = folder.path();
    run(folder, &["test", "-c", "repeats.yaml", "-q", "--reporter", "json=before.json"]);
    let mut report: Value =
        serde_json::from_slice(&fs::read(folder.join("before.json")).unwrap()).unwrap();
    for case in report["cases"].as_array_mut().unwrap() {
        let is_slow = case["case"] == "case 8";
        case["latencyAvgMs"] = if is_slow { 60_000.0.into() } else { 10.0.into() };
    }
    fs::write(folder.join("before.json"), report.to_string()).unwrap();
    let (names, _) = shards(folder, "repeats.yaml", 2, &["--shard-durations", "before.json"]);
    let count = |name: &String| {
        let report = parse_report(&fs::read(folder.join(name)).unwrap()).unwrap();
        report.cases.iter().map(|it| it.case.clone()).collect::<BTreeSet<_>>()
    };
    let cases: Vec<BTreeSet<String>> = names.iter().map(count).collect();
    assert_eq!(cases[0], BTreeSet::from(["case 8".to_owned()]));
    assert_eq!(cases[1].len(), 16);

    // A shard without the durations divides the run differently, and is rejected.
    let (others, _) = shards(folder, "repeats.yaml", 2, &[]);
    run(
        folder,
        &[
            "test",
            "-c",
            "repeats.yaml",
            "-q",
            "--shard",
            "1/2",
            "--shard-durations",
            "before.json",
            "--reporter",
            "json=timed.json",
        ],
    );
    let (_, code, stderr) = run(folder, &["merge", "timed.json", &others[1]]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("the plans differ"), "{stderr}");
}

/// Collects the commands of the jobs in an example.
fn scripts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if text.starts_with("kindlm ") => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|it| scripts(it, found)),
        Value::Object(entries) => entries.values().for_each(|it| scripts(it, found)),
        _ => {}
    }
}

/// Runs the commands of the example for Kubernetes, with the variable that each pod has.
#[test]
fn the_example_for_kubernetes_works() {
    let folder = folder();
    let example = |name: &str| -> Value {
        let text = fs::read_to_string(root().join("docs/ci").join(name)).unwrap();
        serde_yaml::from_str(&text).unwrap()
    };
    let sh = |job: &Value, index: &str| {
        let mut lines = Vec::new();
        scripts(job, &mut lines);
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        let line = line.replace("kindlm ", &format!("'{}' ", env!("CARGO_BIN_EXE_kindlm")));
        let mut command = Command::new("sh");
        command.args(["-c", &line.replace("/reports/", "")]).current_dir(folder.path());
        split_output(command.env("JOB_COMPLETION_INDEX", index).output().unwrap())
    };
    let shards = example("kubernetes-shards.yml");
    assert_eq!(shards["spec"]["completionMode"], "Indexed");
    for index in 0..shards["spec"]["completions"].as_u64().unwrap() {
        let (_, code, stderr) = sh(&shards, &index.to_string());
        assert_eq!(code, Some(0), "{index}: {stderr}");
    }
    let (stdout, code, stderr) = sh(&example("kubernetes-merge.yml"), "");
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(folder.path().join("kindlm.xml").is_file() && stdout.contains("PASSED"), "{stdout}");
}

/// Runs the commands of the examples, with the variables that CI would set.
#[test]
fn the_examples_for_ci_work() {
    for (file, index, count) in
        [("github-actions.yml", "${{ matrix.shard }}", 4), ("gitlab-ci.yml", "$CI_NODE_INDEX", 4)]
    {
        let text = fs::read_to_string(root().join("docs/ci").join(file)).unwrap();
        let example: Value = serde_yaml::from_str(&text).unwrap();
        if file == "gitlab-ci.yml" {
            assert_eq!(example["agents"]["parallel"], count);
        } else {
            let matrix = &example["jobs"]["shard"]["strategy"]["matrix"]["shard"];
            assert_eq!(*matrix, serde_json::json!([1, 2, 3, 4]));
            assert_eq!(example["jobs"]["merge"]["needs"], "shard");
        }
        let mut lines = Vec::new();
        scripts(&example, &mut lines);
        let [run_shard, merge] = lines.as_slice() else { panic!("{file}: {lines:?}") };
        let folder = folder();
        let sh = |line: &str| {
            let line = line.replace("kindlm ", &format!("'{}' ", env!("CARGO_BIN_EXE_kindlm")));
            let output =
                Command::new("sh").args(["-c", &line]).current_dir(folder.path()).output().unwrap();
            split_output(output)
        };
        for shard in 1..=count {
            let line = run_shard
                .replace(index, &shard.to_string())
                .replace("$CI_NODE_TOTAL", &count.to_string());
            let (_, code, stderr) = sh(&line);
            assert_eq!(code, Some(0), "{line}: {stderr}");
        }
        let (stdout, code, stderr) = sh(merge);
        assert_eq!(code, Some(0), "{stdout}{stderr}");
        assert!(
            folder.path().join("kindlm.xml").is_file() && stdout.contains("PASSED"),
            "{stdout}"
        );
    }
}
