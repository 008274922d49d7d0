//! Runs the benches, and writes what they measured, with the machine that they ran on.

use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::Path;
use xshell::{Shell, cmd};

/// The page that the figures go to.
const PAGE: &str = "docs/benchmarks.md";

/// What is measured: a title, the package and its bench.
const BENCHES: [(&str, &str, &str); 3] = [
    ("The command line", "kindlm-cli", "process"),
    ("Memory of a large run", "kindlm-cli", "memory"),
    ("Scripts", "kindlm-script", "calls"),
];

/// Measures everything, one after the other, and writes the page.
pub(crate) fn run(sh: &Shell, root: &Path) -> Result<()> {
    let date = cmd!(sh, "date -u +%F").read().context("the date")?;
    let commit = cmd!(sh, "git rev-parse --short HEAD").read().context("the commit")?;
    let mut page = format!(
        "# Benchmarks\n\n<!-- Written by `cargo xtask bench`. -->\n\nMeasured on {date} at `{commit}`, on {}.\n\
         Figures of other tools were taken on a machine of two cores; where a column says so, in the same run.\n",
        machine()
    );
    for (title, package, bench) in BENCHES {
        let measured = cmd!(sh, "cargo bench -p {package} --bench {bench}").read()?;
        println!("{measured}\n");
        let is_table = measured.trim_start().starts_with('|');
        let fence = if is_table { "" } else { "```text\n" };
        let end = if is_table { "" } else { "\n```" };
        write!(page, "\n## {title}\n\n{fence}{}{end}\n", measured.trim())?;
    }
    sh.write_file(root.join(PAGE), page).context("write the page")
}

/// What the figures depend on, as far as the system tells.
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
