//! Tests of reports whose cases are not in memory, but are read one at a time.

use std::borrow::Cow;
use std::cell::Cell;
use std::io;

use kindlm_reporters::{REGISTRY, RenderError, Style, Verbosity};
use kindlm_testing::sample_report;
use kindlm_types::{CaseError, CaseMark, CaseResult, CaseSource, Report, Tally};
use kindlm_wire::v1;

use crate::{render, style};

/// A source that creates each case on demand, and cannot read one of the cases.
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

    fn read_case(&self, position: usize) -> Result<Cow<'_, CaseResult>, CaseError> {
        self.reads.set(self.reads.get() + 1);
        if self.unreadable == Some(position) {
            return Err(CaseError::new("line 7 of the journal is torn"));
        }
        self.cases.read_case(position).map(|it| Cow::Owned(it.into_owned()))
    }

    /// Returns every second case as JSON text, like a stored case.
    fn written(&self, position: usize) -> Result<Option<String>, CaseError> {
        if position % 2 == 1 || self.unreadable == Some(position) {
            return Ok(None);
        }
        Ok(self.cases.get(position).map(|it| serde_json::to_string(&v1::Case::from(it)).unwrap()))
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
        comparison: it.comparison,
        canaries: it.canaries,
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
            // A reporter may read a case a few times, but not once for each model, tag or total.
            // The compliance documents also list the inputs. `compliance-pdf` makes the Markdown document as well,
            // because it states the digest of that document.
            let most = match id {
                "compliance-pdf" => 9,
                "compliance" | "compliance-html" => 5,
                _ => 4,
            };
            let (reads, cases) = (streamed.cases.reads.get(), report.cases.len());
            assert!(reads <= most * cases, "{id}: {reads} reads of {cases} cases");
        }
    }
}

#[test]
fn an_unreadable_case_is_an_error_not_a_short_report() {
    let report = sample_report();
    let last = report.cases.len() - 1;
    // Some reporters do not read passing cases, so use a case that did not pass.
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

#[test]
fn spliced_cases_do_not_change_a_compact_report() {
    let report = sample_report();
    let mut written = Vec::new();
    v1::write_compact(&elsewhere(&report, None), &mut written).unwrap();
    let whole = serde_json::to_string(&v1::Report::borrowing(&report)).unwrap();
    assert!(String::from_utf8(written).unwrap() == whole);

    let mut written = Vec::new();
    let empty = elsewhere(&Report { cases: Vec::new(), ..report.clone() }, None);
    v1::write_compact(&empty, &mut written).unwrap();
    assert!(String::from_utf8(written).unwrap().contains(r#","cases":[],"#));

    for torn in [0, 1] {
        let err = v1::write_compact(&elsewhere(&report, Some(torn)), io::sink()).unwrap_err();
        assert!(err.to_string().contains("line 7 of the journal is torn"), "{err}");
    }
}

#[test]
fn a_full_disk_is_named_everywhere() {
    let report = sample_report();
    for room in [0, 10, 3_000, 10_000] {
        let mut disk = vec![0_u8; room];
        let err = v1::write_compact(&elsewhere(&report, None), &mut &mut *disk).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::WriteZero, "{room}: {err}");
    }
}
