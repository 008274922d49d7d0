//! Measures the memory of large runs, as whole processes.
//!
//! `cargo bench -p kindlm-cli --bench memory` runs 100,000 executions in two shapes, at concurrency 256, against the
//! mock server, with JSON and JUnit reports. It prints the peak and the memory over time. Then it prints the memory of
//! commands that read the report of the first shape.
//!
//! The second shape is one thousand cases with many repeats. The suite of this shape is small, so the result shows the
//! memory of the run itself. Other shapes: `-- CASES REPEATS`.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot run must say so loudly")]

mod support;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kindlm_testing::MockServer;
use support::{KINDLM, Sample, watched, write_suite};

/// The size of a run: the number of test cases, and the number of repeats of each case.
#[derive(Clone, Copy)]
struct Shape {
    cases: usize,
    repeats: usize,
}

/// The maximum memory of a run of 100,000 cases, in MiB.
const MOST_MIB: f64 = 100.0;

/// Commands that read the report of a large run.
const AFTERWARDS: [(&str, &[&str]); 5] = [
    ("`report -q`", &["report", "-q"]),
    ("`report --reporter junit`", &["report", "-q", "--reporter", "junit=again.xml"]),
    ("`gate`", &["gate", "-q"]),
    ("`test --failed`", &["test", "-q", "--failed", "--dry-run"]),
    ("`test --changed`", &["test", "-q", "--changed", "--dry-run"]),
];

fn main() {
    // `cargo bench` passes `--bench`; `cargo test --benches` only checks that the bench compiles.
    if !std::env::args().any(|it| it == "--bench") || !Path::new("/proc/self/status").exists() {
        return;
    }
    let numbers: Vec<usize> = std::env::args().filter_map(|it| it.parse().ok()).collect();
    let shapes = match numbers[..] {
        [cases, repeats] => vec![Shape { cases, repeats }],
        _ => [(100_000, 1), (1_000, 100)].map(|(cases, repeats)| Shape { cases, repeats }).to_vec(),
    };
    println!("| cases × repeats | wall | peak memory | asked for | |");
    println!("|---|--:|--:|--:|---|");
    let folder = tempfile::tempdir().unwrap();
    let mut charts = String::new();
    let mut looked = String::new();
    for (index, shape) in shapes.into_iter().enumerate() {
        let folder = folder.path().join(index.to_string());
        std::fs::create_dir(&folder).unwrap();
        let (it, over_time) = run(&folder, shape);
        let peak = it.peak_mib.unwrap();
        let Shape { cases, repeats } = shape;
        let met = if peak < MOST_MIB { "met" } else { "missed" };
        println!(
            "| {cases} × {repeats} | {:.1} s | {peak:.1} MiB | < {MOST_MIB} MiB | {met} |",
            it.wall.as_secs_f64()
        );
        writeln!(charts, "\nMemory over time, {cases} × {repeats}:\n\n```text").unwrap();
        for (at, mib) in thinned(&over_time, 20) {
            writeln!(charts, "{:6.1} s {mib:6.1} MiB", at.as_secs_f64()).unwrap();
        }
        charts.push_str("```\n");
        if index == 0 {
            looked = afterwards(&folder, shape);
        }
    }
    println!("{charts}\n{looked}");
}

/// Runs `kindlm test` on a suite of this shape.
///
/// Returns the measurements of the process, and its memory in MiB over time.
fn run(folder: &Path, shape: Shape) -> (Sample, Vec<(Duration, f64)>) {
    let server = MockServer::for_bench(Duration::ZERO).unwrap();
    write_suite(folder, shape.cases, shape.repeats, &server.url());
    let mut command = Command::new(KINDLM);
    command
        .args(["test", "-q", "--concurrency", "256"])
        .args(["--reporter", "json=report.json", "--reporter", "junit=report.xml"])
        .current_dir(folder);
    let mut over_time = Vec::new();
    let every = Duration::from_millis(5);
    let sample = watched(&mut command, every, &mut |at, mib| over_time.push((at, mib)));
    // Verify that the process ran all executions, and wrote the reports.
    assert_eq!(server.count(), shape.cases * shape.repeats);
    // JUnit reports also contain gates as test cases, with another class.
    let of_model = "<testcase classname=\"bench.m\" ";
    assert_eq!(occurrences(&folder.join("report.xml"), of_model), shape.cases);
    let repeats = occurrences(&folder.join("report.json"), "\"repeat\":");
    assert_eq!(repeats, shape.cases * shape.repeats);
    (sample, over_time)
}

/// Measures the commands that read the report in this folder.
fn afterwards(folder: &Path, shape: Shape) -> String {
    let mut table = format!(
        "| with the report of {} × {} | wall | peak memory |\n|---|--:|--:|\n",
        shape.cases, shape.repeats
    );
    for (what, arguments) in AFTERWARDS {
        let mut command = Command::new(KINDLM);
        command.args(arguments).current_dir(folder);
        let it = watched(&mut command, Duration::from_millis(1), &mut |_, _| {});
        let (wall, peak) = (it.wall.as_secs_f64(), it.peak_mib.unwrap());
        writeln!(table, "| {what} | {wall:.1} s | {peak:.1} MiB |").unwrap();
    }
    table
}

/// Returns at most `most` samples, evenly spaced, including the last sample.
fn thinned<T: Copy>(samples: &[T], most: usize) -> Vec<T> {
    let step = samples.len().div_ceil(most).max(1);
    samples.iter().rev().step_by(step).rev().copied().collect()
}

/// Counts the occurrences of a short text in a file of any size.
fn occurrences(path: &Path, text: &str) -> usize {
    let mut file = File::open(path).unwrap();
    let mut buffer = vec![0; 1 << 16];
    let (mut kept, mut found) = (0, 0);
    loop {
        let read = file.read(&mut buffer[kept..]).unwrap();
        if read == 0 {
            return found;
        }
        let end = kept + read;
        found += buffer[..end].windows(text.len()).filter(|it| *it == text.as_bytes()).count();
        // Keep the end of this part, because a match may extend into the next part.
        kept = (text.len() - 1).min(end);
        buffer.copy_within(end - kept..end, 0);
    }
}
