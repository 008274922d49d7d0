//! Support for the benches: the suite, and the measurement of processes.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The path of the binary.
pub(crate) const KINDLM: &str = env!("CARGO_BIN_EXE_kindlm");

/// Writes a `kindlm.yaml` with one test for each row of a dataset, and the dataset.
///
/// Each test has three checks that need no judge. Returns the total size of the two files in bytes.
pub(crate) fn write_suite(folder: &Path, cases: usize, repeats: usize, url: &str) -> u64 {
    let yaml =
        format!("{}defaults: {{ repeat: {repeats} }}\ntests: [file://cases.jsonl]\n", head(url));
    std::fs::write(folder.join("kindlm.yaml"), &yaml).unwrap();
    let path = folder.join("cases.jsonl");
    let mut rows = BufWriter::new(File::create(&path).unwrap());
    for index in 0..cases {
        writeln!(
            rows,
            r#"{{"name":"case {index}","prompt":"p","vars":{{"name":"n{index}"}},"expect":{{"output":{{"notContains":["sorry"],"maxLength":10000}},"guardrails":{{"pii":{{"enabled":true}}}}}}}}"#
        )
        .unwrap();
    }
    rows.flush().unwrap();
    yaml.len() as u64 + path.metadata().unwrap().len()
}

/// Returns the part of a suite before its tests.
pub(crate) fn head(url: &str) -> String {
    format!(
        "kindlm: 1\nproject: bench\nsuite: {{ name: bench }}\n\
         providers: {{ openai: {{ apiKeyEnv: KINDLM_BENCH_KEY, baseUrl: \"{url}/v1\" }} }}\n\
         models: [{{ id: m, provider: openai, model: gpt-4o }}]\n\
         prompts: {{ p: {{ system: You are helpful., user: \"Say hello to {{{{name}}}}.\" }} }}\n\
         gates: {{ passRateMin: 1 }}\n"
    )
}

/// The measurements of one process.
pub(crate) struct Sample {
    /// The time from start to end.
    pub(crate) wall: Duration,
    /// The peak resident set in MiB, as reported by the kernel; `None` without `/proc`, or if the process ended before
    /// it was measured.
    pub(crate) peak_mib: Option<f64>,
}

/// Runs a command to its end and returns its measurements. The command must succeed.
///
/// `look` is called repeatedly with the time since the start, and the resident set in MiB.
pub(crate) fn watched(
    command: &mut Command,
    every: Duration,
    look: &mut dyn FnMut(Duration, f64),
) -> Sample {
    let begin = Instant::now();
    let mut child = command
        .env("KINDLM_BENCH_KEY", "not-a-key")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let path = format!("/proc/{}/status", child.id());
    let mut peak_mib = None;
    while child.try_wait().unwrap().is_none() {
        // Without `/proc`, memory is not measured.
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        if let (Some(peak), Some(now)) = (mib(&status, "VmHWM:"), mib(&status, "VmRSS:")) {
            peak_mib = Some(peak);
            look(begin.elapsed(), now);
        }
        std::thread::sleep(every);
    }
    let output = child.wait_with_output().unwrap();
    let wall = begin.elapsed();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Sample { wall, peak_mib }
}

/// Returns a number of KiB in a `status` file of `/proc`, converted to MiB; `None` if the number is missing.
fn mib(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib / 1024.0)
}
