//! How much memory a large run takes: a whole process, measured from outside.
//!
//! `cargo bench -p kindlm-cli --bench memory` runs 100,000 executions in two shapes at concurrency 256 against the mock
//! server, with JSON and JUnit reports, and prints the peak and the memory over time. One case with many repeats
//! weighs almost nothing in the suite, so the second shape shows what the run itself takes. Other shapes:
//! `-- CASES REPEATS`.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot run must say so loudly")]

use std::fs::File;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kindlm_testing::MockServer;

/// Executions: test cases, and repeats of each.
#[derive(Clone, Copy)]
struct Shape {
    cases: usize,
    repeats: usize,
}

/// What a run took.
struct Measured {
    wall: Duration,
    /// The peak resident set, in MiB, as the kernel counts it.
    peak_mib: f64,
    /// The resident set in MiB, so long after the start.
    over_time: Vec<(Duration, f64)>,
}

fn main() {
    // Only `cargo bench` gives `--bench`; `cargo test --benches` wants to know that it builds.
    if !std::env::args().any(|it| it == "--bench") || !Path::new("/proc/self/status").exists() {
        return;
    }
    let numbers: Vec<usize> = std::env::args().filter_map(|it| it.parse().ok()).collect();
    let shapes = match numbers[..] {
        [cases, repeats] => vec![Shape { cases, repeats }],
        _ => [(100_000, 1), (1_000, 100)].map(|(cases, repeats)| Shape { cases, repeats }).to_vec(),
    };
    for shape in shapes {
        let Shape { cases, repeats } = shape;
        let it = measure(shape);
        println!(
            "{cases} cases × {repeats}: {:.1} s, peak {:.1} MiB",
            it.wall.as_secs_f64(),
            it.peak_mib
        );
        for (at, mib) in thinned(&it.over_time, 20) {
            println!("  {:6.1} s  {mib:6.1} MiB", at.as_secs_f64());
        }
    }
}

/// Runs the shape in a process of its own, and looks at its memory.
fn measure(shape: Shape) -> Measured {
    let folder = tempfile::tempdir().unwrap();
    let server = MockServer::for_bench(Duration::ZERO).unwrap();
    write_suite(folder.path(), shape, &server.url());
    let begin = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_kindlm"))
        .args(["test", "-q", "--concurrency", "256"])
        .args(["--reporter", "json=report.json", "--reporter", "junit=report.xml"])
        .current_dir(folder.path())
        .env("KINDLM_BENCH_KEY", "not-a-key")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let path = format!("/proc/{}/status", child.id());
    let (mut peak_mib, mut over_time) = (0.0, Vec::new());
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        if let (Some(peak), Some(now)) = (mib(&status, "VmHWM:"), mib(&status, "VmRSS:")) {
            peak_mib = peak;
            over_time.push((begin.elapsed(), now));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let wall = begin.elapsed();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // What was measured is a run of everything, with its reports.
    assert_eq!(server.count(), shape.cases * shape.repeats);
    // Gates are test cases of JUnit too, of another class.
    let of_model = "<testcase classname=\"bench.m\" ";
    assert_eq!(occurrences(&folder.path().join("report.xml"), of_model), shape.cases);
    assert_eq!(
        occurrences(&folder.path().join("report.json"), "\"repeat\":"),
        shape.cases * shape.repeats
    );
    Measured { wall, peak_mib, over_time }
}

/// A number of KiB in a `status` file of `/proc`, in MiB.
fn mib(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib / 1024.0)
}

/// At most `most` of them, evenly chosen, the last one included.
fn thinned<T: Copy>(samples: &[T], most: usize) -> Vec<T> {
    let step = samples.len().div_ceil(most).max(1);
    samples.iter().rev().step_by(step).rev().copied().collect()
}

/// How often a short text stands in a file of any size.
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
        // A text that begins in this part and ends in the next.
        kept = (text.len() - 1).min(end);
        buffer.copy_within(end - kept..end, 0);
    }
}

/// A suite with three deterministic checks for each case.
fn write_suite(folder: &Path, Shape { cases, repeats }: Shape, url: &str) {
    let yaml = format!(
        "kindlm: 1\nproject: bench\nsuite: {{ name: bench }}\n\
         providers: {{ openai: {{ apiKeyEnv: KINDLM_BENCH_KEY, baseUrl: \"{url}/v1\" }} }}\n\
         models: [{{ id: m, provider: openai, model: gpt-4o }}]\n\
         prompts: {{ p: {{ system: You are helpful., user: \"Say hello to {{{{name}}}}.\" }} }}\n\
         gates: {{ passRateMin: 1 }}\n\
         defaults: {{ repeat: {repeats} }}\n\
         tests: [file://cases.jsonl]\n"
    );
    std::fs::write(folder.join("kindlm.yaml"), yaml).unwrap();
    let mut rows = BufWriter::new(File::create(folder.join("cases.jsonl")).unwrap());
    for index in 0..cases {
        writeln!(
            rows,
            r#"{{"name":"case {index}","prompt":"p","vars":{{"name":"n{index}"}},"expect":{{"output":{{"notContains":["sorry"],"maxLength":10000}},"guardrails":{{"pii":{{"enabled":true}}}}}}}}"#
        )
        .unwrap();
    }
    rows.flush().unwrap();
}
