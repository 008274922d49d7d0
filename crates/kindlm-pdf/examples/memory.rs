//! Measures the memory and the time of a PDF, depending on the number of cases. Each size runs in a separate process.
//!
//! `cargo run -p kindlm-pdf --features typst --example memory` prints a table. With a number of cases and the name of a
//! file, such as `-- 100 100.pdf`, the example writes a PDF with this number of cases. Linux only.
#![expect(clippy::print_stdout, reason = "an example prints what it measured")]
#![expect(clippy::unwrap_used, reason = "an example that cannot run must say so loudly")]

use std::borrow::Cow;
use std::process::Command;
use std::time::Instant;

use kindlm_reporters::{Style, find};
use kindlm_testing::sample_report;
use kindlm_types::{CaseError, CaseMark, CaseResult, CaseSource, Report, Tally};

/// Cases that are created on demand, so that only two cases are in memory. Every tenth case did not pass.
#[derive(Debug)]
struct Generated {
    passed: CaseResult,
    failed: CaseResult,
    len: usize,
    tally: Tally,
}

impl Generated {
    fn new(report: &Report, len: usize) -> Self {
        let find =
            |held: bool| report.cases.iter().find(|it| it.outcome.held() == held).unwrap().clone();
        let mut it = Self { passed: find(true), failed: find(false), len, tally: Tally::default() };
        for position in 0..len {
            let case = it.case(position);
            it.tally.observe(position, &case);
        }
        it
    }

    fn of(&self, position: usize) -> &CaseResult {
        if position % 10 == 9 { &self.failed } else { &self.passed }
    }

    fn case(&self, position: usize) -> CaseResult {
        let case = self.of(position);
        CaseResult { case: format!("{} {position}", case.case), ..case.clone() }
    }
}

impl CaseSource for Generated {
    fn len(&self) -> usize {
        self.len
    }

    fn mark(&self, position: usize) -> Option<CaseMark<'_>> {
        let case = self.of(position);
        let mark = CaseMark::new(&case.model, case.outcome, None);
        (position < self.len).then_some(mark)
    }

    fn read_case(&self, position: usize) -> Result<Cow<'_, CaseResult>, CaseError> {
        Ok(Cow::Owned(self.case(position)))
    }

    fn tally(&self) -> Cow<'_, Tally> {
        Cow::Borrowed(&self.tally)
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(cases) = arguments.first() {
        return measure(cases.parse().unwrap(), arguments.get(1));
    }
    println!("| cases | source | pages | PDF | time | peak memory |");
    println!("|--:|--:|--:|--:|--:|--:|");
    for cases in ["100", "1000", "10000", "100000"] {
        let status = Command::new(std::env::current_exe().unwrap()).arg(cases).status().unwrap();
        assert!(status.success(), "{cases}: {status}");
    }
}

fn measure(cases: usize, target: Option<&String>) {
    let report = sample_report();
    let cases = Generated::new(&report, cases);
    let report = Report {
        run: report.run,
        suite: report.suite,
        models: report.models,
        skipped: report.skipped,
        gates: report.gates,
        derived: report.derived,
        compliance: report.compliance,
        warnings: report.warnings,
        shard: report.shard,
        comparison: report.comparison,
        canaries: report.canaries,
        cases,
    };
    let started = Instant::now();
    let mut source = String::new();
    (find("compliance-pdf").unwrap().render)(&report, &Style::default(), &mut source).unwrap();
    let pdf = kindlm_pdf::pdf(&source).unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    println!(
        "| {} | {} KB | {} | {} KB | {:.1} s | {} MiB |",
        report.cases.len(),
        source.len() / 1_000,
        pdf.pages,
        pdf.bytes.len() / 1_000,
        started.elapsed().as_secs_f64(),
        peak / 1_024,
    );
    if let Some(target) = target {
        std::fs::write(target, pdf.bytes).unwrap();
    }
}
