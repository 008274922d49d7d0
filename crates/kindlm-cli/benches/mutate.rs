//! Measures `kindlm mutate`: the mutants that are judged per second, as a whole process.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::cast_precision_loss, reason = "a few thousand mutants")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot run must say so loudly")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The number of cases in the run.
const CASES: usize = 1_000;

/// The number of measurements, of which the fastest counts.
const TIMES: usize = 5;

fn main() {
    // `cargo bench` passes `--bench`; `cargo test --benches` only checks that the bench compiles.
    if !std::env::args().any(|it| it == "--bench") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write_suite(folder.path());
    run(folder.path(), &["test", "-q"]);
    let mut best = Duration::MAX;
    let mut mutants = 0;
    for _ in 0..TIMES {
        let begin = Instant::now();
        let output = run(folder.path(), &["mutate", "--json"]);
        best = best.min(begin.elapsed());
        let report: kindlm_wire::mutation::MutationReport =
            serde_json::from_slice(&output.stdout).unwrap();
        mutants = report.harmful.all() + report.harmless.all();
    }
    let per_second = mutants as f64 / best.as_secs_f64();
    println!(
        "| `kindlm mutate` | cases | mutants | wall | mutants per second |\n|---|--:|--:|--:|--:|"
    );
    println!(
        "| three checks | {CASES} | {mutants} | {:.0} ms | {per_second:.0} |",
        best.as_secs_f64() * 1e3
    );
}

/// Writes a suite whose outputs are the prompts, with three checks for each case.
fn write_suite(folder: &Path) {
    let mut text = String::from(
        "kindlm: 1\nproject: bench\nsuite: { name: bench }\nproviders: { echo: {} }\n\
         models: [{ id: m, provider: echo, model: any }]\n\
         prompts: { p: { user: \"Hello {{name}}. Your order {{order}} has been shipped on 3 May. You can follow it.\" } }\n\
         tests:\n",
    );
    for index in 0..CASES {
        let order = 10_000 + index;
        writeln!(
            text,
            "  - {{ name: case {index}, prompt: p, vars: {{ name: N{index}, order: \"{order}\" }}, expect: {{ output: \
             {{ contains: [\"{order}\"], maxLength: 100 }}, guardrails: {{ pii: {{ enabled: true }} }} }} }}"
        )
        .unwrap();
    }
    std::fs::write(folder.join("kindlm.yaml"), text).unwrap();
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_kindlm"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}
