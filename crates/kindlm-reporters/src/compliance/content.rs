//! The part of the document that holds the results: what the template shows, in words.

use std::collections::HashMap;

use askama::Template;
use kindlm_types::{
    CaseResult, Class, ComplianceInfo, GateOutcome, ModelInfo, Outcome, Params, RateCount, Report,
    Severity, SuiteTotals, ecma,
};

use super::{number, verdict};
use crate::amount::{count, duration, repeats, share};
use crate::plain::head;

/// What is shown of an output and of a message.
const OUTPUT_BYTES: usize = 600;
const MESSAGE_BYTES: usize = 1_200;

type Row = (&'static str, String);

/// Everything before the audit trail.
#[derive(Template)]
#[template(path = "compliance/report.md")]
pub(super) struct Content {
    eu: bool,
    title: String,
    introduction: &'static str,
    verdict: String,
    metadata: Vec<Row>,
    system: Vec<Row>,
    configuration: Vec<Row>,
    models: Vec<ModelRow>,
    summary: Vec<Row>,
    gates: Vec<GateRow>,
    cases: Vec<CaseRow>,
    findings: Vec<CaseFindings>,
    tags: Vec<TotalsRow>,
    by_model: Vec<TotalsRow>,
    comparison: Vec<Comparison>,
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

struct Comparison {
    name: String,
    cells: Vec<String>,
}

impl Content {
    pub(super) fn new(report: &Report, eu: bool) -> Self {
        let info = report.compliance.clone().unwrap_or_default();
        let what = if eu { "EU AI Act: evidence of testing" } else { "Evidence of testing" };
        let name = info.system_name.clone().unwrap_or_else(|| report.suite.name.clone());
        let models = report.model_ids();
        Self {
            eu,
            title: format!("{what}: {name}"),
            introduction: if eu {
                "Evidence for the technical documentation that Annex IV of Regulation (EU) 2024/1689 asks for. \
                 It records what was tested, how, and with which result; it is not an assessment of conformity."
            } else {
                "It records what was tested, how, and with which result; it is not an assessment of conformity."
            },
            verdict: verdict(report),
            metadata: metadata(report),
            system: system(&info, eu),
            configuration: configuration(report),
            models: report.models.iter().map(model_row).collect(),
            summary: summary(report),
            gates: report.gates.iter().map(gate_row).collect(),
            cases: case_rows(report),
            findings: findings(report),
            tags: tag_rows(report),
            by_model: models.iter().map(|id| totals_row(id, &report.totals_of(id))).collect(),
            comparison: comparison(report, &models),
        }
    }
}

fn or_not(value: Option<&String>) -> String {
    value.filter(|it| !it.trim().is_empty()).cloned().unwrap_or_else(|| "not stated".to_owned())
}

fn metadata(report: &Report) -> Vec<Row> {
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

fn configuration(report: &Report) -> Vec<Row> {
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

fn summary(report: &Report) -> Vec<Row> {
    let totals = report.totals();
    vec![
        ("Result", verdict(report)),
        ("Cases run", count(totals.cases)),
        ("Passed", count(totals.passed)),
        ("Scored: a soft check below its threshold", count(totals.scored)),
        ("Failed", count(totals.failed)),
        ("Errored: could not be executed or judged", count(totals.errored)),
        ("Skipped: not run", count(totals.skipped)),
        ("Held, of the cases run", share(totals.held())),
        ("Executions, repeats included", count(totals.executions)),
        ("Checks by rules that held", share(report.checks(Class::Deterministic))),
        ("Checks by a model that held", share(report.checks(Class::Probabilistic))),
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

fn case_rows(report: &Report) -> Vec<CaseRow> {
    let run = report.cases.iter().map(|case| {
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
    });
    let skipped = report.skipped.iter().map(|it| CaseRow {
        name: it.case.clone(),
        model: "–".to_owned(),
        result: result_word(Outcome::Skipped),
        repeats: "–".to_owned(),
        deterministic: "–".to_owned(),
        probabilistic: "–".to_owned(),
        tags: it.tags.join(", "),
    });
    run.chain(skipped).collect()
}

fn of(passed: u64, total: u64) -> String {
    if total == 0 { "–".to_owned() } else { format!("{passed} of {total}") }
}

fn findings(report: &Report) -> Vec<CaseFindings> {
    let run = report.cases.iter().filter(|it| it.outcome != Outcome::Passed).map(case_findings);
    let skipped = report.skipped.iter().map(|it| CaseFindings {
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
    });
    run.chain(skipped).collect()
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
    let telling = case.telling_execution().filter(|it| it.error.is_none());
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

fn tag_rows(report: &Report) -> Vec<TotalsRow> {
    let mut rows: Vec<TotalsRow> =
        report.tag_totals().iter().map(|it| totals_row(it.tag, &it.totals)).collect();
    if let Some(totals) = report.untagged_totals() {
        rows.push(totals_row("(without tag)", &totals));
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

fn comparison(report: &Report, models: &[&str]) -> Vec<Comparison> {
    let mut results = HashMap::new();
    for case in &report.cases {
        results.entry((case.case.as_str(), case.model.as_str())).or_insert(case);
    }
    let row = |name: &str| Comparison {
        name: name.to_owned(),
        cells: models
            .iter()
            .map(|model| match results.get(&(name, *model)) {
                None => "–".to_owned(),
                Some(case) if case.executions.len() > 1 => {
                    let counts = case.repeat_counts();
                    format!(
                        "{} ({} of {})",
                        result_word(case.outcome),
                        counts.held(),
                        counts.executed()
                    )
                }
                Some(case) => result_word(case.outcome),
            })
            .collect(),
    };
    report.case_names().into_iter().map(row).collect()
}
