//! The sections about the run, the system, and the tests.

use kindlm_types::{
    AnyReport, CheckInfo, Class, ComplianceInfo, ModelInfo, Params, Severity, TestInfo, ecma,
};

use super::blocks::{Block, Cell, Document};
use super::digest_text::is_sha256;
use super::{FILES, Law, RUN, inputs, number, or_not};
use crate::RenderError;
use crate::amount::{count, duration, percent};
use crate::plain::one_line;

const NO_THRESHOLD: &str = "–";

/// Writes the section about the run.
pub(super) fn metadata(doc: &mut Document<'_>, report: &AnyReport<'_>) -> Result<(), RenderError> {
    doc.section("Document metadata", None)?;
    let run = &report.run;
    let tree = match run.git_dirty {
        Some(true) => "UNCOMMITTED CHANGES",
        Some(false) => "no uncommitted changes",
        None => "not known",
    };
    doc.fields([
        (RUN, Cell::from(run.id.as_str())),
        ("Started", run.started_at.as_str().into()),
        ("Duration", duration(run.duration_ms).into()),
        ("Made by", format!("KindLM {} on {}", run.version, run.platform).into()),
        ("Config file", or_not(report.suite.config_path.as_ref()).into()),
        ("Git commit", or_not(run.git_commit.as_ref()).into()),
        ("Git branch", or_not(run.git_branch.as_ref()).into()),
        ("Working tree", tree.into()),
    ])?;
    if run.git_dirty == Some(true) {
        doc.put(Block::Alert(
            "the working tree had uncommitted changes. The commit does not contain what was tested. The digests of the \
             files in section 3 identify it.",
        ))?;
    }
    Ok(())
}

/// Writes the section about the system under test.
pub(super) fn system(
    doc: &mut Document<'_>,
    info: &ComplianceInfo,
    law: Law,
) -> Result<(), RenderError> {
    let note =
        "Annex IV, point 1 (a): intended purpose, name of the provider, version of the system.";
    doc.section("System", law.only(note))?;
    let framework = match info.framework.as_str() {
        _ if law.eu => "EU AI Act, Regulation (EU) 2024/1689".to_owned(),
        other => other.to_owned(),
    };
    let mut rows = vec![
        ("System", or_not(info.system_name.as_ref())),
        ("Version", or_not(info.system_version.as_ref())),
        ("Risk level", or_not(info.risk_level.as_ref())),
        ("Provider", or_not(info.provider.as_ref())),
        ("Deployer", or_not(info.deployer.as_ref())),
    ];
    rows.extend(info.operator.as_ref().map(|it| ("Operator", it.clone())));
    rows.extend([
        ("Intended purpose", or_not(info.intended_purpose.as_ref())),
        ("Data governance", or_not(info.data_governance_notes.as_ref())),
        ("Framework", framework),
    ]);
    doc.fields(rows.into_iter().map(|(name, value)| (name, value.into())))
}

/// Writes the section about the tests: files, prompts, models, inputs, checks and judges.
pub(super) fn tests(
    doc: &mut Document<'_>,
    report: &AnyReport<'_>,
    law: Law,
) -> Result<(), RenderError> {
    let note = "Annex IV, point 2 (g): validation and testing procedures, data and metrics. Article 17(1)(d): test and \
                validation procedures.";
    doc.section("Test specification", law.only(note))?;
    let suite = &report.suite;
    let mut rows = vec![
        ("Project", Cell::from(suite.project.as_str())),
        ("Suite", suite.name.as_str().into()),
    ];
    rows.extend(suite.description.as_deref().map(|it| ("Description", it.into())));
    if !suite.tags.is_empty() {
        rows.push(("Suite tags", suite.tags.join(", ").into()));
    }
    rows.push(("Configuration, SHA-256", digest(suite.config_sha256.as_ref())));
    rows.push(("Suite, SHA-256", digest(suite.suite_digest.as_ref())));
    doc.fields(rows)?;
    files(doc, report)?;
    prompts(doc, report)?;
    doc.put(Block::Heading(3, "Models under test"))?;
    let models = report.models.iter().map(|it| Ok(model(it)));
    doc.table(&["Id", "Provider", "Model", "Parameters"], models)?;
    inputs::write(doc, report)?;
    checks(doc, report)?;
    judges(doc, report)
}

pub(super) fn digest(value: Option<&String>) -> Cell<'_> {
    value.map_or_else(|| "not known".into(), |it| Cell::Code(it.as_str().into()))
}

/// Writes the digests of all files in the format of `sha256sum`.
fn files(doc: &mut Document<'_>, report: &AnyReport<'_>) -> Result<(), RenderError> {
    doc.put(Block::Heading(3, FILES))?;
    let files = &report.suite.files;
    if files.is_empty() {
        return doc.put(Block::Paragraph("The report has no list of files."));
    }
    doc.put(Block::Paragraph(
        "The configuration, and all prompts, checks, datasets and programs that it reads from files. Each line has the \
         SHA-256 of a file and its path in the folder of the suite. A path that ends with / is a folder with many files: \
         its digest is of the lines of its files.",
    ))?;
    let lines = files.iter().map(|it| {
        // A text that is no digest could imitate the end of the code block.
        let sha256 = if is_sha256(&it.sha256) { &it.sha256 } else { "not known" };
        format!("{sha256}  {}", one_line(&it.path))
    });
    doc.put(Block::Code(&lines.collect::<Vec<_>>().join("\n")))
}

fn prompts(doc: &mut Document<'_>, report: &AnyReport<'_>) -> Result<(), RenderError> {
    let suite = &report.suite;
    doc.put(Block::Heading(3, "Prompts"))?;
    let rows = suite.prompts.iter().map(|it| {
        let digest = Cell::Code(it.digest.as_str().into());
        Ok([it.name.as_str().into(), digest, it.assertion_sets.join(", ").into()])
    });
    doc.table(&["Prompt", "Digest", "Sets of assertions"], rows)?;
    if suite.assertion_sets.is_empty() {
        return Ok(());
    }
    doc.put(Block::Heading(3, "Sets of assertions"))?;
    let rows = suite.assertion_sets.iter().map(|it| {
        Ok([
            Cell::from(it.name.as_str()),
            it.version.as_deref().unwrap_or("not stated").into(),
            count(it.assertions).into(),
            it.file.as_deref().unwrap_or("in the configuration").into(),
            Cell::Code(it.digest.as_str().into()),
        ])
    });
    doc.table(&["Set", "Version", "Assertions", "File", "Digest"], rows)
}

fn model(model: &ModelInfo) -> [Cell<'_>; 4] {
    [
        model.id.as_str().into(),
        model.provider.as_str().into(),
        model.name.as_str().into(),
        params(&model.params).into(),
    ]
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

/// Writes every test with its checks.
fn checks(doc: &mut Document<'_>, report: &AnyReport<'_>) -> Result<(), RenderError> {
    doc.put(Block::Heading(3, "Tests and their checks"))?;
    let tests = &report.suite.tests;
    if tests.is_empty() {
        return doc.put(Block::Paragraph(
            "The report does not list the tests, because there are none or too many. The files above specify them, and \
             the JSON report names the checks of each result.",
        ));
    }
    doc.put(Block::Paragraph(
        "A check by a rule gives the same verdict for the same output; a check by a model may vary. A check that must \
         hold fails the test. A score is only reported.",
    ))?;
    let columns = [
        "Test",
        "Prompt",
        "Repeats",
        "Passes if",
        "Check",
        "Judged by",
        "What is checked",
        "Threshold",
        "Effect",
    ];
    let rows = tests.iter().flat_map(|test| {
        let none = test.checks.is_empty().then(|| row(test, None));
        none.into_iter().chain(test.checks.iter().map(|it| row(test, Some(it))))
    });
    doc.table(&columns, rows.map(Ok))
}

fn row<'r>(test: &'r TestInfo, check: Option<&'r CheckInfo>) -> Vec<Cell<'r>> {
    let passes = match (test.threshold, test.pass_rate_min) {
        (Some(score), _) => format!("mean score at least {}", number(score)),
        (None, rate) if rate < 1.0 => format!("{}% of the repeats pass", percent(rate)),
        (None, _) => "all repeats pass".to_owned(),
    };
    let head = [
        test.name.as_str().into(),
        test.prompt.as_deref().unwrap_or("none").into(),
        Cell::from(count(u64::from(test.repeat))),
        passes.into(),
    ];
    let none = || Cell::from(NO_THRESHOLD);
    let tail = match check {
        None => ["no checks".into(), none(), none(), none(), none()],
        Some(check) => [
            check.assertion.as_str().into(),
            match check.class {
                Class::Deterministic => "a rule",
                Class::Probabilistic => "a model",
            }
            .into(),
            what(check).into(),
            check.threshold.map_or_else(none, |it| number(it).into()),
            match (&check.skip, check.severity) {
                (Some(reason), _) => format!("skipped: {reason}").into(),
                (None, Severity::Gate) => "must hold".into(),
                (None, Severity::Soft) => "score".into(),
            },
        ],
    };
    head.into_iter().chain(tail).collect()
}

/// Returns the label and the configuration of a check.
fn what(check: &CheckInfo) -> String {
    let config = check.config.iter().map(|it| format!(": {it}"));
    let turn = check.turn.iter().map(|it| format!(" (turn \"{it}\")"));
    config.chain(turn).fold(check.label.clone(), |text, part| text + &part)
}

/// Writes the judges with their instructions.
fn judges(doc: &mut Document<'_>, report: &AnyReport<'_>) -> Result<(), RenderError> {
    let suite = &report.suite;
    doc.put(Block::Heading(3, "Judges"))?;
    let has_judged =
        suite.tests.iter().flat_map(|it| &it.checks).any(|it| it.class == Class::Probabilistic);
    if suite.judges.is_empty() {
        return doc.put(Block::Paragraph(if has_judged || suite.tests.is_empty() {
            "The report has no list of judges."
        } else {
            "No check asks a judge."
        }));
    }
    let rows = suite.judges.iter().map(|it| {
        Ok([
            Cell::from(it.check.as_str()),
            crate::judges::named(it).into(),
            count(u64::from(it.samples)).into(),
            if it.rules.is_empty() { NO_THRESHOLD.into() } else { it.rules.join(", ").into() },
            crate::judges::agreement(it).into(),
            it.instructions.join(", ").into(),
        ])
    });
    let columns =
        ["Check", "Judges", "Answers of each", "Settings", "Agreement with people", "Instructions"];
    doc.table(&columns, rows)?;
    doc.put(Block::Paragraph(
        "The criterion of each check is in the table of tests. A judge gets the instructions, the criterion and the \
         output.",
    ))?;
    for it in &suite.instructions {
        doc.put(Block::Heading(4, &format!("Instructions {}", it.digest)))?;
        doc.put(Block::Quote(&it.text))?;
    }
    Ok(())
}
