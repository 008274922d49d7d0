//! The result of `kindlm mutate` as one HTML page that loads nothing and runs no script.

use askama::Template;
use kindlm_wire::mutation::{
    CaseScore, Family, LeftOut, MutantDiff, MutationReport, OperatorScore,
};

use super::{by_assertion, gate, idle, score, undecided_lines};
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
    /// The strength of the checks in words.
    strength: String,
    groups: Vec<Group>,
    left_out: Vec<String>,
}

/// The section "How strong are the checks" on the page of a run.
#[derive(Template)]
#[template(path = "mutation/section.html")]
struct Section {
    tone: &'static str,
    gate_word: Option<&'static str>,
    score: String,
    brittle: String,
    strength: String,
    notes: Vec<String>,
    operators: Vec<[String; 4]>,
    weak: Vec<[String; 3]>,
    more_weak: String,
    groups: Vec<Group>,
    left_out: Vec<String>,
    more_left_out: String,
}

/// The maximum number of cases, and of parts that are left out, in the section of a run's page.
const LISTED: usize = 20;

/// The maximum number of mutants of one mutation operator in the section of a run's page.
const SHOWN: usize = 3;

/// The surviving harmful mutants of one mutation operator, or the harmless mutants that failed a check.
struct Group {
    title: String,
    summary: String,
    advice: String,
    mutants: Vec<(String, Vec<DiffLine>)>,
    /// The number of mutants that are not shown, as text; empty if all are shown.
    more: String,
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

/// Returns the section "How strong are the checks" for the page of the run, which needs no script.
///
/// The section lists the weakest cases, and a few mutants of each mutation operator.
pub(crate) fn section(report: &MutationReport) -> Result<String, RenderError> {
    let (tone, word) = look(report);
    let mut weak: Vec<&CaseScore> = report.cases.iter().filter(|it| is_weak(it)).collect();
    let by_score = |it: &CaseScore| it.score.unwrap_or(1.0);
    weak.sort_by(|a, b| by_score(a).total_cmp(&by_score(b)));
    let more = |all: usize, most: usize, word: &str| match all.saturating_sub(most) {
        0 => String::new(),
        more => format!("… and {}", plural(more as u64, word)),
    };
    let left_out = left_out(report);
    let section = Section {
        tone,
        gate_word: report.gate.map(|_| word),
        score: score(&report.harmful),
        brittle: brittle(report),
        strength: strength(report, "Examples with advice are below."),
        notes: notes(report),
        operators: report.operators.iter().map(operator).collect(),
        more_weak: more(weak.len(), LISTED, "more case"),
        weak: weak.into_iter().take(LISTED).map(case).collect(),
        groups: groups(report, SHOWN),
        more_left_out: more(left_out.len(), LISTED, "more part"),
        left_out: left_out.into_iter().take(LISTED).collect(),
    };
    let failed =
        |err: askama::Error| RenderError::Format { format: "html", message: err.to_string() };
    section.render().map_err(failed)
}

/// Returns the mutation score for the head of the run's page.
pub(crate) fn score_line(report: &MutationReport) -> String {
    score(&report.harmful)
}

/// Returns true if a harmful mutant of the case survived, or a check failed on a harmless mutant.
fn is_weak(case: &CaseScore) -> bool {
    case.harmful.survived > 0 || case.harmless.killed > 0
}

/// Returns the color class and the word of the verdict.
fn look(report: &MutationReport) -> (&'static str, &'static str) {
    match gate(report) {
        Some((true, _)) => ("good", "PASSED"),
        Some((false, _)) => ("bad", "FAILED"),
        None => ("none", "MEASURED"),
    }
}

/// Returns the reason for the verdict, and the numbers of mutants without a result.
fn notes(report: &MutationReport) -> Vec<String> {
    let notes = gate(report).map(|(_, sentence)| sentence).into_iter();
    notes.chain(undecided_lines(report)).collect()
}

fn brittle(report: &MutationReport) -> String {
    let harmless = report.harmless.killed + report.harmless.survived;
    format!("{} of {harmless}", report.harmless.killed)
}

fn case(it: &CaseScore) -> [String; 3] {
    let name = format!("{} · {}", one_line(&it.case), one_line(&it.model));
    [name, score(&it.harmful), it.harmless.killed.to_string()]
}

fn left_out(report: &MutationReport) -> Vec<String> {
    let line = |it: &LeftOut| {
        let model = it.model.as_ref().map(|it| format!(" · {}", one_line(it)));
        format!("{}{}: {}", one_line(&it.case), model.unwrap_or_default(), one_line(&it.reason))
    };
    report.left_out.iter().map(line).collect()
}

fn page(report: &MutationReport) -> Page {
    let (tone, word) = look(report);
    Page {
        style: STYLE,
        style_hash: source_hash(STYLE),
        suite: one_line(&report.suite),
        run: one_line(&report.run),
        tone,
        word,
        score: score(&report.harmful),
        brittle: brittle(report),
        notes: notes(report),
        cases: report.cases.iter().map(case).collect(),
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
        strength: strength(report, "Each is shown below with advice."),
        groups: groups(report, usize::MAX),
        left_out: left_out(report),
    }
}

/// Describes how many harmful mutants survived, and how many harmless mutants failed a check.
///
/// `shown` is a sentence that says where the page shows the survivors.
fn strength(report: &MutationReport, shown: &str) -> String {
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
            format!("The checks missed {} of {changes}. {shown}", count(missed))
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

/// Returns the groups of mutants by mutation operator, with at most `most` mutants each.
fn groups(report: &MutationReport, most: usize) -> Vec<Group> {
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
            mutants: own.iter().take(most).map(shown).collect(),
            more: match own.len().saturating_sub(most) {
                0 => String::new(),
                more => format!("… and {}", plural(more as u64, "more mutant")),
            },
        })
    };
    report.operators.iter().filter_map(group).collect()
}

#[cfg(test)]
mod tests {
    use kindlm_wire::mutation::MutantCounts;

    use super::*;

    #[test]
    fn the_weakest_cases_missed_a_change_or_are_brittle() {
        let case = |name: &str, killed, survived, errored, brittle| {
            let harmful = MutantCounts { killed, survived, errored, not_judged: 0 };
            let harmless = MutantCounts { killed: brittle, ..MutantCounts::default() };
            CaseScore {
                case: name.to_owned(),
                model: "m".to_owned(),
                score: harmful.score(),
                harmful,
                harmless,
            }
        };
        let mut report = MutationReport::new("r", "s");
        report.score = Some(0.5);
        report.cases = vec![
            case("undecided but strong", 3, 0, 2, 0),
            case("brittle and undecided", 0, 0, 2, 1),
            case("half", 1, 1, 0, 0),
            case("none", 0, 2, 0, 0),
        ];
        let html = section(&report).unwrap();
        let at = |name: &str| html.find(name).unwrap_or_else(|| panic!("{name} is missing"));
        assert!(at("none · m") < at("half · m") && at("half · m") < at("brittle and undecided"));
        assert!(!html.contains("undecided but strong"), "{html}");
    }
}
