//! Tests of the result of `kindlm mutate`, as text and as a page.

use kindlm_reporters::{Style, Verbosity, mutation};
use kindlm_testing::sample_report;
use kindlm_wire::mutation::{
    CaseScore, CheckScore, Family, LeftOut, MutantCounts, MutantDiff, MutatedEvidence,
    MutationReport, OperatorScore, ScoreGate,
};

/// Texts that would act in a terminal, in CI logs and in a page.
const HOSTILE: &str = "a\u{1b}[31m\n::error::b <script>alert(1)</script> {{ c }}";

fn counts(killed: u64, survived: u64, errored: u64, not_judged: u64) -> MutantCounts {
    MutantCounts { killed, survived, errored, not_judged }
}

fn operator(id: &str, family: Family, counts: MutantCounts) -> OperatorScore {
    OperatorScore {
        operator: id.to_owned(),
        family,
        evidence: MutatedEvidence::Text,
        summary: format!("changes {id}"),
        advice: format!("add a check for {id}"),
        counts,
    }
}

fn check(case: &str, label: &str, [kills, kills_alone, brittle]: [u64; 3]) -> CheckScore {
    CheckScore {
        case: case.to_owned(),
        model: "support".to_owned(),
        turn: None,
        assertion: "contains".to_owned(),
        label: label.to_owned(),
        kills,
        kills_alone,
        errored: 0,
        brittle,
    }
}

fn diff(case: &str, operator: &str, before: &str, after: &str, failed: &[&str]) -> MutantDiff {
    MutantDiff {
        case: case.to_owned(),
        model: "support".to_owned(),
        operator: operator.to_owned(),
        before: before.to_owned(),
        after: after.to_owned(),
        failed: failed.iter().map(|it| (*it).to_owned()).collect(),
    }
}

fn sample() -> MutationReport {
    let case = |name: &str, harmful, harmless| CaseScore {
        case: name.to_owned(),
        model: "support".to_owned(),
        score: None,
        harmful,
        harmless,
    };
    let mut report = MutationReport::new("20261124-1", "refunds");
    report.score = Some(0.75);
    report.harmful = counts(3, 1, 1, 1);
    report.harmless = counts(1, 1, 0, 0);
    report.gate = Some(ScoreGate::new(0.9, false));
    report.operators = vec![
        operator("truncate", Family::Harmful, counts(2, 1, 1, 1)),
        operator("negate", Family::Harmful, counts(1, 0, 0, 0)),
        operator("spaces", Family::Harmless, counts(1, 1, 0, 0)),
    ];
    report.cases = vec![
        case("status", counts(2, 1, 1, 1), counts(1, 0, 0, 0)),
        case(HOSTILE, counts(1, 0, 0, 0), counts(0, 1, 0, 0)),
    ];
    report.checks = vec![
        check("status", "Contains: shipped", [2, 2, 1]),
        check("status", "Max length", [1, 0, 0]),
        check(HOSTILE, "Max length", [1, 0, 0]),
        check("status", HOSTILE, [0, 0, 0]),
    ];
    report.survivors = vec![
        diff("status", "truncate", "It has shipped. Bye.", "It has shipped.", &[]),
        diff(HOSTILE, "truncate", HOSTILE, "", &[]),
    ];
    report.brittle = vec![diff("status", "spaces", "a. b.", "a.  b.", &["Contains: shipped"])];
    report.left_out = vec![
        LeftOut::new("other", None, HOSTILE),
        LeftOut::new("other", Some("support".to_owned()), "no execution passed"),
    ];
    report
}

fn text(report: &MutationReport, verbosity: Verbosity) -> String {
    let mut text = String::new();
    let style = Style { verbosity, ..Style::default() };
    mutation::text(report, &style, &mut text).unwrap();
    text
}

#[test]
fn shows_the_scores_and_the_survivors() {
    insta::assert_snapshot!(text(&sample(), Verbosity::Normal));
    let all = text(&sample(), Verbosity::Verbose);
    assert!(!all.contains('\u{1b}') && !all.contains("\n::error"), "{all}");
}

#[test]
fn names_the_reason_of_the_gate() {
    let gate = |min, held, score, not_judged| {
        let mut report = sample();
        report.harmful.not_judged = not_judged;
        (report.gate, report.score) = (Some(ScoreGate::new(min, held)), score);
        text(&report, Verbosity::Normal)
    };
    for (shown, last) in [
        (gate(0.7, true, Some(0.75), 0), "PASSED: the score reaches the minimum of 70.0%\n"),
        (gate(0.9, false, Some(0.75), 0), "FAILED: the score is below the minimum of 90.0%\n"),
        (
            gate(0.7, false, Some(0.75), 2),
            "FAILED: not every mutant was decided, and the minimum score is 70.0%\n",
        ),
        (
            gate(0.0, false, None, 0),
            "FAILED: no mutant was decided, and the minimum score is 0.0%\n",
        ),
    ] {
        assert!(shown.ends_with(last), "{shown}");
    }
    let mut report = sample();
    report.gate = None;
    let without = text(&report, Verbosity::Normal);
    assert!(!without.contains("FAILED") && !without.contains("PASSED"));
}

#[test]
fn the_page_says_how_strong_the_checks_are() {
    for (harmful, harmless, expected) in [
        (
            counts(3, 1, 1, 1),
            counts(0, 2, 0, 0),
            "The checks missed 1 of 4 harmful changes. Each is shown below with advice.",
        ),
        (
            counts(3, 0, 2, 0),
            counts(1, 1, 0, 0),
            "The checks noticed every decided harmful change (3). 1 harmless change failed a check that should have \
             held.",
        ),
        (counts(0, 0, 2, 0), counts(0, 1, 0, 0), "No harmful change was decided."),
        (
            counts(0, 0, 2, 1),
            counts(0, 0, 0, 0),
            "No mutant was decided, so the strength of the checks is unknown.",
        ),
    ] {
        let mut report = sample();
        (report.harmful, report.harmless) = (harmful, harmless);
        let page = mutation::html(&report).unwrap();
        let section =
            format!("<h2>How strong are the checks</h2>\n<p class=\"soft\">{expected}</p>");
        assert!(page.contains(&section), "{page}");
    }
}

#[test]
fn the_page_of_the_run_has_the_section() {
    let page = |mutation: Option<&MutationReport>| {
        let mut page = String::new();
        let style = Style::default();
        kindlm_reporters::write_html(&sample_report(), mutation, &style, &mut page).unwrap();
        crate::html::check(&page);
        page
    };
    let plain = page(None);
    assert!(!plain.contains("How strong are the checks"));
    let mut many = sample();
    let survivor = many.survivors[0].clone();
    many.survivors.extend(vec![survivor; 8]);
    let page = page(Some(&many));
    let (_, section) = page.split_once("<section aria-labelledby=\"strength\">").unwrap();
    let (section, _) = section.split_once("</section>").unwrap();
    // The section needs no script, and texts of users are escaped.
    assert!(!section.contains("<script>alert") && !section.contains('\u{1b}'));
    assert!(page.contains("<a href=\"#strength\">Mutation score 75.0% (3 of 4)</a>"));
    assert!(section.contains("… and 7 more mutants"), "{section}");
    insta::assert_snapshot!(section);
}

#[test]
fn the_page_runs_nothing() {
    let page = mutation::html(&sample()).unwrap();
    assert!(page.contains("default-src 'none'") && !page.contains("script-src"));
    assert!(!page.contains("<script") && page.contains("&#60;script&#62;"));
    assert!(!page.contains('\u{1b}'));
    let (_, body) = page.split_once("<body>").unwrap();
    insta::assert_snapshot!(body);
}
