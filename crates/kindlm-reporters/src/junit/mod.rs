//! `junit`: JUnit XML for CI systems, as strict readers want it.

mod story;
mod xml;

use std::collections::HashSet;
use std::fmt;

use kindlm_types::{CaseResult, FailureCode, GateOutcome, GateResult, Outcome, Report};

use crate::amount::seconds;
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

/// The type of the failure of a broken gate.
const GATE_BROKEN: &str = "GATE_BROKEN";

/// What happened to a test case, in JUnit's words. Its text comes after its message.
enum Ending {
    Passed { note: Option<String> },
    Failure { code: String, message: String, text: String },
    Error { code: String, message: String, text: String },
    Skipped { message: String },
}

struct TestCase {
    classname: String,
    name: String,
    file: Option<String>,
    ms: f64,
    ending: Ending,
}

struct TestSuite {
    name: String,
    properties: Vec<(&'static str, String)>,
    cases: Vec<TestCase>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
}

impl Counts {
    fn of(cases: &[TestCase]) -> Self {
        let mut counts = Self { tests: cases.len(), ..Self::default() };
        for case in cases {
            match case.ending {
                Ending::Passed { .. } => {}
                Ending::Failure { .. } => counts.failures += 1,
                Ending::Error { .. } => counts.errors += 1,
                Ending::Skipped { .. } => counts.skipped += 1,
            }
        }
        counts
    }
}

fn render(report: &Report, _style: &Style, out: &mut dyn fmt::Write) -> Result<(), RenderError> {
    let mut suites: Vec<TestSuite> =
        report.model_ids().into_iter().map(|id| model_suite(report, id)).collect();
    suites.push(skipped_suite(report));
    suites.push(gates_suite(report));
    // Some readers fail on `tests="0"`.
    suites.retain(|suite| !suite.cases.is_empty());
    make_unique(&mut suites);
    write(report, &suites, out)
}

fn write(
    report: &Report,
    suites: &[TestSuite],
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    let all = suites.iter().map(|suite| Counts::of(&suite.cases));
    let sum = all.fold(Counts::default(), |a, b| Counts {
        tests: a.tests + b.tests,
        failures: a.failures + b.failures,
        errors: a.errors + b.errors,
        skipped: a.skipped + b.skipped,
    });
    let mut xml = Xml::new()?;
    // `junit-10.xsd` knows neither `skipped` nor `timestamp` here: they stand on each suite.
    xml.open(
        "testsuites",
        &[
            ("name", &report.suite.name),
            ("tests", &sum.tests.to_string()),
            ("failures", &sum.failures.to_string()),
            ("errors", &sum.errors.to_string()),
            ("time", &seconds(report.run.duration_ms)),
        ],
    )?;
    for suite in suites {
        write_suite(&mut xml, report, suite)?;
    }
    xml.close("testsuites")?;
    out.write_str(&xml.finish()?)?;
    Ok(())
}

fn write_suite(xml: &mut Xml, report: &Report, suite: &TestSuite) -> Result<(), RenderError> {
    let counts = Counts::of(&suite.cases);
    let (tests, failures) = (counts.tests.to_string(), counts.failures.to_string());
    let (errors, skipped) = (counts.errors.to_string(), counts.skipped.to_string());
    let time = seconds(suite.cases.iter().map(|it| it.ms).sum());
    let mut attributes = vec![
        ("name", suite.name.as_str()),
        ("tests", &tests),
        ("failures", &failures),
        ("errors", &errors),
        ("skipped", &skipped),
        ("time", &time),
    ];
    if !report.run.started_at.is_empty() {
        attributes.push(("timestamp", &report.run.started_at));
    }
    xml.open("testsuite", &attributes)?;
    if !suite.properties.is_empty() {
        xml.open("properties", &[])?;
        for (name, value) in &suite.properties {
            xml.empty("property", &[("name", name), ("value", value)])?;
        }
        xml.close("properties")?;
    }
    for case in &suite.cases {
        write_case(xml, case)?;
    }
    xml.close("testsuite")
}

fn write_case(xml: &mut Xml, case: &TestCase) -> Result<(), RenderError> {
    let time = seconds(case.ms);
    let mut attributes =
        vec![("classname", case.classname.as_str()), ("name", &case.name), ("time", &time)];
    if let Some(file) = &case.file {
        attributes.push(("file", file));
    }
    if matches!(case.ending, Ending::Passed { note: None }) {
        return xml.empty("testcase", &attributes);
    }
    xml.open("testcase", &attributes)?;
    match &case.ending {
        Ending::Passed { note } => {
            if let Some(note) = note {
                xml.text("system-out", &[], note)?;
            }
        }
        Ending::Failure { code, message, text } => {
            xml.text("failure", &[("type", code), ("message", message)], text)?;
        }
        Ending::Error { code, message, text } => {
            xml.text("error", &[("type", code), ("message", message)], text)?;
        }
        Ending::Skipped { message } => xml.empty("skipped", &[("message", message)])?,
    }
    xml.close("testcase")
}

fn model_suite(report: &Report, id: &str) -> TestSuite {
    let info = report.models.iter().find(|it| it.id == id);
    let properties = info.map_or_else(Vec::new, |it| {
        vec![("provider", it.provider.clone()), ("model", it.name.clone())]
    });
    // Readers split the class name at its last dot.
    let classname = format!("{}.{}", report.suite.name, id.replace('.', "_"));
    let file = &report.suite.config_path;
    let cases = report.cases_of(id).map(|case| TestCase {
        classname: classname.clone(),
        name: case.case.clone(),
        file: file.clone(),
        ms: case.latency_total_ms(),
        ending: ending(case),
    });
    TestSuite { name: id.to_owned(), properties, cases: cases.collect() }
}

fn ending(case: &CaseResult) -> Ending {
    match case.outcome {
        Outcome::Passed | Outcome::Scored => Ending::Passed { note: story::note(case) },
        Outcome::Skipped => {
            let reason = case.errors().first().map(|it| it.error.message());
            Ending::Skipped { message: reason.unwrap_or_else(|| "not run".to_owned()) }
        }
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

fn skipped_suite(report: &Report) -> TestSuite {
    let cases = report.skipped.iter().map(|it| TestCase {
        classname: format!("{}.skipped", report.suite.name),
        name: it.case.clone(),
        file: report.suite.config_path.clone(),
        ms: 0.0,
        ending: Ending::Skipped { message: it.reason.clone() },
    });
    TestSuite { name: "skipped".to_owned(), properties: Vec::new(), cases: cases.collect() }
}

/// A broken gate fails the run, so it must be visible where CI looks.
fn gates_suite(report: &Report) -> TestSuite {
    let ending = |gate: &GateResult| match gate.outcome {
        GateOutcome::Held => Ending::Passed { note: Some(gate.message.clone()) },
        GateOutcome::Broken => Ending::Failure {
            code: GATE_BROKEN.to_owned(),
            message: gate.message.clone(),
            text: gate.message.clone(),
        },
        GateOutcome::NothingToMeasure => Ending::Skipped { message: gate.message.clone() },
    };
    let cases = report.gates.iter().map(|gate| TestCase {
        classname: format!("{}.quality gates", report.suite.name),
        name: gate.gate.clone(),
        file: report.suite.config_path.clone(),
        ms: 0.0,
        ending: ending(gate),
    });
    TestSuite { name: "quality gates".to_owned(), properties: Vec::new(), cases: cases.collect() }
}

/// Readers identify a test by class and name, and drop all but the first of equals.
fn make_unique(suites: &mut [TestSuite]) {
    let mut seen = HashSet::new();
    for case in suites.iter_mut().flat_map(|suite| &mut suite.cases) {
        // Two names may become the same when characters are left out.
        let name = xml::allowed(&case.name);
        let class = xml::allowed(&case.classname);
        let mut unique = name.clone();
        let mut number = 2;
        while !seen.insert((class.clone(), unique.clone())) {
            unique = format!("{name} ({number})");
            number += 1;
        }
        case.name = unique;
    }
}
