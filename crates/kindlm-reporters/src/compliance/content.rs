//! The template data for the content of the document.

use std::collections::HashMap;
use std::rc::Rc;

use askama::Template;
use kindlm_types::{
    AnyReport, AssertionSummary, CaseError, CaseResult, Class, ComplianceInfo, GateOutcome,
    ModelInfo, Outcome, Params, RateCount, RepeatCounts, Severity, SuiteTotals, Summary, ecma,
};

use super::{number, verdict};
use crate::amount::{count, duration, repeats, share};
use crate::plain::head;

/// The maximum number of bytes that are shown of an output or of a message.
const OUTPUT_BYTES: usize = 600;
const MESSAGE_BYTES: usize = 1_200;

type Row = (&'static str, String);

/// The part of the document before the audit trail.
#[derive(Template)]
#[template(path = "compliance/report.md")]
pub(super) struct Content<'a> {
    report: &'a AnyReport<'a>,
    eu: bool,
    title: String,
    introduction: &'static str,
    verdict: String,
    metadata: Vec<Row>,
    system: Vec<Row>,
    configuration: Vec<Row>,
    models: Vec<ModelRow>,
    summary: Vec<Row>,
    assertions: Vec<AssertionRow>,
    gates: Vec<GateRow>,
    /// True if every case passed.
    flawless: bool,
    tags: Vec<TotalsRow>,
    by_model: Vec<TotalsRow>,
    comparison: Comparison,
}

struct ModelRow {
    id: String,
    provider: String,
    name: String,
    params: String,
}

struct GateRow {
    gate: String,
    status: &'static str,
    actual: String,
    threshold: String,
    message: String,
}

/// The results of a prompt assertion.
struct AssertionRow {
    id: String,
    kept: String,
    errored: String,
    skipped: String,
    failing: String,
    example: String,
}

struct CaseRow {
    name: String,
    model: String,
    result: String,
    repeats: String,
    deterministic: String,
    probabilistic: String,
    tags: String,
}

struct CaseFindings {
    name: String,
    model: String,
    result: String,
    lines: Vec<FindingLine>,
    output: String,
    cut: bool,
}

struct FindingLine {
    code: String,
    label: String,
    facts: String,
    message: String,
}

struct TotalsRow {
    name: String,
    cases: String,
    passed: String,
    scored: String,
    failed: String,
    errored: String,
    skipped: String,
    held: String,
}

/// The table of outcomes by test case and model.
#[derive(Default)]
struct Comparison {
    rows: Vec<ComparisonRow>,
}

/// A row of the table: the name of a test case, and one cell per model.
type ComparisonRow = (Rc<str>, Box<[Option<Cell>]>);

/// The outcome of one test case on one model.
#[derive(Clone, Copy)]
struct Cell {
    outcome: Outcome,
    /// The counts of repeats, if there are several.
    repeats: Option<RepeatCounts>,
}

impl<'a> Content<'a> {
    pub(super) fn new(
        report: &'a AnyReport<'a>,
        totals: &Summary,
        eu: bool,
    ) -> Result<Self, CaseError> {
        let info = report.compliance.clone().unwrap_or_default();
        let what = if eu { "EU AI Act: evidence of testing" } else { "Evidence of testing" };
        let name = info.system_name.clone().unwrap_or_else(|| report.suite.name.clone());
        let models: Vec<&str> = totals.models.iter().map(|it| it.model.as_str()).collect();
        Ok(Self {
            report,
            eu,
            title: format!("{what}: {name}"),
            introduction: if eu {
                "Evidence for the technical documentation that Annex IV of Regulation (EU) 2024/1689 asks for. \
                 It records what was tested, how, and with which result; it is not an assessment of conformity."
            } else {
                "It records what was tested, how, and with which result; it is not an assessment of conformity."
            },
            verdict: verdict(report, totals),
            metadata: metadata(report),
            system: system(&info, eu),
            configuration: configuration(report),
            models: report.models.iter().map(model_row).collect(),
            summary: summary(report, totals),
            assertions: totals.assertions.iter().map(assertion_row).collect(),
            gates: report.gates.iter().map(gate_row).collect(),
            flawless: totals.totals.passed == totals.totals.listed(),
            tags: tag_rows(totals),
            by_model: totals.models.iter().map(|it| totals_row(&it.model, &it.totals)).collect(),
            // With a single model, there is nothing to compare.
            comparison: match models.len() {
                0 | 1 => Comparison::default(),
                _ => Comparison::of(report, &models)?,
            },
        })
    }

    /// Returns one row per case, skipped cases included. Each row is built on demand.
    fn cases(&self) -> impl Iterator<Item = Result<CaseRow, CaseError>> {
        let run = self.report.each().map(|case| Ok(case_row(case?.as_ref())));
        run.chain(self.report.skipped.iter().map(|it| {
            Ok(CaseRow {
                name: it.case.clone(),
                model: "–".to_owned(),
                result: result_word(Outcome::Skipped),
                repeats: "–".to_owned(),
                deterministic: "–".to_owned(),
                probabilistic: "–".to_owned(),
                tags: it.tags.join(", "),
            })
        }))
    }

    /// Returns the findings of each case that did not pass, skipped cases included.
    ///
    /// Each entry is built on demand.
    fn findings(&self) -> impl Iterator<Item = Result<CaseFindings, CaseError>> {
        let run = self.report.each_where(|it| it.outcome != Outcome::Passed);
        let run = run.map(|case| Ok(case_findings(case?.as_ref())));
        run.chain(self.report.skipped.iter().map(|it| {
            Ok(CaseFindings {
                name: it.case.clone(),
                model: "all models".to_owned(),
                result: result_word(Outcome::Skipped),
                lines: vec![FindingLine {
                    code: "not run".to_owned(),
                    label: String::new(),
                    facts: String::new(),
                    message: it.reason.clone(),
                }],
                output: String::new(),
                cut: false,
            })
        }))
    }
}

fn assertion_row(it: &AssertionSummary) -> AssertionRow {
    let named = it.failing.iter().map(|it| format!("{} ({})", it.case, it.model));
    let more = (it.unnamed() > 0).then(|| format!("{} more", count(it.unnamed())));
    let failing: Vec<String> = named.chain(more).collect();
    AssertionRow {
        id: it.id.clone(),
        kept: share(it.kept),
        errored: count(it.errored),
        skipped: count(it.skipped),
        failing: if failing.is_empty() { "none".to_owned() } else { failing.join(", ") },
        example: it.example.clone().unwrap_or_default(),
    }
}

fn or_not(value: Option<&String>) -> String {
    value.filter(|it| !it.trim().is_empty()).cloned().unwrap_or_else(|| "not stated".to_owned())
}

fn metadata(report: &AnyReport<'_>) -> Vec<Row> {
    let run = &report.run;
    vec![
        ("Run", run.id.clone()),
        ("Started", run.started_at.clone()),
        ("Duration", duration(run.duration_ms)),
        ("Made by", format!("KindLM {} on {}", run.version, run.platform)),
        ("Config file", or_not(report.suite.config_path.as_ref())),
        ("Git commit", or_not(run.git_commit.as_ref())),
    ]
}

fn system(info: &ComplianceInfo, eu: bool) -> Vec<Row> {
    let framework = match info.framework.as_str() {
        _ if eu => "EU AI Act, Regulation (EU) 2024/1689".to_owned(),
        other => other.to_owned(),
    };
    vec![
        ("System", or_not(info.system_name.as_ref())),
        ("Version", or_not(info.system_version.as_ref())),
        ("Risk level", or_not(info.risk_level.as_ref())),
        ("Operator", or_not(info.operator.as_ref())),
        ("Intended purpose", or_not(info.intended_purpose.as_ref())),
        ("Data governance", or_not(info.data_governance_notes.as_ref())),
        ("Framework", framework),
    ]
}

fn configuration(report: &AnyReport<'_>) -> Vec<Row> {
    let suite = &report.suite;
    let mut rows = vec![("Project", suite.project.clone()), ("Suite", suite.name.clone())];
    if let Some(description) = &suite.description {
        rows.push(("Description", description.clone()));
    }
    if !suite.tags.is_empty() {
        rows.push(("Suite tags", suite.tags.join(", ")));
    }
    rows.push(("Configuration, SHA-256", or_not(suite.config_sha256.as_ref())));
    rows
}

fn model_row(model: &ModelInfo) -> ModelRow {
    ModelRow {
        id: model.id.clone(),
        provider: model.provider.clone(),
        name: model.name.clone(),
        params: params(&model.params),
    }
}

fn params(params: &Params) -> String {
    let mut parts = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            parts.push(format!("{name} {value}"));
        }
    };
    add("temperature", params.temperature.map(ecma::number));
    add("maxTokens", params.max_tokens.map(|it| it.to_string()));
    add("topP", params.top_p.map(ecma::number));
    add("seed", params.seed.map(|it| it.to_string()));
    let stops = &params.stop_sequences;
    add("stopSequences", (!stops.is_empty()).then(|| format!("{stops:?}")));
    if parts.is_empty() { "the provider's defaults".to_owned() } else { parts.join(", ") }
}

fn summary(report: &AnyReport<'_>, summary: &Summary) -> Vec<Row> {
    let totals = &summary.totals;
    vec![
        ("Result", verdict(report, summary)),
        ("Cases run", count(totals.cases)),
        ("Passed", count(totals.passed)),
        ("Scored: a soft check below its threshold", count(totals.scored)),
        ("Failed", count(totals.failed)),
        ("Errored: could not be executed or judged", count(totals.errored)),
        ("Skipped: not run", count(totals.skipped)),
        ("Held, of the cases run", share(totals.held())),
        ("Executions, repeats included", count(totals.executions)),
        ("Checks by rules that held", share(summary.checks(Class::Deterministic))),
        ("Checks by a model that held", share(summary.checks(Class::Probabilistic))),
    ]
}

fn gate_row(gate: &kindlm_types::GateResult) -> GateRow {
    GateRow {
        gate: gate.gate.clone(),
        status: match gate.outcome {
            GateOutcome::Held => "held",
            GateOutcome::Broken => "BROKEN",
            GateOutcome::NothingToMeasure => "nothing to measure",
        },
        actual: gate.actual.map_or_else(|| "–".to_owned(), number),
        threshold: number(gate.threshold),
        message: gate.message.clone(),
    }
}

fn result_word(outcome: Outcome) -> String {
    match outcome {
        Outcome::Failed => "FAILED".to_owned(),
        Outcome::Errored => "ERRORED".to_owned(),
        other => other.to_string(),
    }
}

fn case_row(case: &CaseResult) -> CaseRow {
    let counts = case.repeat_counts();
    let checks = case.checks;
    CaseRow {
        name: case.case.clone(),
        model: case.model.clone(),
        result: result_word(case.outcome),
        repeats: if counts.executed() == 0 {
            "–".to_owned()
        } else {
            format!("{} of {}", counts.held(), counts.executed())
        },
        deterministic: of(checks.deterministic_passed, checks.deterministic_total),
        probabilistic: of(checks.probabilistic_passed, checks.probabilistic_total),
        tags: case.tags.join(", "),
    }
}

fn of(passed: u64, total: u64) -> String {
    if total == 0 { "–".to_owned() } else { format!("{passed} of {total}") }
}

fn case_findings(case: &CaseResult) -> CaseFindings {
    let of = case.executions.len();
    let mut lines = Vec::new();
    for finding in case.findings() {
        let result = finding.result;
        let mut facts = Vec::new();
        if result.severity == Severity::Soft {
            facts.push("soft".to_owned());
        }
        if let Some(turn) = &result.turn {
            facts.push(format!("turn \"{turn}\""));
        }
        facts.push(repeats(&finding.repeats, of));
        facts.retain(|it| !it.is_empty());
        lines.push(FindingLine {
            code: result.verdict.code().map(ToString::to_string).unwrap_or_default(),
            label: result.label.clone(),
            facts: facts.join(", "),
            message: cut(result.verdict.message().unwrap_or_default(), MESSAGE_BYTES),
        });
    }
    for finding in case.errors() {
        lines.push(FindingLine {
            code: finding.error.code().map_or_else(|| "not run".to_owned(), |it| it.to_string()),
            label: String::new(),
            facts: repeats(&finding.repeats, of),
            message: cut(&finding.error.message(), MESSAGE_BYTES),
        });
    }
    let telling = case.explaining_execution().filter(|it| it.error.is_none());
    let output = telling.map_or("", |it| it.execution.output.as_str());
    CaseFindings {
        name: case.case.clone(),
        model: case.model.clone(),
        result: result_word(case.outcome),
        lines,
        output: cut(output, OUTPUT_BYTES),
        cut: output.len() > OUTPUT_BYTES,
    }
}

fn cut(text: &str, bytes: usize) -> String {
    let beginning = head(text, bytes);
    if beginning.len() < text.len() { format!("{beginning}…") } else { text.to_owned() }
}

fn tag_rows(summary: &Summary) -> Vec<TotalsRow> {
    let mut rows: Vec<TotalsRow> =
        summary.tags.iter().map(|it| totals_row(&it.tag, &it.totals)).collect();
    if let Some(totals) = &summary.untagged {
        rows.push(totals_row("(without tag)", totals));
    }
    rows
}

fn totals_row(name: &str, totals: &SuiteTotals) -> TotalsRow {
    let held: RateCount = totals.held();
    TotalsRow {
        name: name.to_owned(),
        cases: count(totals.listed()),
        passed: count(totals.passed),
        scored: count(totals.scored),
        failed: count(totals.failed),
        errored: count(totals.errored),
        skipped: count(totals.skipped),
        held: share(held),
    }
}

impl Comparison {
    /// Builds the table. Only names, outcomes and counts are held in memory.
    fn of(report: &AnyReport<'_>, models: &[&str]) -> Result<Self, CaseError> {
        let mut rows: Vec<ComparisonRow> = Vec::new();
        let mut row_of: HashMap<Rc<str>, usize> = HashMap::new();
        for case in report.each() {
            let case = case?;
            let at = row_of.get(case.case.as_str()).copied().unwrap_or_else(|| {
                let name: Rc<str> = case.case.as_str().into();
                row_of.insert(Rc::clone(&name), rows.len());
                rows.push((name, vec![None; models.len()].into()));
                rows.len() - 1
            });
            let column = models.iter().position(|it| *it == case.model);
            let cell = rows.get_mut(at).zip(column).and_then(|((_, row), at)| row.get_mut(at));
            if let Some(cell) = cell {
                let repeats = (case.executions.len() > 1).then(|| case.repeat_counts());
                cell.get_or_insert(Cell { outcome: case.outcome, repeats });
            }
        }
        Ok(Self { rows })
    }
}

fn cell(cell: Option<&Cell>) -> String {
    let Some(Cell { outcome, repeats }) = cell else { return "–".to_owned() };
    match repeats {
        None => result_word(*outcome),
        Some(it) => format!("{} ({} of {})", result_word(*outcome), it.held(), it.executed()),
    }
}
