//! What both benches need: the suite that they run, and processes that are measured from outside.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The binary.
pub(crate) const KINDLM: &str = env!("CARGO_BIN_EXE_kindlm");

/// Writes a `kindlm.yaml` with a test for each row of a dataset, each with three checks by rules, and gives back how
/// many bytes the two files have.
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

/// What a suite says before its tests.
pub(crate) fn head(url: &str) -> String {
    format!(
        "kindlm: 1\nproject: bench\nsuite: {{ name: bench }}\n\
         providers: {{ openai: {{ apiKeyEnv: KINDLM_BENCH_KEY, baseUrl: \"{url}/v1\" }} }}\n\
         models: [{{ id: m, provider: openai, model: gpt-4o }}]\n\
         prompts: {{ p: {{ system: You are helpful., user: \"Say hello to {{{{name}}}}.\" }} }}\n\
         gates: {{ passRateMin: 1 }}\n"
    )
}

/// One run of a process.
pub(crate) struct Sample {
    /// From its start to its end.
    pub(crate) wall: Duration,
    /// The peak resident set in MiB, as the kernel counts it; `None` if it ended before it could be measured.
    pub(crate) peak_mib: Option<f64>,
}

/// Runs a command to its end, which must be a good one. `look` hears of its memory all the while: the resident set in
/// MiB, so long after the start.
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
        // Where there is no `/proc`, nothing is seen.
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

/// A number of KiB in a `status` file of `/proc`, in MiB.
fn mib(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib / 1024.0)
}
