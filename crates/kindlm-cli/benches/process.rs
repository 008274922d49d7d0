//! Measures time, CPU time and memory of whole processes.
//!
//! The bench prints these tables:
//!
//! - the time until the first request is sent, compared with an empty process and with reading the same file;
//! - 5,000 cases without latency, and 5,000 cases with a latency of 50 ms. Both are compared with a bare `reqwest` loop
//!   that sends the same requests, and with other tools (`-- --peer promptfoo=<path>`);
//! - a promptfoo config with 500 and with 5,000 tests, run by both tools, if there is such a tool;
//! - the targets.
//!
//! CPU time is user plus system time, of a process and its children. It excludes the mock provider, which runs in the
//! process of the bench.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::cast_precision_loss, reason = "a few thousand cases")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot run must say so loudly")]

mod support;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use kindlm_testing::MockServer;
use kindlm_testing::peer::Peer;
use support::{KINDLM, Sample, head, watched, write_suite};

/// The first argument that makes the bench run as the bare loop: `--bare <url> <requests> <concurrency>`.
const BARE: &str = "--bare";

/// The first argument that makes the bench run only the mock server, for profiling `kindlm test`.
///
/// The form is `--serve <folder> <ms>`. The bench writes the suite to the folder and prints the address. The server
/// answers each request after `<ms>` milliseconds, until the user stops the bench.
const SERVE: &str = "--serve";

/// The number of cases in the runs.
const CASES: usize = 5_000;

/// The concurrency for the provider without latency.
const AT_ONCE: usize = 32;

/// The wall time and memory of the fastest run, and the mean CPU time of all runs.
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
    if let [_, first, folder, ms] = arguments.as_slice()
        && first == SERVE
    {
        return serve(Path::new(folder), Duration::from_millis(ms.parse().unwrap()));
    }
    // `cargo bench` passes `--bench`; `cargo test --benches` only checks that the bench compiles.
    if !arguments.iter().any(|it| it == "--bench") {
        return;
    }
    let named = arguments.windows(2).filter(|it| it[0] == "--peer").map(|it| &it[1]);
    let peers: Vec<Peer> = named.map(|it| it.parse().unwrap()).collect();
    let folder = tempfile::tempdir().unwrap();
    until_something_is_sent(folder.path(), &peers);
    let cpu = at_once(folder.path(), &peers);
    let (whole, alone) = waiting(folder.path(), &peers);
    for tests in [500, CASES] {
        same_config(folder.path(), tests, &peers);
    }

    println!("\n| target | asked for | measured | |\n|---|--:|--:|---|");
    if let Some(Cpu { bare, run, before }) = cpu {
        let per = |it: Duration| it.as_secs_f64() * 1e6 / CASES as f64;
        target(
            &format!(
                "CPU time of an execution, 0 ms: {:.0} µs, beside {:.0} µs of the bare loop",
                per(run.saturating_sub(before)),
                per(bare)
            ),
            2.0,
            run.saturating_sub(before).as_secs_f64() / bare.as_secs_f64(),
        );
        target(
            "the same of the whole process, with its start, the suite and the report",
            2.0,
            run.as_secs_f64() / bare.as_secs_f64(),
        );
    }
    let least = SLOW.as_secs_f64() * CASES as f64 / 256.0;
    for (what, wall) in [("the run", alone), ("the whole process", whole)] {
        let what = format!("wall, 50 ms, concurrency 256: {what} takes {}", show(wall));
        target(&what, 1.05, wall.as_secs_f64() / least);
    }
    let rounds = CASES.div_ceil(256);
    println!(
        "\n{CASES} requests at concurrency 256 are {rounds} rounds, of which the last is not full: no client takes less \
         than {}, which is {:.3} of {:.0} ms.",
        show(SLOW * u32::try_from(rounds).unwrap()),
        SLOW.as_secs_f64() * rounds as f64 / least,
        least * 1e3
    );
}

/// The latency of the slow provider.
const SLOW: Duration = Duration::from_millis(50);

/// Prints a target and its result.
fn target(what: &str, most: f64, ratio: f64) {
    let met = if ratio <= most { "met" } else { "missed" };
    println!("| {what} | ≤ {most} | {ratio:.2} | {met} |");
}

/// Measures start-up and loading a suite.
fn until_something_is_sent(folder: &Path, peers: &[Peer]) {
    let nowhere = "http://127.0.0.1:9";
    let one = in_yaml(folder, "one.yaml", 1, nowhere);
    let thousand = in_yaml(folder, "thousand.yaml", 1_000, nowhere);
    let many = folder.join("many");
    std::fs::create_dir(&many).unwrap();
    let bytes = write_suite(&many, 100_000, 1, nowhere);

    println!("| until something is sent | wall | CPU | peak memory |\n|---|--:|--:|--:|");
    row("starting `true`, a process that does nothing", 50, || Command::new("true"));
    row("`kindlm --version`", 50, || kindlm(folder, &["--version"]));
    for peer in peers {
        row(&format!("`{} --version`", peer.name()), 5, || peer.version());
    }
    row("`kindlm validate`, 1 test", 50, || kindlm(folder, &["validate", "-c", &one]));
    row("`cat` of 1,000 tests in YAML", 50, || {
        let mut command = Command::new("cat");
        command.arg(&thousand);
        command
    });
    row("`kindlm validate`, 1,000 tests in YAML", 20, || {
        kindlm(folder, &["validate", "-c", &thousand])
    });
    let what = format!("`kindlm validate`, 100,000 tests in JSONL of {} MiB", bytes >> 20);
    row(&what, 3, || kindlm(&many, &["validate"]));
}

/// The CPU times of a bare `reqwest` loop and of a run.
struct Cpu {
    bare: Duration,
    run: Duration,
    /// The part of the run before the first request.
    before: Duration,
}

/// Measures runs against a provider without latency.
fn at_once(folder: &Path, peers: &[Peer]) -> Option<Cpu> {
    let server = MockServer::for_bench(Duration::ZERO).unwrap();
    let here = folder.join("at-once");
    std::fs::create_dir(&here).unwrap();
    write_suite(&here, CASES, 1, &server.url());
    let concurrency = AT_ONCE.to_string();
    println!(
        "\n| 5,000 cases, 0 ms, concurrency {AT_ONCE} | wall | CPU | peak memory |\n|---|--:|--:|--:|"
    );
    let bare = row("a bare `reqwest` loop: no checks, no reports", 5, || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([BARE, &server.url(), &CASES.to_string(), &concurrency]);
        command
    });
    let before =
        row("`kindlm validate`: start, and reading the suite", 10, || kindlm(&here, &["validate"]));
    let run = row("`kindlm test -q`", 5, || {
        kindlm(&here, &["test", "-q", "--concurrency", &concurrency])
    });
    row("`kindlm test -q` with JSON and JUnit", 5, || {
        let reports = ["--reporter", "json=r.json", "--reporter", "junit=r.xml"];
        kindlm(&here, &[&["test", "-q", "--concurrency", &concurrency], &reports[..]].concat())
    });
    assert_eq!(server.count(), CASES * 15, "each run sends each request once");
    for peer in peers {
        row(&format!("`{} eval`", peer.name()), 1, || {
            peer.run(&here, CASES, &server.url(), AT_ONCE).unwrap()
        });
    }
    assert_eq!(server.count(), CASES * (15 + peers.len()), "a peer sends each request once");
    Some(Cpu { bare: bare.cpu?, run: run.cpu?, before: before.cpu? })
}

/// Measures runs against a slow provider.
///
/// Returns the wall time of the fastest process, and the shortest duration of a run in its report.
fn waiting(folder: &Path, peers: &[Peer]) -> (Duration, Duration) {
    let server = MockServer::for_bench(SLOW).unwrap();
    let here = folder.join("waiting");
    std::fs::create_dir(&here).unwrap();
    write_suite(&here, CASES, 1, &server.url());
    println!(
        "\n| 5,000 cases, 50 ms, concurrency 256 | wall | CPU | peak memory |\n|---|--:|--:|--:|"
    );
    row("a bare `reqwest` loop", 5, || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([BARE, &server.url(), &CASES.to_string(), "256"]);
        command
    });
    let mut alone = Duration::MAX;
    let whole = row("`kindlm test -q`", 5, || {
        alone = alone.min(last_run(&here));
        kindlm(&here, &["test", "-q", "--concurrency", "256"])
    });
    alone = alone.min(last_run(&here));
    for peer in peers {
        row(&format!("`{} eval`", peer.name()), 1, || {
            peer.run(&here, CASES, &server.url(), 256).unwrap()
        });
    }
    (whole.best.wall, alone)
}

/// Measures a promptfoo config that KindLM and the other tools run unchanged.
fn same_config(folder: &Path, tests: usize, peers: &[Peer]) {
    let server = MockServer::for_bench(Duration::ZERO).unwrap();
    let concurrency = AT_ONCE.to_string();
    for peer in peers {
        println!(
            "\n| {tests} tests of one promptfoo config, 0 ms, concurrency {AT_ONCE} | wall | CPU | peak memory |\n|---|--:|--:|--:|"
        );
        let here = folder.join(format!("{}-{tests}", peer.name()));
        std::fs::create_dir(&here).unwrap();
        row(&format!("`{} eval`", peer.name()), 1, || {
            peer.run(&here, tests, &server.url(), AT_ONCE).unwrap()
        });
        row("`kindlm test -q`", 5, || {
            let config = ["-c", "promptfooconfig.yaml", "--concurrency", &concurrency];
            let mut command = kindlm(&here, &[&["test", "-q"], &config[..]].concat());
            command.env("OPENAI_API_KEY", "not-a-key");
            command
        });
    }
    assert_eq!(server.count(), tests * 6 * peers.len(), "each run sends each request once");
}

/// Returns the duration of the last run in this folder, according to its report.
///
/// Start-up and reporting are not included. `Duration::MAX` if there is no run.
fn last_run(folder: &Path) -> Duration {
    let runs = folder.join(".kindlm/runs");
    let order = std::fs::read_to_string(runs.join("order")).unwrap_or_default();
    let Some(id) = order.lines().last() else { return Duration::MAX };
    let report = runs.join(id).join("report.json");
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    Duration::from_secs_f64(report["run"]["durationMs"].as_f64().unwrap() / 1e3)
}

/// Sends the requests of the suites, and discards the answers.
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

fn serve(folder: &Path, latency: Duration) {
    let server = MockServer::for_bench(latency).unwrap();
    write_suite(folder, CASES, 1, &server.url());
    println!("{}", server.url());
    loop {
        std::thread::park();
    }
}

fn kindlm(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(KINDLM);
    command.args(arguments).current_dir(folder);
    command
}

/// Runs a command `times` times, and prints and returns the measurements.
fn row(what: &str, times: u32, command: impl FnMut() -> Command) -> Measured {
    let measured = measure(times, command);
    let memory = measured.best.peak_mib.map_or("–".to_owned(), |mib| format!("{mib:.0} MiB"));
    let cpu = measured.cpu.map_or("–".to_owned(), show);
    println!("| {what} | {} | {cpu} | {memory} |", show(measured.best.wall));
    measured
}

fn measure(times: u32, mut command: impl FnMut() -> Command) -> Measured {
    let before = children_cpu();
    let run = |_| watched(&mut command(), Duration::from_micros(500), &mut |_, _| {});
    let best = (0..times).map(run).min_by_key(|it| it.wall).unwrap();
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

/// Returns the CPU time of all ended child processes, with a resolution of 10 ms.
///
/// Returns `None` without `/proc`.
fn children_cpu() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may contain spaces; the fields after the name do not. `cutime` and `cstime` are fields
    // 16 and 17.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(13..15)?.iter().filter_map(|it| it.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 10))
}

/// Writes a suite with `tests` cases as YAML, and returns its path.
fn in_yaml(folder: &Path, name: &str, tests: usize, url: &str) -> String {
    let mut yaml = head(url);
    yaml.push_str("tests:\n");
    for index in 0..tests {
        writeln!(
            yaml,
            "  - {{ name: case {index}, prompt: p, vars: {{ name: n{index} }}, expect: {{ output: {{ notContains: [sorry], maxLength: 10000 }}, guardrails: {{ pii: {{ enabled: true }} }} }} }}"
        )
        .unwrap();
    }
    let path = folder.join(name);
    std::fs::write(&path, yaml).unwrap();
    path.to_str().unwrap().to_owned()
}
