//! The result of `kindlm mutate` as one HTML page that loads nothing and runs no script.

use askama::Template;
use kindlm_wire::mutation::{Family, MutantDiff, MutationReport, OperatorScore};

use super::{by_assertion, gate, idle, score, undecided};
use crate::RenderError;
use crate::amount::{count, plural};
use crate::diff::{DiffLine, between};
use crate::html::check::shortened;
use crate::html::{STYLE, source_hash};
use crate::plain::one_line;

#[derive(Template)]
#[template(path = "mutation/page.html")]
struct Page {
    style: &'static str,
    style_hash: String,
    suite: String,
    run: String,
    tone: &'static str,
    word: &'static str,
    score: String,
    brittle: String,
    notes: Vec<String>,
    cases: Vec<[String; 3]>,
    operators: Vec<[String; 4]>,
    assertions: Vec<[String; 5]>,
    idle: Vec<[String; 3]>,
    /// The result of the checks in one sentence.
    strength: String,
    groups: Vec<Group>,
    left_out: Vec<String>,
}

/// The survivors, or the brittle mutants, of one operator.
struct Group {
    title: String,
    summary: String,
    advice: String,
    mutants: Vec<(String, Vec<DiffLine>)>,
}

/// Returns the result as an HTML page.
///
/// # Errors
///
/// Fails if the template cannot be rendered.
pub fn html(report: &MutationReport) -> Result<String, RenderError> {
    let failed =
        |err: askama::Error| RenderError::Format { format: "html", message: err.to_string() };
    page(report).render().map_err(failed)
}

fn page(report: &MutationReport) -> Page {
    let gate = gate(report);
    let (tone, word) = match &gate {
        Some((true, _)) => ("good", "PASSED"),
        Some((false, _)) => ("bad", "FAILED"),
        None => ("none", "MEASURED"),
    };
    let notes = gate.map(|(_, sentence)| sentence).into_iter();
    let notes = notes.chain([&report.harmful, &report.harmless].into_iter().filter_map(undecided));
    let harmless = report.harmless.killed + report.harmless.survived;
    let name = |case: &str, model: &str| format!("{} · {}", one_line(case), one_line(model));
    Page {
        style: STYLE,
        style_hash: source_hash(STYLE),
        suite: one_line(&report.suite),
        run: one_line(&report.run),
        tone,
        word,
        score: score(&report.harmful),
        brittle: format!("{} of {harmless}", report.harmless.killed),
        notes: notes.collect(),
        cases: report
            .cases
            .iter()
            .map(|it| {
                [name(&it.case, &it.model), score(&it.harmful), it.harmless.killed.to_string()]
            })
            .collect(),
        operators: report.operators.iter().map(operator).collect(),
        assertions: by_assertion(&report.checks)
            .into_iter()
            .map(|it| {
                let [checks, kills, alone, brittle] =
                    [it.checks, it.kills, it.alone, it.brittle].map(|it| it.to_string());
                [one_line(it.id), checks, kills, alone, brittle]
            })
            .collect(),
        idle: idle(&report.checks)
            .into_iter()
            .map(|it| [one_line(it.label), it.checks.to_string(), it.kills.to_string()])
            .collect(),
        strength: strength(report),
        groups: groups(report),
        left_out: report
            .left_out
            .iter()
            .map(|it| {
                let model = it.model.as_ref().map(|it| format!(" · {}", one_line(it)));
                format!(
                    "{}{}: {}",
                    one_line(&it.case),
                    model.unwrap_or_default(),
                    one_line(&it.reason)
                )
            })
            .collect(),
    }
}

/// Describes how many harmful mutants no check noticed, and how many harmless mutants failed.
fn strength(report: &MutationReport) -> String {
    let (harmful, harmless) = (&report.harmful, &report.harmless);
    let decided = harmful.killed + harmful.survived;
    if decided + harmless.killed + harmless.survived == 0 {
        return "No mutant was decided, so the strength of the checks is unknown.".to_owned();
    }
    let survivors = match (harmful.survived, decided) {
        (_, 0) => "No harmful change was decided.".to_owned(),
        (0, _) => format!("The checks noticed every decided harmful change ({}).", count(decided)),
        (missed, _) => {
            let changes = plural(decided, "harmful change");
            format!(
                "The checks missed {} of {changes}. Each is shown below with advice.",
                count(missed)
            )
        }
    };
    match harmless.killed {
        0 => survivors,
        brittle => {
            let changes = plural(brittle, "harmless change");
            format!("{survivors} {changes} failed a check that should have held.")
        }
    }
}

fn operator(it: &OperatorScore) -> [String; 4] {
    let (family, share) = match it.family {
        Family::Harmful => ("harmful", score(&it.counts)),
        Family::Harmless => {
            let decided = it.counts.killed + it.counts.survived;
            ("harmless", format!("brittle {} of {decided}", it.counts.killed))
        }
    };
    [one_line(&it.operator), family.to_owned(), one_line(&it.summary), share]
}

fn groups(report: &MutationReport) -> Vec<Group> {
    let group = |operator: &OperatorScore| {
        let (all, word) = match operator.family {
            Family::Harmful => (&report.survivors, "survives"),
            Family::Harmless => (&report.brittle, "is brittle"),
        };
        let own: Vec<&MutantDiff> =
            all.iter().filter(|it| it.operator == operator.operator).collect();
        let shown = |it: &&MutantDiff| {
            let mut name = format!("{} · {}", one_line(&it.case), one_line(&it.model));
            if !it.failed.is_empty() {
                let failed: Vec<String> = it.failed.iter().map(|it| one_line(it)).collect();
                name = format!("{name} · fails {}", failed.join(", "));
            }
            (name, shortened(between(&it.before, &it.after)))
        };
        (!own.is_empty()).then(|| Group {
            title: format!("{} {word} ×{}", one_line(&operator.operator), own.len()),
            summary: one_line(&operator.summary),
            advice: one_line(&operator.advice),
            mutants: own.iter().map(shown).collect(),
        })
    };
    report.operators.iter().filter_map(group).collect()
}
