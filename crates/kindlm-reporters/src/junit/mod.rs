//! The reporter `junit`: JUnit XML for CI systems, valid for strict parsers.

mod properties;
mod story;
mod xml;

use std::collections::HashSet;
use std::fmt;

use kindlm_types::{
    AnyReport, CaseResult, FailureCode, GateOutcome, GateResult, ModelTotals, Outcome, SuiteTotals,
};
use sha2::{Digest as _, Sha256};

use crate::amount::seconds;
use crate::issue::{Place, place_of_case};
use crate::{Meta, Registration, RenderError, Style};
use xml::Xml;

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "junit",
        summary: "JUnit XML for CI systems: one test case per case and model, and one per gate.",
        since: "0.1.0",
        extension: "xml",
        docs: include_str!("docs.md"),
    },
    render,
};

/// The failure type of a violated gate.
const GATE_VIOLATED: &str = "GATE_VIOLATED";

/// The result of a test case in the terms of JUnit.
///
/// `text` is written after `message`, as the content of the element.
enum Ending {
    Passed { note: Option<String> },
    Failure { code: String, message: String, text: String },
    Error { code: String, message: String, text: String },
    Skipped { message: String },
}

struct TestCase<'a> {
    classname: &'a str,
    name: &'a str,
    ms: f64,
    ending: Ending,
    /// The place of the test in the suite; `None` if it is not known, and for gates and skipped tests.
    place: Option<Place>,
    tags: &'a [String],
    /// Further facts for `system-out`, as properties.
    properties: Vec<(&'static str, String)>,
}

/// The attributes and properties of a test suite, written before its test cases.
struct TestSuite<'a> {
    name: &'a str,
    /// The properties; empty for gates and skipped cases.
    properties: Vec<(&'static str, String)>,
    counts: Counts,
    ms: f64,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    tests: u64,
    failures: u64,
    errors: u64,
    skipped: u64,
}

impl From<&SuiteTotals> for Counts {
    fn from(totals: &SuiteTotals) -> Self {
        Self {
            tests: totals.listed(),
            failures: totals.failed,
            errors: totals.errored,
            skipped: totals.skipped,
        }
    }
}

impl Counts {
    fn of_gates(gates: &[GateResult]) -> Self {
        let mut counts = Self { tests: gates.len() as u64, ..Self::default() };
        for gate in gates {
            match gate.outcome {
                GateOutcome::Held => {}
                GateOutcome::Violated => counts.failures += 1,
                GateOutcome::NothingToMeasure => counts.skipped += 1,
            }
        }
        counts
    }
}

fn render(
    report: &AnyReport<'_>,
    _style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    let summary = report.summary();
    let gates = Counts::of_gates(gates_of(report));
    let cases = Counts::from(&summary.totals);
    let xml = Xml::new(out)?;
    let mut document = Document { report, xml, seen: HashSet::new() };
    // `junit-10.xsd` does not allow `skipped` and `timestamp` here, so each `testsuite` has them.
    document.xml.open(
        "testsuites",
        &[
            ("name", &report.suite.name),
            ("tests", &(cases.tests + gates.tests).to_string()),
            ("failures", &(cases.failures + gates.failures).to_string()),
            ("errors", &cases.errors.to_string()),
            ("time", &seconds(report.run.duration_ms)),
        ],
    )?;
    for model in &summary.models {
        document.model(model)?;
    }
    document.skipped()?;
    document.gates(gates)?;
    document.xml.close("testsuites")?;
    document.xml.finish()
}

/// The XML document and the state of writing it.
struct Document<'a> {
    report: &'a AnyReport<'a>,
    xml: Xml<'a>,
    /// The digests of all class and test names that were written.
    seen: HashSet<[u8; 16]>,
}

impl Document<'_> {
    fn model(&mut self, of: &ModelTotals) -> Result<(), RenderError> {
        let report = self.report;
        let id = of.model.as_str();
        let suite = TestSuite {
            name: id,
            properties: properties::of_model(report, of),
            counts: Counts::from(&of.totals),
            ms: of.latency_total_ms,
        };
        self.open(&suite)?;
        // Parsers split the class name at its last dot, so replace the dots of the id.
        let classname = format!("{}.{}", report.suite.name, id.replace('.', "_"));
        for case in report.each_where(|it| it.model == id) {
            let case = case?;
            self.case(&TestCase {
                classname: &classname,
                name: &case.case,
                ms: case.latency_total_ms(),
                ending: ending(&case),
                place: place_of_case(report, &case).filter(|_| case.source.is_some()),
                tags: &case.tags,
                properties: properties::of_case(&case),
            })?;
        }
        self.xml.close("testsuite")
    }

    fn skipped(&mut self) -> Result<(), RenderError> {
        let report = self.report;
        let tests = report.skipped.len() as u64;
        // Some parsers fail on a suite with `tests="0"`, so write no suite.
        if tests == 0 {
            return Ok(());
        }
        let counts = Counts { tests, skipped: tests, ..Counts::default() };
        self.open(&TestSuite { name: "skipped", properties: Vec::new(), counts, ms: 0.0 })?;
        let classname = format!("{}.skipped", report.suite.name);
        for it in &report.skipped {
            let ending = Ending::Skipped { message: it.reason.clone() };
            let (classname, name, tags) = (&classname, &it.case, &it.tags);
            let (place, properties) = (None, Vec::new());
            self.case(&TestCase { classname, name, ms: 0.0, ending, place, tags, properties })?;
        }
        self.xml.close("testsuite")
    }

    /// Writes the gates as test cases, because CI systems show only test cases.
    ///
    /// A violated gate is a failed test case.
    fn gates(&mut self, counts: Counts) -> Result<(), RenderError> {
        let report = self.report;
        if gates_of(report).is_empty() {
            return Ok(());
        }
        self.open(&TestSuite { name: "quality gates", properties: Vec::new(), counts, ms: 0.0 })?;
        let classname = format!("{}.quality gates", report.suite.name);
        for gate in gates_of(report) {
            let ending = gate_ending(gate);
            let (classname, name, tags) = (&classname, &gate.gate, &[]);
            let (place, properties) = (None, Vec::new());
            self.case(&TestCase { classname, name, ms: 0.0, ending, place, tags, properties })?;
        }
        self.xml.close("testsuite")
    }

    /// Opens a test suite, and writes its attributes and properties.
    fn open(&mut self, suite: &TestSuite<'_>) -> Result<(), RenderError> {
        let counts = &suite.counts;
        let (tests, failures) = (counts.tests.to_string(), counts.failures.to_string());
        let (errors, skipped) = (counts.errors.to_string(), counts.skipped.to_string());
        let time = seconds(suite.ms);
        let mut attributes = vec![
            ("name", suite.name),
            ("tests", &tests),
            ("failures", &failures),
            ("errors", &errors),
            ("skipped", &skipped),
            ("time", &time),
        ];
        let started_at = &self.report.run.started_at;
        if !started_at.is_empty() {
            attributes.push(("timestamp", started_at));
        }
        self.xml.open("testsuite", &attributes)?;
        if !suite.properties.is_empty() {
            self.xml.open("properties", &[])?;
            for (name, value) in &suite.properties {
                self.xml.empty("property", &[("name", name), ("value", value)])?;
            }
            self.xml.close("properties")?;
        }
        Ok(())
    }

    fn case(&mut self, case: &TestCase<'_>) -> Result<(), RenderError> {
        let name = self.unique(case.classname, case.name);
        let file = self.report.suite.config_path.as_deref();
        write_case(&mut self.xml, case, &name, file)
    }

    /// Returns a unique test name, with a number added if necessary.
    ///
    /// Parsers identify a test by its class and name, and drop duplicates.
    fn unique(&mut self, class: &str, name: &str) -> String {
        // Two names may become equal when invalid characters are removed.
        let (class, name) = (xml::allowed(class), xml::allowed(name));
        let mut unique = name.clone();
        let mut number = 2;
        while !self.seen.insert(digest(&class, &unique)) {
            unique = format!("{name} ({number})");
            number += 1;
        }
        unique
    }
}

/// Returns the first half of the SHA-256 digest of a class name and a test name.
///
/// Digests take less memory than the names of a large run.
fn digest(class: &str, name: &str) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(class);
    // A NUL cannot occur in XML, so it separates the two names.
    hash.update([0]);
    hash.update(name);
    let mut half = [0; 16];
    half.iter_mut().zip(hash.finalize()).for_each(|(to, from)| *to = from);
    half
}

fn write_case(
    xml: &mut Xml<'_>,
    case: &TestCase<'_>,
    name: &str,
    file: Option<&str>,
) -> Result<(), RenderError> {
    let time = seconds(case.ms);
    let line = case.place.as_ref().map(|it| it.line.to_string());
    let tags = case.tags.join(" ");
    let mut attributes = vec![("classname", case.classname), ("name", name), ("time", &time)];
    if let Some(file) = case.place.as_ref().map(|it| it.file.as_str()).or(file) {
        attributes.push(("file", file));
    }
    attributes.extend(line.as_ref().map(|it| ("line", it.as_str())));
    if !tags.is_empty() {
        attributes.push(("group", &tags));
    }
    let printed = properties::printed(&case.properties);
    if matches!(case.ending, Ending::Passed { note: None }) && printed.is_empty() {
        return xml.empty("testcase", &attributes);
    }
    xml.open("testcase", &attributes)?;
    match &case.ending {
        Ending::Passed { note } => {
            let parts = [note.as_deref().unwrap_or_default(), printed.as_str()];
            let parts: Vec<&str> = parts.into_iter().filter(|it| !it.is_empty()).collect();
            xml.text("system-out", &[], &parts.join("\n\n"))?;
            return xml.close("testcase");
        }
        Ending::Failure { code, message, text } => {
            xml.text("failure", &[("type", code), ("message", message)], text)?;
        }
        Ending::Error { code, message, text } => {
            xml.text("error", &[("type", code), ("message", message)], text)?;
        }
        Ending::Skipped { message } => xml.empty("skipped", &[("message", message)])?,
    }
    if !printed.is_empty() {
        xml.text("system-out", &[], &printed)?;
    }
    xml.close("testcase")
}

fn ending(case: &CaseResult) -> Ending {
    match case.outcome {
        Outcome::Passed | Outcome::Scored => Ending::Passed { note: story::note(case) },
        Outcome::Skipped => Ending::Skipped { message: case.why_skipped() },
        Outcome::Failed => Ending::Failure {
            code: story::code(case).unwrap_or_else(|| "FAILED".to_owned()),
            message: story::headline(case),
            text: story::whole(case),
        },
        Outcome::Errored => Ending::Error {
            code: story::code(case)
                .unwrap_or_else(|| FailureCode::INTERNAL_ERROR.as_str().to_owned()),
            message: story::headline(case),
            text: story::whole(case),
        },
    }
}

/// Returns the gates; empty for a shard, because the gates apply to the whole run.
fn gates_of<'a>(report: &'a AnyReport<'_>) -> &'a [GateResult] {
    if report.shard.is_some() { &[] } else { &report.gates }
}

fn gate_ending(gate: &GateResult) -> Ending {
    match gate.outcome {
        GateOutcome::Held => Ending::Passed { note: Some(gate.message.clone()) },
        GateOutcome::Violated => Ending::Failure {
            code: GATE_VIOLATED.to_owned(),
            message: gate.message.clone(),
            text: gate.message.clone(),
        },
        GateOutcome::NothingToMeasure => Ending::Skipped { message: gate.message.clone() },
    }
}
