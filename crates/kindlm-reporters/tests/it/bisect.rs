//! Tests of the result of a search for the change since which a case fails.

use kindlm_reporters::bisect_text;
use kindlm_wire::bisect::{
    Answer, Bisection, Candidate, CandidateKind, DecisionTest, Step, StepVerdict, VERSION,
};

fn report(kind: CandidateKind, candidates: Vec<Candidate>, answer: Answer) -> Bisection {
    let step = |tried: &str, verdict, passed, judged| {
        let mut step = Step::new(tried, verdict);
        (step.passed, step.judged, step.executions) = (passed, judged, judged);
        step
    };
    let mut skipped = step("cccccccc three", StepVerdict::Skipped, 0, 0);
    skipped.reason = Some("there is no case `a\u{1b}[31m`".to_owned());
    let mut reused = step("b", StepVerdict::Good, 9, 9);
    (reused.reused, reused.executions) = (true, 0);
    Bisection {
        schema_version: VERSION,
        suite: "s".to_owned(),
        case: "refund".to_owned(),
        model: "m".to_owned(),
        kind,
        candidates,
        test: DecisionTest { pass: 0.95, fail: 0.5, error: 0.0125, max_repeats: 40 },
        steps: vec![step("a", StepVerdict::Bad, 0, 3), skipped, reused],
        answer,
        error_bound: 0.025,
        executions: 12,
    }
}

#[test]
fn shows_the_commit_and_the_error_rate() {
    let commit = Candidate {
        id: "0123456789abcdef".to_owned(),
        subject: Some("shorten the prompt".to_owned()),
        ..Candidate::default()
    };
    let commits = vec![commit.clone(), commit];
    for (name, answer) in [
        ("found", Answer::Found { candidates: vec![1] }),
        ("among", Answer::Among { candidates: vec![0, 1], reason: "1 commits".to_owned() }),
        ("not_reproduced", Answer::NotReproduced { reason: "it passes".to_owned() }),
    ] {
        let text = bisect_text(&report(CandidateKind::Commits, commits.clone(), answer), true);
        insta::assert_snapshot!(name, text);
    }
}

#[test]
fn shows_the_lines_of_a_change() {
    let change = Candidate {
        id: "prompts.support.system, line 2".to_owned(),
        subject: None,
        removed: vec!["Be polite.".to_owned()],
        added: (0..12).map(|it| format!("Rule {it}.")).collect(),
    };
    let answer = Answer::Found { candidates: vec![0] };
    let report = report(CandidateKind::Changes, vec![change], answer);
    let text = bisect_text(&report, true);
    let without_steps = bisect_text(&report, false);
    assert!(!report.steps.is_empty());
    for step in &report.steps {
        let step = kindlm_reporters::bisect_step(step);
        assert!(text.contains(&step) && !without_steps.contains(&step), "{without_steps}");
    }
    insta::assert_snapshot!(text);
}
