//! What a user waits for and what a CI machine pays: whole processes, measured from outside.
//!
//! Prints two tables. The first has ours, beside what the TypeScript original and promptfoo took for the same work on a
//! machine of two cores. The second has runs beside the least that they could take: a bare `reqwest` loop that sends
//! the same requests and throws the answers away, and the provider's own time. CPU time is user plus system, of the
//! process and its children; the mock provider runs in the bench's own process and is not in it.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot run must say so loudly")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use kindlm_testing::MockServer;

/// The first argument with which the bench runs itself as the bare loop: `--bare <url> <requests> <concurrency>`.
const BARE: &str = "--bare";

/// How many cases the runs have.
const CASES: usize = 5_000;

struct Sample {
    wall: Duration,
    peak_mib: Option<f64>,
}

/// The fastest run's wall time and memory, and the mean CPU time of all.
struct Measured {
    best: Sample,
    cpu: Option<Duration>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, first, url, requests, concurrency] = arguments.as_slice()
        && first == BARE
    {
        return bare_loop(url, requests.parse().unwrap(), concurrency.parse().unwrap());
    }
    // Only `cargo bench` gives `--bench`; `cargo test --benches` wants to know that it builds.
    if !arguments.iter().any(|it| it == "--bench") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let nowhere = "http://127.0.0.1:9";
    let one = suite(folder.path(), "one.yaml", 1, nowhere);
    let thousand = suite(folder.path(), "thousand.yaml", 1_000, nowhere);
    let server = MockServer::for_bench(Duration::ZERO).unwrap();
    let many = suite(folder.path(), "many.yaml", CASES, &server.url());

    println!("| what | wall | CPU | peak memory | original | promptfoo |");
    println!("|---|--:|--:|--:|--:|--:|");
    row("`--version`", 50, &["--version"], "227 ms", "1.25 s");
    let small = row("`validate`, 1 test", 50, &["validate", "-c", &one], "–", "–");
    row("`validate`, 1,000 tests", 20, &["validate", "-c", &thousand], "458 ms", "–");
    let (rows, bytes) = dataset(folder.path(), 100_000, nowhere);
    let large = row("`validate`, JSONL of 100,000", 3, &["validate", "-c", &rows], "–", "–");
    let run = test(&many, "32");
    let fast = row(
        "`test`, 5,000 cases, concurrency 32",
        3,
        &run,
        "4.6 s CPU, 214 MiB",
        "27 s CPU, 654 MiB",
    );
    if let (Some(small), Some(large)) = (small.best.peak_mib, large.best.peak_mib) {
        println!("\n100,000 rows of {} MiB take {:.0} MiB at most", bytes >> 20, large - small);
    }

    println!("\n| 5,000 cases | `kindlm test` | the least | ratio |");
    println!("|---|--:|--:|--:|");
    let bare = measure(
        5,
        &std::env::current_exe().unwrap(),
        &[BARE, &server.url(), &CASES.to_string(), "32"],
    );
    if let (Some(ours), Some(least)) = (fast.cpu, bare.cpu) {
        ratio("CPU, 0 ms, concurrency 32, against a bare loop", ours, least);
    }
    let slow = Duration::from_millis(50);
    let server = MockServer::for_bench(slow).unwrap();
    let waiting = suite(folder.path(), "waiting.yaml", CASES, &server.url());
    let run = measure(3, Path::new(KINDLM), &test(&waiting, "256"));
    let least = slow * u32::try_from(CASES).unwrap() / 256;
    ratio("wall, 50 ms, concurrency 256, against the provider's time", run.best.wall, least);
}

const KINDLM: &str = env!("CARGO_BIN_EXE_kindlm");

fn test<'a>(config: &'a str, concurrency: &'a str) -> [&'a str; 8] {
    ["test", "-c", config, "--concurrency", concurrency, "--reporter", "json=/dev/null", "-q"]
}

fn ratio(what: &str, ours: Duration, least: Duration) {
    let ratio = ours.as_secs_f64() / least.as_secs_f64();
    println!("| {what} | {} | {} | {ratio:.2} |", show(ours), show(least));
}

/// Sends the requests of the bench's suites, and does nothing with the answers.
fn bare_loop(url: &str, requests: usize, concurrency: usize) {
    kindlm_providers::install_tls();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = reqwest::Client::new();
    let send = |index: usize| {
        let body = format!(
            "{{\"model\":\"gpt-4o\",\"messages\":[{{\"role\":\"system\",\"content\":\"You are helpful.\"}},\
             {{\"role\":\"user\",\"content\":\"Say hello to n{index}.\"}}]}}"
        );
        client
            .post(format!("{url}/v1/chat/completions"))
            .bearer_auth("not-a-key")
            .header("content-type", "application/json")
            .body(body)
            .send()
    };
    runtime.block_on(stream::iter(0..requests).map(send).for_each_concurrent(
        concurrency,
        async |response| {
            response.await.unwrap().bytes().await.unwrap();
        },
    ));
}

/// Runs the binary `times` times, and prints what it took.
fn row(what: &str, times: u32, arguments: &[&str], original: &str, promptfoo: &str) -> Measured {
    let measured = measure(times, Path::new(KINDLM), arguments);
    let memory = measured.best.peak_mib.map_or("–".to_owned(), |mib| format!("{mib:.0} MiB"));
    let cpu = measured.cpu.map_or("–".to_owned(), show);
    let wall = show(measured.best.wall);
    println!("| {what} | {wall} | {cpu} | {memory} | {original} | {promptfoo} |");
    measured
}

fn measure(times: u32, program: &Path, arguments: &[&str]) -> Measured {
    let before = children_cpu();
    let best = (0..times).map(|_| run(program, arguments)).min_by_key(|it| it.wall).unwrap();
    let cpu =
        before.zip(children_cpu()).map(|(before, after)| after.saturating_sub(before) / times);
    Measured { best, cpu }
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

fn run(program: &Path, arguments: &[&str]) -> Sample {
    let begin = Instant::now();
    let mut child = Command::new(program)
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

/// What a suite says before its tests.
fn head(url: &str) -> String {
    format!(
        "kindlm: 1\nproject: bench\nsuite: {{ name: bench }}\n\
         providers: {{ openai: {{ apiKeyEnv: KINDLM_BENCH_KEY, baseUrl: \"{url}/v1\" }} }}\n\
         models: [{{ id: m, provider: openai, model: gpt-4o }}]\n\
         prompts: {{ p: {{ system: You are helpful., user: \"Say hello to {{{{name}}}}.\" }} }}\n\
         gates: {{ passRateMin: 1 }}\n"
    )
}

/// A suite of `tests` cases with three deterministic checks each.
fn suite(folder: &Path, name: &str, tests: usize, url: &str) -> String {
    let mut yaml = head(url);
    yaml.push_str("tests:\n");
    for index in 0..tests {
        writeln!(
            yaml,
            "  - {{ name: case {index}, prompt: p, vars: {{ name: n{index} }}, expect: {{ output: {{ notContains: [sorry], maxLength: 10000 }}, guardrails: {{ pii: {{ enabled: true }}, keywords: {{ deny: [stupid, idiot] }} }} }} }}"
        )
        .unwrap();
    }
    write(folder, name, &yaml)
}

/// A suite whose tests are the lines of a dataset, each with an expectation of its own; and the dataset's bytes.
fn dataset(folder: &Path, rows: usize, url: &str) -> (String, usize) {
    let mut lines = String::new();
    for index in 0..rows {
        writeln!(
            lines,
            r#"{{"name": "case {index}", "prompt": "p", "vars": {{"name": "n{index}", "question": "What has become of the parcel number {index}?"}}, "expect": {{"output": {{"contains": ["n{index}"]}}}}}}"#
        )
        .unwrap();
    }
    write(folder, "rows.jsonl", &lines);
    let config = write(folder, "rows.yaml", &format!("{}tests: file://rows.jsonl\n", head(url)));
    (config, lines.len())
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}
