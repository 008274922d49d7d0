//! Runs the benches, and writes the results and the properties of the machine to a page.

use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::Path;
use xshell::{Shell, cmd};

/// The page with the results.
const PAGE: &str = "docs/benchmarks.md";

/// The benches: the title, the explanation, and the name of each.
const BENCHES: [(&str, &str, &str); 4] = [
    (
        "The command line",
        "Whole processes, measured from outside: the best wall time, the mean CPU time (user and system) and the peak \
         memory of several runs. The provider is a mock in another process, which is not in these figures. A case has \
         three checks by rules. A run keeps its journal and its report on disk, as always.",
        "process",
    ),
    (
        "Memory of a large run",
        "100,000 executions at concurrency 256, with JSON and JUnit reports.",
        "memory",
    ),
    (
        "Scripts",
        "Microseconds for a call of a script that checks an output; Node.js keeps its worker between calls, and so does KindLM.",
        "calls",
    ),
    (
        "Mutation",
        "`kindlm mutate --json` on a run of 1,000 cases, as a whole process: the best of five.",
        "mutate",
    ),
];

/// Runs all benches one after the other, and writes the page.
///
/// A peer is another tool to compare with, such as `promptfoo=<path>`. Fails if a command fails, or if the page cannot
/// be written.
pub(crate) fn run(sh: &Shell, root: &Path, peers: &[String]) -> Result<()> {
    let date = cmd!(sh, "date -u +%F").read().context("the date")?;
    let commit = cmd!(sh, "git rev-parse --short HEAD").read().context("the commit")?;
    let mut page = format!(
        "# Benchmarks\n\n<!-- Written by `cargo xtask bench`. -->\n\nMeasured on {date} at `{commit}`, on {}.\n",
        machine()
    );
    if peers.is_empty() {
        page.push_str(
            "No other tool was measured; to compare, run `cargo xtask bench --peer promptfoo=<path>`.\n",
        );
    }
    for peer in peers {
        let Some((name, path)) = peer.split_once('=') else { continue };
        let version = cmd!(sh, "{path} --version").ignore_stderr().read();
        let version = version.with_context(|| format!("run `{path} --version`"))?;
        writeln!(page, "Compared with {name} {}.", version.trim())?;
    }
    for (title, about, bench) in BENCHES {
        let of_process = if bench == "process" { peers } else { &[] };
        let peers = of_process.iter().flat_map(|it| ["--peer", it.as_str()]);
        // Build both packages together: separate builds would use other features, and so compile everything twice.
        let packages = ["-p", "kindlm-cli", "-p", "kindlm-script"];
        // Use the profile of the released binaries.
        let mut cargo =
            cmd!(sh, "cargo bench --profile dist {packages...} --bench {bench} -- {peers...}");
        // Remove cargo's variables about `xtask`, because they make cargo rebuild dependencies with build scripts.
        for (name, _) in std::env::vars_os() {
            if name
                .to_str()
                .is_some_and(|it| it.starts_with("CARGO_PKG_") || it.starts_with("CARGO_MANIFEST_"))
            {
                cargo = cargo.env_remove(name);
            }
        }
        let measured = cargo.read()?;
        println!("{measured}\n");
        write!(page, "\n## {title}\n\n{about}\n\n{}\n", measured.trim())?;
    }
    sh.write_file(root.join(PAGE), page).context("write the page")
}

/// Returns the properties of the machine that affect the results. An unknown memory size is omitted.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, model)| model);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next())
        .and_then(|it| it.parse::<u64>().ok());
    let memory = kib.map_or_else(String::new, |kib| format!(", {} GiB of memory", kib >> 20));
    format!("{cores} cores of {model}{memory}, {}", std::env::consts::OS)
}
