//! Reports whose cases come one at a time, from somewhere else than memory.

use std::borrow::Cow;
use std::cell::Cell;

use kindlm_reporters::{REGISTRY, RenderError, Style, Verbosity};
use kindlm_testing::sample_report;
use kindlm_types::{CaseError, CaseMark, CaseResult, CaseSource, Report, Tally};

use crate::{render, style};

/// Cases that are made anew for every reader, until one of them cannot be.
#[derive(Debug)]
struct Elsewhere {
    cases: Vec<CaseResult>,
    unreadable: Option<usize>,
    reads: Cell<usize>,
}

impl CaseSource for Elsewhere {
    fn len(&self) -> usize {
        self.cases.len()
    }

    fn mark(&self, position: usize) -> Option<CaseMark<'_>> {
        self.cases.mark(position)
    }

    fn read(&self, position: usize) -> Result<Cow<'_, CaseResult>, CaseError> {
        self.reads.set(self.reads.get() + 1);
        if self.unreadable == Some(position) {
            return Err(CaseError::new("line 7 of the journal is torn"));
        }
        self.cases.read(position).map(|it| Cow::Owned(it.into_owned()))
    }

    fn tally(&self) -> Cow<'_, Tally> {
        self.cases.tally()
    }
}

fn elsewhere(report: &Report, unreadable: Option<usize>) -> Report<Elsewhere> {
    let it = report.clone();
    Report {
        run: it.run,
        suite: it.suite,
        models: it.models,
        skipped: it.skipped,
        gates: it.gates,
        derived: it.derived,
        compliance: it.compliance,
        warnings: it.warnings,
        shard: it.shard,
        cases: Elsewhere { cases: it.cases, unreadable, reads: Cell::new(0) },
    }
}

#[test]
fn it_makes_no_difference_where_the_cases_come_from() {
    let report = sample_report();
    for reporter in REGISTRY {
        for verbosity in [Verbosity::Quiet, Verbosity::Normal, Verbosity::Verbose] {
            let style = style(verbosity, true, 80);
            let id = reporter.meta.id;
            let streamed = elsewhere(&report, None);
            let mut text = String::new();
            (reporter.render)(&streamed, &style, &mut text).unwrap();
            assert!(text == render(id, &report, &style), "{id}");
            // A reporter reads a case once or a few times, not once for each model, tag or total.
            let (reads, cases) = (streamed.cases.reads.get(), report.cases.len());
            assert!(reads <= 4 * cases, "{id}: {reads} reads of {cases} cases");
        }
    }
}

#[test]
fn a_case_that_cannot_be_read_is_an_error_and_nothing_that_looks_whole() {
    let report = sample_report();
    let last = report.cases.len() - 1;
    // Not every reporter reads the cases that held.
    let first = report.cases.iter().position(|it| !it.outcome.held()).unwrap();
    for reporter in REGISTRY {
        let id = reporter.meta.id;
        for unreadable in [first, last] {
            let mut text = String::new();
            let result = (reporter.render)(
                &elsewhere(&report, Some(unreadable)),
                &Style::default(),
                &mut text,
            );
            let err = result.expect_err(id);
            assert!(!matches!(err, RenderError::Write(_)), "{id}");
            assert!(err.to_string().contains("line 7 of the journal is torn"), "{id}: {err}");
            let whole = render(id, &report, &Style::default());
            let end = &whole[whole.trim_end().rfind('\n').unwrap()..];
            assert!(!text.ends_with(end), "{id}: {text}");
        }
    }
}
