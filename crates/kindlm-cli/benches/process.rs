//! What a user waits for and what a CI machine pays: whole processes, measured from outside.
//!
//! Prints one table: ours, beside what the TypeScript original and promptfoo took for the same work on a
//! machine of two cores. CPU time is user plus system, of the process and its children.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot run must say so loudly")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kindlm_testing::MockServer;

struct Sample {
    wall: Duration,
    peak_mib: Option<f64>,
}

fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if std::env::args().any(|it| it == "--test") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let one = suite(folder.path(), "one.yaml", 1, "http://127.0.0.1:9");
    let thousand = suite(folder.path(), "thousand.yaml", 1_000, "http://127.0.0.1:9");
    let server = MockServer::start().unwrap();
    let many = suite(folder.path(), "many.yaml", 5_000, &server.url());

    println!("| what | wall | CPU | peak memory | original | promptfoo |");
    println!("|---|--:|--:|--:|--:|--:|");
    row("`--version`", 50, &["--version"], "227 ms", "1.25 s");
    row("`validate`, 1 test", 50, &["validate", "-c", &one], "–", "–");
    row("`validate`, 1,000 tests", 20, &["validate", "-c", &thousand], "458 ms", "–");
    let run = ["test", "-c", &many, "--concurrency", "32", "--reporter", "json=/dev/null", "-q"];
    row("`test`, 5,000 cases, concurrency 32", 3, &run, "4.6 s CPU, 214 MiB", "27 s CPU, 654 MiB");
}

/// Runs the binary `times` times; prints the fastest run's wall time and the mean CPU time.
fn row(what: &str, times: u32, arguments: &[&str], original: &str, promptfoo: &str) {
    let before = children_cpu();
    let best = (0..times).map(|_| run(arguments)).min_by_key(|it| it.wall).unwrap();
    let cpu =
        before.zip(children_cpu()).map(|(before, after)| after.saturating_sub(before) / times);
    let memory = best.peak_mib.map_or("–".to_owned(), |mib| format!("{mib:.0} MiB"));
    let cpu = cpu.map_or("–".to_owned(), show);
    println!("| {what} | {} | {cpu} | {memory} | {original} | {promptfoo} |", show(best.wall));
}

fn show(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 {
        format!("{ms:.1} ms")
    } else if ms < 1e4 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.1} s", ms / 1e3)
    }
}

fn run(arguments: &[&str]) -> Sample {
    let begin = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_kindlm"))
        .args(arguments)
        .env("KINDLM_BENCH_KEY", "not-a-key")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let peak = watch_memory(&mut child);
    let output = child.wait_with_output().unwrap();
    let wall = begin.elapsed();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Sample { wall, peak_mib: peak }
}

/// The peak resident set of a running child, from `/proc`; `None` where there is no `/proc`.
fn watch_memory(child: &mut std::process::Child) -> Option<f64> {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = None;
    while child.try_wait().unwrap().is_none() {
        if let Ok(text) = std::fs::read_to_string(&status)
            && let Some(line) = text.lines().find(|line| line.starts_with("VmHWM:"))
            && let Some(kib) = line.split_whitespace().nth(1).and_then(|it| it.parse::<f64>().ok())
        {
            peak = Some(kib / 1024.0);
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    peak
}

/// CPU time of all children that have ended, in steps of 10 ms; `None` where there is no `/proc`.
fn children_cpu() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold spaces; the fields after it do not. `cutime` and `cstime` are 16 and 17.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(13..15)?.iter().filter_map(|it| it.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 10))
}

/// A suite of `tests` cases with three deterministic checks each.
fn suite(folder: &Path, name: &str, tests: usize, url: &str) -> String {
    let mut yaml = format!(
        "kindlm: 1\nproject: bench\nsuite: {{ name: bench }}\n\
         providers: {{ openai: {{ apiKeyEnv: KINDLM_BENCH_KEY, baseUrl: \"{url}/v1\" }} }}\n\
         models: [{{ id: m, provider: openai, model: gpt-4o }}]\n\
         prompts: {{ p: {{ system: You are helpful., user: \"Say hello to {{{{name}}}}.\" }} }}\n\
         gates: {{ passRateMin: 1 }}\n\
         tests:\n"
    );
    for index in 0..tests {
        writeln!(
            yaml,
            "  - {{ name: case {index}, prompt: p, vars: {{ name: n{index} }}, expect: {{ output: {{ notContains: [sorry], maxLength: 10000 }}, guardrails: {{ pii: {{ enabled: true }}, keywords: {{ deny: [stupid, idiot] }} }} }} }}"
        )
        .unwrap();
    }
    let path = folder.join(name);
    std::fs::write(&path, yaml).unwrap();
    path.to_str().unwrap().to_owned()
}
